//! The approved tools: a set that the gateway replaces and calls read.

use std::{
    collections::HashSet,
    mem,
    sync::{Arc, PoisonError, RwLock},
};

use crate::identity::ToolId;

/// The approved tools, shared between the filter and the gateway, which loads them from a store. Clones share the set.
///
/// It starts empty, so no tool is approved until it is filled. The set is replaced as a whole, and the lock is held
/// only for a lookup.
#[derive(Clone, Debug, Default)]
pub struct KnownTools(Arc<RwLock<HashSet<ToolId>>>);

impl KnownTools {
    /// Whether this tool is approved.
    #[must_use]
    pub fn is_known(&self, tool: &ToolId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Replaces the set.
    pub fn set(&self, tools: Vec<ToolId>) {
        let tools: HashSet<ToolId> = tools.into_iter().collect();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = mem::replace(&mut *known, tools);
        // Drop the old set after unlocking, because that takes time.
        drop(known);
        drop(old);
    }
}
