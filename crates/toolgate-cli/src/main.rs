//! The program `toolgate`: one file per command.

mod arguments;
mod chain_args;
mod commands;
mod config_file;
mod help;
mod inputs;
mod log;
mod wrapped;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First, because a keeper is a small process that must start fast.
    if let Some(code) = commands::keep_server::run_if_asked() {
        return code;
    }
    let arguments = arguments::Arguments::read();
    if let Err(error) = log::start() {
        log::fail(&error);
        return ExitCode::from(2);
    }
    match arguments.command.run() {
        Ok(code) => code,
        Err(error) => {
            log::fail(&error);
            ExitCode::from(2)
        }
    }
}
