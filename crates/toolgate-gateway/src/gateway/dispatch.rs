//! The one place where it is decided what becomes of a client's request.

use std::sync::Arc;

use hyper::HeaderMap;
use tokio_util::sync::CancellationToken;
use toolgate::{Context, Ingress, Trace};
use toolgate_wire::{
    Id, Json, Message,
    mcp::{code, member, method},
};

use super::{
    Gateway, handshake, listen, listing, namespace::Namespace, proxied, response::JsonRpcResponse,
    tool_call,
};
use crate::clients::{
    caller::{Caller, CallerProtocol},
    side_channel::SideChannel,
};
use crate::{active_chain::ActiveChain, log_level::LogLevel};

/// One request of a client, with all that surrounds it.
#[derive(Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) caller: Caller,
    pub(crate) message: Message,
    /// Where messages go that come before the answer.
    pub(crate) side: SideChannel,
    pub(crate) cancel: CancellationToken,
    /// The headers that it came with, where they have to say what it says.
    pub(crate) headers: Option<HeaderMap>,
}

impl IncomingRequest {
    /// The id under which it is answered.
    pub(crate) fn id(&self) -> &Id {
        static NONE: std::sync::LazyLock<Id> = std::sync::LazyLock::new(|| Id::number(0));
        self.message.id().unwrap_or(&NONE)
    }

    /// The surroundings of the request, as layers see them.
    pub(crate) fn context(&self, charter: &ActiveChain) -> Context {
        let chain = &charter.stack.chain;
        let transport = Some(self.caller.transport);
        let ingress = if chain.follows_traces() {
            let meta = self.message.member(member::META);
            let protocol = Some(Arc::clone(self.caller.version()));
            Ingress { transport, protocol, trace: meta.as_ref().and_then(Trace::of) }
        } else {
            Ingress { transport, ..Ingress::default() }
        };
        let cx = Context::new(Arc::clone(&self.caller.session))
            .with_client(self.caller.info())
            .with_request_id(self.message.id().cloned())
            .with_cancel(self.cancel.clone())
            .with_ingress(ingress);
        if chain.asks() { cx.with_client_input(self.caller.asking(&self.side)) } else { cx }
    }

    /// A member of the params, as text.
    pub(crate) fn text(&self, member: &str) -> Option<String> {
        Some(self.message.member(member)?.text()?.into_owned())
    }
}

/// Has one request answered.
///
/// All but calls are on the heap: what is made for each request is as large as the largest of them.
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
        (method::SUBSCRIPTIONS_LISTEN, true) => Box::pin(listen::listen(gateway, incoming)).await,
        (method::PING, false) => JsonRpcResponse::result(incoming.id(), Json::empty_object()),
        (method::LOGGING_SET_LEVEL, false) => Box::pin(set_level(incoming)).await,
        (method::RESOURCES_SUBSCRIBE, false) => Box::pin(listen::subscribe(incoming)).await,
        (method::RESOURCES_UNSUBSCRIBE, false) => listen::unsubscribe(incoming),
        // Each era has what the other one does without.
        (method, _) if is_of_one_era(method) => unknown(incoming),
        (method, _) if method.starts_with("tasks/") => {
            Box::pin(proxied::task(gateway, incoming)).await
        }
        _ => Box::pin(proxied::anything(gateway, incoming)).await,
    }
}

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

/// Nobody here knows the method.
pub(super) fn unknown(incoming: &IncomingRequest) -> JsonRpcResponse {
    let method = incoming.message.method();
    JsonRpcResponse::refused(
        Some(incoming.id()),
        code::METHOD_NOT_FOUND,
        format!("Method not found: `{method}`"),
    )
}

/// `logging/setLevel`: answered once the servers that run have taken the level, as a server itself does it.
async fn set_level(incoming: &IncomingRequest) -> JsonRpcResponse {
    let snapshot = incoming.namespace.settled().await;
    if snapshot.servers_with("logging").next().is_none() {
        return unknown(incoming);
    }
    let level = incoming.text("level").and_then(|name| LogLevel::by_name(&name));
    let (Some(level), CallerProtocol::Legacy(session)) = (level, &incoming.caller.speaks) else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`level` names no level of log messages",
        );
    };
    session.set_level(level);
    let servers = incoming.namespace.servers.iter();
    let telling: Vec<_> = servers
        .filter_map(|server| {
            let asking = Arc::clone(session);
            server.speak_up(level, || incoming.caller.owner(), move || asking.level())
        })
        .collect();
    for told in telling {
        let _ = told.await;
    }
    JsonRpcResponse::result(incoming.id(), Json::empty_object())
}
