//! A layer under another name, for some tools only, or declared to decide nothing.

use std::{collections::HashMap, fmt, sync::Arc};

use toolgate_wire::Json;

use super::{Endpoint, Explanation, Hooks, Middleware, Next, NotificationDecision, Order};
use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    identity::ToolId,
    outcome::Outcome,
    selector::Selector,
    task,
    tool::Tool,
};

/// The layer of [`Middleware::named`], [`Middleware::only`] and [`Middleware::never_refuses`].
pub struct Adapted<M> {
    layer: M,
    name: Option<&'static str>,
    tools: Option<Selector>,
    never_refuses: bool,
}

impl<M> Adapted<M> {
    pub(super) fn new(layer: M) -> Self {
        Self { layer, name: None, tools: None, never_refuses: false }
    }

    pub(super) fn with_name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    pub(super) fn with_tools(mut self, tools: Selector) -> Self {
        self.tools = Some(tools);
        self
    }

    pub(super) fn without_decisions(mut self) -> Self {
        self.never_refuses = true;
        self
    }

    fn covers(&self, tool: &ToolId) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.covers(tool))
    }
}

impl<M: Middleware> Middleware for Adapted<M> {
    fn name(&self) -> &'static str {
        self.name.unwrap_or_else(|| self.layer.name())
    }

    fn kind(&self) -> &'static str {
        self.layer.kind()
    }

    fn describe(&self) -> String {
        let inner = self.layer.describe();
        match &self.tools {
            None => inner,
            Some(tools) if inner.is_empty() => format!("only {tools}"),
            Some(tools) => format!("{inner}, only {tools}"),
        }
    }

    fn hooks(&self) -> Hooks {
        let hooks = self.layer.hooks();
        match self.tools {
            None => hooks,
            Some(_) => Hooks { request: false, notice: false, notification: false, ..hooks },
        }
    }

    fn order(&self) -> &'static [Order] {
        self.layer.order()
    }

    fn decides(&self) -> bool {
        !self.never_refuses && self.layer.decides()
    }

    fn needs_tools(&self) -> bool {
        self.layer.needs_tools()
    }

    fn asks(&self) -> bool {
        self.layer.asks()
    }

    fn checks_rounds(&self) -> bool {
        self.layer.checks_rounds()
    }

    fn follows_traces(&self) -> bool {
        self.layer.follows_traces()
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        let speaks = !self.never_refuses && self.covers(call.id());
        if speaks { self.layer.explain(cx, call) } else { None }
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if !self.covers(call.id()) {
            return next.call(cx, call).await;
        }
        self.layer.call(cx, call, next).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        if self.tools.is_none() {
            return self.layer.list(cx, listing, next).await;
        }
        // The layer sees a page that has only its tools. The others keep their places.
        let mut page = next.list(cx, listing.clone()).await?;
        let (own, _): (Vec<_>, Vec<_>) =
            page.tools().iter().cloned().partition(|tool| self.covers(tool.id()));
        let end = Page(own.clone());
        let shown = self.layer.list(cx, listing, Next { layers: &[], end: &end }).await?;
        let is_same = shown.tools().len() == own.len()
            && shown.tools().iter().zip(&own).all(|(new, old)| Arc::ptr_eq(new, old));
        if !is_same {
            page.set_tools(merged(page.tools(), &shown, |tool| self.covers(tool)));
        }
        Ok(page)
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        self.layer.request(cx, request, next).await
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        if task::is_unknown(cx) || self.covers(call.id()) {
            return self.layer.result(cx, call, outcome).await;
        }
        outcome
    }

    fn notice(&self, method: &str, params: &Json) -> NotificationDecision {
        self.layer.notice(method, params)
    }

    fn notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        self.layer.notification(cx, method, params);
    }
}

/// The page with the tools that the layer shows in place of those that it covers.
fn merged(
    page: &[Arc<Tool>],
    shown: &ToolList,
    covers: impl Fn(&ToolId) -> bool,
) -> Vec<Arc<Tool>> {
    let mut left: HashMap<&ToolId, &Arc<Tool>> =
        shown.tools().iter().map(|tool| (tool.id(), tool)).collect();
    let mut tools: Vec<Arc<Tool>> = Vec::with_capacity(page.len());
    for tool in page {
        if covers(tool.id()) {
            tools.extend(left.remove(tool.id()).cloned());
        } else {
            tools.push(Arc::clone(tool));
        }
    }
    // Tools that the layer added.
    let added = shown.tools().iter().filter(|tool| left.contains_key(tool.id()));
    tools.extend(added.cloned());
    tools
}

impl<M: Middleware> fmt::Debug for Adapted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adapted").field(&self.name()).finish()
    }
}

/// A page of a listing as the end of a chain.
struct Page(Vec<Arc<Tool>>);

impl Endpoint for Page {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { not_a_listing().into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Ok(ToolList::new(self.0.clone())) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(async { not_a_listing().into() })
    }
}

fn not_a_listing() -> Failure {
    Failure::internal("a layer passed on something else than the listing that it got")
}
