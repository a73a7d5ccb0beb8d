//! The chain: an ordered list of layers, checked when it is built, the same for every transport.

mod task_results;

use std::{fmt, sync::Arc};

use toolgate_wire::Json;

use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::{Executed, Failure},
    layer::{Endpoint, Explained, Info, Layer, Middleware, Next, Notice, Order},
    outcome::Outcome,
    registry::Code,
    task::{self, Tasks},
};

/// An immutable chain of middleware. Cheap to clone.
#[derive(Clone)]
pub struct Chain(Arc<Layers>);

#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
struct Layers {
    infos: Vec<Info>,
    calls: Vec<Arc<dyn Layer>>,
    lists: Vec<Arc<dyn Layer>>,
    requests: Vec<Arc<dyn Layer>>,
    results: Vec<Arc<dyn Layer>>,
    notices: Vec<Arc<dyn Layer>>,
    tasks: Tasks,
    needs_tools: bool,
    asks: bool,
    checks_rounds: bool,
    follows_traces: bool,
}

/// Why a chain cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadChain {
    /// Two layers are in the wrong order.
    #[error(
        "`{outer}` must stand outside `{inner}`: {why}; move `{outer}` before `{inner}` in the chain"
    )]
    WrongOrder {
        /// The layer that must be nearer to the client.
        outer: &'static str,
        /// The layer that must be nearer to the tool.
        inner: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The chain contains a layer twice.
    #[error("`{0}` stands in the chain twice: each layer acts once; remove one of them")]
    Twice(&'static str),
}

/// Collects layers, outermost first.
#[derive(Default)]
#[must_use = "call `build` to get the chain"]
pub struct Builder(Vec<Arc<dyn Layer>>, Tasks);

impl Builder {
    /// Adds a layer inside of those added before.
    pub fn layer(self, middleware: impl Middleware) -> Self {
        self.built(Arc::new(middleware))
    }

    pub(crate) fn built(mut self, layer: Arc<dyn Layer>) -> Self {
        self.0.push(layer);
        self
    }

    /// Takes over the tasks of an earlier chain, so that the settings of their tools apply to their results.
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.1 = tasks;
        self
    }

    /// Checks the order rules of every layer and finishes the chain.
    pub fn build(self) -> Result<Chain, BadChain> {
        let infos: Vec<Info> = self.0.iter().map(|layer| layer.as_info()).collect();
        check(&infos)?;
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
            tasks: self.1,
            needs_tools: infos.iter().any(|info| info.needs_tools),
            asks: infos.iter().any(|info| info.asks),
            checks_rounds: infos.iter().any(|info| info.checks_rounds),
            follows_traces: infos.iter().any(|info| info.follows_traces),
            infos,
        })))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|layer| layer.as_info())).finish()
    }
}

fn check(infos: &[Info]) -> Result<(), BadChain> {
    let place = |name: &str| infos.iter().position(|info| info.name == name);
    for (at, info) in infos.iter().enumerate() {
        if place(info.name) != Some(at) {
            return Err(BadChain::Twice(info.name));
        }
        for rule in info.order {
            let (other, why, outside) = match *rule {
                Order::Outside(other, why) => (other, why, true),
                Order::Inside(other, why) => (other, why, false),
            };
            let Some(other_at) = place(other) else {
                continue;
            };
            if (at < other_at) != outside {
                let (outer, inner) = if outside { (info.name, other) } else { (other, info.name) };
                return Err(BadChain::WrongOrder { outer, inner, why });
            }
        }
    }
    Ok(())
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
            outcome = layer.result(cx, call, outcome).await;
        }
        outcome
    }

    /// Decides whether a notification or request of a server passes to the client, and changes it if a layer does.
    #[must_use]
    pub fn notice(&self, method: &str, params: Option<&Json>) -> Notice {
        let (Some(params), false) = (params, self.0.notices.is_empty()) else {
            return Notice::AsItCame;
        };
        let mut changed = None;
        for layer in self.0.notices.iter().rev() {
            match layer.notice(method, changed.as_ref().unwrap_or(params)) {
                Notice::AsItCame => {}
                Notice::Changed(params) => changed = Some(params),
                withheld @ Notice::Withheld(_) => return withheld,
            }
        }
        changed.map_or(Notice::AsItCame, Notice::Changed)
    }

    /// The tasks of which the tool is known.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// The decision that each layer would make about this call, outermost first; `None` for a layer that decides
    /// nothing.
    #[must_use]
    pub fn explain(&self, cx: &Context, call: &Call) -> Vec<(&'static str, Option<Explained>)> {
        let calls = self.0.calls.iter();
        calls.map(|layer| (layer.as_info().name, layer.explain(cx, call))).collect()
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
