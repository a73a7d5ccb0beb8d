//! One test per incident that a gateway can stop and per finding of the security reviews, named after it.
//!
//! The first doc line of a test has the form `[source] What happened.`; `table.rs` generates the table in SECURITY.md
//! from these lines. A rule that holds for one transport is tested through all of them with [`harness::matrix`].

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on should say where, also in the functions that tests share"
)]

mod access;
mod approval;
mod bounds;
mod data;
#[path = "../harness/mod.rs"]
mod harness;
mod names;
mod peers;
mod table;
mod terminal;
mod terminal_output;
mod wire;
