//! Finds ways in which others can change the config: write permissions for other users, and a server whose folder
//! contains the config.

use std::{
    ffi::OsString,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::Config;
use crate::process::child::ServerCommand;

/// The permission bits that let the group or all others write.
const WRITABLE: u32 = 0o022;
/// The sticky bit: in such a folder only the owner of a file can replace it.
const STICKY: u32 = 0o1000;

impl Config {
    /// The ways in which others can change this config, one sentence each. `wrapped` is the server of the command line;
    /// it is checked if the file has no server of that name.
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
        // In a sticky folder such as /tmp, users cannot replace files of other users.
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

/// The folder that contains the config, if the server's entry sets it as `cwd` or an argument names it.
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
        // Only a folder counts: an argument that names the config file itself does not.
        (path.is_dir() && file.starts_with(&path)).then_some(path)
    })
}

/// The paths that an argument may contain: the whole argument, and the paths in `--root=PATH` and `NAME:PATH`.
fn paths_in(word: &OsString) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(word)];
    if let Some(text) = word.to_str() {
        paths.extend(text.split(['=', ':', ',']).skip(1).map(PathBuf::from));
        paths.retain(|path| !path.as_os_str().is_empty());
    }
    paths
}
