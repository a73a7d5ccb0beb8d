//! The tools that a handler has listed.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rmcp::model;
use tokio::sync::Mutex;
use toolgate::Tool;

/// The tools that the handler has listed, by name.
#[derive(Default)]
pub(crate) struct KnownTools {
    known: RwLock<HashMap<String, KnownTool>>,
    /// Held while the tools are listed, never while a tool runs.
    pub(crate) loading: Mutex<()>,
    loads: RwLock<ListingNumbers>,
}

pub(crate) struct KnownTool {
    /// The definition in the list.
    pub(crate) published: model::Tool,
    /// The definition from `get_tool`, if that differs from the list.
    said: Option<model::Tool>,
    pub(crate) tool: Arc<Tool>,
}

impl KnownTool {
    pub(crate) fn new(published: model::Tool, tool: Arc<Tool>) -> Self {
        Self { published, said: None, tool }
    }

    /// Whether `get_tool` still returns the same definition: that of the list, or the one that differed. `None` counts
    /// as the same.
    fn is_fresh(&self, said: Option<&model::Tool>) -> bool {
        said.is_none_or(|said| *self.said.as_ref().unwrap_or(&self.published) == *said)
    }
}

/// The numbers of the last listing that started, and of the last that succeeded.
#[derive(Default, Clone, Copy)]
pub(crate) struct ListingNumbers {
    pub(crate) started: u64,
    pub(crate) finished: u64,
}

impl KnownTools {
    pub(crate) fn known(&self) -> RwLockReadGuard<'_, HashMap<String, KnownTool>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, KnownTool>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn loads(&self) -> ListingNumbers {
        *self.loads.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn loads_mut(&self) -> RwLockWriteGuard<'_, ListingNumbers> {
        self.loads.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool; `None` if `get_tool` returns another definition by now.
    pub(crate) fn recall(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let known = self.known();
        let found = known.get(name)?;
        found.is_fresh(said).then(|| Arc::clone(&found.tool))
    }

    /// The tool, after it was listed: a differing definition from `get_tool` is remembered.
    pub(crate) fn settle(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let mut known = self.known_mut();
        let found = known.get_mut(name)?;
        if !found.is_fresh(said) {
            found.said = said.cloned();
        }
        Some(Arc::clone(&found.tool))
    }
}
