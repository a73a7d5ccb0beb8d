//! The gateway: doors for clients (inbound), servers behind them (outbound), and what runs between.
//!
//! [`serve`] is the gateway: many clients, many servers, every era of the protocol; or one client over stdio with one
//! server of its own (`toolgate wrap`). The chain that every call passes is the library's [`stack`](toolgate::stack).

pub mod active_chain;
pub mod approvals;
mod attributed;
mod backoff;
mod batch;
pub mod bridge;
mod capabilities;
mod catalog;
pub mod config;
mod hops;
mod http_client;
mod ids;
mod inbound;
mod introduction;
mod line_reader;
mod links;
mod log_level;
mod outbound;
mod outbox;
mod private_file;
mod process;
pub mod records;
mod response;
pub mod running;
pub mod serve;
mod sessions;
mod tokens;
mod usage;

pub use inbound::{BoundListener, HttpServer};
pub use process::child::{Environment, ServerCommand, StartError};
pub use process::keeper;
use toolgate::admission::refusal;
