//! Doors: how clients come in.

pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod mcp;
pub(crate) mod stdio;
