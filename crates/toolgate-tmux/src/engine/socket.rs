//! Which tmux server is meant: its socket.

use std::{
    env,
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The socket of a tmux server, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Socket {
    /// `-L NAME`: in tmux's own folder.
    Name(String),
    /// `-S PATH`
    Path(PathBuf),
}

impl Socket {
    /// The socket that tmux itself would take: that of `TMUX`, or `default`.
    #[must_use]
    pub fn ambient() -> Self {
        let inside = env::var("TMUX").ok();
        let path = inside.as_deref().and_then(|tmux| tmux.split(',').next());
        match path {
            Some(path) if !path.is_empty() => Self::Path(path.into()),
            _ => Self::Name("default".to_owned()),
        }
    }

    /// The arguments that name it.
    pub(crate) fn arguments(&self) -> [OsString; 2] {
        match self {
            Self::Name(name) => ["-L".into(), name.into()],
            Self::Path(path) => ["-S".into(), path.into()],
        }
    }

    /// The name, if it was given by name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Path(_) => None,
        }
    }

    /// Where the socket should be. tmux's own word (`#{socket_path}`) is better where it can be had.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Name(name) => folder().join(name),
            Self::Path(path) => path.clone(),
        }
    }

    /// Whether somebody listens. Costs no process.
    pub(crate) async fn is_listened_to(&self) -> bool {
        listens(&self.path()).await
    }
}

/// Whether somebody listens on this socket. A server that hangs still listens.
pub async fn listens(path: &Path) -> bool {
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => true,
        // The queue of a server that hangs is full: it is there.
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
