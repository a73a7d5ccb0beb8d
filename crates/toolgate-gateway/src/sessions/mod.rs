//! Clients: what each of them is, can be asked, and is told.

pub(crate) mod abilities;
pub(crate) mod caller;
pub(crate) mod legacy;
pub(crate) mod level;
pub(crate) mod outlet;
pub(crate) mod questions;
pub(crate) mod replay;
pub(crate) mod side;
pub(crate) mod table;
pub(crate) mod usage;
