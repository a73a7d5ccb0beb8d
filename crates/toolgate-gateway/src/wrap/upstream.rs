//! The end of the chain: one request on its way to the server and back.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, Listing, Outcome, Ran, Request,
    RpcError, ToolList, ToolResult, Trace,
};
use toolgate_wire::{Id, Json, Message, Object, Shape};

use super::{governance::Governance, hub::Hub, pending::Arrival};
use crate::outbox::Outbox;

/// One request of the client, and the way to send it.
#[derive(Debug)]
pub(crate) struct Upstream<'a> {
    hub: &'a Hub,
    governance: &'a Governance,
    message: &'a Message,
    meta: Meta,
    /// The tool's own name, where the client calls it by another.
    name: Option<Json>,
    /// The state that the client gave back is ours.
    has_our_round: bool,
    tried: AtomicBool,
}

/// The `_meta` of a request after control data was lifted off at the door.
#[derive(Debug, PartialEq, Eq)]
enum Meta {
    AsItCame,
    Replaced(Json),
    Removed,
}

impl<'a> Upstream<'a> {
    pub(crate) fn new(hub: &'a Hub, governance: &'a Governance, message: &'a Message) -> Self {
        Self {
            hub,
            governance,
            message,
            meta: Meta::AsItCame,
            name: None,
            has_our_round: false,
            tried: AtomicBool::new(false),
        }
    }

    /// Sends this `_meta` instead of the client's.
    pub(crate) fn with_meta(mut self, meta: Option<Json>) -> Self {
        self.meta = meta.map_or(Meta::Removed, Meta::Replaced);
        self
    }

    /// Sends the tool's own name if the client called it by another.
    pub(crate) fn with_name(mut self, own: &str, called: &str) -> Self {
        self.name = (own != called).then(|| Json::string(own));
        self
    }

    /// Sends neither `requestState` nor `inputResponses` of the client, unless a layer hands the server back
    /// what is the server's.
    pub(crate) fn without_round(mut self) -> Self {
        self.has_our_round = true;
        self
    }

    /// The id for this attempt: the client's own the first time, so that nothing has to be rewritten.
    fn next_id(&self) -> Option<(Id, bool)> {
        if self.tried.swap(true, Ordering::Relaxed) {
            return Some((self.hub.own_id(), false));
        }
        self.message.id().map(|id| (id.clone(), true))
    }

    /// The line to send: the client's own bytes unless something changed.
    fn line(&self, id: &Id, is_own: bool, arguments: Option<&Json>, cx: &Context) -> Bytes {
        let (resumed, span) = (cx.resumed(), cx.span());
        let mut body = None;
        // A request without params gets some to hold our span.
        let params = || match (self.message.body(), self.message.params()) {
            (None, None) if span.is_some() => Some(Object::new()),
            (params, _) => params,
        };
        let is_changed = arguments.is_some()
            || self.name.is_some()
            || self.meta != Meta::AsItCame
            || self.has_our_round;
        if (is_changed || span.is_some())
            && let Some(mut params) = params()
        {
            if let Some(arguments) = arguments {
                params.set("arguments", arguments.clone());
            }
            if let Some(name) = &self.name {
                params.set("name", name.clone());
            }
            match &self.meta {
                Meta::Replaced(meta) => params.set("_meta", meta.clone()),
                Meta::Removed => drop(params.remove("_meta")),
                Meta::AsItCame => {}
            }
            if self.has_our_round {
                for (key, value) in [
                    ("requestState", resumed.and_then(|round| round.state.as_ref())),
                    ("inputResponses", resumed.and_then(|round| round.responses.as_ref())),
                ] {
                    match value {
                        Some(value) => params.set(key, value.clone()),
                        None => drop(params.remove(key)),
                    }
                }
            }
            if let Some(span) = span {
                follow(&mut params, span);
            }
            body = Some(params.finish());
        }
        match (is_own, body) {
            (true, None) => self.message.line().clone(),
            (true, body) => self.message.with(None, body),
            (false, body) => self.message.with(Some(id), body),
        }
    }

    async fn exchange(
        &self,
        cx: &Context,
        arguments: Option<&Json>,
    ) -> Result<(Message, bool), Failure> {
        let (id, is_own) =
            self.next_id().ok_or_else(|| Failure::internal("a request without id"))?;
        let line = self.line(&id, is_own, arguments, cx);
        // The client's own notice reaches the server under the client's id, and only under that.
        let answer = exchange(self.hub, cx.cancel(), id, line, is_own).await?;
        Ok((answer, is_own))
    }
}

/// Names our span as the server's parent, in the `_meta` that is sent. One that is no object stays.
fn follow(params: &mut Object, span: &Trace) {
    let meta = params.get("_meta").map_or_else(|| Some(Object::new()), |meta| meta.object());
    if let Some(mut meta) = meta {
        span.put(&mut meta);
        params.set("_meta", meta.finish());
    }
}

/// Sends a request and waits for its answer, for the end of the server or for `cancel`.
///
/// Dropping the future gives the request up and tells the server so. `told`: whoever cancels `cancel`
/// tells the server itself.
pub(crate) async fn exchange(
    hub: &Hub,
    cancel: &CancellationToken,
    id: Id,
    line: Bytes,
    told: bool,
) -> Result<Message, Failure> {
    exchange_through(hub, &hub.link()?, cancel, id, line, told).await
}

/// The same through a way that is not open to everybody yet.
pub(crate) async fn exchange_through(
    hub: &Hub,
    outbox: &Arc<Outbox>,
    cancel: &CancellationToken,
    id: Id,
    line: Bytes,
    told: bool,
) -> Result<Message, Failure> {
    let cancelled = |ran| Failure::new(Code::Cancelled, "the client gave the call up").ran(ran);
    if cancel.is_cancelled() {
        return Err(cancelled(Ran::No));
    }
    let in_use = || Failure::new(Code::InvalidRequest, "the id is in use by a request in flight");
    let mut ticket = hub.pending.ticket(id).ok_or_else(in_use)?;
    let number = tokio::select! {
        biased;
        number = outbox.push(line) => number,
        () = cancel.cancelled() => return Err(cancelled(Ran::No)),
    };
    ticket.sent_through(outbox);
    let arrival = tokio::select! {
        biased;
        arrival = ticket.arrival() => arrival,
        () = cancel.cancelled() => {
            if told {
                ticket.tell_nobody();
            }
            return Err(cancelled(Ran::Maybe));
        }
    };
    match arrival {
        Arrival::Answer(message) => Ok(*message),
        Arrival::Unreadable(why) => {
            let message =
                format!("The server `{}` sent an answer that cannot be read: {why}", hub.server);
            Err(Failure::new(Code::ServerProtocol, message)
                .suggest("Report it to the server's authors; the call may have run."))
        }
        Arrival::Gone(why) => {
            let ran = if outbox.was_written(number) { Ran::Maybe } else { Ran::No };
            Err(hub.crashed(&why, ran))
        }
    }
}

fn rpc_error(message: &Message) -> RpcError {
    let text = |json: Json| json.text().map(Cow::into_owned);
    RpcError {
        code: message.member("code").and_then(|json| json.i64()).unwrap_or(-32603),
        message: message.member("message").and_then(text).unwrap_or_default(),
        data: message.member("data"),
    }
}

fn outcome(hub: &Hub, answer: &Message, verbatim: bool) -> Outcome {
    let outcome = if answer.shape() == Shape::Error {
        Outcome::failed(Failure::rejected(rpc_error(answer)))
    } else if let (Some(json), Some(_)) = (answer.result(), answer.body()) {
        let is_error = answer.member("isError").and_then(|json| json.bool()) == Some(true);
        let result_type = answer.member("resultType");
        Outcome::answered(ToolResult::known(json, is_error, result_type.as_ref()))
    } else {
        let message = format!(
            "The server `{}` answered the call with something that is no object",
            hub.server
        );
        return Outcome::failed(Failure::new(Code::ServerProtocol, message));
    };
    if verbatim { outcome.with_origin(answer.line().clone()) } else { outcome }
}

impl Endpoint for Upstream<'_> {
    fn call<'b>(&'b self, cx: &'b mut Context, call: Call) -> Boxed<'b, Outcome> {
        Box::pin(async move {
            let changed = if call.is_changed() { call.arguments() } else { None };
            match self.exchange(cx, changed).await {
                Ok((answer, verbatim)) => outcome(self.hub, &answer, verbatim),
                Err(failure) => failure.into(),
            }
        })
    }

    fn list<'b>(
        &'b self,
        cx: &'b mut Context,
        _listing: Listing,
    ) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(async move {
            let (answer, verbatim) = self.exchange(cx, None).await?;
            if answer.shape() == Shape::Error {
                return Err(Failure::rejected(rpc_error(&answer)));
            }
            let (Some(page), Some(result)) = (self.governance.tools.learn(&answer), answer.body())
            else {
                let message =
                    format!("The server `{}` answered tools/list without tools", self.hub.server);
                return Err(Failure::new(Code::ServerProtocol, message));
            };
            if page.has_new && self.governance.needs_all_tools() {
                // A tool that nobody announced may have the name that another one was given.
                self.governance.settle_names();
            }
            let origin = verbatim.then(|| answer.line().clone());
            let mut list = ToolList::from_wire(page.tools, result, origin);
            if !page.is_whole {
                list.set_tools(list.tools().to_vec());
            }
            Ok(list)
        })
    }

    fn request<'b>(&'b self, cx: &'b mut Context, _request: Request) -> Boxed<'b, Answer> {
        Box::pin(async move {
            match self.exchange(cx, None).await {
                Ok((answer, verbatim)) => {
                    let origin = verbatim.then(|| answer.line().clone());
                    let body = match (answer.result(), answer.error()) {
                        (Some(result), _) => Ok(result),
                        (None, error) => Err(error.unwrap_or_else(Json::null)),
                    };
                    Answer { body, origin }
                }
                Err(failure) => Answer { body: Err(error_object(&failure)), origin: None },
            }
        })
    }
}

/// The failure as a JSON-RPC error object. A cancelled request has none that anybody would read.
fn error_object(failure: &Failure) -> Json {
    let rpc = failure.to_rpc();
    let mut object = Object::new();
    object.set("code", Json::value(&rpc.code.into()));
    object.set("message", Json::string(&rpc.message));
    if let Some(data) = rpc.data {
        object.set("data", data);
    }
    object.finish()
}

/// The end of the chain for a call that is refused at the door: the layers still see it.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Failure);

impl Endpoint for Refused {
    fn call<'b>(&'b self, _cx: &'b mut Context, _call: Call) -> Boxed<'b, Outcome> {
        Box::pin(std::future::ready(Outcome::failed(self.0.clone())))
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn request<'b>(&'b self, _cx: &'b mut Context, _request: Request) -> Boxed<'b, Answer> {
        let body = Err(error_object(&self.0));
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}
