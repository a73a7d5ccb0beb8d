//! The server name of the tmux tools.

/// The server part of each tool's identity.
pub const NAME: &str = "tmux";
