//! The config files of MCP clients: where they are, which servers they name, and how their entries become settings of
//! toolgate. A file is read with the place of every value, so that an error names its line.

mod blocks;
mod dotenv;
mod edit;
mod entry;
mod inputs;
mod known;
mod one;
mod page;
mod plan;
mod preview;
mod resolve;
mod sample;
mod sections;

use std::path::{Path, PathBuf};

pub use edit::{Edit, LeftAlone, Wrapping, apply_edits, unwrap_edits};
pub use entry::{ServerEntry, ServerForm};
pub use inputs::{Input, InputKind, answer};
pub use known::{FileScope, KnownClient, Machine, Platform, client_of, clients};
pub use one::{ONE_ENTRY, OnePlan, PermissionRule, plan_one, rules_for};
pub use page::{client_page, page};
pub use plan::{ChangedEntry, FilePlan, UndoOutcome, UnsafeEdit, plan, take_back};
pub use preview::{ChangedLines, preview};
pub use resolve::{ResolvedServer, ResolvedText, resolve};

use crate::document::{Document, Notation, Problem};

/// Why the file of a client cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFileError {
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It has no table of servers.
    #[error("`{}`, {problem}", path.display())]
    NoServers {
        /// The file.
        path: PathBuf,
        /// What it has instead.
        problem: Problem,
    },
    /// It is not written in its notation.
    #[error("{}", shown(path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        problems: Vec<Problem>,
    },
}

fn shown(path: &Path, problems: &[Problem]) -> String {
    let one = |problem: &Problem| format!("`{}`, {problem}", path.display());
    problems.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

/// The file of a client.
#[derive(Clone, Debug)]
pub struct ClientFile {
    /// Its path.
    pub path: PathBuf,
    /// The client, if the path tells.
    pub client: Option<&'static KnownClient>,
    /// Its text and tree.
    pub document: Document,
    /// Its servers, in the order of the file.
    pub servers: Vec<ServerEntry>,
    /// What its entries ask the user for.
    pub inputs: Vec<Input>,
}

impl ClientFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ClientFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ClientFileError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(path, text)
    }

    /// Reads the text of a file.
    pub fn parse(path: &Path, text: String) -> Result<Self, ClientFileError> {
        let invalid = |problems| ClientFileError::Invalid { path: path.to_owned(), problems };
        let document = Document::parse(text, Notation::of(path)).map_err(invalid)?;
        let sections = sections::sections(&document).map_err(|problem| invalid(vec![problem]))?;
        if let Some(problem) = sections::nothing_found(&document, &sections) {
            return Err(ClientFileError::NoServers { path: path.to_owned(), problem });
        }
        let inputs = inputs::declared(&document);
        let servers = sections.iter().flat_map(|section| entry::entries(&document, section));
        let servers = servers.collect();
        Ok(Self { path: path.to_owned(), client: client_of(path), servers, inputs, document })
    }

    /// The servers that a client in this folder starts: those of the user, and those of the folder's own project. The
    /// latter win.
    #[must_use]
    pub fn servers_in(&self, folder: &Path) -> Vec<&ServerEntry> {
        let is_here = |entry: &&ServerEntry| {
            entry.project.as_ref().is_none_or(|project| Path::new(project) == folder)
        };
        let mut found: Vec<&ServerEntry> = Vec::new();
        for entry in self.servers.iter().filter(is_here) {
            match found.iter_mut().find(|other| other.name == entry.name) {
                Some(other) if entry.project.is_some() => *other = entry,
                Some(_) => {}
                None => found.push(entry),
            }
        }
        found
    }
}

/// A file of a known client on this machine.
#[derive(Debug)]
pub struct InstalledFile {
    /// The client.
    pub client: &'static KnownClient,
    /// Who the file belongs to.
    pub scope: FileScope,
    /// Its path.
    pub path: PathBuf,
    /// Its servers, or why it cannot be read.
    pub file: Result<ClientFile, ClientFileError>,
}

/// The files of all known clients that exist on a machine. Settings without servers are among them, as an error.
#[must_use]
pub fn installed(machine: &Machine) -> Vec<InstalledFile> {
    let of_client = |client: &'static KnownClient| {
        let files = client.files(machine).into_iter();
        files.map(move |(scope, path)| {
            let file = ClientFile::read(&path);
            let file = file.map(|file| ClientFile { client: Some(client), ..file });
            InstalledFile { client, scope, path, file }
        })
    };
    clients().iter().flat_map(of_client).collect()
}

#[cfg(test)]
mod tests;
