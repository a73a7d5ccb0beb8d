//! Lists as they are sent: their entries, how long they may be kept, and their pages.

use toolgate_wire::{
    Json, Object,
    mcp::{Era, member, meta},
};

use super::snapshot::Missing;
use crate::implementation_info::ourselves;

/// The lists of a namespace besides its tools, which each client may see differently.
#[derive(Debug, Default)]
pub(crate) struct ListPages {
    pub(crate) prompts: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) templates: Vec<Json>,
    pub(crate) hints: CacheHints,
}

/// How long a list may be kept, and by whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheHints {
    pub(crate) ttl_ms: u64,
    pub(crate) is_public: bool,
}

/// One page of a list: the finished result.
#[derive(Clone, Debug)]
pub(crate) struct ListPage(pub(crate) Json);

/// The definition of a tool for clients of an era: until 2025-11-25 an output is an object, and another one cannot be
/// described.
pub(crate) fn definition_for(definition: &Json, era: Era) -> Json {
    // Hardly any tool has one: one look at the text tells.
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

/// `_meta` of results that are our own: who answers.
pub(crate) fn server_meta() -> Object {
    let mut meta = Object::new();
    meta.set(meta::SERVER_INFO, ourselves());
    meta
}

/// `_meta` of a list in which the entries of some servers are missing.
pub(crate) const META_MISSING: &str = "toolgate/missing";

/// Which servers are missing in a list, and why.
pub(crate) fn missing_meta(missing: &[Missing]) -> Json {
    let one = |missing: &Missing| {
        let why = missing.why().unwrap_or_else(|| "it has not answered yet".to_owned());
        Json::value(&serde_json::json!({"server": &*missing.server.name, "why": why}))
    };
    Json::list(&missing.iter().map(one).collect::<Vec<_>>())
}
