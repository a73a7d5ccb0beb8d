//! A request of a client with its context, and the responses that need nothing else.

use std::sync::Arc;

use hyper::HeaderMap;
use tokio_util::sync::CancellationToken;
use toolgate::{Answer, Context, Ingress, Trace};
use toolgate_wire::{
    Id, Message,
    mcp::{code, member},
};

use super::{namespace::Namespace, response::JsonRpcResponse};
use crate::{
    active_chain::ActiveChain,
    clients::{caller::Caller, side_channel::SideChannel},
    rpc_error,
};

/// A request of a client with its context.
#[derive(Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) caller: Caller,
    pub(crate) id: Id,
    pub(crate) message: Message,
    /// Where messages to the client go before the response.
    pub(crate) side: SideChannel,
    pub(crate) cancel: CancellationToken,
    /// The HTTP headers, where they must repeat parts of the body (2026-07-28).
    pub(crate) headers: Option<HeaderMap>,
}

impl IncomingRequest {
    /// The id of the request and of its response.
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// The context of the request for the layers.
    pub(crate) fn context(&self, current: &ActiveChain) -> Context {
        let chain = &current.stack.chain;
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
            .with_request_id(Some(self.id.clone()))
            .with_cancel(self.cancel.clone())
            .with_ingress(ingress);
        if chain.asks() { cx.with_client_input(self.caller.asking(&self.side)) } else { cx }
    }

    /// A string member of the params.
    pub(crate) fn text(&self, member: &str) -> Option<String> {
        Some(self.message.member(member)?.text()?.into_owned())
    }
}

/// The error for an unknown method.
pub(super) fn unknown(incoming: &IncomingRequest) -> JsonRpcResponse {
    let method = incoming.message.method();
    JsonRpcResponse::refused(
        Some(incoming.id()),
        code::METHOD_NOT_FOUND,
        format!("Method not found: `{method}`"),
    )
}

/// The response for the chain's answer to a request that is neither a call nor a listing.
pub(super) fn chain_response(incoming: &IncomingRequest, answer: Answer) -> JsonRpcResponse {
    if incoming.cancel.is_cancelled() {
        return JsonRpcResponse::nothing();
    }
    match (answer.origin, answer.body) {
        (Some(line), body) => JsonRpcResponse::verbatim(
            line,
            body.err().map(|error| rpc_error::of_object(&error).code),
        ),
        (None, Ok(result)) => JsonRpcResponse::result(incoming.id(), result),
        (None, Err(error)) => {
            JsonRpcResponse::error_object(incoming.id(), &error, rpc_error::of_object(&error).code)
        }
    }
}
