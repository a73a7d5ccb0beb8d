//! The socket of a tmux server.

use std::{
    env,
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The socket of a tmux server, by name or path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Socket {
    /// `-L NAME`: a socket in tmux's own folder.
    Name(String),
    /// `-S PATH`
    Path(PathBuf),
}

impl Socket {
    /// The socket that tmux would use by default: that of `TMUX`, or `default`.
    #[must_use]
    pub fn ambient() -> Self {
        let inside = env::var("TMUX").ok();
        let path = inside.as_deref().and_then(|tmux| tmux.split(',').next());
        match path {
            Some(path) if !path.is_empty() => Self::Path(path.into()),
            _ => Self::Name("default".to_owned()),
        }
    }

    /// The tmux arguments that select the socket.
    pub(crate) fn arguments(&self) -> [OsString; 2] {
        match self {
            Self::Name(name) => ["-L".into(), name.into()],
            Self::Path(path) => ["-S".into(), path.into()],
        }
    }

    /// The name, if the socket was given by name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Path(_) => None,
        }
    }

    /// The expected path of the socket. A running server reports the exact one (`#{socket_path}`).
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Name(name) => folder().join(name),
            Self::Path(path) => path.clone(),
        }
    }

    /// Whether a process listens on the socket. Starts no process.
    pub(crate) async fn is_listened_to(&self) -> bool {
        listens(&self.path()).await
    }
}

/// Whether a process listens on a socket. A server that hangs still listens.
pub async fn listens(path: &Path) -> bool {
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => true,
        // The backlog of a server that hangs is full: the server exists.
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// tmux's folder for sockets.
#[must_use]
pub fn folder() -> PathBuf {
    let base = env::var_os("TMUX_TMPDIR").filter(|base| !base.is_empty());
    let base = base.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    base.join(format!("tmux-{}", rustix::process::geteuid().as_raw()))
}
