//! The tools that a handler has published, as they were last learnt.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rmcp::model;
use tokio::sync::Mutex;
use toolgate::Tool;

/// The tools that the handler published, by name.
#[derive(Default)]
pub(crate) struct Facts {
    known: RwLock<HashMap<String, Known>>,
    /// Held while the list is asked for, never while a tool runs.
    pub(crate) loading: Mutex<()>,
    loads: RwLock<Loads>,
}

pub(crate) struct Known {
    /// As the list has it.
    pub(crate) published: model::Tool,
    /// As `get_tool` has it, where that is something else.
    said: Option<model::Tool>,
    pub(crate) tool: Arc<Tool>,
}

impl Known {
    pub(crate) fn new(published: model::Tool, tool: Arc<Tool>) -> Self {
        Self { published, said: None, tool }
    }

    /// Whether `get_tool` still says what it said: the same as the list, or what it said instead.
    /// One that says nothing tells nothing.
    fn is_fresh(&self, said: Option<&model::Tool>) -> bool {
        said.is_none_or(|said| *self.said.as_ref().unwrap_or(&self.published) == *said)
    }
}

/// The numbers of the last load that started and of the last that ended well.
#[derive(Default, Clone, Copy)]
pub(crate) struct Loads {
    pub(crate) started: u64,
    pub(crate) finished: u64,
}

impl Facts {
    pub(crate) fn known(&self) -> RwLockReadGuard<'_, HashMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn loads(&self) -> Loads {
        *self.loads.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn loads_mut(&self) -> RwLockWriteGuard<'_, Loads> {
        self.loads.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool, unless `get_tool` says that it is another by now.
    pub(crate) fn recall(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let known = self.known();
        let found = known.get(name)?;
        found.is_fresh(said).then(|| Arc::clone(&found.tool))
    }

    /// The tool, just listed: if `get_tool` says something else of it, that is how it is.
    pub(crate) fn settle(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let mut known = self.known_mut();
        let found = known.get_mut(name)?;
        if !found.is_fresh(said) {
            found.said = said.cloned();
        }
        Some(Arc::clone(&found.tool))
    }
}
