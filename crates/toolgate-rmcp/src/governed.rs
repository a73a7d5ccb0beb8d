//! The adapter: a handler with a chain around it.

use std::{fmt, sync::Arc, time::Duration};

use rmcp::{RoleServer, service::RequestContext};
use toolgate::{
    CallId, Chain, Context, Principal, Session, TierRules,
    middleware::overrides::CurrentOverrides,
    settings::Settings,
    stack::{self, Stack, StackError},
};

use crate::{
    ChainAccess,
    connection::{ActiveChain, ChainState, Connection},
};

type PrincipalOf = Box<dyn Fn(&RequestContext<RoleServer>) -> Principal + Send + Sync>;

type PrepareContext = Box<dyn Fn(&RequestContext<RoleServer>, &mut Context) + Send + Sync>;

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
    pub(crate) connection: Connection,
    principal_of: Option<PrincipalOf>,
    prepare: Option<PrepareContext>,
    /// Of a chain that belongs to this server alone.
    own_stack: Option<Box<ClosingStack>>,
}

/// How long the end of a server waits for the last records of its audit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Closes the audit of a stack when the server that owns it is dropped.
struct ClosingStack(Stack);

impl Drop for ClosingStack {
    fn drop(&mut self) {
        self.0.close(CLOSE_TIMEOUT);
    }
}

impl<H> Governed<H> {
    /// Puts the chain that settings describe around `handler`: with the tiers, the names and the limit of requests of
    /// the settings. The audit is closed, with its last records written, when this value is dropped. For several
    /// connections, or with layers of your own, build one stack and use [`from_stack`](Self::from_stack).
    ///
    /// ```
    /// use rmcp::ServerHandler;
    /// use toolgate::{Tier, settings::Settings};
    /// use toolgate_rmcp::Governed;
    ///
    /// # struct Files;
    /// # impl ServerHandler for Files {}
    /// let settings = Settings { safety: Some(Tier::Readonly), ..Settings::default() };
    /// let server = Governed::from_settings(Files, &settings)?;
    /// // server.serve(rmcp::transport::stdio()).await
    /// # let _ = server;
    /// # Ok::<(), toolgate::stack::StackError>(())
    /// ```
    pub fn from_settings(handler: H, settings: &Settings) -> Result<Self, StackError> {
        let stack = stack::build(settings)?;
        let mut governed = Self::from_stack(handler, settings, &stack);
        governed.own_stack = Some(Box::new(ClosingStack(stack)));
        Ok(governed)
    }

    /// Puts the chain of a stack around `handler`. `settings` are those that the stack was built from. The program
    /// closes the stack at its end ([`Stack::close`]).
    ///
    /// ```
    /// use rmcp::ServerHandler;
    /// use toolgate::{from_fn, settings::Settings, stack::{self, Parts}};
    /// use toolgate_rmcp::Governed;
    ///
    /// # #[derive(Clone)]
    /// # struct Files;
    /// # impl ServerHandler for Files {}
    /// let settings = Settings::default();
    /// let own = from_fn("own", async |cx, call, next| next.call(cx, call).await);
    /// let stack = stack::builder(&settings, Parts::default())?.before("timeout", own).build()?;
    /// let for_each_connection = || Governed::from_stack(Files, &settings, &stack);
    /// # let _ = for_each_connection();
    /// # Ok::<(), stack::StackError>(())
    /// ```
    pub fn from_stack(handler: H, settings: &Settings, stack: &Stack) -> Self {
        let governed = Self::new(handler, stack.chain.clone());
        governed.govern_by(ActiveChain {
            chain: stack.chain.clone(),
            names: Some(stack.overrides.clone()),
            rules: settings.tier_rules(),
            in_flight: settings.limits.in_flight,
        });
        governed
    }

    /// Puts `chain` around `handler`: as server `main` in namespace `default`, for the user that runs this process,
    /// with the tools' own annotations trusted.
    pub fn new(handler: H, chain: Chain) -> Self {
        let session = Session {
            id: CallId::next().to_string().into(),
            namespace: "default".into(),
            principal: Principal::local(),
        };
        let active =
            ActiveChain { chain, names: None, rules: TierRules::default(), in_flight: usize::MAX };
        let connection = Connection::new(session, active);
        Self { handler, connection, principal_of: None, prepare: None, own_stack: None }
    }

    /// The server part of each tool's identity, as selectors and records name it.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.connection.server = name.into();
        self
    }

    /// The namespace in records.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.connection.session).namespace = namespace.into();
        self
    }

    /// The id of the connection in records. Random by default.
    #[must_use]
    pub fn session_id(mut self, id: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.connection.session).id = id.into();
        self
    }

    /// The principal of the whole connection.
    #[must_use]
    pub fn principal(mut self, principal: Principal) -> Self {
        Arc::make_mut(&mut self.connection.session).principal = principal;
        self.principal_of = None;
        self
    }

    /// The principal of each request: for HTTP, where an authentication layer leaves its claims in the request's
    /// extensions. Never read it from `_meta`, which the client writes.
    #[must_use]
    pub fn principal_of(
        mut self,
        of: impl Fn(&RequestContext<RoleServer>) -> Principal + Send + Sync + 'static,
    ) -> Self {
        self.principal_of = Some(Box::new(of));
        self
    }

    /// Prepares the context of each request: with the claims of a verified token, or with values of your own in its
    /// extensions. [`get_tool`](rmcp::ServerHandler::get_tool) has no request, so that its context is not prepared.
    ///
    /// ```
    /// # use rmcp::ServerHandler;
    /// # use toolgate::Chain;
    /// # use toolgate_rmcp::Governed;
    /// # struct Files;
    /// # impl ServerHandler for Files {}
    /// struct Claims(serde_json::Value);
    ///
    /// # let chain = Chain::builder().build()?;
    /// let server = Governed::new(Files, chain).prepare_context(|request, cx| {
    ///     // An HTTP layer has verified the token and put its claims into the extensions of the request.
    ///     if let Some(Claims(claims)) = request.extensions.get() {
    ///         cx.set_claims(claims);
    ///     }
    /// });
    /// # let _ = server;
    /// # Ok::<(), toolgate::BadChain>(())
    /// ```
    #[must_use]
    pub fn prepare_context(
        mut self,
        prepare: impl Fn(&RequestContext<RoleServer>, &mut Context) + Send + Sync + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// The rules that give tools their tiers. They win over the tools' own annotations.
    #[must_use]
    pub fn tier_rules(self, rules: TierRules) -> Self {
        let active = self.active_chain();
        self.govern_by(ActiveChain { rules, ..active });
        self
    }

    /// The wire names of tools, if the chain renames them: those of its [`Stack`](toolgate::stack::Stack).
    #[must_use]
    pub fn names(self, names: CurrentOverrides) -> Self {
        let active = self.active_chain();
        self.govern_by(ActiveChain { names: Some(names), ..active });
        self
    }

    /// The maximum number of requests in flight. Further requests are refused, and recorded as refused.
    #[must_use]
    pub fn in_flight(self, in_flight: usize) -> Self {
        let active = self.active_chain();
        self.govern_by(ActiveChain { in_flight, ..active });
        self
    }

    /// Replaces the chain for requests that arrive from now on. Requests in flight finish with the chain that they
    /// started with.
    pub fn govern_by(&self, next: ActiveChain) {
        self.connection.govern_by(next);
    }

    /// The chain and the settings for new requests.
    pub fn active_chain(&self) -> ActiveChain {
        self.connection.active().chain.clone()
    }

    /// The handler's own name of the tool with this wire name; `None` if no tool has it any more.
    pub fn own_name(&self, wire_name: &str) -> Option<String> {
        self.connection.active().chain.own_name(&self.connection.server, wire_name)
    }

    /// The handler inside.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Admits a request: makes its context, and removes the control data from its `_meta`.
    pub(crate) fn admit(
        &self,
        active: &ChainState,
        context: &mut RequestContext<RoleServer>,
    ) -> Context {
        let session = match &self.principal_of {
            Some(of) => self.session_with(of(context)),
            None => Arc::clone(&self.connection.session),
        };
        let mut cx = self.connection.admit(active, session, context);
        if let Some(prepare) = &self.prepare {
            prepare(context, &mut cx);
        }
        cx
    }

    /// Replaces the handler by one that can run requests other than calls through this chain, see [`ChainAccess`].
    pub fn map_handler<N>(self, map: impl FnOnce(H, ChainAccess) -> N) -> Governed<N> {
        let Self { handler, connection, principal_of, prepare, own_stack } = self;
        let handler = map(handler, ChainAccess::new(connection.clone()));
        Governed { handler, connection, principal_of, prepare, own_stack }
    }

    /// The context without a request, for an anonymous principal if the principal depends on the request.
    pub(crate) fn anonymous_context(&self) -> Context {
        Context::new(match self.principal_of {
            Some(_) => self.session_with(Principal::Anonymous),
            None => Arc::clone(&self.connection.session),
        })
    }

    fn session_with(&self, principal: Principal) -> Arc<Session> {
        Arc::new(Session { principal, ..Session::clone(&self.connection.session) })
    }
}

impl<H> fmt::Debug for Governed<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governed")
            .field("server", &self.connection.server)
            .field("session", &self.connection.session)
            .field("chain", &self.connection.active().chain.chain)
            .finish_non_exhaustive()
    }
}
