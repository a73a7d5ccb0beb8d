//! Which gateways of this user run with a config file, so that `toolgate reload` finds them.
//!
//! Each has a file named after its process in a private folder, and holds a lock on it: a file without a lock is of a
//! process that is gone, whoever has its number now.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};

/// A gateway that says that it runs; dropped, it says so no more.
#[derive(Debug)]
pub struct Running {
    path: PathBuf,
    _locked: File,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Says in `folder` that this process runs with a config file. It must take SIGUSR1 by then.
pub fn announce(folder: &Path, config: &Path) -> io::Result<Running> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(std::process::id().to_string());
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
    let mut file = options.open(&path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::Error::other("another process has its lock"),
    })?;
    let config = config.canonicalize()?;
    file.write_all(config.as_os_str().as_encoded_bytes())?;
    Ok(Running { path, _locked: file })
}

/// Asks the gateways that run with this config file, or with any, to read it again. Gives their processes.
pub fn ask_to_reload(folder: &Path, config: Option<&Path>) -> io::Result<Vec<u32>> {
    let config = config.map(Path::canonicalize).transpose()?;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut asked = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(number) = name.parse::<u32>() else { continue };
        let Ok(mut file) = File::open(&path) else { continue };
        if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let _ = std::fs::remove_file(&path);
            continue;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let is_meant =
            config.as_ref().is_none_or(|config| config.as_os_str().as_encoded_bytes() == text);
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_meant) {
            kill_process(pid, Signal::USR1)?;
            asked.push(number);
        }
    }
    asked.sort_unstable();
    Ok(asked)
}
