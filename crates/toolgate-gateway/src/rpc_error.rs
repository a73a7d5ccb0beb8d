//! Reads JSON-RPC errors from responses.

use std::borrow::Cow;

use toolgate::{Failure, RpcError};
use toolgate_wire::{Json, Message, Shape, mcp::code};

/// The result of a response, or its error as a failure.
pub(crate) fn result_of(response: &Message) -> Result<Json, Failure> {
    match (response.shape(), response.result()) {
        (Shape::Response, Some(result)) => Ok(result),
        _ => Err(Failure::rejected(of_response(response))),
    }
}

/// The error of a response.
pub(crate) fn of_response(response: &Message) -> RpcError {
    read(|member| response.member(member))
}

/// An error object.
pub(crate) fn of_object(error: &Json) -> RpcError {
    read(|member| error.get(member))
}

fn read(member: impl Fn(&str) -> Option<Json>) -> RpcError {
    let text = |json: Json| json.text().map(Cow::into_owned);
    RpcError {
        code: member("code").and_then(|json| json.i64()).unwrap_or(code::INTERNAL_ERROR),
        message: member("message").and_then(text).unwrap_or_default(),
        data: member("data"),
    }
}
