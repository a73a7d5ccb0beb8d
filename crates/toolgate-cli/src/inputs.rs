//! Asks the person at the terminal for the inputs of a client's file (`${input:ID}`).

use std::{
    io::{BufRead as _, IsTerminal as _, Stdin, Write as _},
    path::Path,
};

use anyhow::Context as _;
use rustix::termios::{self, LocalModes, OptionalActions};
use toolgate::printable;
use toolgate_gateway::client_files::{self, ClientFile, Input, InputKind};

/// Asks for each input that a server of the file needs and no variable gives. Without a terminal it asks for nothing: the
/// servers that need an input fail with the name of its variable. A file with errors is left to the config's own reader.
pub(crate) fn ask(path: &Path) -> anyhow::Result<()> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(());
    }
    let Ok(file) = ClientFile::read(path) else { return Ok(()) };
    for input in file.missing_inputs() {
        if let Some(value) = ask_one(input).context("cannot read from the terminal")? {
            client_files::answer(&input.id, value);
        }
    }
    Ok(())
}

fn ask_one(input: &Input) -> std::io::Result<Option<String>> {
    let stdin = std::io::stdin();
    let before = termios::tcgetattr(&stdin)?;
    let is_secret = input.kind == InputKind::Secret;
    if is_secret {
        // Switches echo off before it asks, so that the terminal never shows what the person types.
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        termios::tcsetattr(&stdin, OptionalActions::Now, &silent)?;
    }
    let line = read_answer(input, &stdin);
    if is_secret {
        termios::tcsetattr(&stdin, OptionalActions::Now, &before)?;
        writeln!(std::io::stderr())?;
    }
    let line = line?;
    let value = line.trim_end_matches(['\n', '\r']).to_owned();
    Ok(if value.is_empty() { input.default.clone() } else { Some(value) })
}

fn read_answer(input: &Input, stdin: &Stdin) -> std::io::Result<String> {
    let mut told = std::io::stderr().lock();
    let about = input.description.as_deref().unwrap_or(&input.id);
    write!(told, "{}", printable::message(about))?;
    if let InputKind::Choice(options) = &input.kind {
        let shown: Vec<_> = options.iter().map(|option| printable::message(option)).collect();
        write!(told, " ({})", shown.join(", "))?;
    }
    write!(told, " [or set {}]: ", input.variable())?;
    told.flush()?;
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    Ok(line)
}
