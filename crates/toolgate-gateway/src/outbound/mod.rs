//! Servers: how calls go out.

pub(crate) mod connection;
mod event_flight;
pub(crate) mod events;
pub(crate) mod exclusive;
pub(crate) mod flight;
mod flights;
pub(crate) mod handshake;
pub(crate) mod learn;
mod learning;
mod legacy_sse;
pub(crate) mod manifest;
mod opening;
mod pipe;
pub(crate) mod resume;
pub(crate) mod server;
mod streamable;
pub(crate) mod subscriptions;
