//! The catalog: what a namespace offers, put together from what its servers offer.

pub(crate) mod cursor;
pub(crate) mod header_params;
pub(crate) mod lists;
pub(crate) mod name_owners;
pub(crate) mod names;
pub(crate) mod snapshot;
mod templates;
