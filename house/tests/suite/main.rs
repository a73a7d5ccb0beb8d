//! The rules of this workspace that no lint knows, as tests. `cargo test -p house` runs them all.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod dependencies;
mod map;
mod modules;
mod names;
mod oldest;
mod protocol;
mod public_api;
mod sizes;
mod source;
