//! Helpers for tests of layers: a scripted server, a captured log and a random number generator.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;
use toolgate_wire::{Json, Limits};
use tracing::{Level, Metadata, Subscriber, field::Visit, span};

use crate::{
    Answer, Boxed, Call, Chain, ClientInfo, Context, Endpoint, Failure, Listing, Middleware,
    Outcome, Principal, Request, Session, Tier, TierRules, Tool, ToolId, ToolList,
};

pub(crate) fn json(text: impl Into<String>) -> Json {
    Json::parse(text.into(), &Limits::default()).unwrap()
}

pub(crate) fn session() -> Arc<Session> {
    Arc::new(Session {
        id: "s-1".into(),
        namespace: "default".into(),
        principal: Principal::Local("me".into()),
    })
}

pub(crate) fn context() -> Context {
    Context::new(session())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is handed to `with_client`, which takes an option"
)]
pub(crate) fn client(name: &str, version: &str) -> Option<Arc<ClientInfo>> {
    Some(Arc::new(ClientInfo { name: name.to_owned(), version: Some(version.to_owned()) }))
}

/// The tool `main/NAME` with this definition, of this tier.
pub(crate) fn defined(name: &str, tier: Option<Tier>, definition: &str) -> Arc<Tool> {
    let id = ToolId::new("main", name);
    let rule = tier.map(|tier| (id.to_string().parse().unwrap(), tier));
    let rules = TierRules::new(rule.into_iter().collect(), true);
    Arc::new(Tool::listed(id, json(definition), &rules))
}

/// The tool `main/NAME` of this tier.
pub(crate) fn tool(name: &str, tier: impl Into<Option<Tier>>) -> Arc<Tool> {
    defined(name, tier.into(), &format!("{{\"name\":{name:?}}}"))
}

pub(crate) fn chain(layer: impl Middleware) -> Chain {
    Chain::builder().layer(layer).build().unwrap()
}

/// Calls `tool` through one layer, or through a chain.
pub(crate) async fn call(
    chain: &Chain,
    tool: &Arc<Tool>,
    arguments: &str,
    end: &dyn Endpoint,
) -> Outcome {
    let call = Call::new(Arc::clone(tool), Some(json(arguments)));
    chain.call(&mut context(), call, end).await
}

/// The result that a client would receive, as a value.
pub(crate) fn read(outcome: &Outcome) -> serde_json::Value {
    outcome.result().unwrap().json().to_value().unwrap()
}

/// A server whose `n`th call (from 0) ends as the script says. Lists `tools`, or the given page.
pub(crate) struct Server<F> {
    answer: F,
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) page: Option<ToolList>,
    seen: Mutex<Vec<Option<Json>>>,
}

impl<F: Fn(usize) -> Outcome + Send + Sync> Server<F> {
    pub(crate) fn new(answer: F) -> Self {
        Self { answer, tools: Vec::new(), page: None, seen: Mutex::default() }
    }

    /// The number of calls that reached it.
    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The arguments that reached it, unchanged.
    pub(crate) fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().flatten().map(|json| json.as_str().to_owned()).collect()
    }
}

/// A server that answers every call with this result.
pub(crate) fn answering(result: Json) -> Server<impl Fn(usize) -> Outcome + Send + Sync> {
    Server::new(move |_| crate::ToolResult::new(result.clone()).into())
}

/// A server whose calls all fail in the same way.
pub(crate) fn failing(failure: Failure) -> Server<impl Fn(usize) -> Outcome + Send + Sync> {
    Server::new(move |_| failure.clone().into())
}

impl<F: Fn(usize) -> Outcome + Send + Sync> Endpoint for Server<F> {
    fn call<'a>(&'a self, _: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move {
            let calls = self.calls();
            self.seen.lock().unwrap().push(call.arguments().cloned());
            (self.answer)(calls)
        })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        let page = self.page.clone();
        let page = page.unwrap_or_else(|| ToolList::new(self.tools.clone()));
        Box::pin(async move { Ok(page) })
    }

    /// Answers with the params.
    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        let body = request.params.ok_or_else(|| json(r#"{"code":-32602,"message":"no params"}"#));
        Box::pin(async move { Answer { body, origin: Some("the line".into()) } })
    }
}

/// A server that never answers. Reports when a call arrived and when it was cancelled.
#[derive(Default)]
pub(crate) struct Hanging {
    pub(crate) called: Notify,
    pub(crate) dropped: Notify,
}

impl Endpoint for Hanging {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        struct Guard<'a>(&'a Notify);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        Box::pin(async move {
            let _guard = Guard(&self.dropped);
            self.called.notify_one();
            std::future::pending().await
        })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::pending())
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

/// Captures all log events of this thread, at every level.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Captures the log until the guard is dropped.
    pub(crate) fn start(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    pub(crate) fn lines(&self) -> Vec<(Level, String)> {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        let mut lines = self.0.lock().unwrap();
        lines.push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A random number generator with a fixed start value: xorshift64*.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn roll(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }

    /// A text of up to `longest` characters, with those that JSON has to escape.
    pub(crate) fn text(&mut self, longest: usize) -> String {
        const CHARS: [char; 14] = [
            'a', 'b', ' ', '\n', '"', '\\', '\t', '\u{1}', '\u{8}', '\u{7f}', 'é', '漢', '😀', '/',
        ];
        let count = self.roll(longest + 1);
        (0..count).map(|_| *self.pick(&CHARS)).collect()
    }

    /// Random JSON of about this size, with all spellings of numbers.
    pub(crate) fn json(&mut self, size: usize, depth: usize) -> String {
        const PLAIN: [&str; 9] = [
            "null",
            "true",
            "false",
            "0",
            "-1.50",
            "1e400",
            "12345678901234567890123",
            "\"\"",
            "{}",
        ];
        match self.roll(if depth == 0 { 4 } else { 8 }) {
            0 | 1 => (*self.pick(&PLAIN)).to_owned(),
            2 | 3 => Json::string(&self.text(size)).as_str().to_owned(),
            4 | 5 => {
                let count = self.roll(6);
                let size = size / count.max(1);
                let elements = (0..count).map(|_| self.json(size, depth - 1));
                format!("[{}]", elements.collect::<Vec<_>>().join(","))
            }
            _ => {
                let count = self.roll(6);
                let size = size / count.max(1);
                let members = (0..count).map(|at| {
                    let key = Json::string(&format!("{at}{}", self.text(3)));
                    format!("{}: {}", key.as_str(), self.json(size, depth - 1))
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
