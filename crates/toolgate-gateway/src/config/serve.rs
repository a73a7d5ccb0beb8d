//! `[serve]`: the gateway's own door.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{Deserialize, Deserializer};
use toolgate::settings::Switch;

use super::Text;

/// Where `toolgate serve` listens, whom it answers, and how much it takes on.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// The address, or a list of them: `127.0.0.1:8642`. Others than this machine's own need `tokens`.
    #[serde(deserialize_with = "addresses")]
    #[schemars(with = "Vec<String>")]
    pub listen: Vec<SocketAddr>,
    /// Further names under which clients reach it, as `gateway.example.com`. Requests under other names are refused.
    pub hosts: Vec<String>,
    /// Web pages that may use it, as `https://app.example.com`.
    pub origins: Vec<String>,
    /// Who may use it, by a name of your own, with the token that each one sends as `Authorization: Bearer …`. The
    /// principal is then `key:NAME`. Everybody on this machine may if there are none.
    pub tokens: BTreeMap<String, Text>,
    /// How many connections there may be at once.
    pub connections: usize,
    /// How many sessions there may be at once.
    pub sessions: usize,
    /// A session that was not used for so long is ended.
    pub session_idle: Switch<Duration>,
    /// How many threads serve clients; as many as there are cores if not set.
    pub threads: Option<usize>,
}

/// Where it listens if nothing is said.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8642";

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: DEFAULT_ADDRESS.parse().into_iter().collect(),
            hosts: Vec::new(),
            origins: Vec::new(),
            tokens: BTreeMap::new(),
            connections: 20_000,
            sessions: 10_000,
            session_idle: Switch::On(Duration::from_mins(30)),
            threads: None,
        }
    }
}

impl ServeConfig {
    /// What is wrong with it, if something is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let open = self.listen.iter().find(|address| !address.ip().is_loopback());
        if let Some(address) = open.filter(|_| self.tokens.is_empty()) {
            return Some(format!(
                "`{address}` can be reached from other machines, and nobody has to say who they are: set \
                 `[serve.tokens]`, or listen on 127.0.0.1"
            ));
        }
        if let Some((name, _)) = self.tokens.iter().find(|(_, token)| token.as_str().len() < 16) {
            return Some(format!(
                "the token `{name}` in `[serve.tokens]` can be guessed: use 16 characters at least"
            ));
        }
        if self.listen.is_empty() {
            return Some("`serve.listen` is empty: name an address, or leave it out".to_owned());
        }
        if [self.connections, self.sessions].contains(&0) || self.threads == Some(0) {
            return Some("`[serve]` lets nobody in: write at least 1".to_owned());
        }
        None
    }
}

fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected an address, as `127.0.0.1:8642`, or a list of them")]
    enum Either {
        One(String),
        Several(Vec<String>),
    }
    let texts = match Either::deserialize(deserializer)? {
        Either::One(text) => vec![text],
        Either::Several(texts) => texts,
    };
    texts.iter().map(|text| address(text).map_err(serde::de::Error::custom)).collect()
}

/// Reads an address: `127.0.0.1:8642`, `[::1]:8642`, `localhost:8642`, or a port of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let plain = text.strip_prefix("localhost").map(|rest| format!("127.0.0.1{rest}"));
    let plain = plain.as_deref().unwrap_or(text);
    if let Ok(port) = plain.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let wrong = || format!("`{text}` is no address: write it as `{DEFAULT_ADDRESS}`");
    plain.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("localhost:2", "127.0.0.1:2"),
            ("3", "127.0.0.1:3"),
            (":4", "127.0.0.1:4"),
            ("[::1]:5", "[::1]:5"),
            ("0.0.0.0:6", "0.0.0.0:6"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        assert!(address("gateway").is_err() && address("1.2.3.4").is_err());
    }

    #[test]
    fn other_machines_are_let_in_with_a_token_only() {
        let mut config =
            ServeConfig { listen: vec![address("0.0.0.0:1").unwrap()], ..ServeConfig::default() };
        assert!(config.fault().unwrap().contains("serve.tokens"));
        config.tokens.insert("me".to_owned(), "short".to_owned().into());
        assert!(config.fault().unwrap().contains("16"));
        config.tokens.insert("me".to_owned(), "0123456789abcdef".to_owned().into());
        assert_eq!(config.fault(), None);
        assert_eq!(ServeConfig::default().fault(), None);
    }
}
