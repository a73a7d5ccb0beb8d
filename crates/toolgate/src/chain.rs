//! The chain: layers in order, checked when it is built, the same for every way in.

use std::{fmt, sync::Arc};

use crate::{
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    middleware::{Boxed, Explained, Info, Layer, Middleware, Order},
    next::{Endpoint, Next},
    outcome::Outcome,
};

/// A finished chain of middleware. Cheap to clone, never changes.
#[derive(Clone)]
pub struct Chain(Arc<Layers>);

struct Layers {
    infos: Vec<Info>,
    calls: Vec<Arc<dyn Layer>>,
    lists: Vec<Arc<dyn Layer>>,
    requests: Vec<Arc<dyn Layer>>,
    needs_tools: bool,
    asks: bool,
    follows_traces: bool,
}

/// Why a chain was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadChain {
    /// Two layers stand in the wrong order.
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
    /// A layer stands in the chain twice.
    #[error("`{0}` stands in the chain twice: each layer acts once; remove one of them")]
    Twice(&'static str),
}

/// Collects layers, outermost first.
#[derive(Default)]
#[must_use = "call `build` to get the chain"]
pub struct Builder(Vec<Arc<dyn Layer>>);

impl Builder {
    /// Adds a layer inside of those added before.
    pub fn layer(mut self, middleware: impl Middleware) -> Self {
        self.0.push(Arc::new(middleware));
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
            needs_tools: infos.iter().any(|info| info.needs_tools),
            asks: infos.iter().any(|info| info.asks),
            follows_traces: infos.iter().any(|info| info.name == crate::stack::TELEMETRY),
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
        Next { layers: &self.0.requests, end }.request(cx, request)
    }

    /// What each layer would decide about this call, outermost first; `None` where one decides nothing.
    #[must_use]
    pub fn explain(&self, cx: &Context, call: &Call) -> Vec<(&'static str, Option<Explained>)> {
        let calls = self.0.calls.iter();
        calls.map(|layer| (layer.as_info().name, layer.explain(cx, call))).collect()
    }

    /// Whether any layer looks at listings. If none does, a door may pass them by.
    #[must_use]
    pub fn sees_listings(&self) -> bool {
        !self.0.lists.is_empty()
    }

    /// Whether any layer looks at requests other than calls and listings.
    #[must_use]
    pub fn sees_requests(&self) -> bool {
        !self.0.requests.is_empty()
    }

    /// Whether any layer decides on facts about tools.
    #[must_use]
    pub fn needs_tools(&self) -> bool {
        self.0.needs_tools
    }

    /// Whether any layer may ask the client something.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.0.asks
    }

    /// Whether a layer follows traces, so that the door has to say which one a request is part of.
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

/// The chain in order, a line for each layer, outermost first.
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
