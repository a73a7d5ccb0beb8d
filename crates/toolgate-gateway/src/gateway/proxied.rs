//! Requests that the gateway forwards to one server: it finds the server by the name, URI or task id in the request.

use std::sync::Arc;

use toolgate::{Code, Failure, Request, RpcError};
use toolgate_wire::{
    Json,
    mcp::{code, method},
};

use super::{
    Gateway,
    incoming_request::{IncomingRequest, chain_response, unknown},
    response::JsonRpcResponse,
    tasks,
    tool_call::{NameResolver, narrow},
    upstream_call::UpstreamCall,
};
use crate::{
    catalog::snapshot::{Route, Snapshot},
    config::Prefix,
    upstream::server::Server,
};

/// `prompts/get`
pub(super) async fn prompt(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let Some(name) = incoming.text("name") else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`name` of prompts/get must be a string",
        );
    };
    let snapshot =
        incoming.namespace.snapshot_with(|snapshot| snapshot.prompt(&name).is_some()).await;
    let Some(owned) = prompt_owner(incoming, &snapshot, &name) else {
        return no_prompt(incoming, &snapshot, &name);
    };
    let member = (*owned.own != *name).then(|| ("name", Json::string(&owned.own)));
    forward(gateway, incoming, &owned.server, Some(&owned.own), member).await
}

/// The server of a prompt. A prompt that is not listed belongs to the only server, or to the server whose prefix it has.
fn prompt_owner(incoming: &IncomingRequest, snapshot: &Snapshot, name: &str) -> Option<Route> {
    if let Some(owned) = snapshot.prompt(name) {
        return Some(owned.clone());
    }
    let has_prefix = incoming.namespace.style.prefix == Prefix::Always;
    match snapshot.only_server() {
        Some(server) if !has_prefix => Some(Route { server: Arc::clone(server), own: name.into() }),
        _ => snapshot.by_prefix(name),
    }
}

fn no_prompt(incoming: &IncomingRequest, snapshot: &Snapshot, name: &str) -> JsonRpcResponse {
    if snapshot.servers_with("prompts").next().is_none() {
        return unknown(incoming);
    }
    JsonRpcResponse::refused(
        Some(incoming.id()),
        code::INVALID_PARAMS,
        format!("Unknown prompt: `{name}`"),
    )
}

/// `resources/read`
pub(super) async fn read(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let Some(uri) = incoming.text("uri") else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`uri` of resources/read must be a string",
        );
    };
    let snapshot =
        incoming.namespace.snapshot_with(|snapshot| snapshot.resource(&uri).is_some()).await;
    match resource_owner(incoming, &snapshot, &uri) {
        Ok(server) => forward(gateway, incoming, &server, Some(&uri), None).await,
        Err(no_owner) => no_owner.refuse(incoming, &snapshot, &uri),
    }
}

/// Why the gateway cannot choose a server for a resource.
pub(super) enum NoOwner {
    Unknown,
    /// Several servers returned links to it.
    Several(Vec<Arc<str>>),
}

impl NoOwner {
    pub(super) fn refuse(
        &self,
        incoming: &IncomingRequest,
        snapshot: &Snapshot,
        uri: &str,
    ) -> JsonRpcResponse {
        let message = match self {
            Self::Unknown if snapshot.servers_with("resources").next().is_none() => {
                return unknown(incoming);
            }
            Self::Unknown => format!("Unknown resource: `{uri}`"),
            Self::Several(servers) => {
                let names: Vec<String> = servers.iter().map(|name| format!("`{name}`")).collect();
                format!(
                    "The resource `{uri}` is in no list, and several servers returned it: {}. Read it in a namespace \
                     with only one of them.",
                    names.join(", ")
                )
            }
        };
        let code = if incoming.caller.is_modern() {
            code::INVALID_PARAMS
        } else {
            code::RESOURCE_NOT_FOUND
        };
        let data = Some(Json::value(&serde_json::json!({"uri": uri})));
        JsonRpcResponse::error(Some(incoming.id()), &RpcError { code, message, data })
    }
}

/// The server of a resource. A resource that no list has belongs to the server that returned a link to it, or to the only
/// server with URIs of the same scheme. No other server may answer in its place.
pub(super) fn resource_owner(
    incoming: &IncomingRequest,
    snapshot: &Snapshot,
    uri: &str,
) -> Result<Arc<Server>, NoOwner> {
    if let Some(server) = snapshot.resource(uri).or_else(|| snapshot.only_server()) {
        return Ok(Arc::clone(server));
    }
    let mut returned = incoming.caller.principal.links.servers(uri);
    returned.retain(|name| snapshot.server(name).is_some());
    match &*returned {
        [] => snapshot.likely_owner(uri).ok_or(NoOwner::Unknown),
        [only] => snapshot.server(only).cloned().ok_or(NoOwner::Unknown),
        _ => Err(NoOwner::Several(returned)),
    }
}

/// `completion/complete`
pub(super) async fn complete(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let snapshot = incoming.namespace.settled().await;
    let reference = incoming.message.member("ref");
    let text = |member: &str| Some(reference.as_ref()?.get(member)?.text()?.into_owned());
    if let Some(name) = text("name") {
        let Some(owned) = prompt_owner(incoming, &snapshot, &name) else {
            return no_prompt(incoming, &snapshot, &name);
        };
        let own = reference.as_ref().and_then(Json::object).filter(|_| *owned.own != *name);
        let member = own.map(|mut own| {
            own.set("name", Json::string(&owned.own));
            ("ref", own.finish())
        });
        return forward(gateway, incoming, &owned.server, None, member).await;
    }
    let server = text("uri").and_then(|uri| snapshot.template(&uri).cloned());
    match server.as_ref().or_else(|| snapshot.only_server()) {
        Some(server) => forward(gateway, incoming, server, None, None).await,
        None if snapshot.servers_with("completions").next().is_none() => unknown(incoming),
        None => JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`ref` names no prompt and no resource template of this namespace",
        ),
    }
}

/// `tasks/…`: forwards to the server of the task.
pub(super) async fn task(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let Some(id) = incoming.text("taskId") else {
        // A list would show the tasks of all principals.
        let is_shared = incoming.namespace.has_principals();
        return if is_shared { unknown(incoming) } else { to_only_server(gateway, incoming).await };
    };
    let Some((server, own)) = tasks::server_of(gateway, incoming, &id) else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            format!("Unknown task: `{id}`"),
        );
    };
    let member = (own != id).then(|| ("taskId", Json::string(&own)));
    forward(gateway, incoming, &server, Some(&own), member).await
}

/// A method that the gateway does not know: forwards it if there is only one server.
pub(super) async fn to_only_server(
    gateway: &Gateway,
    incoming: &IncomingRequest,
) -> JsonRpcResponse {
    let snapshot =
        incoming.namespace.snapshot_with(|snapshot| snapshot.only_server().is_some()).await;
    match snapshot.only_server() {
        Some(server) => forward(gateway, incoming, server, None, None).await,
        None => unknown(incoming),
    }
}

/// Any request for an exclusive server.
pub(super) async fn exclusive(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Arc<Server>,
) -> JsonRpcResponse {
    forward(gateway, incoming, server, incoming.text("taskId").as_deref(), None).await
}

/// Forwards a request to a server, through the chain.
async fn forward(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Arc<Server>,
    name: Option<&str>,
    member: Option<(&'static str, Json)>,
) -> JsonRpcResponse {
    let namespace = &incoming.namespace;
    let current = namespace.current_chain();
    let _entered = match incoming.caller.principal.admit(current.settings.limits.in_flight) {
        Ok(entered) => entered,
        Err(full) => return JsonRpcResponse::full(incoming.id(), &full),
    };
    // Layers do not narrow these requests, but control data must not reach the server.
    let snapshot;
    let names = if let Some(live) = &current.live {
        NameResolver::Live(&current, live)
    } else {
        snapshot = namespace.snapshot();
        NameResolver::Listed(&snapshot)
    };
    let (mut cx, mut edits) = narrow(incoming, &current, names);
    if let Some((member, value)) = member {
        edits.set(member, value);
    }
    let chain = &current.stack.chain;
    let end = UpstreamCall { name, edits, ..UpstreamCall::new(gateway, incoming, chain, server) };
    let method = incoming.message.method();
    if let Some(own) = name.filter(|_| method.starts_with("tasks/")) {
        let task = current.stack.chain.tasks().of(&cx, &server.name, own);
        cx.extensions_mut().insert(task);
    }
    let request =
        Request { method: incoming.message.method().into(), params: incoming.message.params() };
    let answering = current.stack.chain.request(&mut cx, request, &end);
    // A subscription has no timeout.
    let is_endless = method == method::SUBSCRIPTIONS_LISTEN;
    let limit = current.settings.limits.timeout.get().filter(|_| !is_endless);
    let answered = match limit {
        Some(limit) => tokio::time::timeout(limit, answering).await.ok(),
        None => Some(answering.await),
    };
    let Some(mut answer) = answered else {
        let text = format!("The server `{}` took too long to answer", server.name);
        return JsonRpcResponse::failed(Some(incoming.id()), &Failure::new(Code::TimedOut, text));
    };
    if namespace.tells_tasks_apart()
        && let Ok(result) = &answer.body
        && let Some(renamed) = tasks::renamed(gateway, incoming, server, result)
    {
        answer.set_result(renamed);
    }
    chain_response(incoming, answer)
}
