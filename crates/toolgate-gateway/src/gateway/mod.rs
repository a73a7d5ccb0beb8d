//! `toolgate serve`: many clients, many servers, every era of the protocol, one chain for each namespace.
//!
//! The way of a request: a door (`inbound`) finds out who asks and in which era; `dispatch` decides what becomes of
//! it; the chain of the namespace governs it; `conversation` carries it to its server and back, across the border
//! between the eras where there is one.

mod build;
pub(crate) mod dispatch;
mod era_bridge;
pub(crate) mod handshake;
mod inspect;
mod listen;
mod listing;
mod live_tools;
pub(crate) mod namespace;
mod proxied;
mod quarantine;
mod refresh;
mod reload;
pub(crate) mod response;
mod running_gateway;
mod server_events;
pub(crate) mod suspended;
mod tasks;
pub(crate) mod tool_call;
pub(crate) mod upstream_call;

pub use build::{ExclusiveServer, GatewayOptions, NamespaceSettings, NamespaceSource};
pub use inspect::{InspectedNamespace, InspectedTool, Inspection};
pub(crate) use running_gateway::Gateway;
pub use running_gateway::{GatewayError, GatewayStatus, RunningGateway, ServerStatus};
