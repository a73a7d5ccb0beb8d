//! Requests of the client on their way through the chain, a task for each.

use std::{borrow::Cow, sync::Arc};

use tokio_util::sync::CancellationToken;
use toolgate::{
    Call, Code, Context, Control, Failure, Listing, Outcome, Reply, Request, Round, Tool, ToolId,
    middleware::{audit::intent::RefusedAtDoor, overrides::Resolved},
};
use toolgate_wire::{Json, Message};

use super::{
    asking,
    governance::Governance,
    hub::{Hub, Refusal},
    reply::{Batch, Owed},
    upstream::{Refused, Upstream},
};

/// Takes up one request of the client.
pub(crate) fn take_up(hub: &Arc<Hub>, message: Message, batch: Option<Arc<Batch>>) {
    let Some(owed) = Owed::new(hub, &message, batch) else { return };
    let begun = hub.begin(owed.id());
    let task_hub = Arc::clone(hub);
    hub.tasks.spawn(async move {
        let hub = task_hub;
        match (begun, message.method()) {
            (Ok(cancel), "tools/call") => call(&hub, &message, cancel, owed).await,
            (Ok(cancel), "tools/list") => list(&hub, &message, cancel, owed).await,
            (Ok(cancel), _) => request(&hub, &message, cancel, owed).await,
            (Err(refusal), method) => refuse(&hub, &message, refusal, method, owed).await,
        }
    });
}

async fn refuse(hub: &Hub, message: &Message, refusal: Refusal, method: &str, owed: Owed) {
    match refusal {
        // An answer would take the place of the one that the earlier request waits for.
        Refusal::SameId => {
            tracing::warn!(id = %owed.id(), "a request uses the id of one in flight; it is dropped");
            owed.forget();
        }
        Refusal::TooMany => {
            let failure = Failure::new(
                Code::Overloaded,
                format!("{} requests are in flight, and no more are allowed", hub.most_in_flight),
            )
            .suggest("Wait for calls in flight to end, then call again.");
            let name = message.member("name").and_then(|json| json.text().map(Cow::into_owned));
            let Some(name) = name.filter(|_| method == "tools/call") else {
                return owed.refuse(&failure).await;
            };
            let mut cx = hub.context(message, CancellationToken::new());
            cx.bag_mut().put(RefusedAtDoor);
            let governance = hub.governance();
            let own = own_name(&governance, &name).unwrap_or_else(|| name.clone());
            let tool = governance.tools.unlisted(&own);
            let call = Call::new(tool, message.member("arguments")).with_wire_name(name.as_str());
            let outcome = governance.chain().call(&mut cx, call, &Refused(failure)).await;
            owed.reply(outcome.into_reply()).await;
        }
    }
}

async fn call(hub: &Hub, message: &Message, cancel: CancellationToken, owed: Owed) {
    let name = message.member("name");
    let Some(name) = name.as_ref().and_then(Json::text) else {
        let text = "params.name of tools/call must be a string";
        return owed.refuse(&Failure::new(Code::InvalidRequest, text)).await;
    };
    let governance = hub.governance();
    let mut cx = hub.context(message, cancel);
    let mut end = Upstream::new(hub, &governance, message);
    if let Some((control, rest)) = message.member("_meta").as_ref().and_then(Control::lift) {
        cx = narrowed(hub, &governance, cx, control);
        end = end.with_meta(rest);
    }
    let round = Round {
        state: message.member("requestState"),
        responses: message.member("inputResponses"),
    };
    cx = cx.with_returned(&round);
    if round.is_ours() {
        cx = cx.with_round(round);
        end = end.without_round();
    }
    let arguments = message.member("arguments");
    let outcome = if let Some(tool) = tool(hub, &governance, &name, &cx).await {
        end = end.with_name(tool.id().name(), &name);
        let is_renamed = tool.id().name() != name;
        let mut call = Call::new(tool, arguments);
        if is_renamed {
            call = call.with_wire_name(name.as_ref());
        }
        let tool = Arc::clone(call.tool());
        let outcome = governance.chain().call(&mut cx, call, &end).await;
        let asked = message.member("task").is_some();
        governance.chain().tasks().note(&cx, &tool, asked, &outcome);
        outcome
    } else {
        // The own name of a tool that has another one now, or a name that the server does not list.
        let unknown = Failure::new(Code::UnknownTool, format!("Unknown tool: '{name}'"))
            .suggest("Call tools/list for the tools that there are.");
        let call = Call::new(governance.tools.unlisted(&name), arguments);
        cx.bag_mut().put(RefusedAtDoor);
        governance.chain().call(&mut cx, call, &Refused(unknown)).await
    };
    owed.reply(outcome.into_reply()).await;
}

/// The context with what narrows the request: its own control data, and what it inherits.
fn narrowed(hub: &Hub, governance: &Governance, cx: Context, mut control: Control) -> Context {
    control.translate(|name| {
        let own = own_name(governance, name)?;
        Some(ToolId::new(governance.tools.server(), own))
    });
    hub.inherit(cx, control)
}

/// The server's own name of the tool that a name on the wire means; `None` where it means none any more.
fn own_name(governance: &Governance, name: &str) -> Option<String> {
    match governance.stack.overrides.get().resolve(governance.tools.server(), name) {
        Resolved::Tool(own) => Some(own.to_owned()),
        Resolved::Gone => None,
    }
}

/// The tool that a name on the wire means; `None` where it means none any more, or none that the server lists while some
/// setting picks tools by name. Only where a layer decides on facts about tools, or on which of them there are, the
/// gateway asks the server for them.
async fn tool(hub: &Hub, governance: &Governance, name: &str, cx: &Context) -> Option<Arc<Tool>> {
    let tools = &governance.tools;
    let mut own = own_name(governance, name)?;
    let refuses_unlisted = governance.refuses_unlisted();
    let is_asking =
        refuses_unlisted || governance.chain().needs_tools() || governance.needs_all_tools();
    if is_asking && tools.must_ask(Some(&own)) {
        asking::learn_all(hub, governance, Some(&own), cx.cancel()).await;
        // A name may turn out to be another tool's own.
        own = own_name(governance, name)?;
    }
    match tools.listed(&own) {
        None if refuses_unlisted => None,
        listed => Some(listed.unwrap_or_else(|| tools.unlisted(&own))),
    }
}

async fn list(hub: &Hub, message: &Message, cancel: CancellationToken, owed: Owed) {
    let governance = hub.governance();
    let mut cx = hub.context(message, cancel);
    let mut end = Upstream::new(hub, &governance, message);
    if let Some((control, rest)) = message.member("_meta").as_ref().and_then(Control::lift) {
        cx = narrowed(hub, &governance, cx, control);
        end = end.with_meta(rest);
    }
    if governance.needs_all_tools() && governance.tools.must_ask(None) {
        asking::learn_all(hub, &governance, None, cx.cancel()).await;
    }
    let cursor = message.member("cursor").and_then(|json| json.text().map(Cow::into_owned));
    match governance.chain().list(&mut cx, Listing { cursor }, &end).await {
        Ok(list) => match list.origin().cloned() {
            Some(line) => owed.reply(Reply::Verbatim(line)).await,
            None => owed.reply(Reply::Result(list.into_result())).await,
        },
        Err(failure) => owed.reply(Outcome::failed(failure).into_reply()).await,
    }
}

async fn request(hub: &Hub, message: &Message, cancel: CancellationToken, owed: Owed) {
    let mut cx = hub.context(message, cancel);
    let governance = hub.governance();
    let mut end = Upstream::new(hub, &governance, message);
    // No layer narrows these, but control data is for us: no server sees it.
    if let Some((control, rest)) = message.member("_meta").as_ref().and_then(Control::lift) {
        cx = narrowed(hub, &governance, cx, control);
        end = end.with_meta(rest);
    }
    if let Some(id) = message.member("taskId").as_ref().and_then(Json::text) {
        let task = governance.chain().tasks().of(&cx, governance.tools.server(), &id);
        cx.bag_mut().put(task);
    }
    let request = Request { method: message.method().into(), params: message.params() };
    let answer = governance.chain().request(&mut cx, request, &end).await;
    // A cancelled request has no answer that anybody may send.
    if cx.cancel().is_cancelled() {
        return owed.send(None).await;
    }
    match (answer.origin, answer.body) {
        (Some(line), _) => owed.reply(Reply::Verbatim(line)).await,
        (None, Ok(result)) => owed.reply(Reply::Result(result)).await,
        (None, Err(error)) => {
            let mut object = toolgate_wire::Object::new();
            object.set("jsonrpc", Json::string("2.0"));
            object.set("id", owed.id().as_json().clone());
            object.set("error", error);
            owed.send(Some(object.finish().into_bytes())).await;
        }
    }
}
