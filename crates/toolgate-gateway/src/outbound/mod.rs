//! Servers: how calls go out.

pub(crate) mod audit_store;
pub(crate) mod backoff;
pub(crate) mod child;
pub(crate) mod connection;
mod event_flight;
pub(crate) mod events;
pub(crate) mod flight;
mod flights;
pub(crate) mod handshake;
pub(crate) mod http;
pub mod keeper;
mod learn;
mod learning;
mod legacy_sse;
pub(crate) mod noise;
mod opening;
mod pipe;
pub(crate) mod server;
mod streamable;
pub(crate) mod subscriptions;
pub(crate) mod trail;
