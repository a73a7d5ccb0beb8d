//! `pipe_pane`: writes a pane's output into a file, in one of the allowed folders.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Executed, Failure};

use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, no_format},
    target::PaneArgs,
    tool::{Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("pipe_pane", "Pipe tmux Pane to File", pipe_pane)
            .about(
                "Use to log whatever a pane's program writes from now on to a file, in a folder that the operator \
                 allows.\nWithout output_path it stops.",
            )
            .open_world()
            // Without `append`, the content of the file is lost.
            .loses(),
    ]
}

/// tmux expands the command into a buffer of 8192 bytes, and runs nothing if it does not fit.
const MAX_COMMAND_BYTES: usize = 8000;

#[derive(Deserialize, JsonSchema)]
struct PipePane {
    #[serde(flatten)]
    pane: PaneArgs,
    /// The file, by its full path; null to stop.
    output_path: Option<String>,
    /// Add to the file; else it is emptied first.
    #[serde(default = "yes")]
    append: bool,
}

fn yes() -> bool {
    true
}

async fn pipe_pane(cx: ToolContext, args: PipePane) -> Result<String, Failure> {
    let path = match args.output_path.as_deref() {
        None => None,
        Some(path) if path.trim().is_empty() => {
            return Err(invalid_arguments(
                "output_path must be a non-empty path, or None to stop piping.",
            ));
        }
        Some(path) => Some(allowed(path, &cx.options().pipe_roots)?),
    };
    let command = path.as_deref().map(|path| shell_command(path, args.append)).transpose()?;
    let (server, pane) = args.pane.find(&cx).await?;
    // First checks that the pane exists: otherwise a file would be created for nothing.
    let known = server.list(ListTarget::Pane(&pane), &["pane_id"]).await?;
    if known.is_empty() {
        return Err(crate::engine::not_found::pane(&pane));
    }
    path.as_deref().map_or(Ok(()), writable)?;
    let pipe = Command::new("pipe-pane").target(&*pane);
    let pipe = command.into_iter().fold(pipe, |pipe, command| pipe.end().argument(command));
    server.run(Batch::write([pipe])).await?;
    Ok(match path {
        Some(path) => format!("Piping pane {pane} to {}", path.display()),
        None => format!("Piping stopped for pane {pane}"),
    })
}

/// The real path of the file, if it is in one of the folders.
fn allowed(path: &str, roots: &[PathBuf]) -> Result<PathBuf, Failure> {
    let denied = |message: String, next: &'static str| {
        Err(Failure::tool("PipePathRefused", message).with_executed(Executed::No).suggest(next))
    };
    if roots.is_empty() {
        return denied(
            "pipe_pane writes to no file: no folder is allowed for it.".to_owned(),
            "Ask the operator to set `pipe_roots` in `[tmux]`, or `--pipe-root`. Use capture_pane to read a pane.",
        );
    }
    let path = Path::new(path);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(invalid_arguments("output_path must name a file"));
    };
    if !path.is_absolute() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(invalid_arguments(
            "output_path must be a full path to a file, as /var/log/pane.log",
        ));
    }
    let Ok(folder) = folder.canonicalize() else {
        return denied(
            format!("There is no folder for output_path: '{}'", folder.display()),
            "Make the folder first, or give a file in one that is there.",
        );
    };
    // Symbolic links and `..` are resolved on both sides.
    let inside = roots.iter().filter_map(|root| root.canonicalize().ok());
    if !inside.into_iter().any(|root| folder.starts_with(root)) {
        return denied(
            "output_path is outside of the folders that pipe_pane may write to.".to_owned(),
            "Give a file in one of the folders in `pipe_roots` of `[tmux]` or `--pipe-root`.",
        );
    }
    let file = folder.join(name);
    match fs::symlink_metadata(&file) {
        Ok(found) if !found.is_file() => denied(
            "output_path is not a regular file.".to_owned(),
            "Give the path of a file, not of a link, a folder or a device.",
        ),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot_write(&error)),
        _ => Ok(file),
    }
}

/// Creates the file if it does not exist. The shell that writes it could not report an error.
fn writable(file: &Path) -> Result<(), Failure> {
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let opened = match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().append(true).open(file)
        }
        made => made,
    };
    opened.map(drop).map_err(|error| cannot_write(&error))
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::tool("PipePathRefused", format!("output_path cannot be written: {error}"))
        .with_executed(Executed::No)
        .suggest("Give another file.")
}

/// `cat >> FILE`, quoted for sh and then for tmux, which expands times and formats in it.
fn shell_command(file: &Path, append: bool) -> Result<String, Failure> {
    let path = file
        .to_str()
        .ok_or_else(|| invalid_arguments("output_path leads to a path that is not UTF-8"))?;
    let redirect = if append { ">>" } else { ">" };
    let command = format!("exec cat {redirect} '{}'", path.replace('\'', r"'\''"));
    let command = no_format(&command.replace('%', "%%"));
    // tmux keeps every `#` before `[`.
    if command.len() > MAX_COMMAND_BYTES {
        return Err(invalid_arguments("output_path is too long"));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_whatever_it_holds() {
        let command = shell_command(Path::new("/a'b/#{pid}%H$(id)"), true).unwrap();
        assert_eq!(command, r"exec cat >> '/a'\''b/##{pid}%%H$(id)'");
        assert!(shell_command(Path::new(&"%".repeat(5000)), false).is_err());
    }

    #[test]
    fn nothing_outside_of_the_folders_is_written() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("x"), root.join("link")).unwrap();
        let roots = [root.clone()];
        let check = |path: &str| allowed(&format!("{}{path}", root.display()), &roots);
        assert_eq!(check("/a log").unwrap(), root.canonicalize().unwrap().join("a log"));
        for path in ["/../x", "/out/x", "/link", "/out", "/no/x", "/", "/a/", "x/y", "/.."] {
            assert!(check(path).is_err(), "{path}");
        }
        assert!(allowed("relative", &roots).is_err());
        assert!(allowed("/tmp/x", &[]).is_err());
    }
}
