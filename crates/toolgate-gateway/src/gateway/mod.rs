//! The gateway's core: answers each client request from the catalog or through a server, with one chain for each
//! namespace.
//!
//! The path of a request: a transport identifies the caller and its protocol version; `dispatch` selects the handler
//! (`tool_call`, `listing`, `proxied`, `subscriptions`, `handshake`); the handler runs the chain of the namespace; at the
//! end of the chain `upstream_call` sends the request to the server and awaits the response, and `era_bridge` translates
//! both if client and server speak different versions.

mod build;
pub(crate) mod dispatch;
mod era_bridge;
pub(crate) mod handshake;
mod inspect;
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
mod subscriptions;
pub(crate) mod suspended;
mod tasks;
pub(crate) mod tool_call;
pub(crate) mod upstream_call;

pub use build::{ExclusiveServer, GatewayOptions, NamespaceSettings, NamespaceSource};
pub use inspect::{InspectedNamespace, InspectedTool, Inspection};
pub(crate) use running_gateway::{Gateway, show_notification};
pub use running_gateway::{GatewayError, GatewayStatus, RunningGateway, ServerStatus};
