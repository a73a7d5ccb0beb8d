//! Finished lists for clients: entries, cache hints and pages.

use std::sync::Arc;

use toolgate_wire::{
    Json, Object,
    mcp::{Era, member, meta},
};

use crate::{
    implementation_info::ourselves,
    upstream::{
        manifest::error_text,
        server::{Server, ServerState},
    },
};

/// The lists of a namespace that are the same for all clients. (Which tools a client sees depends on the chain.)
#[derive(Debug, Default)]
pub(crate) struct ListPages {
    pub(crate) prompts: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) templates: Vec<Json>,
    pub(crate) hints: CacheHints,
}

/// How long clients may cache a list, and whether shared caches may, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheHints {
    pub(crate) ttl_ms: u64,
    pub(crate) is_public: bool,
}

/// One page of a list: the finished result.
#[derive(Clone, Debug)]
pub(crate) struct ListPage(pub(crate) Json);

/// The definition of a tool for clients of an era. In legacy versions an output schema must describe an object; another
/// output schema is removed.
pub(crate) fn definition_for(definition: &Json, era: Era) -> Json {
    // Few tools have one, so search the text before parsing it.
    let has_schema = || memchr::memmem::find(definition.as_bytes(), b"\"outputSchema\"").is_some();
    if era == Era::Modern || !has_schema() {
        return definition.clone();
    }
    let kind = definition.get(member::OUTPUT_SCHEMA).and_then(|schema| schema.get("type"));
    let is_object = kind.as_ref().and_then(Json::text).is_some_and(|kind| kind == "object");
    match definition.object() {
        Some(mut object) if !is_object => {
            object.remove(member::OUTPUT_SCHEMA);
            object.finish()
        }
        _ => definition.clone(),
    }
}

/// `_meta` of the gateway's own results.
pub(crate) fn server_meta() -> Object {
    let mut meta = Object::new();
    meta.set(meta::SERVER_INFO, ourselves());
    meta
}

/// The `_meta` key of a list in which the entries of some servers are missing.
pub(crate) const META_MISSING: &str = "toolgate/missing";

/// A server whose entries are missing in a list.
#[derive(Debug)]
pub(crate) struct MissingServer {
    pub(crate) server: Arc<Server>,
    /// The error that the server answered, if it did.
    pub(crate) error: Option<Json>,
}

impl MissingServer {
    /// The reason for people; `None` if the server is still starting.
    pub(crate) fn why(&self) -> Option<String> {
        match (&self.error, self.server.state()) {
            (Some(error), _) => Some(error_text(error)),
            (None, ServerState::Failed(why, _)) => Some(why.to_string()),
            (None, _) => None,
        }
    }
}

/// The value of `META_MISSING`: the missing servers, and why they are missing.
pub(crate) fn missing_meta(missing: &[MissingServer]) -> Json {
    let one = |missing: &MissingServer| {
        let why = missing.why().unwrap_or_else(|| "it has not answered yet".to_owned());
        Json::value(&serde_json::json!({"server": &*missing.server.name, "why": why}))
    };
    Json::list(&missing.iter().map(one).collect::<Vec<_>>())
}
