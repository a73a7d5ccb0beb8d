//! The overrides in force: those of the settings, without names that collide with listed tools.

use std::sync::{Arc, PoisonError, RwLock};

use super::map::{Collision, Overrides};
use crate::identity::ToolId;

/// The overrides in force, shared between admission, which resolves names, and the layer, which shows them. Clones
/// share them.
///
/// It starts with the overrides of the settings. When the tools are listed, names that collide with one of them are
/// removed, for listings and calls at the same time.
#[derive(Clone, Debug)]
pub struct CurrentOverrides(Arc<OverrideState>);

#[derive(Debug)]
struct OverrideState {
    set: Overrides,
    now: RwLock<Arc<Overrides>>,
}

impl CurrentOverrides {
    /// Starts with these overrides.
    #[must_use]
    pub fn new(set: Overrides) -> Self {
        let now = RwLock::new(Arc::new(set.clone()));
        Self(Arc::new(OverrideState { set, now }))
    }

    /// The overrides of the settings.
    #[must_use]
    pub fn configured(&self) -> &Overrides {
        &self.0.set
    }

    /// The overrides in force. Load them once per request.
    #[must_use]
    pub fn get(&self) -> Arc<Overrides> {
        Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the tools that the servers list, all of them, and returns the collisions. Call it whenever a listing
    /// changes.
    pub fn learn(&self, listed: &[ToolId]) -> Vec<Collision> {
        let (settled, collisions) = self.0.set.settle(listed);
        let settled = Arc::new(settled);
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = settled;
        collisions
    }
}
