//! Name, version and `_meta` with which the gateway introduces itself to clients and servers.

use toolgate_wire::{
    Json, Object,
    mcp::{self, meta},
};

use crate::hops;

/// `_meta` of the gateway's own requests to servers of 2026-07-28.
pub(crate) fn own_meta() -> Json {
    let mut meta = Object::new();
    meta.set(meta::PROTOCOL_VERSION, Json::string(mcp::MODERN));
    meta.set(meta::CLIENT_INFO, ourselves());
    meta.set(meta::CLIENT_CAPABILITIES, Json::empty_object());
    meta.set(hops::META, hops::from_here());
    meta.finish()
}

/// The gateway as `clientInfo` or `serverInfo`.
pub(crate) fn ourselves() -> Json {
    Json::value(&serde_json::json!({
        "name": "toolgate", "title": "toolgate", "version": env!("CARGO_PKG_VERSION"),
    }))
}
