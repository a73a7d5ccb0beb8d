//! Marks that nothing on a screen and no name can hold by accident or on purpose.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A text of letters and digits that was never used before and cannot be guessed.
pub(crate) fn nonce() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    // Without randomness it is still unique, which is what matching needs; it only could be guessed.
    let random = getrandom::u64().unwrap_or_default();
    format!("tg{random:x}x{count:x}")
}
