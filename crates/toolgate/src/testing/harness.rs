//! The harness: a layer or a chain, scripted tools and a caller.

use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;
use toolgate_wire::Json;

use super::{ScriptedServer, client, session, tool};
use crate::{
    Answer, Boxed, Call, Chain, ClientInfo, Context, Endpoint, Explanation, Failure, Listing,
    Middleware, Outcome, Principal, Request, Session, Tool, ToolList, ToolResult,
    admission::{self, Narrowing},
};

/// A layer or a chain with scripted tools behind it, and a caller in front of it.
///
/// Without a script every tool answers `ok`. A call of a tool that was not added goes to a tool of which nothing is
/// known.
///
/// ```
/// use serde_json::json;
/// use toolgate::{Chain, Tier, ToolResult, testing::{self, Harness, tool}};
/// use toolgate::middleware::{error_results::ErrorResults, safety::Safety};
///
/// let chain = Chain::builder().layer(ErrorResults).layer(Safety::new(Tier::Mutating)).build()?;
/// let harness = Harness::of(chain)
///     .tools([tool("read", Tier::Readonly), tool("wipe", Tier::Destructive)])
///     .user("eve")
///     .answers_with(|call| ToolResult::text(&format!("{} ran", call.id())).into());
///
/// testing::run_paused(async {
///     assert_eq!(harness.list().await.unwrap(), ["read"]);
///     assert_eq!(testing::text(&harness.call("read", json!({"path": "a"})).await), "main/read ran");
///     harness.assert_agreement().await;
/// });
/// # Ok::<(), toolgate::BadChain>(())
/// ```
pub struct Harness {
    pub(super) chain: Chain,
    pub(super) server: ScriptedServer<'static>,
    pub(super) samples: Vec<(String, Json)>,
    hangs: bool,
    session: Session,
    client: Option<Arc<ClientInfo>>,
    meta: Option<Json>,
    claims: Option<Json>,
}

impl Harness {
    /// A harness for one layer.
    ///
    /// # Panics
    ///
    /// If the layer is refused, with the reason.
    #[must_use]
    pub fn new(layer: impl Middleware) -> Self {
        Self::of(super::chain(layer))
    }

    /// A harness for a chain.
    #[must_use]
    pub fn of(chain: Chain) -> Self {
        Self {
            chain,
            server: ScriptedServer::new(|_| ToolResult::text("ok").into()),
            samples: Vec::new(),
            hangs: false,
            session: Session::clone(&session()),
            client: None,
            meta: None,
            claims: None,
        }
    }

    /// Adds a tool, such as [`tool("stock", Tier::Readonly)`](tool).
    #[must_use]
    pub fn tool(mut self, tool: Arc<Tool>) -> Self {
        self.server.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        self.server.tools.extend(tools);
        self
    }

    /// Calls as the local user of this name.
    #[must_use]
    pub fn user(self, name: &str) -> Self {
        self.principal(Principal::Local(name.into()))
    }

    /// Calls as this principal.
    #[must_use]
    pub fn principal(mut self, principal: Principal) -> Self {
        self.session.principal = principal;
        self
    }

    /// Calls in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.session.namespace = namespace.into();
        self
    }

    /// Calls with a client of this name and version.
    #[must_use]
    pub fn client(mut self, name: &str, version: &str) -> Self {
        self.client = client(name, version);
        self
    }

    /// Calls with this `_meta`. Admission reads it as it does for a client.
    ///
    /// # Panics
    ///
    /// If the value is no JSON.
    #[must_use]
    pub fn meta(mut self, meta: impl Serialize) -> Self {
        self.meta = Some(Json::serialize(&meta).expect("the value is JSON"));
        self
    }

    /// Calls with these claims of the principal, see [`Context::claim`].
    ///
    /// # Panics
    ///
    /// If the value is no JSON.
    #[must_use]
    pub fn claims(mut self, claims: impl Serialize) -> Self {
        self.claims = Some(Json::serialize(&claims).expect("the value is JSON"));
        self
    }

    /// Every tool answers with this text.
    #[must_use]
    pub fn answers(self, text: &str) -> Self {
        let result = ToolResult::text(text);
        self.answers_with(move |_| result.clone().into())
    }

    /// Every call that reaches a tool ends as the function says.
    #[must_use]
    pub fn answers_with(
        mut self,
        script: impl Fn(&Call) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        let tools = std::mem::take(&mut self.server.tools);
        self.server = ScriptedServer::of_calls(move |_, call| script(call));
        self.tools(tools)
    }

    /// No tool ever answers.
    #[must_use]
    pub fn hangs(mut self) -> Self {
        self.hangs = true;
        self
    }

    /// Arguments with which [`assert_agreement`](Self::assert_agreement) calls the tool of this name. Without samples it
    /// calls a tool with `{}`.
    ///
    /// # Panics
    ///
    /// If the value is no JSON.
    #[must_use]
    pub fn sample(mut self, tool: &str, arguments: impl Serialize) -> Self {
        let arguments = Json::serialize(&arguments).expect("the value is JSON");
        self.samples.push((tool.to_owned(), arguments));
        self
    }

    /// Calls the tool of this name. `()` is a call without arguments.
    ///
    /// # Panics
    ///
    /// If the arguments are no JSON.
    pub async fn call(&self, tool: &str, arguments: impl Serialize) -> Outcome {
        let call = self.prepare(tool, &arguments);
        self.run(call).await
    }

    pub(super) async fn run(&self, call: Call) -> Outcome {
        self.chain.call(&mut self.context(), call, self).await
    }

    /// The names of the tools that the caller sees.
    pub async fn list(&self) -> Result<Vec<String>, Failure> {
        let list = self.list_tools().await?;
        Ok(list.tools().iter().map(|tool| tool.id().name().to_owned()).collect())
    }

    /// The tools that the caller sees, with their definitions.
    pub async fn list_tools(&self) -> Result<ToolList, Failure> {
        self.chain.list(&mut self.context(), Listing::default(), self).await
    }

    /// The layers that decide about this call, with their decisions, outermost first.
    ///
    /// # Panics
    ///
    /// If the arguments are no JSON.
    #[must_use]
    pub fn explain(
        &self,
        tool: &str,
        arguments: impl Serialize,
    ) -> Vec<(&'static str, Explanation)> {
        self.explain_call(&self.prepare(tool, &arguments))
    }

    pub(super) fn explain_call(&self, call: &Call) -> Vec<(&'static str, Explanation)> {
        let explained = self.chain.explain(&self.context(), call).into_iter();
        explained.filter_map(|(layer, explained)| Some((layer, explained?))).collect()
    }

    /// Sends any other request. The scripted server answers it with its params.
    ///
    /// # Panics
    ///
    /// If the params are no JSON.
    pub async fn request(&self, method: &str, params: impl Serialize) -> Answer {
        let params = Some(Json::serialize(&params).expect("the params are JSON"));
        let request = Request { method: method.into(), params };
        self.chain.request(&mut self.context(), request, self).await
    }

    /// The arguments of the calls that reached a tool. A call without arguments has `null`.
    #[must_use]
    pub fn seen(&self) -> Vec<Value> {
        let received = self.server.received();
        let arguments = received.iter().map(|call| call.arguments()?.to_value().ok());
        arguments.map(Option::unwrap_or_default).collect()
    }

    /// A context for one new call of this caller.
    #[must_use]
    pub fn context(&self) -> Context {
        let cx = Context::new(Arc::new(self.session.clone()))
            .with_client(self.client.clone())
            .with_claims(self.claims.clone());
        let named = |name: &str| Some(self.named(name).id().clone());
        admission::narrow(cx, &Narrowing::default(), self.meta.as_ref(), named).0
    }

    fn prepare(&self, name: &str, arguments: &impl Serialize) -> Call {
        let arguments = Json::serialize(arguments).expect("the arguments are JSON");
        let absent = arguments.as_str() == "null";
        Call::new(self.named(name), (!absent).then_some(arguments))
    }

    fn named(&self, name: &str) -> Arc<Tool> {
        let known = self.server.tools.iter().find(|tool| tool.id().name() == name);
        known.map_or_else(|| tool(name, None), Arc::clone)
    }
}

/// The end of the chain: the scripted server, or nothing.
impl Endpoint for Harness {
    fn call<'a>(&'a self, cx: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        if self.hangs { Box::pin(std::future::pending()) } else { self.server.call(cx, call) }
    }

    fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
    ) -> Boxed<'a, Result<ToolList, Failure>> {
        self.server.list(cx, listing)
    }

    fn request<'a>(&'a self, cx: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        self.server.request(cx, request)
    }

    fn nested<'a>(
        &'a self,
        cx: &'a Context,
        tool: &'a str,
        arguments: Option<Json>,
    ) -> Boxed<'a, Outcome> {
        Box::pin(async move {
            let call = Call::new(self.named(tool), arguments);
            self.chain.call(&mut cx.nested(), call, self).await
        })
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("chain", &self.chain)
            .field("server", &self.server)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
