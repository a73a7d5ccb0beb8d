//! The chain: an ordered list of layers, checked when it is built, the same for every transport.

mod rules;
mod task_results;

use std::{fmt, sync::Arc};

use toolgate_wire::Json;

use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::{Executed, Failure},
    layer::{
        DynMiddleware, Endpoint, Explanation, Hooks, Info, Middleware, Next, NotificationDecision,
    },
    layers,
    outcome::Outcome,
    registry::Code,
    task::{self, Tasks},
};

pub(crate) use rules::meant_by;
pub use rules::{BadChain, ChainMistake};

/// An immutable chain of middleware. Cheap to clone.
///
/// ```
/// use toolgate::{Chain, Tier, middleware::{error_results::ErrorResults, safety::Safety}};
///
/// let chain = Chain::builder().layer(ErrorResults).layer(Safety::new(Tier::Readonly)).build()?;
/// assert_eq!(chain.layers()[1].name, "safety");
///
/// // An order that cannot work is refused, with the reason.
/// let wrong = Chain::builder().layer(Safety::new(Tier::Readonly)).layer(ErrorResults).build();
/// assert!(wrong.unwrap_err().to_string().contains("must stand outside"));
/// # Ok::<(), toolgate::BadChain>(())
/// ```
#[derive(Clone)]
pub struct Chain(Arc<Layers>);

#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
struct Layers {
    infos: Vec<Info>,
    calls: Vec<Arc<dyn DynMiddleware>>,
    lists: Vec<Arc<dyn DynMiddleware>>,
    requests: Vec<Arc<dyn DynMiddleware>>,
    results: Vec<Arc<dyn DynMiddleware>>,
    notices: Vec<Arc<dyn DynMiddleware>>,
    notifications: Vec<Arc<dyn DynMiddleware>>,
    tasks: Tasks,
    needs_tools: bool,
    asks: bool,
    checks_rounds: bool,
    follows_traces: bool,
    reads_meta: bool,
}

/// Collects layers, outermost first.
#[derive(Default)]
#[must_use = "call `build` to get the chain"]
pub struct Builder(Vec<Arc<dyn DynMiddleware>>, Tasks);

impl Builder {
    /// Adds a layer inside of those added before. `None` adds nothing.
    pub fn layer(mut self, middleware: impl Middleware) -> Self {
        let layer = middleware.into_object();
        if (*layer).as_info().hooks != Hooks::NONE {
            self.0.push(layer);
        }
        self
    }

    /// Adds layers, each inside of those before it.
    ///
    /// ```
    /// use toolgate::{Chain, from_fn};
    ///
    /// let layers = ["outer", "inner"];
    /// let layers = layers.map(|name| from_fn(name, async |cx, call, next| next.call(cx, call).await));
    /// let chain = Chain::builder().layers(layers).build()?;
    /// assert_eq!(chain.to_string(), " client\n  1  outer\n  2  inner\n tool");
    /// # Ok::<(), toolgate::BadChain>(())
    /// ```
    pub fn layers<M: Middleware>(self, layers: impl IntoIterator<Item = M>) -> Self {
        layers.into_iter().fold(self, Self::layer)
    }

    /// Takes over the tasks of an earlier chain, so that the settings of their tools apply to their results.
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.1 = tasks;
        self
    }

    /// Checks the order rules of every layer and finishes the chain. The error has all mistakes.
    pub fn build(self) -> Result<Chain, BadChain> {
        let infos: Vec<Info> = self.0.iter().map(|layer| (**layer).as_info()).collect();
        rules::check(&infos)?;
        let taking_part = |wanted: fn(&Info) -> bool| {
            let both = self.0.iter().zip(&infos);
            both.filter(|(_, info)| wanted(info)).map(|(layer, _)| Arc::clone(layer)).collect()
        };
        Ok(Chain(Arc::new(Layers {
            calls: taking_part(|info| info.hooks.call),
            lists: taking_part(|info| info.hooks.list),
            requests: taking_part(|info| info.hooks.request),
            results: taking_part(|info| info.hooks.result),
            notices: taking_part(|info| info.hooks.notice),
            notifications: taking_part(|info| info.hooks.notification),
            tasks: self.1,
            needs_tools: infos.iter().any(|info| info.needs_tools),
            asks: infos.iter().any(|info| info.asks),
            checks_rounds: infos.iter().any(|info| info.checks_rounds),
            follows_traces: infos.iter().any(|info| info.follows_traces),
            reads_meta: infos.iter().any(|info| !layers::is_built_in(info.kind)),
            infos,
        })))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|layer| (**layer).as_info())).finish()
    }
}

impl Chain {
    /// An empty chain to add layers to.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs a call through the chain to `end`.
    pub fn call<'a>(
        &'a self,
        cx: &'a mut Context,
        call: Call,
        end: &'a dyn Endpoint,
    ) -> Boxed<'a, Outcome> {
        if cx.gateway_input().is_some() && !self.0.checks_rounds {
            // No layer gave this state out, so the client made it up.
            let text = "toolgate did not issue this `requestState`: nothing was run";
            let failure = Failure::new(Code::ConfirmTampered, text).with_executed(Executed::No);
            return Box::pin(std::future::ready(failure.into()));
        }
        Next { layers: &self.0.calls, end }.call(cx, call)
    }

    /// Runs a listing through the chain to `end`.
    pub fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
        end: &'a dyn Endpoint,
    ) -> Boxed<'a, Result<ToolList, Failure>> {
        Next { layers: &self.0.lists, end }.list(cx, listing)
    }

    /// Runs any other request through the chain to `end`.
    pub fn request<'a>(
        &'a self,
        cx: &'a mut Context,
        request: Request,
        end: &'a dyn Endpoint,
    ) -> Boxed<'a, Answer> {
        let next = Next { layers: &self.0.requests, end };
        if self.0.results.is_empty() || !task::carries_results(&request.method) {
            return next.request(cx, request);
        }
        let (method, params) = (Arc::clone(&request.method), request.params.clone());
        Box::pin(async move {
            let answer = next.request(cx, request).await;
            task_results::finish(self, cx, (&method, params), answer).await
        })
    }

    /// Runs the result of a task through the layers that look at results.
    pub(crate) async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        let mut outcome = outcome;
        for layer in self.0.results.iter().rev() {
            outcome = (**layer).handle_result(cx, call, outcome).await;
        }
        outcome
    }

    /// Decides whether a notification or request of a server passes to the client, and changes it if a layer does.
    #[must_use]
    pub fn notice(&self, method: &str, params: Option<&Json>) -> NotificationDecision {
        let (Some(params), false) = (params, self.0.notices.is_empty()) else {
            return NotificationDecision::AsItCame;
        };
        let mut changed = None;
        for layer in self.0.notices.iter().rev() {
            match (**layer).see_notice(method, changed.as_ref().unwrap_or(params)) {
                NotificationDecision::AsItCame => {}
                NotificationDecision::Changed(params) => changed = Some(params),
                withheld @ NotificationDecision::Withheld(_) => return withheld,
            }
        }
        changed.map_or(NotificationDecision::AsItCame, NotificationDecision::Changed)
    }

    /// Shows a notification of the client to the layers that look at these.
    pub fn notified(&self, cx: &Context, method: &str, params: Option<&Json>) {
        for layer in &self.0.notifications {
            (**layer).see_notification(cx, method, params);
        }
    }

    /// Whether any layer looks at notifications of clients.
    #[must_use]
    pub fn sees_notifications(&self) -> bool {
        !self.0.notifications.is_empty()
    }

    /// Whether any layer may read the `_meta` of a request. The layers of toolgate do not.
    #[must_use]
    pub fn reads_meta(&self) -> bool {
        self.0.reads_meta
    }

    /// The tasks of which the tool is known.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// The decision that each layer would make about this call, outermost first; `None` for a layer that decides
    /// nothing.
    #[must_use]
    pub fn explain(&self, cx: &Context, call: &Call) -> Vec<(&'static str, Option<Explanation>)> {
        let calls = self.0.calls.iter();
        calls.map(|layer| ((**layer).as_info().name, (**layer).explain_call(cx, call))).collect()
    }

    /// Whether every layer promises that the call passes, as far as that is known before it is made. Nothing is recorded
    /// or counted. A layer that decides only when it is called promises nothing.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use toolgate::{Call, Chain, Context, Failure, Principal, Session, TierRules, Tool, ToolId, gate};
    ///
    /// let closed = gate("closed", |_cx, _access| Err(Failure::refused("closed")));
    /// let chain = Chain::builder().layer(closed).build()?;
    /// # let session = Session { id: "s".into(), namespace: "default".into(), principal: Principal::Anonymous };
    /// let cx = Context::new(Arc::new(session));
    /// let tool = Tool::unlisted(ToolId::new("main", "echo"), &TierRules::default());
    /// assert!(!chain.allows(&cx, &Call::new(Arc::new(tool), None)));
    /// # Ok::<(), toolgate::BadChain>(())
    /// ```
    #[must_use]
    pub fn allows(&self, cx: &Context, call: &Call) -> bool {
        let mut decisions =
            self.0.calls.iter().filter_map(|layer| (**layer).explain_call(cx, call));
        decisions.all(|decision| decision.allowed)
    }

    /// Whether any layer looks at listings. If none does, listings may bypass the chain.
    #[must_use]
    pub fn sees_listings(&self) -> bool {
        !self.0.lists.is_empty()
    }

    /// Whether any layer looks at requests of this method or at their results. `method` is neither `tools/call` nor
    /// `tools/list`.
    #[must_use]
    pub fn sees_request(&self, method: &str) -> bool {
        !self.0.requests.is_empty() || !self.0.results.is_empty() && task::carries_results(method)
    }

    /// Whether any layer looks at notifications and requests of servers.
    #[must_use]
    pub fn sees_notices(&self) -> bool {
        !self.0.notices.is_empty()
    }

    /// Whether any layer decides on properties of tools, so that their definitions have to be known.
    #[must_use]
    pub fn needs_tools(&self) -> bool {
        self.0.needs_tools
    }

    /// Whether any layer may ask the client for input.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.0.asks
    }

    /// Whether a layer records traces, so that the transport has to read the trace context of a request.
    #[must_use]
    pub fn follows_traces(&self) -> bool {
        self.0.follows_traces
    }

    /// The layers, outermost first.
    #[must_use]
    pub fn layers(&self) -> &[Info] {
        &self.0.infos
    }
}

/// A description of the chain: one line per layer, outermost first.
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.infos.iter().map(|info| info.name.len()).max().unwrap_or(0);
        writeln!(f, " client")?;
        for (at, info) in self.0.infos.iter().enumerate() {
            let line = format!("{:>3}  {:width$}  {}", at + 1, info.name, info.describe);
            writeln!(f, "{}", line.trim_end())?;
        }
        write!(f, " tool")
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.infos).finish()
    }
}

#[cfg(test)]
mod tests;
