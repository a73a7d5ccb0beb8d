//! Tests of the whole: they speak MCP to the built program.
//!
//! One binary, so that the harness is compiled once. `cargo test -p toolgate-cli --test suite serve::lies` runs one file.

#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::print_stderr,
    reason = "a test that cannot go on should say where, and `json!` reads best as a value"
)]

mod client_files;
mod collector;
mod command_line;
mod config_file;
mod conformance;
mod documents;
mod first_run;
mod harness;
mod import;
mod incidents;
mod log_command;
mod matrix;
mod peers;
mod serve;
mod stdio_bridge;
mod tmux;
mod wrap;
