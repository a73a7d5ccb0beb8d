//! Lists as they are sent: their entries, how long they may be kept, and their pages.

use toolgate_wire::{Json, Object, era};

use crate::outbound::connection::ourselves;

/// The lists of a namespace besides its tools, which each client may see differently.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) prompts: Vec<Json>,
    pub(crate) resources: Vec<Json>,
    pub(crate) templates: Vec<Json>,
    pub(crate) hints: Hints,
}

/// How long a list may be kept, and by whom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hints {
    pub(crate) ttl_ms: u64,
    pub(crate) is_public: bool,
}

/// One page of a list: the finished result.
#[derive(Clone, Debug)]
pub(crate) struct Page(pub(crate) Json);

/// `_meta` of results that are our own: who answers.
pub(crate) fn server_meta() -> Json {
    let mut meta = Object::new();
    meta.set(era::META_SERVER_INFO, ourselves());
    meta.finish()
}
