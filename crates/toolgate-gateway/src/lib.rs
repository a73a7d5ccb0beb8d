//! The gateway: doors for clients (inbound), servers behind them (outbound), and what runs between.
//!
//! [`serve`] is the gateway: many clients, many servers, every era of the protocol. [`wrap`] is one client over stdio
//! in front of one child process. The chain that every call passes is the library's [`stack`](toolgate::stack).

pub mod approvals;
mod attributed;
mod batch;
mod catalog;
pub mod config;
mod hops;
mod inbound;
mod narrowed;
mod outbound;
mod outbox;
pub mod running;
pub mod serve;
mod sessions;
mod telemetry;
pub mod thin;
pub mod wrap;

pub use outbound::child::{Environment, ServerCommand, StartError};
pub use outbound::keeper;
