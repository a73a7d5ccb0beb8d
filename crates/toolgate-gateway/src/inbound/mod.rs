//! Doors: how clients come in.

pub(crate) mod stdio;
