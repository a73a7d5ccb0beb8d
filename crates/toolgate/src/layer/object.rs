//! Layers as objects, of which a chain is made.

use std::fmt;

use toolgate_wire::Json;

use super::{Explained, Hooks, Middleware, Next, Notice, Order};
use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    outcome::Outcome,
};

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
    fn explain_call(&self, cx: &Context, call: &Call) -> Option<Explained>;
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
    fn see_notice(&self, method: &str, params: &Json) -> Notice;
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

    fn explain_call(&self, cx: &Context, call: &Call) -> Option<Explained> {
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

    fn see_notice(&self, method: &str, params: &Json) -> Notice {
        Middleware::notice(self, method, params)
    }

    fn see_notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        Middleware::notification(self, cx, method, params);
    }
}
