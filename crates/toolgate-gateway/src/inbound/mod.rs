//! Doors: how clients come in.

pub(crate) mod http;
pub(crate) mod stdio;
