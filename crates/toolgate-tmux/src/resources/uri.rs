//! Reads resource URIs.

use std::fmt::Write as _;

use toolgate::{Code, Failure};

use crate::target::is_id;

/// What a URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// All sessions.
    Sessions,
    /// One session, by name, with its windows.
    Session(String),
    /// The windows of a session.
    Windows(String),
    /// A window by session and index, with its panes.
    Window(String, String),
    /// A pane by id.
    Pane(String),
    /// The text on a pane's screen.
    Content(String),
    /// The new output of a pane.
    Tail(String),
}

/// What a URI names, and on which tmux server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceAddress {
    /// The resource.
    pub(crate) resource: Resource,
    /// The socket name, if the URI has one.
    pub(crate) socket_name: Option<String>,
}

impl ResourceAddress {
    /// Reads a URI. Refuses URIs that match no template.
    pub(crate) fn parse(uri: &str) -> Result<Self, Failure> {
        Self::read(uri).ok_or_else(|| unknown(uri))
    }

    fn read(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("tmux://")?;
        let (path, query) = rest.split_once('?').map_or((rest, None), |(p, q)| (p, Some(q)));
        let socket_name = match query {
            None | Some("") => None,
            Some(query) if query.contains('&') => return None,
            Some(query) => Some(decoded(query.strip_prefix("socket_name=")?)?),
        };
        let segments: Vec<&str> = path.split('/').collect();
        let resource = match *segments {
            ["sessions"] => Resource::Sessions,
            ["sessions", name] => Resource::Session(decoded(name)?),
            ["sessions", name, "windows"] => Resource::Windows(decoded(name)?),
            ["sessions", name, "windows", index] => {
                Resource::Window(decoded(name)?, decoded(index)?)
            }
            ["panes", id] => Resource::Pane(pane(id)?),
            ["panes", id, "content"] => Resource::Content(pane(id)?),
            ["panes", id, "tail"] => Resource::Tail(pane(id)?),
            _ => return None,
        };
        Some(Self { resource, socket_name })
    }
}

fn unknown(uri: &str) -> Failure {
    let shown: String = uri.chars().take(200).collect();
    let message = format!("Resource not found: Unknown resource: '{shown}'");
    Failure::tool("NotFoundError", message)
        .suggest("Call resources/templates/list for available URIs.")
}

/// The pane id of a path segment. The id `%1` is `%251` in a URI; unencoded ids are accepted, too, since decoding `%12`
/// would give no id.
fn pane(text: &str) -> Option<String> {
    let id = decoded(text)?;
    if !is_id(&id, '%') && is_id(text, '%') { Some(text.to_owned()) } else { Some(id) }
}

/// Decodes percent signs that two digits follow. `None` for an empty text, and for one with a NUL or a `..`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digits = after.split_at_checked(2).and_then(|(two, after)| {
            let two = std::str::from_utf8(two).ok()?;
            let is_hex = two.bytes().all(|digit| digit.is_ascii_hexdigit());
            Some((u8::from_str_radix(two, 16).ok().filter(|_| is_hex)?, after))
        });
        match digits {
            Some((value, after)) if byte == b'%' => {
                bytes.push(value);
                rest = after;
            }
            _ => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let climbs = text.contains('\0') || text.split('/').any(|part| part == "..");
    (!text.is_empty() && !climbs).then_some(text)
}

/// Encodes a segment.
pub(crate) fn encoded(text: &str) -> String {
    let mut uri = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Whether a failure means that something does not exist.
pub(crate) fn is_missing(failure: &Failure) -> bool {
    let kind = failure.error_type();
    failure.code() == Code::ToolFailed
        && (kind.contains("NotFound") || kind == "TmuxServerNotRunning")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(uri: &str) -> Option<Resource> {
        ResourceAddress::read(uri).map(|address| address.resource)
    }

    #[test]
    fn uris_mean_what_their_templates_say() {
        assert_eq!(what("tmux://sessions"), Some(Resource::Sessions));
        assert_eq!(what("tmux://sessions/a%20b%2Fc"), Some(Resource::Session("a b/c".into())));
        assert_eq!(
            what("tmux://sessions/%C3%A9/windows/3"),
            Some(Resource::Window("é".into(), "3".into()))
        );
        for id in ["%250", "%0"] {
            assert_eq!(
                what(&format!("tmux://panes/{id}/content")),
                Some(Resource::Content("%0".into()))
            );
        }
        assert_eq!(what("tmux://panes/%2541"), Some(Resource::Pane("%41".into())));
        assert_eq!(what("tmux://panes/%41/tail"), Some(Resource::Tail("%41".into())));
        let named = ResourceAddress::read("tmux://sessions?socket_name=a%2Db").unwrap();
        assert_eq!(named.socket_name.as_deref(), Some("a-b"));
        assert_eq!(
            what(&format!("tmux://sessions/{}", encoded("ü/%0 x"))),
            Some(Resource::Session("ü/%0 x".into()))
        );
    }

    #[test]
    fn what_climbs_or_is_no_text_means_nothing() {
        for uri in [
            "tmux://sessions/..",
            "tmux://sessions/%2e%2e",
            "tmux://sessions/a%2F..%2Fb",
            "tmux://sessions/a%00b",
            "tmux://sessions/",
            "tmux://sessions/%FF",
            "tmux://nope",
            "tmux://sessions?other=1",
            "tmux://sessions?socket_name=a&b",
            "http://sessions",
            "tmux://panes/%250/nope",
        ] {
            assert_eq!(what(uri), None, "{uri}");
        }
    }
}
