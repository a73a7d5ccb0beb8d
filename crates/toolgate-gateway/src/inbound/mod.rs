//! Doors: how clients come in.

mod entrance;
pub(crate) mod exclusive;
pub(crate) mod front;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod mcp;
pub(crate) mod stdio;

pub use entrance::{BoundListener, HttpServer};
