//! The catalog: what a namespace offers, put together from what its servers offer.

pub(crate) mod cursor;
pub(crate) mod lists;
pub(crate) mod mirrors;
pub(crate) mod names;
pub(crate) mod owners;
pub(crate) mod snapshot;
mod templates;
