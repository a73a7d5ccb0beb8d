//! Dispatches client requests by method: the only place that decides which handler answers a request.

use std::sync::Arc;

use toolgate_wire::{
    Json,
    mcp::{code, method},
};

use super::{
    Gateway, handshake,
    incoming_request::{IncomingRequest, unknown},
    listing, proxied,
    response::JsonRpcResponse,
    subscriptions, tool_call,
};
use crate::{clients::caller::CallerProtocol, log_level::LogLevel};

/// Answers one request.
///
/// All futures except that of `tools/call` are boxed, so that they do not enlarge the future of every request.
pub(crate) async fn dispatch(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    if let Some(server) = incoming.namespace.exclusive() {
        return match incoming.message.method() {
            method::TOOLS_CALL => tool_call::call(gateway, incoming).await,
            method::TOOLS_LIST => Box::pin(listing::live(gateway, incoming)).await,
            _ => Box::pin(proxied::exclusive(gateway, incoming, server)).await,
        };
    }
    let is_modern = incoming.caller.is_modern();
    match (incoming.message.method(), is_modern) {
        (method::TOOLS_CALL, _) => tool_call::call(gateway, incoming).await,
        (method::TOOLS_LIST, _) => Box::pin(listing::tools(gateway, incoming)).await,
        (method::PROMPTS_LIST | method::RESOURCES_LIST | method::RESOURCES_TEMPLATES_LIST, _) => {
            Box::pin(listing::others(gateway, incoming)).await
        }
        (method::PROMPTS_GET, _) => Box::pin(proxied::prompt(gateway, incoming)).await,
        (method::RESOURCES_READ, _) => Box::pin(proxied::read(gateway, incoming)).await,
        (method::COMPLETION_COMPLETE, _) => Box::pin(proxied::complete(gateway, incoming)).await,
        (method::SERVER_DISCOVER, true) => Box::pin(handshake::discover(incoming)).await,
        (method::SUBSCRIPTIONS_LISTEN, true) => {
            Box::pin(subscriptions::listen(gateway, incoming)).await
        }
        (method::PING, false) => JsonRpcResponse::result(incoming.id(), Json::empty_object()),
        (method::LOGGING_SET_LEVEL, false) => Box::pin(set_level(gateway, incoming)).await,
        (method::RESOURCES_SUBSCRIBE, false) => Box::pin(subscriptions::subscribe(incoming)).await,
        (method::RESOURCES_UNSUBSCRIBE, false) => subscriptions::unsubscribe(incoming),
        // A method that the client's era does not have.
        (method, _) if is_of_one_era(method) => unknown(incoming),
        (method, _) if method.starts_with("tasks/") => {
            Box::pin(proxied::task(gateway, incoming)).await
        }
        _ => Box::pin(proxied::to_only_server(gateway, incoming)).await,
    }
}

/// Whether only one of the two eras has the method.
fn is_of_one_era(method: &str) -> bool {
    matches!(
        method,
        method::INITIALIZE
            | method::PING
            | method::LOGGING_SET_LEVEL
            | method::RESOURCES_SUBSCRIBE
            | method::RESOURCES_UNSUBSCRIBE
            | method::SERVER_DISCOVER
            | method::SUBSCRIPTIONS_LISTEN
    )
}

/// `logging/setLevel`: responds once the running servers have accepted the level, as a direct connection would.
async fn set_level(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let snapshot = incoming.namespace.settled().await;
    let level = incoming.text("level").and_then(|name| LogLevel::by_name(&name));
    if snapshot.servers_with("logging").next().is_none() {
        // The only server decides, also where it does not announce the method.
        if !snapshot.only_server().is_some_and(|server| server.takes_legacy()) {
            return unknown(incoming);
        }
        let answered = proxied::to_only_server(gateway, incoming).await;
        if let (None, Some(level), CallerProtocol::Legacy(session)) =
            (answered.code, level, &incoming.caller.speaks)
        {
            session.set_level(level);
        }
        return answered;
    }
    let (Some(level), CallerProtocol::Legacy(session)) = (level, &incoming.caller.speaks) else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`level` names no level of log messages",
        );
    };
    session.set_level(level);
    let servers = incoming.namespace.servers.iter();
    let updates: Vec<_> = servers
        .filter_map(|server| {
            let session = Arc::clone(session);
            server.raise_log_level(level, || incoming.caller.owner(), move || session.level())
        })
        .collect();
    for update in updates {
        let _ = update.await;
    }
    JsonRpcResponse::result(incoming.id(), Json::empty_object())
}
