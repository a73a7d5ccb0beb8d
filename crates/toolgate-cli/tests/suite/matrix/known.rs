//! What is wrong today.

use crate::harness::matrix::Via;

/// Scenarios that fail through these transports, and why. An entry that passes fails its test, so that it is removed with the fix.
pub const KNOWN: &[(&[Via], &str, &str)] = &[];
