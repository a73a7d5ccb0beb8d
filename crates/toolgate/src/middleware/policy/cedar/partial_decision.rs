//! The cache of decisions that do not depend on the arguments.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{Entities, EntityUid, PolicySet, RestrictedExpression};

use super::{
    super::verdict::{PolicyRequest, PolicyVerdict},
    inspect::Reads,
};
use crate::{
    identity::{Principal, ToolId},
    tier::{Tier, ToolHints},
};

/// Largest number of cached decisions. When it is reached, the cache is cleared.
const MAX_CACHED: usize = 8192;

/// The result of an evaluation without the arguments.
pub(super) enum PartialDecision {
    /// The arguments do not matter.
    Settled(PolicyVerdict),
    /// The arguments matter.
    Open(Box<OpenDecision>),
}

/// The remaining rules, and their inputs beside the arguments.
pub(super) struct OpenDecision {
    pub(super) principal: EntityUid,
    pub(super) tool: EntityUid,
    pub(super) entities: Entities,
    pub(super) facts: Vec<(String, RestrictedExpression)>,
    /// The rules that depend on the arguments.
    pub(super) rules: PolicySet,
    /// The inputs that they read.
    pub(super) reads: Reads,
    /// The rule that permits the call with any arguments, unless one of the remaining `forbid` rules matches.
    pub(super) permit: Option<Arc<str>>,
}

impl OpenDecision {
    /// Without any remaining rules yet.
    pub(super) fn new(
        principal: EntityUid,
        tool: EntityUid,
        entities: Entities,
        facts: Vec<(String, RestrictedExpression)>,
    ) -> Self {
        let (rules, reads) = (PolicySet::new(), Reads::default());
        Self { principal, tool, entities, facts, rules, reads, permit: None }
    }
}

/// The inputs of a cached decision.
struct Key {
    principal: Principal,
    namespace: Arc<str>,
    client: Option<String>,
    tool: ToolId,
    tier: Option<Tier>,
    hints: ToolHints,
}

impl Key {
    fn is(&self, asked: PolicyRequest<'_>, client: Option<&str>) -> bool {
        self.tool == *asked.tool.id()
            && self.principal == *asked.cx.principal()
            && self.namespace == asked.cx.session().namespace
            && self.client.as_deref() == client
            && self.tier == asked.tool.tier()
            && self.hints == asked.tool.hints()
    }
}

/// Decisions by the hash of their keys, so that a lookup copies nothing.
#[derive(Default)]
pub(super) struct PartialDecisions {
    hasher: RandomState,
    kept: RwLock<HashMap<u64, Arc<(Key, PartialDecision)>>>,
}

impl PartialDecisions {
    /// The cached decision for a request, or a new one.
    pub(super) fn find(
        &self,
        asked: PolicyRequest<'_>,
        client: Option<&str>,
        settle: impl FnOnce() -> PartialDecision,
    ) -> SharedDecision {
        let (tool, session) = (asked.tool, asked.cx.session());
        let parts = (tool.id(), &session.principal, &session.namespace, client);
        let hash = self.hasher.hash_one(parts);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(kept) = kept.filter(|kept| kept.0.is(asked, client)) {
            return SharedDecision(kept);
        }
        let key = Key {
            principal: session.principal.clone(),
            namespace: Arc::clone(&session.namespace),
            client: client.map(str::to_owned),
            tool: tool.id().clone(),
            tier: tool.tier(),
            hints: tool.hints(),
        };
        let found = Arc::new((key, settle()));
        // Tools that no server lists may be invented by the caller, so they are not cached.
        if tool.definition().is_some() {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= MAX_CACHED {
                kept.clear();
            }
            kept.insert(hash, Arc::clone(&found));
        }
        SharedDecision(found)
    }
}

/// A decision, shared with the cache.
pub(super) struct SharedDecision(Arc<(Key, PartialDecision)>);

impl std::ops::Deref for SharedDecision {
    type Target = PartialDecision;

    fn deref(&self) -> &PartialDecision {
        &self.0.1
    }
}

impl fmt::Debug for PartialDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartialDecisions")
    }
}
