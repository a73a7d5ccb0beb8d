//! Servers for tests: one that answers as a script says, and one that never answers.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use toolgate_wire::{Json, mcp::code};

use crate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, Tool, ToolList,
    ToolResult,
};

type Script<'a> = Box<dyn Fn(usize, &Call) -> Outcome + Send + Sync + 'a>;

/// A server that answers each call as a script says, and remembers the calls. It lists [`tools`](Self::tools), or
/// [`page`](Self::page).
///
/// ```
/// use toolgate::{Failure, Tier, ToolResult, testing};
///
/// let server = testing::ScriptedServer::new(|n| match n {
///     0 => Failure::tool("Busy", "come back later").into(),
///     _ => ToolResult::text("done").into(),
/// });
/// testing::run_paused(async {
///     let read = testing::tool("read", Tier::Readonly);
///     let chain = toolgate::Chain::builder().build().unwrap();
///     let first = testing::call(&chain, &read, "{}", &server).await;
///     assert_eq!(first.failure().unwrap().error_type(), "Busy");
///     assert_eq!(testing::text(&testing::call(&chain, &read, "{}", &server).await), "done");
///     assert_eq!(server.calls(), 2);
/// });
/// ```
pub struct ScriptedServer<'a> {
    script: Script<'a>,
    /// The tools that it lists.
    pub tools: Vec<Arc<Tool>>,
    /// The answer to every listing, in place of the tools.
    pub page: Option<ToolList>,
    calls: Mutex<Vec<Call>>,
}

impl<'a> ScriptedServer<'a> {
    /// A server whose `n`th call, counted from 0, ends as the function says.
    #[must_use]
    pub fn new(script: impl Fn(usize) -> Outcome + Send + Sync + 'a) -> Self {
        Self::of_calls(move |n, _| script(n))
    }

    /// The same as [`new`](Self::new) for a function that sees the call too.
    #[must_use]
    pub fn of_calls(script: impl Fn(usize, &Call) -> Outcome + Send + Sync + 'a) -> Self {
        Self { script: Box::new(script), tools: Vec::new(), page: None, calls: Mutex::default() }
    }

    /// The number of calls that reached it.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.received().len()
    }

    /// The arguments that reached it, as the text that arrived.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        let received = self.received();
        received.iter().filter_map(Call::arguments).map(|json| json.as_str().to_owned()).collect()
    }

    /// The calls that reached it.
    pub(crate) fn received(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ScriptedServer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedServer")
            .field("tools", &self.tools)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

/// A server that answers every call with this result object.
#[must_use]
pub fn answering(result: Json) -> ScriptedServer<'static> {
    ScriptedServer::new(move |_| ToolResult::new(result.clone()).into())
}

/// A server whose calls all fail in the same way.
#[must_use]
pub fn failing(failure: Failure) -> ScriptedServer<'static> {
    ScriptedServer::new(move |_| failure.clone().into())
}

impl Endpoint for ScriptedServer<'_> {
    fn call<'a>(&'a self, _: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move {
            let before = self.calls();
            self.received().push(call.clone());
            (self.script)(before, &call)
        })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        let page = self.page.clone();
        let page = page.unwrap_or_else(|| ToolList::new(self.tools.clone()));
        Box::pin(async move { Ok(page) })
    }

    /// Answers with the params.
    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        let body = request.params.ok_or_else(|| {
            let error = serde_json::json!({"code": code::INVALID_PARAMS, "message": "no params"});
            Json::value(&error)
        });
        Box::pin(async move { Answer { body, origin: Some("the line".into()) } })
    }
}

/// A server that never answers. It reports when a call arrived and when it was cancelled.
#[derive(Debug, Default)]
pub struct HangingServer {
    /// Notified when a call arrived.
    pub called: Notify,
    /// Notified when the call was cancelled: its future was dropped.
    pub dropped: Notify,
}

impl Endpoint for HangingServer {
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
