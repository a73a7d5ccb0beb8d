//! Clients: what each of them is, can be asked, and is told.

pub(crate) mod caller;
pub(crate) mod legacy;
pub(crate) mod outlet;
pub(crate) mod questions;
pub(crate) mod replay;
pub(crate) mod requests;
pub(crate) mod side;
pub(crate) mod table;
