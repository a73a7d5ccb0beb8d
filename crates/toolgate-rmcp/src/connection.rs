//! One connection: its session, the chain for its requests, and their admission.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    RoleServer,
    model::{RequestId, RequestMetaObject},
    service::RequestContext,
};
use toolgate::{
    Chain, ClientInfo, Context, Control, Failure, Session, TierRules, ToolId,
    admission::{Narrowing, too_many_in_flight},
    middleware::overrides::{CurrentOverrides, ResolvedName},
};
use toolgate_wire::{Id, Json};

use crate::{
    elicitation::client_input, known_tools::KnownTools, nested_call::NestedCall, trace_context,
};

/// A chain with its settings. A changed config makes a new one, see
/// [`Governed::govern_by`](crate::Governed::govern_by).
#[derive(Clone, Debug)]
pub struct ActiveChain {
    /// The chain.
    pub chain: Chain,
    /// The wire names of tools, if the chain renames them.
    pub names: Option<CurrentOverrides>,
    /// The rules that give tools their tiers. They win over the tools' own annotations.
    pub rules: TierRules,
    /// The maximum number of requests in flight.
    pub in_flight: usize,
}

/// A chain, with the handler's tools as its rules classify them.
pub(crate) struct ChainState {
    pub(crate) chain: ActiveChain,
    pub(crate) known_tools: KnownTools,
}

/// What the requests of one connection are admitted with. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) server: Arc<str>,
    pub(crate) session: Arc<Session>,
    narrowing: Arc<Narrowing>,
    in_flight: Arc<AtomicUsize>,
    active: Arc<RwLock<Arc<ChainState>>>,
}

impl Connection {
    pub(crate) fn new(session: Session, chain: ActiveChain) -> Self {
        let active = Arc::new(ChainState { chain, known_tools: KnownTools::default() });
        Self {
            server: "main".into(),
            session: Arc::new(session),
            narrowing: Arc::default(),
            in_flight: Arc::default(),
            active: Arc::new(RwLock::new(active)),
        }
    }

    /// The chain for a request that arrives now. Each request takes it once.
    pub(crate) fn active(&self) -> Arc<ChainState> {
        Arc::clone(&self.active.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn govern_by(&self, chain: ActiveChain) {
        // Without known tools: the new rules may give them other tiers.
        let next = Arc::new(ChainState { chain, known_tools: KnownTools::default() });
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// Counts a request as in flight until the permit is dropped. A nested call uses the permit of its parent.
    pub(crate) fn enter(
        &self,
        active: &ChainState,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<InFlightPermit>, Failure> {
        if context.extensions.get::<NestedCall>().is_some() {
            return Ok(None);
        }
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = InFlightPermit(Arc::clone(&self.in_flight));
        let most = active.chain.in_flight;
        if before < most { Ok(Some(place)) } else { Err(too_many_in_flight(most)) }
    }

    /// Admits a request of a session: makes its context, and removes the control data from its `_meta`.
    pub(crate) fn admit(
        &self,
        active: &ChainState,
        session: Arc<Session>,
        context: &mut RequestContext<RoleServer>,
    ) -> Context {
        let chain = &active.chain.chain;
        let client = context.client_info().map(|info| {
            let version = Some(info.version).filter(|version| !version.is_empty());
            Arc::new(ClientInfo { name: info.name, version })
        });
        let mut cx = Context::new(session)
            .with_client(client)
            .with_request_id(Some(wire_id(&context.id)))
            .with_cancel(context.ct.clone());
        let within = context.extensions.get::<NestedCall>().cloned();
        if chain.asks() {
            let input = client_input(context);
            cx = cx.with_client_input(if within.is_some() {
                NestedCall::client_input(input)
            } else {
                input
            });
        }
        if chain.follows_traces() {
            cx = cx.with_ingress(trace_context::ingress(context));
        }
        let control = take_control(&mut context.meta);
        if let Some(within) = &within {
            cx = within.inherit(cx);
        } else if chain.reads_meta() && !context.meta.is_empty() {
            cx = cx.with_meta(Json::serialize(&context.meta).ok());
        }
        if control.is_none() && within.is_none() {
            return cx;
        }
        let mut control = control.unwrap_or_default();
        if let Some(within) = &within {
            within.narrow(&mut control);
        }
        let own = |name: &str| active.chain.own_name(&self.server, name);
        let meant = |name: &str| Some(ToolId::new(Arc::clone(&self.server), own(name)?));
        self.narrowing.apply(cx, control, meant)
    }
}

impl ActiveChain {
    /// The handler's own name of the tool with this wire name; `None` if no tool has it any more.
    pub(crate) fn own_name(&self, server: &str, wire_name: &str) -> Option<String> {
        let Some(names) = &self.names else { return Some(wire_name.to_owned()) };
        match names.get().resolve(server, wire_name) {
            ResolvedName::Tool(own) => Some(own.to_owned()),
            ResolvedName::Gone => None,
        }
    }
}

/// Counts one request as in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightPermit(Arc<AtomicUsize>);

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes the control data out of `_meta`, so that the handler never sees it.
fn take_control(meta: &mut RequestMetaObject) -> Option<Control> {
    if !Control::KEYS.iter().any(|key| meta.contains_key(*key)) {
        return None;
    }
    let lifted = Json::serialize(meta).ok().and_then(|meta| Control::extract(&meta));
    remove_control(meta);
    Some(lifted.map_or_else(Control::unreadable, |(control, _)| control))
}

/// Removes the control data from a copy of `_meta`.
pub(crate) fn remove_control(meta: &mut RequestMetaObject) {
    for key in Control::KEYS {
        meta.remove(key);
    }
}

fn wire_id(id: &RequestId) -> Id {
    match id {
        RequestId::Number(number) => Id::number(*number),
        RequestId::String(text) => Id::string(text),
    }
}
