//! Protocol versions of MCP, and the `_meta` keys that carry them since 2026-07-28.

/// Every published version, oldest first.
pub const VERSIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The first version without a session handshake: each request carries its own context.
pub const MODERN: &str = "2026-07-28";
/// The last version with a session handshake: the one to ask for where a session is opened.
pub const LEGACY: &str = "2025-11-25";

/// How a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// With `initialize` and sessions, until 2025-11-25.
    Legacy,
    /// Each request for itself, from 2026-07-28 on.
    Modern,
}

/// `_meta` key of a request: the version that it speaks.
pub const META_PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of a request: name and version of the client.
pub const META_CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// `_meta` key of a request: what the client can do.
pub const META_CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// `_meta` key of a request: from which level on the server may tell of what it does.
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key of a result: name and version of the server.
pub const META_SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key of a notification: the request that subscribed to it.
pub const META_SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Whether a version is 2026-07-28 or later. What is not a date is not modern.
#[must_use]
pub fn is_modern(version: &str) -> bool {
    is_date(version) && version >= MODERN
}

fn is_date(version: &str) -> bool {
    version.len() == MODERN.len()
        && version.bytes().zip(MODERN.bytes()).all(|(byte, shape)| match shape {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_published_version_is_modern() {
        let modern: Vec<_> = VERSIONS.into_iter().filter(|v| is_modern(v)).collect();
        assert_eq!(modern, ["2026-07-28"]);
        assert!(is_modern("2027-01-01"));
    }

    #[test]
    fn what_is_not_a_date_is_not_modern() {
        for odd in ["", "latest", "2026-07-281", "9999", "2026/07/28", "DRAFT-2099", "２026-07-2"]
        {
            assert!(!is_modern(odd), "{odd}");
        }
    }
}
