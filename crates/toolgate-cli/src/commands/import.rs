//! `toolgate import [FILE…]`

mod backup;
mod replace;
mod screen;
mod undo;

use std::{
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::client_files::{
    self, ClientFile, ClientFileError, FilePlan, FileScope, KnownClient, Machine, ServerEntry,
    Wrapping,
};

use self::{backup::Backups, replace::ReplaceError};
use super::programs;
use crate::chain_args::state_folder;

/// Put toolgate in front of the servers of your MCP clients
///
/// Finds the configs of the MCP clients on this machine, shows what would change, and asks. Each command becomes
/// `toolgate wrap -- COMMAND` in its place: names, arguments, environment, permissions and all other bytes of the file stay.
/// A URL becomes `toolgate wrap --url`, with its headers in variables.
///
/// `toolgate import --undo` restores the files.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "options of the command line")]
#[command(after_help = "Examples:
  toolgate import                          all clients of this machine, and of the project in this folder
  toolgate import .vscode/mcp.json         one file
  toolgate import --server github          one server, wherever it occurs
  toolgate import --config ~/toolgate.toml --yes   with your settings, and without asking
  toolgate import --undo                   as it was before")]
pub(crate) struct Import {
    /// Change only these files [default: those of the known clients]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Change only this server, also if it is switched off or has a URL without headers; can be repeated
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,

    /// Change only the files of this client, for example cursor or vscode; can be repeated
    #[arg(long, value_name = "CLIENT")]
    client: Vec<String>,

    /// The toolgate.toml that the wrapped servers read [default: none]
    #[arg(long, value_name = "FILE", conflicts_with = "undo")]
    config: Option<PathBuf>,

    /// Write one entry `toolgate` in place of the servers, which toolgate then serves itself. Shows the permission rules of
    /// the client that would no longer match
    #[arg(long, conflicts_with = "undo")]
    one: bool,

    /// Restore the files that toolgate has changed. In a file that was changed since, only toolgate's words are removed
    #[arg(long, conflicts_with_all = ["server", "client"])]
    undo: bool,

    /// Write without asking
    #[arg(long, short)]
    yes: bool,

    /// Print the plan, or what was written, as JSON
    #[arg(long)]
    json: bool,
}

/// How often a file is planned again because its client has written it meanwhile.
const MAX_ATTEMPTS: usize = 4;

/// A file that may be changed.
struct Candidate {
    client: Option<&'static KnownClient>,
    scope: FileScope,
    path: PathBuf,
    state: CandidateState,
}

enum CandidateState {
    /// It can be read: its plan.
    Planned(ClientFile, Planned),
    /// It cannot be changed, for this reason.
    Failed(String),
    /// It has no servers: the settings of a client that uses none.
    NoServers,
    /// It belongs to an administrator.
    Managed(ClientFile),
}

/// The change of one file.
struct Planned {
    plan: FilePlan,
    /// With `--one`: the servers that toolgate serves, and the content of its own file.
    one: Option<(Vec<String>, String)>,
}

impl Candidate {
    fn changes(&self) -> usize {
        match &self.state {
            CandidateState::Planned(_, planned) => planned.plan.changed.len(),
            CandidateState::Failed(_) | CandidateState::NoServers | CandidateState::Managed(_) => 0,
        }
    }
}

impl Import {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let backups = Backups::new(&state_folder()?);
        if self.undo {
            return undo::run(&backups, &self.files, self.json);
        }
        let wrapping = self.wrapping()?;
        let machine = Machine::current();
        let candidates = self.candidates(&machine, &wrapping)?;
        let changes: usize = candidates.iter().map(Candidate::changes).sum();
        if !self.json {
            screen::plan(&candidates)?;
            if self.one {
                screen::rules(&candidates, &machine)?;
            }
        }
        let writes = changes > 0 && (self.yes || (!self.json && confirmed(changes)?));
        let mut written = Vec::new();
        if writes {
            let _lock = backups.lock()?;
            for candidate in candidates.iter().filter(|candidate| candidate.changes() > 0) {
                written.push((candidate, self.write(candidate, &wrapping, &backups)));
            }
        }
        if self.json {
            screen::json(&candidates, &written)?;
        } else if writes {
            screen::written(&written)?;
        } else {
            screen::nothing_written(&candidates)?;
        }
        let has_failed = written.iter().any(|(_, written)| written.is_err())
            || candidates.iter().any(|one| matches!(one.state, CandidateState::Failed(_)));
        Ok(if has_failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    fn wrapping(&self) -> anyhow::Result<Wrapping> {
        let program = programs::own_to_keep()?;
        let program =
            program.to_str().context("the path of toolgate is not UTF-8: install it elsewhere")?;
        let mut options = Vec::new();
        if let Some(config) = &self.config {
            let path = std::fs::canonicalize(config)
                .with_context(|| format!("cannot read the config `{}`", config.display()))?;
            crate::config_file::read(&path)?;
            let path = path.to_str().context("the path of the config is not UTF-8: rename it")?;
            options.push(format!("--config={path}"));
        }
        Ok(Wrapping {
            program: program.to_owned(),
            options,
            includes_doubtful: !self.server.is_empty(),
        })
    }

    fn wants(&self, entry: &ServerEntry) -> bool {
        self.server.is_empty() || self.server.contains(&entry.name)
    }

    fn candidates(&self, machine: &Machine, wrapping: &Wrapping) -> anyhow::Result<Vec<Candidate>> {
        let ids = || client_files::clients().iter().map(|client| client.id.as_str());
        if let Some(unknown) = self.client.iter().find(|wanted| !ids().any(|id| id == **wanted)) {
            let ids: Vec<_> = ids().collect();
            bail!("there is no client `{unknown}`: choose one of {}", ids.join(", "));
        }
        let found: Vec<(Option<&'static KnownClient>, FileScope, PathBuf)> =
            if self.files.is_empty() {
                let clients = client_files::clients().iter();
                let files = clients.flat_map(|client| {
                    let files = client.files(machine).into_iter();
                    files.map(move |(scope, path)| (Some(client), scope, path))
                });
                files.collect()
            } else {
                let files = self.files.iter().map(|path| {
                    let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                    let client = client_files::client_of(&path);
                    let known = client.map(|client| client.files(machine)).unwrap_or_default();
                    let scope =
                        known.iter().find(|(_, known)| *known == path).map(|(scope, _)| *scope);
                    (client, scope.unwrap_or(FileScope::User), path)
                });
                files.collect()
            };
        let is_wanted = |client: Option<&KnownClient>| {
            self.client.is_empty() || client.is_some_and(|client| self.client.contains(&client.id))
        };
        let found = found.into_iter().filter(|(client, ..)| is_wanted(*client));
        Ok(found
            .map(|(client, scope, path)| self.candidate(client, scope, path, wrapping))
            .collect())
    }

    fn candidate(
        &self,
        client: Option<&'static KnownClient>,
        scope: FileScope,
        path: PathBuf,
        wrapping: &Wrapping,
    ) -> Candidate {
        let state = match self.planned(client, &path, wrapping) {
            Ok((file, _)) if scope == FileScope::Managed => CandidateState::Managed(file),
            Ok((file, planned)) => CandidateState::Planned(file, planned),
            Err(error) => match error.downcast_ref::<ClientFileError>() {
                Some(ClientFileError::NoServers { .. }) if self.files.is_empty() => {
                    CandidateState::NoServers
                }
                Some(error) => CandidateState::Failed(why_unreadable(error)),
                None => CandidateState::Failed(format!("{error:#}")),
            },
        };
        Candidate { client, scope, path, state }
    }

    fn planned(
        &self,
        client: Option<&'static KnownClient>,
        path: &Path,
        wrapping: &Wrapping,
    ) -> anyhow::Result<(ClientFile, Planned)> {
        self.planned_as(client, path, wrapping, "SERVERS_OF_TOOLGATE.json")
    }

    /// The plan. `servers` is the path of toolgate's own file.
    fn planned_as(
        &self,
        client: Option<&'static KnownClient>,
        path: &Path,
        wrapping: &Wrapping,
        servers: &str,
    ) -> anyhow::Result<(ClientFile, Planned)> {
        let file = ClientFile::read(path)?;
        let file = ClientFile { client, ..file };
        let wants = |entry: &ServerEntry| self.wants(entry);
        if self.one
            && let Some(one) = client_files::plan_one(&file, wrapping, servers, &wants)?
        {
            return Ok((file, Planned { plan: one.plan, one: Some((one.names, one.servers)) }));
        }
        let plan = if self.one {
            FilePlan::none(&file)
        } else {
            client_files::plan(&file, wrapping, &wants)?
        };
        Ok((file, Planned { plan, one: None }))
    }

    /// Writes one file. If its client has written it since it was read, the change is planned again.
    fn write(
        &self,
        candidate: &Candidate,
        wrapping: &Wrapping,
        backups: &Backups,
    ) -> anyhow::Result<usize> {
        for _ in 0..MAX_ATTEMPTS {
            let backup = backups.folder_of(&candidate.path)?;
            let servers = backup.servers_file();
            let servers = servers.to_str().context("the path of the state folder is not UTF-8")?;
            let planned = self.planned_as(candidate.client, &candidate.path, wrapping, servers);
            let (file, Planned { plan, one }) = planned.inspect_err(|_| backup.discard())?;
            if plan.changed.is_empty() {
                backup.discard();
                return Ok(0);
            }
            let before = &file.document.text;
            backup.keep(before, &plan, one.as_ref().map(|(_, content)| content.as_str()))?;
            match replace::replace(&candidate.path, before, &plan.after) {
                Ok(()) => return Ok(one.map_or(plan.changed.len(), |(names, _)| names.len())),
                Err(error) => {
                    backup.discard();
                    if !matches!(error, ReplaceError::Changed) {
                        return Err(error.into());
                    }
                }
            }
        }
        bail!("its client keeps writing it: end the client, and run `toolgate import` again")
    }
}

/// The reason without the path, which is shown beside it.
fn why_unreadable(error: &ClientFileError) -> String {
    match error {
        ClientFileError::Unreadable { source, .. } => {
            let is_denied = source.kind() == std::io::ErrorKind::PermissionDenied;
            let help = if is_denied && cfg!(target_os = "macos") {
                "; allow your terminal to read the files of other programs (System Settings, Privacy)"
            } else {
                ""
            };
            format!("cannot be read: {source}{help}")
        }
        other => other.to_string(),
    }
}

/// Asks the person at the terminal. Without one, nothing is written.
fn confirmed(changes: usize) -> anyhow::Result<bool> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Ok(false);
    }
    let what =
        if changes == 1 { "this change".to_owned() } else { format!("these {changes} changes") };
    let mut told = std::io::stderr().lock();
    write!(told, "Write {what}? [y/N] ")?;
    told.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
