//! Servers: how calls go out.

pub(crate) mod audit_store;
pub(crate) mod child;
pub mod keeper;
pub(crate) mod noise;
pub(crate) mod trail;
