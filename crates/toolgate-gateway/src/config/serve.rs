//! `[serve]`: the gateway's own door.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{IntoDeserializer as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toolgate::settings::Switch;

use super::Text;

/// Where `toolgate serve` listens, whom it answers, and how much it takes on.
#[derive(Clone, Debug, Deserialize, PartialEq, schemars::JsonSchema)]
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
    /// Who may use it, by a name of your own, with the token that each one sends as `Authorization: Bearer …`: the token
    /// itself, or a table with `token` and `namespaces`. The principal is then `key:NAME`. Without tokens every program
    /// on this machine may use it.
    pub tokens: BTreeMap<String, TokenConfig>,
    /// How many connections there may be at once.
    pub connections: usize,
    /// How many sessions there may be at once; a request that listens (`subscriptions/listen`) counts as one.
    pub sessions: usize,
    /// How many resources clients may be subscribed to at once; 1,000 in one session, with addresses of 8 KiB.
    pub subscriptions: usize,
    /// How much of the gateway one principal may use where `tokens` has several, from 0 to 1: of `sessions`,
    /// `subscriptions`, `limits.in_flight`, `processes` of a server, calls that wait for their client, and the memory
    /// for all that. One at least of each. A principal at its bound is refused with 429; others are served as before.
    pub per_principal: f64,
    /// A session that was not used for so long is ended.
    pub session_idle: Switch<Duration>,
    /// How many threads serve clients; as many as there are cores if not set.
    pub threads: Option<usize>,
}

/// One token, and the namespaces that it opens.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema)]
#[serde(untagged)]
pub enum TokenConfig {
    /// The token alone: for every namespace. Not enough where there are several tokens and several namespaces.
    Plain(Text),
    /// With the namespaces that it is for.
    Bound(BoundToken),
}

/// One who may use the gateway, by a name of your own. `NAME = "TOKEN"` in `[serve.tokens]` is a token for every
/// namespace; where there are several tokens and several namespaces, each token says which of them it opens.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoundToken {
    /// The token.
    pub token: Text,
    /// The namespaces that it opens, or `["*"]` for all. For this token others do not exist.
    #[serde(default)]
    pub namespaces: Option<Vec<String>>,
}

impl TokenConfig {
    /// The secret.
    #[must_use]
    pub fn secret(&self) -> &str {
        match self {
            Self::Plain(token) => token.as_str(),
            Self::Bound(bound) => bound.token.as_str(),
        }
    }

    /// The namespaces that it names, if it names some.
    #[must_use]
    pub fn namespaces(&self) -> Option<&[String]> {
        match self {
            Self::Plain(_) => None,
            Self::Bound(bound) => bound.namespaces.as_deref(),
        }
    }
}

impl TokenConfig {
    /// Whether it is the same token for fewer namespaces.
    pub(crate) fn narrows(&self, old: &Self) -> bool {
        let fits = match (old.namespaces(), self.namespaces()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(old), Some(new)) => new.iter().all(|name| opens(Some(old), name)),
        };
        self.secret() == old.secret() && fits
    }
}

/// Whether a token with these namespaces opens one.
pub(crate) fn opens(names: Option<&[String]>, namespace: &str) -> bool {
    names.is_none_or(|names| names.iter().any(|name| name == ALL || name == namespace))
}

impl<'de> Deserialize<'de> for TokenConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = TokenConfig;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a token, or a table with `token` and `namespaces`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TokenConfig, E> {
                Text::deserialize(text.into_deserializer()).map(TokenConfig::Plain)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TokenConfig, A::Error> {
                BoundToken::deserialize(MapAccessDeserializer::new(map)).map(TokenConfig::Bound)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// All namespaces, in `serve.tokens.NAME.namespaces`.
const ALL: &str = "*";

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
            subscriptions: 40_000,
            per_principal: 0.25,
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
        if let Some((name, _)) = self.tokens.iter().find(|(_, token)| token.secret().len() < 16) {
            return Some(format!(
                "the token `{name}` in `[serve.tokens]` can be guessed: use 16 characters at least"
            ));
        }
        if self.listen.is_empty() {
            return Some("`serve.listen` is empty: name an address, or leave it out".to_owned());
        }
        if [self.connections, self.sessions, self.subscriptions].contains(&0)
            || self.threads == Some(0)
        {
            return Some("`[serve]` lets nobody in: write at least 1".to_owned());
        }
        if !(self.per_principal > 0.0 && self.per_principal <= 1.0) {
            return Some("`serve.per_principal` must be above 0 and at most 1".to_owned());
        }
        None
    }

    /// What is wrong with the namespaces that tokens open, among those that there are.
    #[must_use]
    pub fn unbound(&self, namespaces: &[&str]) -> Option<String> {
        let known = || namespaces.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
        for (name, token) in &self.tokens {
            let named = token.namespaces().unwrap_or_default();
            if let Some(unknown) =
                named.iter().find(|n| *n != ALL && !namespaces.contains(&n.as_str()))
            {
                return Some(format!(
                    "`serve.tokens.{name}` names the namespace `{unknown}`, which the config does not define: it has {}",
                    known()
                ));
            }
            if token.namespaces().is_some_and(<[String]>::is_empty) {
                return Some(format!(
                    "`serve.tokens.{name}` opens no namespace: name some of {}, or remove the token",
                    known()
                ));
            }
        }
        if self.tokens.len() < 2 || namespaces.len() < 2 {
            return None;
        }
        let (name, _) = self.tokens.iter().find(|(_, token)| token.namespaces().is_none())?;
        let example = namespaces.first().copied().unwrap_or_default();
        Some(format!(
            "there are several tokens and several namespaces ({}), and the token `{name}` does not say which of them it \
             opens: write\n\n  [serve.tokens.{name}]\n  token = \"${{{}_TOKEN}}\"\n  namespaces = [\"{example}\"]\n\n\
             or `namespaces = [\"*\"]` for all of them",
            known(),
            name.to_uppercase().replace('-', "_")
        ))
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
        config.tokens.insert("me".to_owned(), TokenConfig::Plain("short".to_owned().into()));
        assert!(config.fault().unwrap().contains("16"));
        config
            .tokens
            .insert("me".to_owned(), TokenConfig::Plain("0123456789abcdef".to_owned().into()));
        assert_eq!(config.fault(), None);
        assert_eq!(ServeConfig::default().fault(), None);
    }
}
