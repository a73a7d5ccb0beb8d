//! Which tmux server answers on a socket.

/// Identifies one tmux server: another server on the same socket has another process id or another start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The server's process id.
    pub pid: u32,
    /// When the server started, in seconds since the epoch.
    pub started: u64,
    /// The path of the socket, as tmux reports it.
    pub socket: String,
    /// tmux's version.
    pub version: String,
}

impl Identity {
    /// The tmux format that prints an identity.
    pub const FORMAT: &str = "#{pid} #{start_time} #{version} #{socket_path}";

    /// Reads what tmux printed for [`FORMAT`](Self::FORMAT).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        Some(Self {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            version: words.next()?.to_owned(),
            socket: words.next()?.to_owned(),
        })
    }
}
