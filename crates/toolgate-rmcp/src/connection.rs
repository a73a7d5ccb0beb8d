//! One connection: whose it is, what governs its requests now, and how they are admitted.

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
    middleware::overrides::{CurrentOverrides, Resolved},
};
use toolgate_wire::{Id, Json};

use crate::{asking::asking, known_tools::Facts, trace, within::Within};

/// A chain and what belongs to it: what governs requests at one moment. A changed config makes another one, see
/// [`Governed::govern_by`](crate::Governed::govern_by).
#[derive(Clone, Debug)]
pub struct ActiveChain {
    /// The chain.
    pub chain: Chain,
    /// The names that tools have on the wire, where the chain gives them other ones.
    pub names: Option<CurrentOverrides>,
    /// The rules that give tools their tiers, before the tools' own annotations are asked.
    pub rules: TierRules,
    /// How many requests may be in flight.
    pub in_flight: usize,
}

/// The same, with what is known of the handler's tools by these rules.
pub(crate) struct Active {
    pub(crate) chain: ActiveChain,
    pub(crate) facts: Facts,
}

/// What the requests of one connection are admitted with. Side doors have a copy of it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) server: Arc<str>,
    pub(crate) session: Arc<Session>,
    narrowing: Arc<Narrowing>,
    in_flight: Arc<AtomicUsize>,
    active: Arc<RwLock<Arc<Active>>>,
}

impl Connection {
    pub(crate) fn new(session: Session, chain: ActiveChain) -> Self {
        let active = Arc::new(Active { chain, facts: Facts::default() });
        Self {
            server: "main".into(),
            session: Arc::new(session),
            narrowing: Arc::default(),
            in_flight: Arc::default(),
            active: Arc::new(RwLock::new(active)),
        }
    }

    /// What governs a request that comes in now. Taken once for each.
    pub(crate) fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn govern_by(&self, chain: ActiveChain) {
        // With nothing known of the tools: the rules may give them other tiers.
        let next = Arc::new(Active { chain, facts: Facts::default() });
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// A place among the requests in flight, until it is dropped. A part of a call has the place of the call.
    pub(crate) fn enter(
        &self,
        active: &Active,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<Place>, Failure> {
        if context.extensions.get::<Within>().is_some() {
            return Ok(None);
        }
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.in_flight));
        let most = active.chain.in_flight;
        if before < most { Ok(Some(place)) } else { Err(too_many_in_flight(most)) }
    }

    /// Admits a request of a session. Control data is removed from the request's `_meta`.
    pub(crate) fn admit(
        &self,
        active: &Active,
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
        let within = context.extensions.get::<Within>().cloned();
        if chain.asks() {
            let asking = asking(context);
            cx = cx.with_client_input(if within.is_some() {
                Within::asking(asking)
            } else {
                asking
            });
        }
        if chain.follows_traces() {
            cx = cx.with_ingress(trace::ingress(context));
        }
        let control = take_control(&mut context.meta);
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
    /// The handler's own name of the tool that a name on the wire means; `None` if it means none any more.
    pub(crate) fn own_name(&self, server: &str, wire_name: &str) -> Option<String> {
        let Some(names) = &self.names else { return Some(wire_name.to_owned()) };
        match names.get().resolve(server, wire_name) {
            Resolved::Tool(own) => Some(own.to_owned()),
            Resolved::Gone => None,
        }
    }
}

/// A place among the requests in flight.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes the control data out of `_meta`: the handler never sees it.
fn take_control(meta: &mut RequestMetaObject) -> Option<Control> {
    if !Control::KEYS.iter().any(|key| meta.contains_key(*key)) {
        return None;
    }
    let lifted = Json::serialize(meta).ok().and_then(|meta| Control::lift(&meta));
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
