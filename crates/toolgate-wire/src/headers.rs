//! HTTP headers that repeat parts of a message, since 2026-07-28: a proxy can route and count by them without reading
//! bodies. The receiver of the body checks that both agree.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    mcp::{member, method},
    message::Message,
};

/// The protocol version of a request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method.
pub const METHOD: &str = "mcp-method";
/// The name of the tool, prompt, resource or task.
pub const NAME: &str = "mcp-name";
/// The session id, until 2025-11-25.
pub const SESSION_ID: &str = "mcp-session-id";
/// The prefix of headers for arguments whose schema requests one; the argument's name follows.
pub const PARAM: &str = "mcp-param-";

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a text as a header value: as it is, or in base64 if a header cannot contain it.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' ' | b'\t' | 0x21..=0x7e);
    let is_framed = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let is_marked = text.starts_with(OPEN) && text.ends_with(CLOSE);
    if text.bytes().all(is_plain) && !is_framed && !is_marked {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)))
}

/// Decodes a header value; `None` if it is invalid.
#[must_use]
pub fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    let value = std::str::from_utf8(value).ok()?;
    let marked = value.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    let Some(coded) = marked else { return Some(Cow::Borrowed(value)) };
    String::from_utf8(STANDARD.decode(coded).ok()?).ok().map(Cow::Owned)
}

/// The value of [`NAME`] for a request; `None` for methods without a name.
#[must_use]
pub fn name_of(message: &Message) -> Option<String> {
    let member = match message.method() {
        method::TOOLS_CALL | method::PROMPTS_GET => "name",
        method::RESOURCES_READ => "uri",
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => member::TASK_ID,
        _ => return None,
    };
    message.member(member)?.text().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;

    #[test]
    fn what_a_header_cannot_hold_is_coded() {
        for plain in ["execute_sql", "file:///a b", "", "a\tb"] {
            assert_eq!(encode(plain), plain);
        }
        assert_eq!(encode("für"), "=?base64?ZsO8cg==?=");
        assert_eq!(encode(" x"), "=?base64?IHg=?=");
        assert_eq!(encode("a\nb"), "=?base64?YQpi?=");
        assert_eq!(encode("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
        assert_eq!(decode(b"=?base64?!!?="), None);
        assert_eq!(decode(b"=?base64?/w==?="), None, "no UTF-8");
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn requests_name_what_they_mean() {
        let name = |line: &'static str| {
            name_of(&Message::parse(Bytes::from(line), &Limits::default()).unwrap())
        };
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
        assert_eq!(name(call).as_deref(), Some("x"));
        let read = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"u:"}}"#;
        assert_eq!(name(read).as_deref(), Some("u:"));
        let task = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}"#;
        assert_eq!(name(task).as_deref(), Some("t"));
        assert_eq!(name(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), None);
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            let value = encode(&text).into_owned();
            prop_assert!(value.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)));
            prop_assert_eq!(decode(value.as_bytes()).unwrap(), text);
        }
    }
}
