//! The hidden command behind every server: see [`toolgate_gateway::keeper`].

use std::{ffi::OsString, process::ExitCode};

use toolgate_gateway::keeper::{self, Role};

/// Runs as a keeper or launcher if the command line says so. It reads the arguments without clap, because this process
/// should start fast and stay small.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != keeper::COMMAND {
        return None;
    }
    let role = Role::named(arguments.next()?.to_str()?)?;
    let parent: u32 = arguments.next()?.to_str()?.parse().ok()?;
    let command: Vec<OsString> = arguments.skip_while(|argument| argument == "--").collect();
    Some(match keeper::run(role, parent, &command) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    })
}
