//! The catalog: the tools, prompts, resources and templates of a namespace, joined from the lists of its servers.

pub(crate) mod cursor;
pub(crate) mod header_params;
pub(crate) mod lists;
pub(crate) mod name_owners;
pub(crate) mod names;
pub(crate) mod snapshot;
mod templates;
