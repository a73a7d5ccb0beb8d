//! The [`Middleware`] trait and how a layer passes a request to the next one.

mod adapted;
mod delegate;
mod next;

use std::{fmt, future::Future, sync::Arc};

use toolgate_wire::Json;

use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    outcome::{Handled, Outcome},
    registry::Code,
    selector::Selector,
};
pub use adapted::Adapted;
pub use next::{Endpoint, Next, Replay};

/// One layer of the chain. It sees calls and listings, and other requests if its hooks say so.
///
/// Each hook receives [`Next`], the rest of the chain, by value, and runs it once or not at all. Only a call that may run
/// twice without more effect can be run again, by [`Next::replayable`]. The default hooks pass everything on.
///
/// ```
/// use toolgate::{Call, Code, Context, Failure, Middleware, Next, Outcome};
///
/// struct OfficeHours(fn() -> bool);
///
/// impl Middleware for OfficeHours {
///     fn name(&self) -> &'static str { "office-hours" }
///
///     async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
///         if !(self.0)() {
///             return Failure::new(Code::Refused, "the office is closed").into();
///         }
///         next.call(cx, call).await
///     }
/// }
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// The name in settings, records and refusals. A chain contains each name once.
    fn name(&self) -> &'static str;

    /// The name that order rules of other layers use for it. [`named`](Self::named) changes only the name, so that the
    /// rules hold for each of several layers of one kind.
    fn kind(&self) -> &'static str {
        self.name()
    }

    /// The layer's settings in a few words, for `toolgate chain`.
    fn describe(&self) -> String {
        String::new()
    }

    /// The hooks that the layer implements. The others cost nothing. The default is [`Hooks::ALL`]. A layer without
    /// any hook, such as `None`, is left out of the chain.
    fn hooks(&self) -> Hooks {
        Hooks::ALL
    }

    /// The layers that must be outside or inside of this one.
    fn order(&self) -> &'static [Order] {
        &[]
    }

    /// Whether it decides who may call what. The default is `true`: a layer that may refuse a call must stand inside of
    /// `errors-to-results` and of an `audit` that records refusals, and must [`explain`](Self::explain) its decisions
    /// before a call is made, or count as one that refuses. Return `false` for a layer that only observes or changes
    /// calls, or that refuses them for a passing state only. See also [`never_refuses`](Self::never_refuses).
    fn decides(&self) -> bool {
        true
    }

    /// Whether it decides on properties of the tool (its tier, its schema), so that the server's tools have to be
    /// listed before the first call.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Whether it may ask the client for input, so that the context needs a [`ClientInput`](crate::ClientInput).
    fn asks(&self) -> bool {
        false
    }

    /// Whether it gives out the `requestState` with which a client repeats a call, and checks it.
    fn checks_rounds(&self) -> bool {
        false
    }

    /// Whether it needs the trace that a request is part of, so that the gateway has to read it from the request.
    fn follows_traces(&self) -> bool {
        false
    }

    /// What it would decide about this call, and by which rule; `None` if it decides nothing.
    ///
    /// For `toolgate why`, and for transports that show only what a caller may use. It must agree with [`Self::call`]
    /// and have no side effects. A layer that [decides](Self::decides) and does not implement this counts as one that
    /// refuses; [`gate`](crate::gate()) and [`Authorize`](crate::Authorize) implement it.
    fn explain(&self, _cx: &Context, _call: &Call) -> Option<Explanation> {
        self.decides().then(Explanation::undecided)
    }

    /// Handles a call.
    fn call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Outcome> + Send {
        async move { self.try_call(cx, call, next).await.into() }
    }

    /// Handles a call, with `?`: implement this instead of [`call`](Self::call) where that is shorter.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use toolgate::{Call, Context, Failure, Handled, Middleware, Next};
    ///
    /// struct SmallFiles;
    ///
    /// #[derive(Deserialize)]
    /// struct Arguments {
    ///     bytes: u64,
    /// }
    ///
    /// impl Middleware for SmallFiles {
    ///     fn name(&self) -> &'static str { "small-files" }
    ///
    ///     async fn try_call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Handled {
    ///         let arguments: Arguments = call.args()?;
    ///         if arguments.bytes > 1024 {
    ///             return Err(Failure::refused("the file is too large"));
    ///         }
    ///         Ok(next.call(cx, call).await)
    ///     }
    /// }
    /// ```
    fn try_call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Handled> + Send {
        async move { Ok(next.call(cx, call).await) }
    }

    /// Handles a listing.
    fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> impl Future<Output = Result<ToolList, Failure>> + Send {
        async move { next.list(cx, listing).await }
    }

    /// Handles any other request.
    fn request(
        &self,
        cx: &mut Context,
        request: Request,
        next: Next<'_>,
    ) -> impl Future<Output = Answer> + Send {
        async move { next.request(cx, request).await }
    }

    /// Handles the result of a task, which arrives after its call. `call` has the task's tool, and the params of the
    /// request that fetched the result in place of arguments. A layer that looks at results in [`Self::call`] has to do
    /// so here too.
    fn result(
        &self,
        _cx: &mut Context,
        _call: &Call,
        outcome: Outcome,
    ) -> impl Future<Output = Outcome> + Send {
        async move { outcome }
    }

    /// Handles a notification or a request of a server, such as `elicitation/create`.
    fn notice(&self, _method: &str, _params: &Json) -> NotificationDecision {
        NotificationDecision::AsItCame
    }

    /// Sees a notification of the client, such as `notifications/initialized`. It cannot change or stop one.
    fn notification(&self, _cx: &Context, _method: &str, _params: Option<&Json>) {}

    /// The same layer under another name, so that a chain can contain two of a kind.
    ///
    /// ```
    /// use std::time::Duration;
    /// use toolgate::{Chain, Middleware, middleware::timeout::Timeout};
    ///
    /// let chain = Chain::builder()
    ///     .layer(Timeout::new(Duration::from_secs(60)))
    ///     .layer(Timeout::new(Duration::from_secs(5)).only("files/*".parse()?).named("files-timeout"))
    ///     .build()?;
    /// assert_eq!(chain.layers()[1].name, "files-timeout");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn named(self, name: &'static str) -> Adapted<Self>
    where
        Self: Sized,
    {
        Adapted::new(self).with_name(name)
    }

    /// The same layer for the tools that a selector covers. It neither sees nor changes calls, listings and task results
    /// of other tools, and no requests of other methods.
    ///
    /// ```
    /// use toolgate::{Chain, Failure, Middleware, gate};
    ///
    /// let closed = gate("closed", |_cx, _access| Err(Failure::refused("closed for the weekend")));
    /// let chain = Chain::builder().layer(closed.only("payments/*".parse()?)).build()?;
    /// assert_eq!(chain.to_string(), " client\n  1  closed  only payments/*\n tool");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn only(self, tools: Selector) -> Adapted<Self>
    where
        Self: Sized,
    {
        Adapted::new(self).with_tools(tools)
    }

    /// The same layer, declared as one that [decides](Self::decides) nothing, so that it may stand outside of
    /// `errors-to-results`, and `explain` leaves it out.
    ///
    /// ```
    /// use toolgate::{Chain, Middleware, from_fn, middleware::error_results::ErrorResults};
    ///
    /// let timing = from_fn("timing", async |cx, call, next| {
    ///     let start = std::time::Instant::now();
    ///     let outcome = next.call(cx, call).await;
    ///     eprintln!("{:?} after {:?}", outcome.class(), start.elapsed());
    ///     outcome
    /// });
    /// let chain = Chain::builder().layer(timing.never_refuses()).layer(ErrorResults).build();
    /// assert!(chain.is_ok());
    /// ```
    fn never_refuses(self) -> Adapted<Self>
    where
        Self: Sized,
    {
        Adapted::new(self).without_decisions()
    }

    /// The layer as an object. A layer that is an object already stays the same one, so that it costs no second box.
    #[doc(hidden)]
    fn into_object(self) -> Arc<dyn DynMiddleware>
    where
        Self: Sized,
    {
        Arc::new(self)
    }
}

/// What happens to a notification or request of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotificationDecision {
    /// Forward it unchanged.
    AsItCame,
    /// Forward it with these params.
    Changed(Json),
    /// Do not forward it, for this reason.
    Withheld(String),
}

/// The decision that a layer would make, for `toolgate why`.
///
/// ```
/// use toolgate::{Tier, middleware::safety::Safety, testing::{Harness, tool}};
///
/// let harness = Harness::new(Safety::new(Tier::Readonly)).tool(tool("drop", Tier::Destructive));
/// let (layer, decision) = harness.explain("drop", ()).remove(0);
/// assert_eq!((layer, decision.allowed), ("safety", false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the call passes this layer.
    pub allowed: bool,
    /// Whether the call passes only after a person has confirmed it.
    pub asks: bool,
    /// The id of the deciding rule.
    pub rule: String,
    /// The reason, in words.
    pub why: String,
    /// The code of the error that the caller would read; `None` if the call passes, or if only a call shows it.
    pub code: Option<Code>,
}

const UNDECIDED: &str = "the layer does not explain its decisions: only a call shows them";

impl Explanation {
    /// The explanation of a layer that decides only when it is called: nothing promises that the call passes.
    #[must_use]
    pub fn undecided() -> Self {
        let (rule, why) = (String::new(), UNDECIDED.to_owned());
        Self { allowed: false, asks: false, rule, why, code: None }
    }

    /// Whether the layer decides only when it is called.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.rule.is_empty() && self.why == UNDECIDED
    }

    /// The explanation of a decision in the form of a [`Result`].
    #[must_use]
    pub fn of(decision: &Result<(), Failure>, rule_if_allowed: &str) -> Self {
        match decision {
            Ok(()) => {
                let rule = rule_if_allowed.to_owned();
                Self { allowed: true, asks: false, rule, why: String::new(), code: None }
            }
            Err(denial) => Self {
                allowed: false,
                asks: false,
                rule: denial.rule().unwrap_or_default().to_owned(),
                why: denial.message().to_owned(),
                code: Some(denial.code()),
            },
        }
    }
}

/// The hooks that a middleware implements.
///
/// ```
/// use toolgate::Hooks;
///
/// assert!(Hooks::TOOLS.call && Hooks::TOOLS.list && !Hooks::TOOLS.request);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each pipeline is on or off by itself")]
pub struct Hooks {
    /// `tools/call`
    pub call: bool,
    /// `tools/list`
    pub list: bool,
    /// Any other request.
    pub request: bool,
    /// Results of tasks.
    pub result: bool,
    /// Notifications and requests of servers.
    pub notice: bool,
    /// Notifications of clients.
    pub notification: bool,
}

impl Hooks {
    /// No hooks: the layer is left out of the chain.
    pub const NONE: Self = Self {
        call: false,
        list: false,
        request: false,
        result: false,
        notice: false,
        notification: false,
    };
    /// All hooks.
    pub const ALL: Self = Self {
        call: true,
        list: true,
        request: true,
        result: true,
        notice: true,
        notification: true,
    };
    /// Calls only.
    pub const CALL: Self = Self { call: true, ..Self::NONE };
    /// Requests other than calls and listings.
    pub const REQUESTS: Self = Self { request: true, ..Self::NONE };
    /// Calls and results of tasks: for layers that look at results.
    pub const RESULTS: Self = Self { result: true, ..Self::CALL };
    /// Calls and listings: for layers that permit or hide tools, so that a hidden tool cannot be called.
    pub const TOOLS: Self = Self { list: true, ..Self::CALL };
}

/// A rule about the order of the layers of a chain. Names are [kinds](Middleware::kind) of layers.
///
/// ```
/// use toolgate::{Order, middleware};
///
/// const ORDER: &[Order] =
///     &[Order::Inside(middleware::error_results::NAME, "refusals become results, too")];
/// # let _ = ORDER;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// This layer must be outside of the other (nearer to the client), if the chain contains it, for the reason given.
    Outside(&'static str, &'static str),
    /// This layer must be inside of the other (nearer to the tool), if the chain contains it, for the reason given.
    Inside(&'static str, &'static str),
    /// This layer must be outside of every layer that [decides](Middleware::decides), for the reason given.
    OutsideDecisions(&'static str),
    /// This layer must be inside of every layer that [decides](Middleware::decides), for the reason given.
    InsideDecisions(&'static str),
    /// The chain must contain the other layer, for the reason given.
    Requires(&'static str, &'static str),
}

/// Any [`Middleware`], for lists of layers that are chosen while the program runs. `Box<dyn DynMiddleware>` and
/// `Arc<dyn DynMiddleware>` are layers themselves, and cost nothing more than the layer in them.
///
/// ```
/// use toolgate::{Chain, DynMiddleware, Failure, from_fn, gate};
///
/// let plugins: Vec<Box<dyn DynMiddleware>> = vec![
///     Box::new(gate("closed", |_cx, _access| Err(Failure::refused("closed")))),
///     Box::new(from_fn("pass", async |cx, call, next| next.call(cx, call).await)),
/// ];
/// let chain = Chain::builder().layers(plugins).build()?;
/// assert_eq!(chain.layers().len(), 2);
/// # Ok::<(), toolgate::BadChain>(())
/// ```
pub trait DynMiddleware: Layer {}

impl<M: Middleware> DynMiddleware for M {}

/// The methods of [`DynMiddleware`]: those of [`Middleware`], each of which boxes its future once.
pub trait Layer: Send + Sync + 'static {
    fn as_info(&self) -> Info;
    fn explain_call(&self, cx: &Context, call: &Call) -> Option<Explanation>;
    fn handle_call<'a>(
        &'a self,
        cx: &'a mut Context,
        call: Call,
        next: Next<'a>,
    ) -> Boxed<'a, Outcome>;
    fn handle_list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
        next: Next<'a>,
    ) -> Boxed<'a, Result<ToolList, Failure>>;
    fn handle_request<'a>(
        &'a self,
        cx: &'a mut Context,
        request: Request,
        next: Next<'a>,
    ) -> Boxed<'a, Answer>;
    fn handle_result<'a>(
        &'a self,
        cx: &'a mut Context,
        call: &'a Call,
        outcome: Outcome,
    ) -> Boxed<'a, Outcome>;
    fn see_notice(&self, method: &str, params: &Json) -> NotificationDecision;
    fn see_notification(&self, cx: &Context, method: &str, params: Option<&Json>);
}

/// Name and settings of a layer in a chain.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Info {
    /// The layer's name.
    pub name: &'static str,
    /// Its settings, in words.
    pub describe: String,
    pub(crate) kind: &'static str,
    pub(crate) hooks: Hooks,
    pub(crate) order: &'static [Order],
    pub(crate) decides: bool,
    pub(crate) needs_tools: bool,
    pub(crate) asks: bool,
    pub(crate) checks_rounds: bool,
    pub(crate) follows_traces: bool,
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.describe)
    }
}

impl<M: Middleware> Layer for M {
    fn as_info(&self) -> Info {
        Info {
            name: self.name(),
            describe: self.describe(),
            kind: self.kind(),
            hooks: self.hooks(),
            order: self.order(),
            decides: self.decides(),
            needs_tools: self.needs_tools(),
            asks: self.asks(),
            checks_rounds: self.checks_rounds(),
            follows_traces: self.follows_traces(),
        }
    }

    fn explain_call(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        Middleware::explain(self, cx, call)
    }

    fn handle_call<'a>(
        &'a self,
        cx: &'a mut Context,
        call: Call,
        next: Next<'a>,
    ) -> Boxed<'a, Outcome> {
        Box::pin(Middleware::call(self, cx, call, next))
    }

    fn handle_list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
        next: Next<'a>,
    ) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(Middleware::list(self, cx, listing, next))
    }

    fn handle_request<'a>(
        &'a self,
        cx: &'a mut Context,
        request: Request,
        next: Next<'a>,
    ) -> Boxed<'a, Answer> {
        Box::pin(Middleware::request(self, cx, request, next))
    }

    fn handle_result<'a>(
        &'a self,
        cx: &'a mut Context,
        call: &'a Call,
        outcome: Outcome,
    ) -> Boxed<'a, Outcome> {
        Box::pin(Middleware::result(self, cx, call, outcome))
    }

    fn see_notice(&self, method: &str, params: &Json) -> NotificationDecision {
        Middleware::notice(self, method, params)
    }

    fn see_notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        Middleware::notification(self, cx, method, params);
    }
}

#[cfg(test)]
mod tests;
