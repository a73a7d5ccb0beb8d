//! Servers: their processes and addresses, connections to them, and what they list.

mod connect;
pub(crate) mod connection;
mod discovery;
mod event_request;
pub(crate) mod events;
pub(crate) mod exclusive;
pub(crate) mod failures;
pub(crate) mod handshake;
pub(crate) mod in_flight;
pub(crate) mod listing;
pub(crate) mod manifest;
mod pending;
mod pipe;
pub(crate) mod request;
pub(crate) mod resume;
pub(crate) mod server;
mod sse_2024;
mod streamable_http;
pub(crate) mod subscription_guard;
mod subscriptions;
