//! The response to a client: the finished bytes, and what the HTTP status depends on.

use bytes::Bytes;
use toolgate::{Failure, Outcome, Reply, RpcError, admission::complete};
use toolgate_wire::{
    Id, Json, Object, error_response,
    mcp::{Era, member, meta},
};

use crate::{
    implementation_info::ourselves,
    usage::{LimitReached, LimitScope},
};

/// The response to one request.
#[derive(Debug)]
pub(crate) struct JsonRpcResponse {
    pub(crate) text: ResponseText,
    /// The error code, if it is an error.
    pub(crate) code: Option<i64>,
    /// The limit that the request exceeds, if that is the error.
    pub(crate) limit: Option<LimitScope>,
}

/// The bytes of a response.
#[derive(Debug)]
pub(crate) enum ResponseText {
    /// In one piece.
    Whole(Bytes),
    /// In parts, so that a large result is not copied.
    Parts([Bytes; 3]),
    /// No response: the client cancelled the request.
    Nothing,
}

impl JsonRpcResponse {
    /// No response.
    pub(crate) fn nothing() -> Self {
        Self { text: ResponseText::Nothing, code: None, limit: None }
    }

    /// The server's line, unchanged.
    pub(crate) fn verbatim(line: Bytes, code: Option<i64>) -> Self {
        Self { text: ResponseText::Whole(line), code, limit: None }
    }

    /// A result.
    pub(crate) fn result(id: &Id, result: Json) -> Self {
        let mut head = Vec::with_capacity(40 + id.as_json().len());
        head.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        head.extend_from_slice(id.as_json().as_bytes());
        head.extend_from_slice(br#","result":"#);
        if result.len() < 8 * 1024 {
            // For small results, copying is cheaper than writing several parts.
            head.extend_from_slice(result.as_bytes());
            head.push(b'}');
            return Self { text: ResponseText::Whole(head.into()), code: None, limit: None };
        }
        let parts = [head.into(), result.into_bytes(), Bytes::from_static(b"}")];
        Self { text: ResponseText::Parts(parts), code: None, limit: None }
    }

    /// An error.
    pub(crate) fn error(id: Option<&Id>, rpc: &RpcError) -> Self {
        let line = error_response(id, rpc.code, &rpc.message, rpc.data.as_ref());
        Self { text: ResponseText::Whole(line), code: Some(rpc.code), limit: None }
    }

    /// An error with an error object of a server, unchanged.
    pub(crate) fn error_object(id: &Id, error: &Json, code: i64) -> Self {
        let mut message = Object::new();
        message.set("jsonrpc", Json::string("2.0"));
        message.set("id", id.as_json().clone());
        message.set("error", error.clone());
        Self {
            text: ResponseText::Whole(message.finish().into_bytes()),
            code: Some(code),
            limit: None,
        }
    }

    /// The error for a failure.
    pub(crate) fn failed(id: Option<&Id>, failure: &Failure) -> Self {
        Self::error(id, &failure.to_rpc())
    }

    /// The error for a request that exceeds a limit.
    pub(crate) fn full(id: &Id, full: &LimitReached) -> Self {
        Self { limit: Some(full.scope), ..Self::failed(Some(id), &full.failure()) }
    }

    /// An error of JSON-RPC or MCP for a request that did not run.
    pub(crate) fn refused(id: Option<&Id>, code: i64, message: impl Into<String>) -> Self {
        let mut data = Object::new();
        data.set("ran", Json::value(&false.into()));
        Self::error(id, &RpcError { code, message: message.into(), data: Some(data.finish()) })
    }

    /// The response for the outcome of a call.
    pub(crate) fn outcome(id: &Id, outcome: Outcome, era: Era) -> Self {
        let code = outcome.failure().and_then(Failure::rpc).map(|rpc| rpc.code);
        let has_failed = outcome.failure().is_some();
        match outcome.into_reply() {
            Reply::Verbatim(line) => Self::verbatim(line, code),
            // The gateway wrote the result, not the server.
            Reply::Result(json) if era == Era::Modern && has_failed => {
                Self::result(id, with_server_info(complete(json)))
            }
            reply => Self::reply(id, reply, era),
        }
    }

    /// The response for the chain's outcome. Layers write results without `resultType`, which 2026-07-28 requires.
    fn reply(id: &Id, reply: Reply, era: Era) -> Self {
        match reply {
            Reply::Verbatim(line) => Self::verbatim(line, None),
            Reply::Result(json) if era == Era::Modern => Self::result(id, complete(json)),
            Reply::Result(json) => Self::result(id, json),
            Reply::Error(rpc) => Self::error(Some(id), &rpc),
            Reply::Nothing => Self::nothing(),
        }
    }

    /// The line; `None` if there is no response.
    pub(crate) fn into_line(self) -> Option<Bytes> {
        match self.text {
            ResponseText::Whole(line) => Some(line),
            ResponseText::Parts(parts) => Some(parts.concat().into()),
            ResponseText::Nothing => None,
        }
    }
}

/// Adds the name of the gateway to a result that the gateway wrote for a client of 2026-07-28.
fn with_server_info(result: Json) -> Json {
    let Some(mut object) = result.object() else { return result };
    let known = object.get(member::META).and_then(|meta| meta.object());
    let mut all = known.unwrap_or_else(Object::new);
    if all.contains(meta::SERVER_INFO) {
        return result;
    }
    all.set(meta::SERVER_INFO, ourselves());
    object.set(member::META, all.finish());
    object.finish()
}
