//! Limits for one message.

/// Limits for one message. They are checked before anything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the text in bytes, without whitespace around it.
    pub max_bytes: usize,
    /// The maximum nesting of arrays and objects; `[[1]]` has depth 2.
    pub max_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024 * 1024, max_depth: 128 }
    }
}
