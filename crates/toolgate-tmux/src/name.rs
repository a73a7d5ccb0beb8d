//! The name of this server.

/// The server's half of the identity of its tools.
pub const NAME: &str = "tmux";
