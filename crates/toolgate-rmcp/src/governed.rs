//! The adapter: a handler, the chain around it, and what the chain is told of a request.

use std::{fmt, sync::Arc};

use rmcp::{
    RoleServer,
    model::{RequestId, RequestMetaObject},
    service::RequestContext,
};
use toolgate::{
    CallId, Chain, ClientInfo, Context, Control, Principal, Session, TierRules,
    middleware::overrides::{CurrentOverrides, Resolved},
};
use toolgate_wire::{Id, Json};

use crate::{SideDoor, asking::asking, facts::Facts, trace, within::Within};

type PrincipalOf = Box<dyn Fn(&RequestContext<RoleServer>) -> Principal + Send + Sync>;

/// A [`ServerHandler`](rmcp::ServerHandler) with a [`Chain`] around it, itself a `ServerHandler`.
///
/// One for each connection: the session and what is known of the tools belong to it. The chain is
/// cheap to clone and meant to be shared.
///
/// ```
/// use rmcp::ServerHandler;
/// use toolgate::{Chain, middleware::safety::Safety, Tier};
/// use toolgate_rmcp::Governed;
///
/// # struct Files;
/// # impl ServerHandler for Files {}
/// # fn main() -> Result<(), toolgate::BadChain> {
/// let chain = Chain::builder().layer(Safety::new(Tier::Readonly)).build()?;
/// let server = Governed::new(Files, chain).server_name("files");
/// // server.serve(rmcp::transport::stdio()).await
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
pub struct Governed<H> {
    pub(crate) handler: H,
    pub(crate) chain: Chain,
    pub(crate) server: Arc<str>,
    pub(crate) rules: TierRules,
    pub(crate) facts: Facts,
    names: Option<CurrentOverrides>,
    session: Arc<Session>,
    principal_of: Option<PrincipalOf>,
}

impl<H> Governed<H> {
    /// Puts `chain` around `handler`: as server `main` in namespace `default`, for the user that
    /// runs this process, with the tools' own annotations trusted.
    pub fn new(handler: H, chain: Chain) -> Self {
        let session = Session {
            id: CallId::next().to_string().into(),
            namespace: "default".into(),
            principal: Principal::local(),
        };
        Self {
            handler,
            chain,
            server: "main".into(),
            rules: TierRules::default(),
            facts: Facts::default(),
            names: None,
            session: Arc::new(session),
            principal_of: None,
        }
    }

    /// The server's half of every tool's identity, as selectors and records name it.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.server = name.into();
        self
    }

    /// The namespace in records.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.session).namespace = namespace.into();
        self
    }

    /// The id of the connection in records. A new one is made up where nobody gives one.
    #[must_use]
    pub fn session_id(mut self, id: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.session).id = id.into();
        self
    }

    /// Who calls, for the whole connection.
    #[must_use]
    pub fn principal(mut self, principal: Principal) -> Self {
        Arc::make_mut(&mut self.session).principal = principal;
        self.principal_of = None;
        self
    }

    /// Who calls, told request by request: for HTTP, where an authenticating layer leaves its claims
    /// in the request's extensions. Never read it from `_meta`, which the client writes.
    #[must_use]
    pub fn principal_of(
        mut self,
        of: impl Fn(&RequestContext<RoleServer>) -> Principal + Send + Sync + 'static,
    ) -> Self {
        self.principal_of = Some(Box::new(of));
        self
    }

    /// The rules that give tools their tiers, before the tools' own annotations are asked.
    #[must_use]
    pub fn tier_rules(mut self, rules: TierRules) -> Self {
        self.rules = rules;
        self
    }

    /// The names that tools have on the wire, where the chain gives them other ones: those of its
    /// [`Stack`](toolgate::stack::Stack).
    #[must_use]
    pub fn names(mut self, names: CurrentOverrides) -> Self {
        self.names = Some(names);
        self
    }

    /// The handler's own name of the tool that a name on the wire means; `None` if it means none any more.
    pub fn own_name(&self, wire_name: &str) -> Option<String> {
        let Some(names) = &self.names else { return Some(wire_name.to_owned()) };
        match names.get().resolve(&self.server, wire_name) {
            Resolved::Tool(own) => Some(own.to_owned()),
            Resolved::Gone => None,
        }
    }

    /// The handler inside.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The chain around it.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// What the chain is told of a request.
    pub(crate) fn surroundings(&self, context: &RequestContext<RoleServer>) -> Context {
        let session = match &self.principal_of {
            Some(of) => self.session_with(of(context)),
            None => Arc::clone(&self.session),
        };
        surroundings(&self.chain, session, context)
    }

    /// A way into the chain for what is no call. It belongs to this connection, and to whoever it is set to
    /// belong to; [`principal_of`](Self::principal_of) is not asked.
    pub fn side_door(&self) -> SideDoor {
        SideDoor::new(self.chain.clone(), Arc::clone(&self.session))
    }

    /// What the chain is told where there is no request: whoever asks is nobody in particular.
    pub(crate) fn surroundings_of_nobody(&self) -> Context {
        Context::new(match self.principal_of {
            Some(_) => self.session_with(Principal::Anonymous),
            None => Arc::clone(&self.session),
        })
    }

    fn session_with(&self, principal: Principal) -> Arc<Session> {
        Arc::new(Session { principal, ..Session::clone(&self.session) })
    }
}

/// What a chain is told of a request in a session.
pub(crate) fn surroundings(
    chain: &Chain,
    session: Arc<Session>,
    context: &RequestContext<RoleServer>,
) -> Context {
    let client = context.client_info().map(|info| {
        let version = Some(info.version).filter(|version| !version.is_empty());
        Arc::new(ClientInfo { name: info.name, version })
    });
    let cx = Context::new(session)
        .with_client(client)
        .with_request_id(Some(wire_id(&context.id)))
        .with_control(control(&context.meta))
        .with_cancel(context.ct.clone());
    let cx = match (chain.asks(), context.extensions.get::<Within>()) {
        (false, None) => cx,
        (true, None) => cx.with_asking(asking(context)),
        (false, Some(within)) => within.apply(cx),
        (true, Some(within)) => within.apply(cx).with_asking(Within::asking(asking(context))),
    };
    if chain.follows_traces() { cx.with_ingress(trace::ingress(context)) } else { cx }
}

fn control(meta: &RequestMetaObject) -> Control {
    if !Control::KEYS.iter().any(|key| meta.contains_key(*key)) {
        return Control::default();
    }
    let lifted = Json::serialize(meta).ok().and_then(|meta| Control::lift(&meta));
    lifted.map_or_else(Control::unreadable, |(control, _)| control)
}

fn wire_id(id: &RequestId) -> Id {
    match id {
        RequestId::Number(number) => Id::number(*number),
        RequestId::String(text) => Id::string(text),
    }
}

impl<H> fmt::Debug for Governed<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governed")
            .field("server", &self.server)
            .field("session", &self.session)
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}
