//! Random ids that cannot be guessed, as hexadecimal digits.

use std::{fmt::Write as _, sync::Arc};

/// An id with 128 bits of randomness.
pub(crate) fn random_id() -> Result<Arc<str>, String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no randomness: {error}"))?;
    Ok(hex(&bytes).into())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
