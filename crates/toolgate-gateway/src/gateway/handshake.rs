//! The handshake with clients: `initialize` (legacy) and `server/discover` (2026-07-28), with the capabilities of the
//! namespace.

use std::sync::Arc;

use toolgate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, RpcError, Session,
    ToolList,
};
use toolgate_wire::{
    Id, Json, Kind, Message, Object,
    mcp::{self, Era, LEGACY, MODERN, code, member},
};

use super::{
    incoming_request::{IncomingRequest, chain_response},
    namespace::Namespace,
    response::JsonRpcResponse,
};
use crate::{
    catalog::{
        lists::server_meta,
        snapshot::{ServerListing, Snapshot},
    },
    clients::legacy_session::{ClientHandshake, LegacySession},
    hops::Hops,
    implementation_info::ourselves,
    rpc_error,
    usage::PrincipalInNamespace,
};

/// The maximum size of the servers' joined instructions.
const MAX_INSTRUCTIONS: usize = 32 * 1024;

/// The maximum size of a client's `capabilities` and `clientInfo` together.
const MAX_CLIENT_DESCRIPTION: usize = 64 * 1024;

/// `initialize`: returns the result and the new session.
pub(crate) async fn initialize(
    namespace: &Namespace,
    message: &Message,
    session: Session,
    principal: Arc<PrincipalInNamespace>,
    hops: Option<Hops>,
) -> Result<(Json, LegacySession), String> {
    let texts = ["capabilities", "clientInfo"].into_iter().filter_map(|name| message.member(name));
    // The session keeps both as long as it lasts.
    if texts.map(|json| json.len()).sum::<usize>() > MAX_CLIENT_DESCRIPTION {
        return Err(format!(
            "`capabilities` and `clientInfo` are longer than {MAX_CLIENT_DESCRIPTION} bytes together"
        ));
    }
    let snapshot = namespace.settled().await;
    // The response to `initialize` announces what each server offers legacy clients. So the gateway first asks the
    // servers that speak both eras over a legacy connection.
    let mut discovering = tokio::task::JoinSet::new();
    for server in snapshot.offered.iter().map(|offered| Arc::clone(&offered.server)) {
        discovering.spawn(async move { server.discover_legacy().await });
    }
    discovering.join_all().await;
    let asked = message.member(member::PROTOCOL_VERSION);
    let asked = asked.as_ref().and_then(Json::text).unwrap_or_default();
    let is_known = mcp::VERSIONS.contains(&asked.as_ref()) && !mcp::is_modern(&asked);
    let version: Arc<str> = if is_known { asked.as_ref().into() } else { LEGACY.into() };
    let object = |name: &str| {
        let value = message.member(name).filter(|json| json.kind() == Kind::Object);
        value.map_or_else(Json::empty_object, |json| json.owned())
    };
    let mut result = Object::new();
    result.set(member::PROTOCOL_VERSION, Json::string(&version));
    result.set(member::CAPABILITIES, capabilities(&snapshot, Era::Legacy, namespace));
    result.set(member::SERVER_INFO, ourselves());
    if let Some(instructions) = instructions(&snapshot) {
        result.set("instructions", Json::string(&instructions));
    }
    let session = LegacySession::new(ClientHandshake {
        session: Arc::new(session),
        principal,
        version,
        capabilities: object("capabilities"),
        info: object("clientInfo"),
        hops,
    });
    let cx = Context::new(Arc::clone(&session.session)).with_client(session.info.clone());
    match through_chain(namespace, cx, message, result.finish()).await.body {
        Ok(result) => Ok((result, session)),
        Err(error) => Err(rpc_error::of_object(&error).message),
    }
}

/// `server/discover`
pub(super) async fn discover(incoming: &IncomingRequest) -> JsonRpcResponse {
    let snapshot = incoming.namespace.settled().await;
    let mut result = Object::new();
    result.set(member::RESULT_TYPE, Json::string("complete"));
    result.set("supportedVersions", supported());
    result.set(member::CAPABILITIES, capabilities(&snapshot, Era::Modern, &incoming.namespace));
    if let Some(instructions) = instructions(&snapshot) {
        result.set("instructions", Json::string(&instructions));
    }
    result.set("ttlMs", Json::value(&0.into()));
    result.set("cacheScope", Json::string("private"));
    result.set(member::META, server_meta().finish());
    let cx = incoming.context(&incoming.namespace.current_chain());
    let answer = through_chain(&incoming.namespace, cx, &incoming.message, result.finish()).await;
    chain_response(incoming, answer)
}

/// Passes a handshake through the chain, if a layer looks at requests. `result` is the gateway's own.
async fn through_chain(
    namespace: &Namespace,
    cx: Context,
    message: &Message,
    result: Json,
) -> Answer {
    let current = namespace.current_chain();
    let chain = &current.stack.chain;
    if !chain.sees_request(message.method()) {
        return result.into();
    }
    let mut cx = cx.with_request_id(message.id().cloned()).with_meta(message.member(member::META));
    let request = Request { method: message.method().into(), params: message.params() };
    chain.request(&mut cx, request, &Prepared(result)).await
}

/// The end of the chain for a request that the gateway answers itself.
struct Prepared(Json);

impl Endpoint for Prepared {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(std::future::ready(Failure::internal("a handshake is no call").into()))
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(Failure::internal("a handshake is no listing"))))
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::ready(self.0.clone().into()))
    }
}

/// The error for a request of 2026-07-28 or later whose version the gateway does not support; `None` if it does.
pub(crate) fn unsupported(id: Option<&Id>, version: &str) -> Option<JsonRpcResponse> {
    if version == MODERN {
        return None;
    }
    let mut data = Object::new();
    data.set("supported", supported());
    data.set("requested", Json::string(version));
    Some(JsonRpcResponse::error(
        id,
        &RpcError {
            code: code::UNSUPPORTED_PROTOCOL_VERSION,
            message: "Unsupported protocol version".to_owned(),
            data: Some(data.finish()),
        },
    ))
}

/// The supported versions that need no session.
fn supported() -> Json {
    Json::list(&[Json::string(MODERN)])
}

/// The capabilities of all servers together.
fn capabilities(snapshot: &Snapshot, to: Era, namespace: &Namespace) -> Json {
    let changes = || Json::value(&serde_json::json!({"listChanged": true}));
    let announced: Vec<Json> = snapshot.offered.iter().filter_map(|o| announced(o, to)).collect();
    let has = |capability: &str| {
        announced.iter().filter_map(|all| all.get(capability)).any(|json| json.object().is_some())
    };
    let mut all = Object::new();
    if has_tools(snapshot) {
        all.set("tools", changes());
    }
    if has("prompts") {
        all.set("prompts", changes());
    }
    if has("resources") {
        let can = |feature: &str| {
            let features = announced.iter().filter_map(|all| all.get("resources")?.get(feature));
            features.filter_map(|json| json.bool()).any(|can| can)
        };
        let resources = serde_json::json!({"listChanged": true, "subscribe": can("subscribe")});
        all.set("resources", Json::value(&resources));
    }
    for plain in ["logging", "completions"] {
        if has(plain) {
            all.set(plain, Json::empty_object());
        }
    }
    for shared in ["experimental", "extensions"] {
        let joined = joined(snapshot, shared, to);
        if !joined.is_empty() {
            all.set(shared, joined.finish());
        }
    }
    // The task methods of 2025-11-25 do not name a server, so only a namespace with one server can offer them.
    let only = snapshot.offered.first().filter(|_| !namespace.tells_tasks_apart());
    let server_info =
        only.and_then(|offered| offered.manifest.as_ref()).map(|manifest| &manifest.server_info);
    if let Some(server_info) =
        server_info.filter(|server_info| server_info.era == to && to == Era::Legacy)
        && let Some(tasks) = server_info.capabilities.get("tasks")
    {
        all.set("tasks", tasks);
    }
    all.finish()
}

/// The capabilities that a server announces to clients of this era; those of its own era if the gateway knows no others.
fn announced(offered: &ServerListing, to: Era) -> Option<Json> {
    // `discover_legacy` changes the manifest without a new snapshot.
    let manifest = offered.server.manifest().or_else(|| offered.manifest.clone())?;
    let server_info = &manifest.server_info;
    Some(server_info.announced_to(to).unwrap_or(&server_info.capabilities).clone())
}

/// Whether some server has tools, or has not listed yet.
fn has_tools(snapshot: &Snapshot) -> bool {
    let offered = &snapshot.offered;
    let has = |offered: &ServerListing| {
        let manifest = offered.manifest.as_ref();
        manifest.is_none_or(|m| m.server_info.has("tools") || !m.tools.entries.is_empty())
    };
    offered.is_empty() || offered.iter().any(has)
}

/// Joins one capability object of all servers of this era. For each key, the first server's value counts.
fn joined(snapshot: &Snapshot, name: &str, to: Era) -> Object {
    let mut joined = Object::new();
    for manifest in snapshot.offered.iter().filter_map(|offered| offered.manifest.as_ref()) {
        let declared = manifest.server_info.capabilities.get(name).and_then(|json| json.object());
        let declared = declared.filter(|_| manifest.server_info.era == to);
        for (key, value) in declared.iter().flat_map(Object::iter) {
            if !joined.contains(&key) {
                joined.set(&key, value);
            }
        }
    }
    joined
}

/// The servers' instructions for models, with a heading for each server if there are several.
fn instructions(snapshot: &Snapshot) -> Option<String> {
    let instructions: Vec<(&str, Arc<str>)> = snapshot
        .offered
        .iter()
        .filter_map(|offered| {
            let manifest = offered.manifest.as_ref()?;
            Some((&*offered.server.name, manifest.server_info.instructions.clone()?))
        })
        .collect();
    let mut text = match &*instructions {
        [] => return None,
        [(_, only)] if snapshot.offered.len() == 1 => only.to_string(),
        several => {
            let parts: Vec<String> =
                several.iter().map(|(name, text)| format!("# {name}\n{text}")).collect();
            parts.join("\n\n")
        }
    };
    if text.len() > MAX_INSTRUCTIONS {
        let end = (0..=MAX_INSTRUCTIONS).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    Some(text)
}
