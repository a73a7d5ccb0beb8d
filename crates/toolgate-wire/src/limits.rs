//! How much of a message is read before it is refused.

/// Bounds on one message. They are checked before anything is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest text in bytes, not counting whitespace around it.
    pub max_bytes: usize,
    /// Most arrays and objects that may stand inside each other; `[[1]]` has depth 2.
    pub max_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, max_depth: 128 }
    }
}
