//! The gateway: doors for clients (inbound), servers behind them (outbound), and what runs between.
//!
//! Today there is one door, `toolgate wrap`: one client over stdio in front of one child process. It
//! is put together in [`wrap`]; the chain that every call passes is the library's
//! [`stack`](toolgate::stack).

pub mod config;
mod inbound;
mod outbound;
mod outbox;
mod telemetry;
pub mod thin;
pub mod wrap;

pub use outbound::child::{Environment, ServerCommand, StartError};
pub use outbound::keeper;
