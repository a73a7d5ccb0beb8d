//! What a handler leaves for the chain around it while it runs a call: the failure that its error represents, and the calls
//! of other tools that it makes.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult, JsonObject},
    service::RequestContext,
};
use tokio::sync::oneshot;
use toolgate::{Boxed, Failure, Outcome};
use toolgate_wire::Json;

use crate::wire::{JsonResult, to_error};

/// Shared by the adapter and the request that the handler gets.
#[derive(Clone, Default)]
pub(crate) struct HandlerSlot(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    failure: Option<Failure>,
    calls: Vec<QueuedCall>,
    /// Wakes the task that runs the handler.
    waker: Option<Waker>,
    is_closed: bool,
}

/// A nested call that the handler waits for.
pub(crate) struct QueuedCall {
    pub(crate) tool: String,
    pub(crate) arguments: Option<Json>,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

impl HandlerSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The failure that the handler raised.
    pub(crate) fn take(&self) -> Option<Failure> {
        self.state().failure.take()
    }

    /// Runs the handler, and the calls that it makes meanwhile, in the same task.
    pub(crate) async fn drive<'a, T>(
        &self,
        handler: impl Future<Output = T>,
        call: impl Fn(QueuedCall) -> Boxed<'a, ()>,
    ) -> T {
        let _closing = Closing(self);
        let mut handler = pin!(handler);
        let mut running: Vec<Boxed<'a, ()>> = Vec::new();
        poll_fn(|task| {
            if let Poll::Ready(done) = handler.as_mut().poll(task) {
                return Poll::Ready(done);
            }
            loop {
                let queued = self.queued(task.waker());
                let is_idle = queued.is_empty();
                running.extend(queued.into_iter().map(&call));
                running.retain_mut(|call| call.as_mut().poll(task).is_pending());
                if is_idle {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The calls that were queued since the last time. Further ones wake the task.
    fn queued(&self, waker: &Waker) -> Vec<QueuedCall> {
        let mut state = self.state();
        if !state.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        std::mem::take(&mut state.calls)
    }

    fn queue(&self, tool: String, arguments: Option<Json>) -> oneshot::Receiver<Outcome> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        if !state.is_closed {
            state.calls.push(QueuedCall { tool, arguments, answer });
            if let Some(waker) = &state.waker {
                waker.wake_by_ref();
            }
        }
        answered
    }
}

/// Ends the calls that were queued too late to run.
struct Closing<'a>(&'a HandlerSlot);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        state.calls.clear();
    }
}

/// The error with which a handler answers a call. The chain around it gets the failure itself, with its type, its
/// suggestion and whether the tool ran.
///
/// An `ErrorData` alone has only a code and a message. Without a chain, the client gets the failure's JSON-RPC error.
///
/// ```
/// use rmcp::{ErrorData, RoleServer, service::RequestContext};
/// use toolgate::Failure;
///
/// fn read(title: &str, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
///     let failure = Failure::tool("NoteNotFound", format!("there is no note `{title}`"));
///     Err(toolgate_rmcp::raise(context, failure.suggest("Call read_notes for the titles.")))
/// }
/// # let _ = read;
/// ```
#[must_use = "return it from the handler"]
pub fn raise(context: &RequestContext<RoleServer>, failure: Failure) -> ErrorData {
    let error = to_error(failure.to_rpc());
    if let Some(slot) = context.extensions.get::<HandlerSlot>() {
        slot.state().failure = Some(failure);
    }
    error
}

/// Calls another tool of the same server from a handler, through the whole chain. The nested call has an id of its own
/// and the handler's call as its parent; it inherits its restrictions, its claims and its `_meta`; and it is cancelled
/// together with it. It works while the handler runs the call of this request, also from tasks that it starts.
///
/// ```
/// use rmcp::{ErrorData, RoleServer, model::CallToolResult, service::RequestContext};
///
/// async fn report(context: RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
///     let title = serde_json::json!({"title": "today"});
///     toolgate_rmcp::nested_call(&context, "read_note", title.as_object().cloned()).await
/// }
/// # let _ = report;
/// ```
pub async fn nested_call(
    context: &RequestContext<RoleServer>,
    tool: impl Into<String>,
    arguments: Option<JsonObject>,
) -> Result<CallToolResult, ErrorData> {
    let internal = |text: &'static str| ErrorData::internal_error(text, None);
    let slot = context.extensions.get::<HandlerSlot>();
    let slot = slot.ok_or_else(|| internal("no chain stands around this handler"))?.clone();
    let arguments = arguments.map(|arguments| Json::serialize(&arguments)).transpose();
    let arguments = arguments.map_err(|_| internal("the arguments have no JSON text"))?;
    let outcome = slot.queue(tool.into(), arguments).await;
    let outcome =
        outcome.map_err(|_| internal("the call that this call is nested in has ended"))?;
    if let Some(result) = outcome.result()
        && let Ok(CallToolResponse::Complete(result)) = CallToolResponse::from_json(result.json())
    {
        return Ok(result);
    }
    match outcome.failure() {
        Some(failure) => Err(to_error(failure.to_rpc())),
        None => Err(internal("the nested call asks for input, which only a client can give")),
    }
}
