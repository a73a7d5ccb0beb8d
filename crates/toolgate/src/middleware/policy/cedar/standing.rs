//! What is settled about a tool before the arguments are known, kept from call to call.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{Entities, EntityUid, PolicySet, RestrictedExpression};

use super::{
    super::verdict::{Asked, Verdict},
    inspect::Reads,
};
use crate::{
    identity::{Principal, ToolId},
    tier::{Tier, ToolHints},
};

/// How many answers are kept. When there are more, all are forgotten: each costs only time to find again.
const MOST: usize = 8192;

/// What can be said without the arguments.
pub(super) enum Standing {
    /// They do not matter.
    Settled(Verdict),
    /// They do.
    Open(Box<Open>),
}

/// What is left to decide, and what it is decided on beside the arguments.
pub(super) struct Open {
    pub(super) principal: EntityUid,
    pub(super) tool: EntityUid,
    pub(super) entities: Entities,
    pub(super) facts: Vec<(String, RestrictedExpression)>,
    /// The rules that depend on the arguments.
    pub(super) rules: PolicySet,
    /// What they look at.
    pub(super) reads: Reads,
    /// The rule that permits the call whatever its arguments, unless a forbid among the others holds.
    pub(super) permit: Option<Arc<str>>,
}

impl Open {
    /// With nothing left to decide yet.
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

/// All that an answer depends on.
struct Key {
    principal: Principal,
    namespace: Arc<str>,
    client: Option<String>,
    tool: ToolId,
    tier: Option<Tier>,
    hints: ToolHints,
}

impl Key {
    fn is(&self, asked: Asked<'_>, client: Option<&str>) -> bool {
        self.tool == *asked.tool.id()
            && self.principal == *asked.cx.principal()
            && self.namespace == asked.cx.session().namespace
            && self.client.as_deref() == client
            && self.tier == asked.tool.tier()
            && self.hints == asked.tool.hints()
    }
}

/// Answers by the hash of their keys, so that looking one up copies nothing.
#[derive(Default)]
pub(super) struct Standings {
    hasher: RandomState,
    kept: RwLock<HashMap<u64, Arc<(Key, Standing)>>>,
}

impl Standings {
    /// The answer to what is asked: kept, or found now.
    pub(super) fn find(
        &self,
        asked: Asked<'_>,
        client: Option<&str>,
        settle: impl FnOnce() -> Standing,
    ) -> Found {
        let (tool, session) = (asked.tool, asked.cx.session());
        let parts = (tool.id(), &session.principal, &session.namespace, client);
        let hash = self.hasher.hash_one(parts);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        if let Some(kept) = kept.filter(|kept| kept.0.is(asked, client)) {
            return Found(kept);
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
        // The names of tools that no server lists are the caller's invention: they crowd out nothing.
        if tool.definition().is_some() {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= MOST {
                kept.clear();
            }
            kept.insert(hash, Arc::clone(&found));
        }
        Found(found)
    }
}

/// An answer, shared with the store that it is kept in.
pub(super) struct Found(Arc<(Key, Standing)>);

impl std::ops::Deref for Found {
    type Target = Standing;

    fn deref(&self) -> &Standing {
        &self.0.1
    }
}

impl fmt::Debug for Standings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standings")
    }
}
