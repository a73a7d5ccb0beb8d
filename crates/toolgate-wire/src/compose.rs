//! Builds messages, without a newline at the end.

use bytes::Bytes;

use crate::id::Id;
use crate::json::Json;
use crate::text::write_string;

const MESSAGE_START: &[u8] = br#"{"jsonrpc":"2.0""#;

/// Capacity for keys, punctuation and a typical id and method.
const FRAME_CAPACITY: usize = 128;

/// A request.
#[must_use]
pub fn request(id: &Id, method: &str, params: Option<&Json>) -> Bytes {
    let mut out = start(params);
    member(&mut out, "id", id.as_json());
    call(out, method, params)
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: Option<&Json>) -> Bytes {
    call(start(params), method, params)
}

/// A response.
#[must_use]
pub fn response(id: &Id, result: &Json) -> Bytes {
    let mut out = start(Some(result));
    member(&mut out, "id", id.as_json());
    member(&mut out, "result", result);
    close(out)
}

/// An error; without an id if it is unknown which request failed.
#[must_use]
pub fn error_response(id: Option<&Id>, code: i64, message: &str, data: Option<&Json>) -> Bytes {
    let mut out = start(data);
    let null = Json::null();
    member(&mut out, "id", id.map_or(&null, Id::as_json));
    out.extend_from_slice(b",\"error\":{\"code\":");
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(&mut out, message);
    if let Some(data) = data {
        member(&mut out, "data", data);
    }
    out.push(b'}');
    close(out)
}

fn call(mut out: Vec<u8>, method: &str, params: Option<&Json>) -> Bytes {
    out.extend_from_slice(b",\"method\":");
    write_string(&mut out, method);
    if let Some(params) = params {
        member(&mut out, "params", params);
    }
    close(out)
}

fn start(payload: Option<&Json>) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_CAPACITY + payload.map_or(0, Json::len));
    out.extend_from_slice(MESSAGE_START);
    out
}

fn member(out: &mut Vec<u8>, key: &str, value: &Json) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value.as_bytes());
}

fn close(mut out: Vec<u8>) -> Bytes {
    out.push(b'}');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_each_shape() {
        let (id, empty) = (Id::number(7), Json::empty_object());
        assert_eq!(
            request(&id, "tools/list", None),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#
        );
        assert_eq!(
            request(&Id::string("a\"b"), "x\ny", Some(&empty)),
            r#"{"jsonrpc":"2.0","id":"a\"b","method":"x\ny","params":{}}"#
        );
        assert_eq!(
            notification("notifications/initialized", None),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
        assert_eq!(response(&id, &empty), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(
            error_response(None, -32700, "no \"JSON\"", None),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no \"JSON\""}}"#
        );
        assert_eq!(
            error_response(Some(&id), -1, "m", Some(&empty)),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"m","data":{}}}"#
        );
    }
}
