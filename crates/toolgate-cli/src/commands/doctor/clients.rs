//! What `toolgate doctor` looks at of the MCP clients on this machine: their files, their entries, and whether programs that
//! the desktop starts find their commands.

use std::{ffi::OsStr, path::Path};

use toolgate_gateway::client_files::{
    ClientFile, ClientFileError, InstalledFile, KnownClient, Machine, ServerEntry, ServerForm,
    installed, resolve,
};

use super::{super::programs, Report};

/// Clients that a shell starts, with the PATH of the shell.
const IN_A_SHELL: [&str; 7] =
    ["amazon-q", "claude-code", "codex", "copilot-cli", "gemini", "goose", "opencode"];

pub(super) fn look(report: &mut Report) {
    report.begin("clients");
    let files = installed(&Machine::current());
    if files.is_empty() {
        report.ok("no config of a known MCP client is in this folder or in your home folder");
        return;
    }
    for InstalledFile { client, path, file, .. } in &files {
        match file {
            Ok(file) => one(report, client, path, file),
            Err(ClientFileError::NoServers { .. }) => {
                report.ok(format!("{}: no servers in {}", client.name, path.display()));
            }
            Err(error) => report.error(
                format!("{}: {error}", client.name),
                "correct the file: some clients ignore a broken file without a word",
            ),
        }
    }
}

fn one(report: &mut Report, client: &KnownClient, path: &Path, file: &ClientFile) {
    let folder = std::env::current_dir().unwrap_or_default();
    let entries = file.servers_in(&folder);
    let wrapped = entries.iter().filter(|entry| entry.is_wrapped()).count();
    let count = match (entries.len(), wrapped) {
        (0, _) => "no servers".to_owned(),
        (1, 0) => "1 server".to_owned(),
        (1, _) => "1 server, behind toolgate".to_owned(),
        (all, 0) => format!("{all} servers"),
        (all, wrapped) => format!("{all} servers, {wrapped} behind toolgate"),
    };
    let next = if wrapped < entries.len() {
        "; `toolgate import` puts toolgate in front of them"
    } else {
        ""
    };
    report.ok(format!("{}: {count} in {}{next}", client.name, path.display()));
    for entry in entries.into_iter().filter(|entry| !entry.is_off) {
        let name = &entry.name;
        for problem in resolve(file, entry, &folder).err().unwrap_or_default() {
            let (what, fix) =
                problem.message.split_once(": ").unwrap_or((&problem.message, "correct the entry"));
            report.error(
                format!("{}, server `{name}`, line {}: {what}", client.name, problem.line),
                fix.to_owned(),
            );
        }
        if entry.form == ServerForm::Command {
            command(report, client, entry);
        }
    }
}

/// Whether the client finds the program of an entry.
fn command(report: &mut Report, client: &KnownClient, entry: &ServerEntry) {
    let words = entry.words();
    let Some(program) = words.first().filter(|word| !word.contains('$')) else { return };
    let what = format!("{}, server `{}`", client.name, entry.name);
    let Some(found) = programs::find(program, &programs::shell_path()) else {
        // A command with spaces is reported as a problem of the entry.
        if !program.contains(' ') {
            let fix = if entry.is_wrapped() {
                "toolgate has moved: run `toolgate import --undo`, then `toolgate import`"
            } else {
                "install it, or write its whole path"
            };
            report.error(format!("{what} starts `{program}`, which is not there"), fix);
        }
        return;
    };
    let desktop = programs::desktop_path();
    let is_in_shell = IN_A_SHELL.contains(&client.id.as_str());
    if !is_in_shell && programs::find(program, OsStr::new(&desktop)).is_none() {
        report.warn(
            format!("{what} starts `{program}`, which programs of the desktop do not find (PATH={desktop})"),
            format!("write its whole path: {}", found.display()),
        );
    }
}
