//! Servers: how calls go out.

pub(crate) mod audit_store;
pub(crate) mod child;
#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "its callers, servers behind URLs, come next")
)]
pub(crate) mod http;
pub mod keeper;
pub(crate) mod noise;
pub(crate) mod trail;
