//! Doors: how clients come in.

pub(crate) mod exclusive;
pub(crate) mod http;
mod http_server;
pub(crate) mod line_client;
pub(crate) mod line_front;
pub(crate) mod stdio;
pub(crate) mod streamable_http;

pub use http_server::{BoundListener, HttpServer};
