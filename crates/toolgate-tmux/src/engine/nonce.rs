//! Random marks that no screen and no name contains.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A unique text of letters and digits that cannot be guessed.
pub(crate) fn nonce() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    // If there is no randomness, the text can be guessed, but is still unique.
    let random = getrandom::u64().unwrap_or_default();
    format!("tg{random:x}x{count:x}")
}
