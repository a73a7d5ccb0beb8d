#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod chain_access;
mod connection;
mod elicitation;
mod governed;
mod handler;
mod handler_slot;
mod known_tools;
mod list;
mod nested_call;
mod original_answer;
mod panics;
mod peer;
mod request;
mod tool_lookup;
mod trace_context;
mod wire;

pub use chain_access::ChainAccess;
pub use connection::ActiveChain;
pub use governed::Governed;
pub use handler_slot::{nested_call, raise};

/// The library, so that a server needs one dependency: `toolgate-rmcp` brings `toolgate` and `rmcp`.
pub use toolgate;

/// The version of rmcp that this build governs.
pub use rmcp;
