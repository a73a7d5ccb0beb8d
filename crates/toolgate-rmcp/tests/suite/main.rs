//! Speaks MCP, in memory, to servers with and without a chain around them.
#![cfg(test)]

mod catalogue;
mod confirm;
mod era;
mod everything;
mod explicit;
mod listener;
mod offers;
mod own_layers;
mod parity;
mod parts;
mod raised;
mod readme;
mod records;
mod refusals;
mod results;
mod traces;
mod watch;

#[path = "../../examples/three_tools.rs"]
#[expect(dead_code, reason = "its `main` speaks over stdio")]
mod three_tools;
