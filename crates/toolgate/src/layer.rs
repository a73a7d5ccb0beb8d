//! What a middleware is, and how it hands on to the next one.

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

/// One layer of the chain: sees listings and calls, and any other request if it wants to.
///
/// Each hook gets [`Next`], the rest of the chain, by value: run it once, or do not run it. Hooks
/// that are left out pass everything on.
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
    /// The name in config, records and refusals. Each name stands in a chain once.
    fn name(&self) -> &'static str;

    /// What it is set to, in a few words, for people who print the chain.
    fn describe(&self) -> String {
        String::new()
    }

    /// Which pipelines it takes part in. Staying out of one costs nothing there.
    fn hooks(&self) -> Hooks {
        Hooks::ALL
    }

    /// What must stand outside or inside of it.
    fn order(&self) -> &'static [Order] {
        &[]
    }

    /// Whether it decides on facts about the tool (its tier, its schema), so that the door has to
    /// know the server's tools before the first call.
    fn needs_tools(&self) -> bool {
        false
    }

    /// Whether it may ask the client something, so that the door has to find out how.
    fn asks(&self) -> bool {
        false
    }

    /// What it would decide about this call, and by which rule; `None` if it decides nothing.
    ///
    /// For people who ask why. Must agree with what [`Self::call`] does, and do nothing else.
    fn explain(&self, _cx: &Context, _call: &Call) -> Option<Explained> {
        None
    }

    /// A tool is called.
    fn call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Outcome> + Send {
        async move { next.call(cx, call).await }
    }

    /// The tools are listed.
    fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> impl Future<Output = Result<ToolList, Failure>> + Send {
        async move { next.list(cx, listing).await }
    }

    /// Any other request passes.
    fn request(
        &self,
        cx: &mut Context,
        request: Request,
        next: Next<'_>,
    ) -> impl Future<Output = Answer> + Send {
        async move { next.request(cx, request).await }
    }

    /// A result arrives apart from its call: that of a task. `call` has its tool, and the params of the request
    /// that brought the result in place of arguments. A layer that looks at results in [`Self::call`] does so
    /// here too.
    fn result(
        &self,
        _cx: &mut Context,
        _call: &Call,
        outcome: Outcome,
    ) -> impl Future<Output = Outcome> + Send {
        async move { outcome }
    }

    /// A server tells or asks the client something: a notification, or a request such as
    /// `elicitation/create`.
    fn notice(&self, _method: &str, _params: &Json) -> Notice {
        Notice::AsItCame
    }
}

/// What becomes of something that a server tells or asks a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It passes.
    AsItCame,
    /// It passes with these params.
    Changed(Json),
    /// It does not pass, for this reason.
    Withheld(String),
}

/// What a layer would decide, for people who ask why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Whether the call passes this layer.
    pub allowed: bool,
    /// Whether it passes only once a person has confirmed it.
    pub asks: bool,
    /// The rule that decides, by its id.
    pub rule: String,
    /// The reason, in words.
    pub why: String,
}

impl Explained {
    /// The explanation of a decision that is made as a [`Result`].
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

/// A layer that is shared is the same layer.
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

/// Which pipelines a middleware takes part in.
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
    /// What servers tell and ask clients.
    pub notice: bool,
}

impl Hooks {
    /// All of them.
    pub const ALL: Self =
        Self { call: true, list: true, request: true, result: true, notice: true };
    /// Calls only.
    pub const CALL: Self =
        Self { call: true, list: false, request: false, result: false, notice: false };
    /// Calls, and results of tasks: for whatever looks at results.
    pub const RESULTS: Self = Self { result: true, ..Self::CALL };
    /// Calls and listings: for whatever permits, so that both show the same.
    pub const TOOLS: Self = Self { list: true, ..Self::CALL };
}

/// What must hold between two layers when both stand in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// This layer stands outside the other (nearer to the client), because of the reason.
    Outside(&'static str, &'static str),
    /// This layer stands inside the other (nearer to the tool), because of the reason.
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

/// What a chain knows of one of its layers.
#[derive(Clone, PartialEq, Eq)]
pub struct Info {
    /// The layer's name.
    pub name: &'static str,
    /// What it is set to.
    pub describe: String,
    pub(crate) hooks: Hooks,
    pub(crate) order: &'static [Order],
    pub(crate) needs_tools: bool,
    pub(crate) asks: bool,
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
