//! The gateway between MCP clients and MCP servers: many clients and many servers of every protocol version
//! (`toolgate serve`), or one client over stdio with one server of its own (`toolgate wrap`).
//!
//! A request passes these modules from top to bottom, and its response passes them from bottom to top:
//!
//! | module | what it does |
//! |---|---|
//! | `transports` | receives messages of clients: stdio, HTTP (Streamable HTTP and SSE of 2024-11-05) |
//! | `clients` | the state of each client: sessions, capabilities, requests in flight, notifications |
//! | [`gateway`] | dispatches requests, runs the chain of the namespace, translates between protocol versions |
//! | `catalog` | the tools, prompts and resources of a namespace: names, lists, cursors |
//! | `upstream` | connections to servers: handshake, requests in flight, notifications, restarts |
//! | `http_client`, `process` | the HTTP client and the child processes that `upstream` uses |
//!
//! The chain that every call passes is the library's [`stack`](toolgate::stack); [`active_chain`] replaces it when the
//! config changes.
//!
//! Beside the path of a request:
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | reads the config file and the client configs, watches for changes |
//! | [`client_files`] | the config files of MCP clients: where they are, what their entries mean |
//! | [`document`] | JSON, TOML and YAML as a tree with the place of each value |
//! | [`records`] | call log, audit store, telemetry: opening and closing what layers write to |
//! | [`approvals`] | calls that wait for a person's approval |
//! | [`bridge`] | `toolgate stdio --to URL`: connects a stdio client to a running gateway |
//! | [`instances`] | finds the running gateways of this user, for `toolgate reload` and `toolgate status` |
//! | `tokens`, `usage` | which principal a bearer token belongs to; what each principal uses of the limits |
//! | `hops` | detects loops of gateways |

pub mod active_chain;
pub mod approvals;
mod backoff;
mod batch;
pub mod bridge;
mod capabilities;
mod catalog;
pub mod client_files;
mod clients;
pub mod config;
pub mod document;
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
mod rpc_error;
mod tokens;
mod transports;
mod upstream;
mod usage;
mod write_queue;

pub use process::child::{Environment, ServerCommand, StartError};
pub use process::keeper;
use toolgate::admission::refusal;
pub use transports::{BoundListener, HttpServer};
