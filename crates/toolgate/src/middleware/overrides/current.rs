//! The overrides as they hold now: settled against the tools that the servers list.

use std::sync::{Arc, PoisonError, RwLock};

use super::map::{Collision, Overrides};
use crate::identity::ToolId;

/// The overrides that hold now, shared between the door, which resolves names, and the layer, which
/// shows them. Clones are the same.
///
/// Starts with the overrides as they were set. The door tells it which tools there are, and names that
/// collide with one of them hold no longer: for listings and for calls, from the same moment on.
#[derive(Clone, Debug)]
pub struct CurrentOverrides(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    set: Overrides,
    now: RwLock<Arc<Overrides>>,
}

impl CurrentOverrides {
    /// These overrides, until the door tells which tools there are.
    #[must_use]
    pub fn new(set: Overrides) -> Self {
        let now = RwLock::new(Arc::new(set.clone()));
        Self(Arc::new(Shared { set, now }))
    }

    /// The overrides as they were set.
    #[must_use]
    pub fn configured(&self) -> &Overrides {
        &self.0.set
    }

    /// The overrides that hold now. Take them once for each request.
    #[must_use]
    pub fn get(&self) -> Arc<Overrides> {
        Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Learns which tools the servers list, all of them, and gives the names that do not hold because of
    /// it. To be told again whenever a listing changes.
    pub fn learn(&self, listed: &[ToolId]) -> Vec<Collision> {
        let (settled, collisions) = self.0.set.settle(listed);
        let settled = Arc::new(settled);
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = settled;
        collisions
    }
}
