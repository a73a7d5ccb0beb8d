//! `toolgate serve`: many clients, many servers, every era of the protocol, one chain for each namespace.
//!
//! The way of a request: a door (`inbound`) finds out who asks and in which era; `dispatch` decides what becomes of
//! it; the chain of the namespace governs it; `conversation` carries it to its server and back, across the border
//! between the eras where there is one.

pub(crate) mod call;
pub(crate) mod conversation;
pub(crate) mod dispatch;
mod eras;
mod gateway;
pub(crate) mod hello;
mod inspect;
mod listen;
mod lists;
mod live_tools;
pub(crate) mod namespace;
pub(crate) mod parked;
mod pass;
mod plan;
mod quarantine;
mod refresh;
mod reload;
pub(crate) mod said;
mod tasks;
mod watching;

pub(crate) use gateway::Gateway;
pub use gateway::{GatewayError, GatewayStatus, RunningGateway, ServerStatus};
pub use inspect::{InspectedNamespace, InspectedTool, Inspection};
pub use plan::{ExclusiveServer, GatewayOptions, NamespaceSettings, NamespaceSource};
