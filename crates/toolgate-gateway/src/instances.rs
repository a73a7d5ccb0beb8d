//! The running gateways of this user, so that `toolgate reload` and `toolgate status` find them.
//!
//! Each gateway locks a file named after its process id in a private folder. A file without a lock belongs to a process
//! that has ended, even if another process has its id now. `toolgate serve` has a socket beside the file, on which it
//! reports its status.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, getuid, kill_process};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;

use crate::gateway::GatewayStatus;

/// How long a gateway may take to send its status, and a reader to read it.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The entry of this process among the running gateways. Dropping it removes the entry.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _locked: File,
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Registers this process and its config file in `folder`. The process must already handle SIGUSR1.
pub fn announce(folder: &Path, config: &Path) -> io::Result<Instance> {
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
    Ok(Instance { path, _locked: file })
}

/// Tells the gateways that run with this config file, or all gateways, to reload it. Returns their process ids.
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

/// The socket on which a gateway reports its status. Dropping it removes the socket.
#[derive(Debug)]
pub struct StatusSocket {
    path: PathBuf,
    listener: tokio::net::UnixListener,
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl StatusSocket {
    /// Listens in the private `folder`.
    pub fn bind(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        // A killed process with the same id may have left its socket behind.
        let _ = std::fs::remove_file(&path);
        let listener = tokio::net::UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { path, listener })
    }

    /// Waits for the next connection of a process of this user. Cancel safe.
    pub async fn asked(&self) -> tokio::net::UnixStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let peer = stream.peer_cred().map(|peer| peer.uid());
                    if peer.is_ok_and(|uid| uid == getuid().as_raw() || uid == 0) {
                        return stream;
                    }
                    tracing::warn!("another user asked for the status and got no answer");
                }
                Err(error) => {
                    tracing::warn!("`toolgate status` gets no answer: {error}");
                    tokio::time::sleep(STATUS_TIMEOUT).await;
                }
            }
        }
    }
}

/// Sends the status to a process. A reader that takes longer than `STATUS_TIMEOUT` is disconnected.
pub fn answer(mut stream: tokio::net::UnixStream, status: &GatewayStatus) {
    let text = serde_json::to_vec(status).unwrap_or_default();
    tokio::spawn(async move {
        let written = async {
            stream.write_all(&text).await?;
            stream.shutdown().await
        };
        let _ = tokio::time::timeout(STATUS_TIMEOUT, written).await;
    });
}

/// The status of one running gateway, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StatusReport {
    /// The gateway's answer.
    Answered(Box<GatewayStatus>),
    /// The gateway did not answer.
    Unanswered {
        /// The process.
        pid: u32,
        /// The reason.
        error: String,
    },
}

impl StatusReport {
    fn pid(&self) -> u32 {
        match self {
            Self::Answered(status) => status.pid,
            Self::Unanswered { pid, .. } => *pid,
        }
    }
}

/// Asks each gateway of this user for its status.
pub fn statuses(folder: &Path) -> io::Result<Vec<StatusReport>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut reports = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(pid) = name.strip_suffix(".sock").and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => Err(error),
        };
        reports.push(match stream.and_then(read_status) {
            Ok(status) => StatusReport::Answered(Box::new(status)),
            Err(error) => {
                let error = match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        format!("no answer within {} seconds", STATUS_TIMEOUT.as_secs())
                    }
                    _ => error.to_string(),
                };
                StatusReport::Unanswered { pid, error }
            }
        });
    }
    reports.sort_by_key(StatusReport::pid);
    Ok(reports)
}

fn read_status(mut stream: UnixStream) -> io::Result<GatewayStatus> {
    stream.set_read_timeout(Some(STATUS_TIMEOUT))?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
