//! The gateway: doors for clients (inbound), servers behind them (outbound), and what runs between.
//!
//! [`serve`] is the gateway: many clients, many servers, every era of the protocol; or one client over stdio with one
//! server of its own (`toolgate wrap`). The chain that every call passes is the library's [`stack`](toolgate::stack).

pub mod active_chain;
pub mod approvals;
mod backoff;
mod batch;
pub mod bridge;
mod capabilities;
mod catalog;
mod clients;
pub mod config;
pub mod gateway;
mod hops;
mod http_client;
mod ids;
mod implementation_info;
pub mod instances;
mod line_reader;
mod log_level;
mod private_file;
mod process;
mod question_attribution;
pub mod records;
mod resource_links;
mod response;
mod tokens;
mod transports;
mod upstream;
mod usage;
mod write_queue;

pub use process::child::{Environment, ServerCommand, StartError};
pub use process::keeper;
use toolgate::admission::refusal;
pub use transports::{BoundListener, HttpServer};
