#![doc = include_str!("../README.md")]

mod call;
mod chain_access;
mod connection;
mod elicitation;
mod failure_slot;
mod governed;
mod handler;
mod known_tools;
mod list;
mod nested_call;
mod original_answer;
mod panics;
mod request;
mod tool_lookup;
mod trace_context;
mod wire;

pub use chain_access::ChainAccess;
pub use connection::ActiveChain;
pub use failure_slot::raise;
pub use governed::Governed;
