//! Whether somebody else can change the config: by its permissions, or because a server is given the folder that it
//! lies in.

use std::{
    ffi::OsString,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::Config;
use crate::process::child::ServerCommand;

/// The group and all others may write.
const WRITABLE: u32 = 0o022;
/// In such a folder only the owner of a file replaces it.
const STICKY: u32 = 0o1000;

impl Config {
    /// What lets others change this config, one sentence each. A command that no entry of the file names is given as
    /// `wrapped`.
    #[must_use]
    pub fn exposure(&self, wrapped: Option<(&str, &ServerCommand)>) -> Vec<String> {
        let Ok(file) = self.path.canonicalize() else { return Vec::new() };
        let mut found: Vec<String> = writable(&file).into_iter().collect();
        let entries = self
            .file
            .servers
            .iter()
            .filter_map(|(name, server)| Some((name.as_str(), server.to_command()?)));
        let mut commands: Vec<(&str, ServerCommand)> = entries.collect();
        if let Some((name, command)) = wrapped
            && !self.file.servers.contains_key(name)
        {
            commands.push((name, command.clone()));
        }
        for (name, command) in commands {
            if let Some(folder) = given_folder(&command, &file) {
                found.push(format!(
                    "the config `{}` lies inside `{}`, which the server `{name}` is given: an agent that can write there \
                     can change its own rules; move the config elsewhere",
                    file.display(),
                    folder.display()
                ));
            }
        }
        found
    }
}

fn writable(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    for (path, what) in [(file, "file"), (folder, "folder")] {
        let metadata = path.metadata().ok()?;
        let mode = metadata.permissions().mode();
        // A sticky folder, as /tmp, protects what others own.
        if mode & WRITABLE != 0 && !(metadata.is_dir() && metadata.mode() & STICKY != 0) {
            let (whose, next) = match what {
                "file" => ("the config", "chmod go-w"),
                _ => ("the folder of the config", "chmod go-w"),
            };
            return Some(format!(
                "{whose} `{shown}` is writable by others, who can change every rule: run `{next} {shown}`",
                shown = path.display()
            ));
        }
    }
    None
}

/// The folder that a server is started in or given as an argument, and that contains the config.
fn given_folder(command: &ServerCommand, file: &Path) -> Option<PathBuf> {
    let base = match &command.folder {
        Some(folder) => folder.canonicalize().ok()?,
        None => std::env::current_dir().ok()?,
    };
    if command.folder.is_some() && file.starts_with(&base) {
        return Some(base);
    }
    let words = command.command.iter().skip(1);
    words.flat_map(paths_in).find_map(|word| {
        let path = base.join(word).canonicalize().ok()?;
        // A program's own name is no folder that it is given, and neither is the config itself.
        (path.is_dir() && file.starts_with(&path)).then_some(path)
    })
}

/// The path that an argument may be: itself, or what `--root=PATH` and `NAME:PATH` carry.
fn paths_in(word: &OsString) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(word)];
    if let Some(text) = word.to_str() {
        paths.extend(text.split(['=', ':', ',']).skip(1).map(PathBuf::from));
        paths.retain(|path| !path.as_os_str().is_empty());
    }
    paths
}
