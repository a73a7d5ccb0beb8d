//! Error responses to invalid messages: the same codes, texts and `data` over every transport.

use bytes::Bytes;
use toolgate_wire::{Id, RefusedMessage, Shape, WireError, WireErrorKind, error_response};

use crate::{failure::Failure, registry::Code};

/// A failure as the line of a JSON-RPC error response.
#[must_use]
pub fn line(id: Option<&Id>, failure: &Failure) -> Bytes {
    let rpc = failure.to_rpc();
    error_response(id, rpc.code, &rpc.message, rpc.data.as_ref())
}

/// The failure for an invalid message.
#[must_use]
pub fn unreadable(refused: &RefusedMessage) -> Failure {
    Failure::new(code(refused.error.kind()), refused.error.to_string())
}

/// The failure for an invalid batch. An empty batch is valid JSON, unlike an empty message.
#[must_use]
pub fn unreadable_batch(error: &WireError) -> Failure {
    let code = match error.kind() {
        WireErrorKind::Empty => Code::InvalidRequest,
        kind => code(kind),
    };
    Failure::new(code, error.to_string())
}

/// The failure for a message of `length` bytes.
#[must_use]
pub fn too_long(length: u64, limit: usize) -> Failure {
    let text = format!("a message of {length} bytes is over the limit of {limit} bytes");
    Failure::new(Code::MessageTooLarge, text)
}

/// The failure for a message of unknown length that exceeds the limit.
#[must_use]
pub fn too_large(limit: usize) -> Failure {
    let text = format!("the message is over the limit of {limit} bytes");
    Failure::new(Code::MessageTooLarge, text)
        .suggest("Send less at once. Only the operator can raise `limits.message_bytes`.")
}

/// Whether the sender of an unreadable message may be waiting for a response: only requests get one.
#[must_use]
pub fn expects_response(refused: &RefusedMessage) -> bool {
    refused.id.is_some() || refused.shape_hint.is_none_or(|shape| shape == Shape::Request)
}

fn code(kind: WireErrorKind) -> Code {
    match kind {
        WireErrorKind::Syntax | WireErrorKind::Utf8 | WireErrorKind::Empty => Code::ParseError,
        WireErrorKind::TooLarge | WireErrorKind::TooDeep => Code::MessageTooLarge,
        _ => Code::InvalidRequest,
    }
}
