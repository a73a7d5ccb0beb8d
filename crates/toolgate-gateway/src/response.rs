//! What a response says: its result, or its error.

use toolgate::Failure;
use toolgate_wire::{Json, Message, Shape, mcp::code};

/// The result of an answer, or the error as a failure.
pub(crate) fn result_of(answer: &Message) -> Result<Json, Failure> {
    match (answer.shape(), answer.result()) {
        (Shape::Response, Some(result)) => Ok(result),
        _ => Err(Failure::rejected(rpc_error(answer))),
    }
}

/// The error of an answer.
pub(crate) fn rpc_error(answer: &Message) -> toolgate::RpcError {
    let text = |json: Json| json.text().map(std::borrow::Cow::into_owned);
    toolgate::RpcError {
        code: answer.member("code").and_then(|json| json.i64()).unwrap_or(code::INTERNAL_ERROR),
        message: answer.member("message").and_then(text).unwrap_or_default(),
        data: answer.member("data"),
    }
}
