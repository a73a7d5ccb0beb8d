//! The tools that somebody has looked at: a set that the gateway swaps and calls only read.

use std::{
    collections::HashSet,
    mem,
    sync::{Arc, PoisonError, RwLock},
};

use crate::identity::ToolId;

/// The tools that are known, shared between the filter and whoever fills it from a store. Clones are
/// the same set.
///
/// It starts empty: until somebody fills it, no tool is known. A set is replaced as a whole, and the
/// lock is held for as long as a look-up takes.
#[derive(Clone, Debug, Default)]
pub struct KnownTools(Arc<RwLock<HashSet<ToolId>>>);

impl KnownTools {
    /// Whether this tool is known.
    #[must_use]
    pub fn is_known(&self, tool: &ToolId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Replaces the set.
    pub fn set(&self, tools: Vec<ToolId>) {
        let tools: HashSet<ToolId> = tools.into_iter().collect();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let old = mem::replace(&mut *known, tools);
        // A large set takes a while to drop: not while calls wait.
        drop(known);
        drop(old);
    }
}
