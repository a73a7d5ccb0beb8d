//! `tools/call`: the tool is found by its name, and the chain decides.

use std::{borrow::Cow, sync::Arc};

use toolgate::{
    Answer, Boxed, Call, Code, Context, Control, Endpoint, Failure, Listing, Outcome, Request,
    Round, RpcError, Tool, ToolId, ToolList, ToolResult, middleware::audit::intent::RefusedAtDoor,
};
use toolgate_wire::{Json, Kind, Message, Shape};

use super::{
    Gateway,
    conversation::{Changes, Conversation, Heard, Meta},
    dispatch::Incoming,
    eras,
    namespace::{Charter, Namespace},
    said::Said,
    tasks,
};
use crate::{
    catalog::snapshot::{Entry, Snapshot},
    outbound::{connection::Era, connection::rpc_error, flight::nonsense},
};

/// The headers of a request do not say what its body says.
const HEADER_MISMATCH: i64 = -32020;

/// Calls a tool.
pub(super) async fn call(gateway: &Gateway, incoming: &Incoming) -> Said {
    let message = &incoming.message;
    let name = message.member("name");
    let Some(name) = name.as_ref().and_then(Json::text) else {
        let text = "params.name of tools/call must be a string";
        return Said::failed(Some(incoming.id()), &Failure::new(Code::InvalidRequest, text));
    };
    let namespace = &incoming.namespace;
    let charter = namespace.charter();
    let mut cx = incoming.context(&charter);
    let arguments = message.member("arguments");
    let snapshot = namespace.knowing(|snapshot| snapshot.tool(&name).is_some()).await;
    let (cx_narrowed, changes) = lift(namespace, &snapshot, cx, message);
    cx = cx_narrowed;
    let entered = incoming.caller.member.enter(charter.settings.limits.in_flight);
    let refusal = match (&entered, snapshot.tool(&name)) {
        (Err(full), entry) => Some((full.failure(), entry)),
        (Ok(_), None) => Some((unknown(&name), None)),
        (Ok(_), Some(_)) => None,
    };
    let is_modern = incoming.caller.is_modern();
    if let Some((failure, entry)) = refusal {
        cx.bag_mut().put(RefusedAtDoor);
        let server = snapshot.only_server().map_or("", |server| &*server.name);
        let outcome = refuse(&charter, cx, (server, &name), arguments, entry, failure).await;
        return Said::outcome(incoming.id(), outcome, is_modern);
    }
    let Some(entry) = snapshot.tool(&name) else { return Said::nothing() };
    if let Some(refused) = check_mirrors(incoming, entry, arguments.as_ref()) {
        return refused;
    }
    let outcome = run(gateway, incoming, &charter, cx, entry, &name, arguments, changes).await;
    Said::outcome(incoming.id(), outcome, is_modern)
}

#[expect(
    clippy::too_many_arguments,
    reason = "each is a part of one call, and nothing else wants them together"
)]
async fn run(
    gateway: &Gateway,
    incoming: &Incoming,
    charter: &Charter,
    mut cx: Context,
    entry: &Entry,
    name: &str,
    arguments: Option<Json>,
    mut changes: Changes,
) -> Outcome {
    let round = Round {
        state: incoming.message.member("requestState"),
        responses: incoming.message.member("inputResponses"),
    };
    cx = cx.with_returned(&round);
    if round.is_ours() {
        cx = cx.with_round(round);
        changes.has_our_round = true;
    }
    let own = entry.tool.id().name();
    let is_renamed = own != name;
    if is_renamed {
        changes.members.push(("name", Json::string(own)));
    }
    let end = Conversation {
        chain: &charter.stack.chain,
        parking: &gateway.parking,
        caller: &incoming.caller,
        side: &incoming.side,
        server: &entry.server,
        message: &incoming.message,
        name: Some(own),
        mirrors: &entry.mirrors,
        changes,
        is_one_of_several: incoming.namespace.servers.len() > 1,
    };
    let mut call = Call::new(Arc::clone(&entry.tool), arguments);
    if is_renamed {
        call = call.with_wire_name(name);
    }
    let chain = &charter.stack.chain;
    let outcome = chain.call(&mut cx, call, &end).await;
    let asked = incoming.message.member("task").is_some();
    chain.tasks().note(&cx, &entry.tool, asked, &outcome);
    tasks::outward(gateway, incoming, &entry.server, outcome)
}

/// Takes control data off the request, and narrows the call by it.
pub(super) fn lift(
    namespace: &Namespace,
    snapshot: &Snapshot,
    cx: Context,
    message: &Message,
) -> (Context, Changes) {
    let lifted = message.member("_meta").as_ref().and_then(Control::lift);
    let Some((mut control, rest)) = lifted else { return (cx, Changes::default()) };
    // Names that a client sees mean the servers' own.
    control.translate(|name| Some(snapshot.tool(name)?.tool.id().clone()));
    let meta = rest.map_or(Meta::Removed, Meta::Replaced);
    (namespace.inherit(cx, control), Changes { meta, ..Changes::default() })
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::UnknownTool, format!("Unknown tool: '{name}'"))
        .suggest("Call tools/list for the tools that there are.")
}

/// The layers see it all the same.
async fn refuse(
    charter: &Charter,
    mut cx: Context,
    (server, name): (&str, &str),
    arguments: Option<Json>,
    entry: Option<&Entry>,
    failure: Failure,
) -> Outcome {
    let nobody = || {
        let id = ToolId::new(server, name);
        Arc::new(Tool::unlisted(id, &charter.settings.tier_rules()))
    };
    let tool = entry.map_or_else(nobody, |entry| Arc::clone(&entry.tool));
    let call = Call::new(tool, arguments).with_wire_name(name);
    charter.stack.chain.call(&mut cx, call, &Refused(failure)).await
}

/// From 2026-07-28 on, headers say what some arguments say.
fn check_mirrors(incoming: &Incoming, entry: &Entry, arguments: Option<&Json>) -> Option<Said> {
    let headers = incoming.headers.as_ref()?;
    let wrong = entry.mirrors.iter().find_map(|mirror| mirror.check(headers, arguments).err())?;
    Some(Said::refused(Some(incoming.id()), HEADER_MISMATCH, wrong))
}

impl Conversation<'_> {
    fn to(&self) -> Era {
        self.caller.era()
    }

    /// A client that comes back with a state gets errors as they are: they are about that state, and for the client.
    fn is_round(&self) -> bool {
        ["requestState", "inputResponses"].iter().any(|key| self.message.member(key).is_some())
    }

    fn outcome(&self, answer: &Message, from: Era, is_verbatim: bool) -> Outcome {
        if answer.shape() == Shape::Error {
            let rpc = rpc_error(answer);
            if self.is_round() {
                let failure = Failure::new(Code::InvalidRequest, rpc.message.clone());
                return Outcome::failed(failure.with_rpc(rpc));
            }
            let outcome = Outcome::failed(Failure::rejected(rpc));
            return if is_verbatim { outcome.with_origin(answer.line().clone()) } else { outcome };
        }
        let Some(json) = answer.result().filter(|json| json.kind() == Kind::Object) else {
            return nonsense(
                &self.server.name,
                "answered the call with something that is no object",
            )
            .into();
        };
        let result_type = answer.member("resultType");
        let needs_type = self.to() == Era::Modern && result_type.is_none();
        if from != self.to() || needs_type {
            let translated = eras::translate_result(&json, "tools/call", from, self.to());
            if let Some(translated) = translated {
                return Outcome::answered(ToolResult::new(translated));
            }
        }
        let is_error = answer.member("isError").and_then(|json| json.bool()) == Some(true);
        let outcome = Outcome::answered(ToolResult::known(json, is_error, result_type.as_ref()));
        if is_verbatim { outcome.with_origin(answer.line().clone()) } else { outcome }
    }

    fn answer(&self, answer: &Message, from: Era, is_verbatim: bool) -> Answer {
        let method = self.message.method();
        if answer.shape() == Shape::Error {
            let rpc = rpc_error(answer);
            let code = rpc.code;
            let rpc = eras::translate_error(rpc, method, self.to(), self.name);
            return match answer.error().filter(|_| rpc.code == code) {
                // What nobody had to change stays what it is, unknown members included.
                Some(error) => {
                    let origin = is_verbatim.then(|| answer.line().clone());
                    Answer { body: Err(error), origin }
                }
                None => Answer { body: Err(rpc.to_json()), origin: None },
            };
        }
        let json = answer.result().unwrap_or_else(Json::null);
        match eras::translate_result(&json, method, from, self.to()) {
            Some(translated) => Answer { body: Ok(translated), origin: None },
            None => Answer { body: Ok(json), origin: is_verbatim.then(|| answer.line().clone()) },
        }
    }
}

impl Endpoint for Conversation<'_> {
    fn call<'b>(&'b self, cx: &'b mut Context, call: Call) -> Boxed<'b, Outcome> {
        Box::pin(async move {
            let changed = if call.is_changed() { call.arguments() } else { None };
            match self.speak(cx, changed).await {
                Ok(Heard::Answer { answer, from, is_verbatim }) => {
                    self.outcome(&answer, from, is_verbatim)
                }
                Ok(Heard::Asked(result)) => Outcome::answered(ToolResult::new(result)),
                Err(failure) => failure.into(),
            }
        })
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(Failure::internal("a call is no listing"))))
    }

    fn request<'b>(&'b self, cx: &'b mut Context, _: Request) -> Boxed<'b, Answer> {
        Box::pin(async move {
            match self.speak(cx, None).await {
                Ok(Heard::Answer { answer, from, is_verbatim }) => {
                    self.answer(&answer, from, is_verbatim)
                }
                Ok(Heard::Asked(result)) => Answer { body: Ok(result), origin: None },
                Err(failure) => Answer { body: Err(failure.to_rpc().to_json()), origin: None },
            }
        })
    }
}

/// The end of the chain for a call that is refused at the door.
#[derive(Debug)]
struct Refused(Failure);

impl Endpoint for Refused {
    fn call<'b>(&'b self, _cx: &'b mut Context, _call: Call) -> Boxed<'b, Outcome> {
        Box::pin(std::future::ready(Outcome::failed(self.0.clone())))
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn request<'b>(&'b self, _cx: &'b mut Context, _request: Request) -> Boxed<'b, Answer> {
        let body = Err(self.0.to_rpc().to_json());
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}

/// The error object of an answer, read.
pub(super) fn read_error(error: &Json) -> RpcError {
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text).map(Cow::into_owned);
    RpcError {
        code: error.get("code").and_then(|json| json.i64()).unwrap_or(-32603),
        message: message.unwrap_or_default(),
        data: error.get("data"),
    }
}
