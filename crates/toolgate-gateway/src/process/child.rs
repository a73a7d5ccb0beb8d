//! A server as a child process, registered with the keeper. When the server ends, all processes of its group end.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::process::keeper::{self, POLL_INTERVAL, ProcessGroup, Role, TERM_TIMEOUT};

/// The command of a server, with its environment and its folder.
#[derive(Clone, Debug, Default)]
pub struct ServerCommand {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Which of toolgate's environment variables the server gets.
    pub environment: Environment,
    /// Further variables, which override those.
    pub set: Vec<(OsString, OsString)>,
    /// The server's working folder; toolgate's if not set.
    pub folder: Option<PathBuf>,
}

/// Which of toolgate's environment variables a server gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// The variables that the official SDKs pass on: `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`.
    #[default]
    Usual,
    /// The variables that any program needs, and these.
    Selected(Vec<OsString>),
    /// All variables except these and toolgate's own secrets. The variables of `Usual` always pass.
    Except(Vec<OsString>),
    /// The variables that a terminal needs, except these. For toolgate's built-in tmux server.
    Terminal(Vec<OsString>),
}

/// The variables that the official SDKs pass on.
const USUAL: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The variables that any program needs to find its home, its programs and its language.
const NEEDED: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TMPDIR", "TZ"];

/// toolgate's own variables that may hold a secret: addresses with a password.
const OWN_SECRETS: [&str; 2] = ["TOOLGATE_OTLP", "TOOLGATE_STORE"];

/// Prefixes of the variables that a terminal, tmux or `toolgate tmux` reads.
const OF_TERMINALS: [&str; 7] =
    ["TMUX", "LIBTMUX_", "TOOLGATE_", "LC_", "XDG_", "COLORTERM", "TERM_PROGRAM"];

impl Environment {
    /// Whether a server gets a variable.
    fn passes(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_usual = USUAL.iter().any(|usual| name == *usual);
        let is_needed = || NEEDED.iter().any(|needed| name == *needed);
        let is_own_secret = || OWN_SECRETS.iter().any(|own| name == *own);
        // An exported shell function is code, not a value.
        if value.as_encoded_bytes().starts_with(b"()") {
            return false;
        }
        match self {
            Self::Usual => is_usual,
            Self::Selected(names) => is_needed() || names.iter().any(|other| other == name),
            Self::Except(names) => {
                is_usual || !(is_own_secret() || names.iter().any(|other| other == name))
            }
            Self::Terminal(hidden) => {
                let bytes = name.as_encoded_bytes();
                let is_of_terminals =
                    || OF_TERMINALS.iter().any(|start| bytes.starts_with(start.as_bytes()));
                let is_hidden = || is_own_secret() || hidden.iter().any(|other| other == name);
                is_usual || ((is_needed() || is_of_terminals()) && !is_hidden())
            }
        }
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error("cannot start `{0}`: no such program on PATH; check the command")]
    NotFound(String),
    /// The program exists, but is not executable.
    #[error("cannot start `{0}`: the file is not executable; check the command")]
    NotExecutable(String),
    /// The folder in which it should start does not exist.
    #[error("cannot start `{program}`: the folder `{}` does not exist; create it, or correct `cwd`", folder.display())]
    NoFolder {
        /// The program.
        program: String,
        /// The folder.
        folder: PathBuf,
    },
    /// The system refused.
    #[error("cannot start `{program}`: {source}")]
    Io {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

impl StartError {
    /// The exit code that shells use for this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => keeper::NOT_FOUND,
            Self::NotExecutable(_) => keeper::NOT_RUNNABLE,
            Self::NoFolder { .. } | Self::Io { .. } => 1,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    child: Child,
    group: ProcessGroup,
}

/// A server's three pipes.
pub(crate) type Pipes = (ChildStdin, ChildStdout, ChildStderr);

/// Starts a server.
pub(crate) fn start(server: &ServerCommand) -> Result<(ServerProcess, Pipes), StartError> {
    let program = server.command.first().map(OsString::as_os_str).unwrap_or_default();
    let name = program.to_string_lossy().into_owned();
    find(program, server)?;
    let failed = |source| StartError::Io { program: name.clone(), source };
    if let Some(folder) = server.folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(StartError::NoFolder { program: name, folder: folder.clone() });
    }
    let ourselves = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(ourselves);
    command
        .args(keeper::arguments(Role::Launch, &server.command))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C in the terminal reaches only toolgate, which then ends the server in order.
        .process_group(0);
    command.env_clear();
    let ours = std::env::vars_os();
    command.envs(ours.filter(|(name, value)| server.environment.passes(name, value)));
    if let Some(folder) = &server.folder {
        command.current_dir(folder);
    }
    command.envs(server.set.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().map_err(failed)?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let group = pid.ok_or_else(|| io::Error::other("it has no id")).and_then(ProcessGroup::of);
    let group = group.map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(io::Error::other("its pipes are missing")));
    };
    Ok((ServerProcess { child, group }, (stdin, stdout, stderr)))
}

impl ServerProcess {
    /// Waits until the server ends by itself, then ends the processes that it left in its group. Cancel safe.
    pub(crate) async fn wait(&mut self) -> Ending {
        let status = self.child.wait().await;
        if self.group.signal(Signal::TERM) {
            let deadline = tokio::time::Instant::now() + TERM_TIMEOUT;
            while self.group.is_there() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            self.group.signal(Signal::KILL);
        }
        self.group.unregister();
        Ending(status.ok())
    }

    /// Waits up to `grace` until the server ends by itself, then ends it with SIGTERM and at last SIGKILL.
    pub(crate) async fn end(&mut self, grace: Duration) -> Ending {
        for (grace, signal) in [(grace, Signal::TERM), (TERM_TIMEOUT, Signal::KILL)] {
            if let Ok(ending) = tokio::time::timeout(grace, self.wait()).await {
                return ending;
            }
            self.group.signal(signal);
        }
        self.wait().await
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending(Option<ExitStatus>);

impl Ending {
    pub(crate) fn is_success(self) -> bool {
        self.0.is_some_and(|status| status.success())
    }

    pub(crate) fn code(self) -> Option<i32> {
        // For a signal, the code is 128 plus the signal's number, as in shells.
        self.0.and_then(|status| status.code().or_else(|| Some(128 + status.signal()?)))
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code() {
            Some(code @ 129..=192) => write!(f, "killed by signal {}", code - 128),
            Some(code) => write!(f, "exit code {code}"),
            None => f.write_str("its exit status is unknown"),
        }
    }
}

/// Looks the program up as the system will, so that the error can name the cause.
fn find(program: &OsStr, server: &ServerCommand) -> Result<PathBuf, StartError> {
    let name = || program.to_string_lossy().into_owned();
    if program.is_empty() {
        return Err(StartError::NotFound(name()));
    }
    let path = Path::new(program);
    if path.components().count() > 1 {
        return match is_executable(path) {
            Some(true) => Ok(path.to_owned()),
            Some(false) => Err(StartError::NotExecutable(name())),
            None => Err(StartError::NotFound(name())),
        };
    }
    let set = server.set.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let folders = set.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(path));
    let found: Vec<PathBuf> = found.filter(|path| is_executable(path).is_some()).collect();
    match found.iter().find(|path| is_executable(path) == Some(true)) {
        Some(path) => Ok(path.clone()),
        None if found.is_empty() => Err(StartError::NotFound(name())),
        None => Err(StartError::NotExecutable(name())),
    }
}

/// Whether a file is executable; `None` if there is no such file.
fn is_executable(path: &Path) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = path.metadata().ok()?;
    Some(metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
