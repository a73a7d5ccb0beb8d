//! One test per incident that a gateway can stop and per finding of the security reviews, named after it.
//!
//! The first doc line of a test has the form `[source] What happened.`; `table.rs` generates the table in SECURITY.md
//! from these lines. A rule that holds for one transport is tested through all of them with [`harness::matrix`].

mod access;
mod approval;
mod bounds;
mod data;
mod names;
mod peers;
mod table;
mod terminal;
mod terminal_output;
mod wire;
