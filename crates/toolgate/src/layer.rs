//! The [`Middleware`] trait and how a layer passes a request to the next one.

mod next;

use std::{fmt, future::Future};

use toolgate_wire::Json;

use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    outcome::Outcome,
};
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

    /// The layer's settings in a few words, for `toolgate chain`.
    fn describe(&self) -> String {
        String::new()
    }

    /// The hooks that the layer implements. The others cost nothing.
    fn hooks(&self) -> Hooks {
        Hooks::ALL
    }

    /// The layers that must be outside or inside of this one.
    fn order(&self) -> &'static [Order] {
        &[]
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
    /// For `toolgate why`. It must agree with [`Self::call`] and have no side effects.
    fn explain(&self, _cx: &Context, _call: &Call) -> Option<Explained> {
        None
    }

    /// Handles a call.
    fn call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Outcome> + Send {
        async move { next.call(cx, call).await }
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
    fn notice(&self, _method: &str, _params: &Json) -> Notice {
        Notice::AsItCame
    }
}

/// What happens to a notification or request of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Forward it unchanged.
    AsItCame,
    /// Forward it with these params.
    Changed(Json),
    /// Do not forward it, for this reason.
    Withheld(String),
}

/// The decision that a layer would make, for `toolgate why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Whether the call passes this layer.
    pub allowed: bool,
    /// Whether the call passes only after a person has confirmed it.
    pub asks: bool,
    /// The id of the deciding rule.
    pub rule: String,
    /// The reason, in words.
    pub why: String,
}

impl Explained {
    /// The explanation of a decision in the form of a [`Result`].
    #[must_use]
    pub fn of(decision: &Result<(), Failure>, rule_if_allowed: &str) -> Self {
        match decision {
            Ok(()) => {
                let rule = rule_if_allowed.to_owned();
                Self { allowed: true, asks: false, rule, why: String::new() }
            }
            Err(denial) => Self {
                allowed: false,
                asks: false,
                rule: denial.rule().unwrap_or_default().to_owned(),
                why: denial.message().to_owned(),
            },
        }
    }
}

/// An `Arc` of a layer is a layer.
impl<M: Middleware> Middleware for std::sync::Arc<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn hooks(&self) -> Hooks {
        (**self).hooks()
    }

    fn order(&self) -> &'static [Order] {
        (**self).order()
    }

    fn needs_tools(&self) -> bool {
        (**self).needs_tools()
    }

    fn asks(&self) -> bool {
        (**self).asks()
    }

    fn checks_rounds(&self) -> bool {
        (**self).checks_rounds()
    }

    fn follows_traces(&self) -> bool {
        (**self).follows_traces()
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        (**self).explain(cx, call)
    }

    fn call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Outcome> + Send {
        (**self).call(cx, call, next)
    }

    fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> impl Future<Output = Result<ToolList, Failure>> + Send {
        (**self).list(cx, listing, next)
    }

    fn request(
        &self,
        cx: &mut Context,
        request: Request,
        next: Next<'_>,
    ) -> impl Future<Output = Answer> + Send {
        (**self).request(cx, request, next)
    }

    fn result(
        &self,
        cx: &mut Context,
        call: &Call,
        outcome: Outcome,
    ) -> impl Future<Output = Outcome> + Send {
        (**self).result(cx, call, outcome)
    }

    fn notice(&self, method: &str, params: &Json) -> Notice {
        (**self).notice(method, params)
    }
}

/// The hooks that a middleware implements.
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
}

impl Hooks {
    /// All hooks.
    pub const ALL: Self =
        Self { call: true, list: true, request: true, result: true, notice: true };
    /// Calls only.
    pub const CALL: Self =
        Self { call: true, list: false, request: false, result: false, notice: false };
    /// Calls and results of tasks: for layers that look at results.
    pub const RESULTS: Self = Self { result: true, ..Self::CALL };
    /// Calls and listings: for layers that permit or hide tools, so that a hidden tool cannot be called.
    pub const TOOLS: Self = Self { list: true, ..Self::CALL };
}

/// A rule about the order of two layers, if the chain contains both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// This layer must be outside of the other (nearer to the client), for the reason given.
    Outside(&'static str, &'static str),
    /// This layer must be inside of the other (nearer to the tool), for the reason given.
    Inside(&'static str, &'static str),
}

/// [`Middleware`] as an object: boxes each hook's future once.
pub(crate) trait Layer: Send + Sync {
    fn as_info(&self) -> Info;
    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained>;
    fn call<'a>(&'a self, cx: &'a mut Context, call: Call, next: Next<'a>) -> Boxed<'a, Outcome>;
    fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
        next: Next<'a>,
    ) -> Boxed<'a, Result<ToolList, Failure>>;
    fn request<'a>(
        &'a self,
        cx: &'a mut Context,
        request: Request,
        next: Next<'a>,
    ) -> Boxed<'a, Answer>;
    fn result<'a>(
        &'a self,
        cx: &'a mut Context,
        call: &'a Call,
        outcome: Outcome,
    ) -> Boxed<'a, Outcome>;
    fn notice(&self, method: &str, params: &Json) -> Notice;
}

/// Name and settings of a layer in a chain.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct Info {
    /// The layer's name.
    pub name: &'static str,
    /// Its settings, in words.
    pub describe: String,
    pub(crate) hooks: Hooks,
    pub(crate) order: &'static [Order],
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
            hooks: self.hooks(),
            order: self.order(),
            needs_tools: self.needs_tools(),
            asks: self.asks(),
            checks_rounds: self.checks_rounds(),
            follows_traces: self.follows_traces(),
        }
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        Middleware::explain(self, cx, call)
    }

    fn call<'a>(&'a self, cx: &'a mut Context, call: Call, next: Next<'a>) -> Boxed<'a, Outcome> {
        Box::pin(Middleware::call(self, cx, call, next))
    }

    fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
        next: Next<'a>,
    ) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(Middleware::list(self, cx, listing, next))
    }

    fn request<'a>(
        &'a self,
        cx: &'a mut Context,
        request: Request,
        next: Next<'a>,
    ) -> Boxed<'a, Answer> {
        Box::pin(Middleware::request(self, cx, request, next))
    }

    fn result<'a>(
        &'a self,
        cx: &'a mut Context,
        call: &'a Call,
        outcome: Outcome,
    ) -> Boxed<'a, Outcome> {
        Box::pin(Middleware::result(self, cx, call, outcome))
    }

    fn notice(&self, method: &str, params: &Json) -> Notice {
        Middleware::notice(self, method, params)
    }
}
