//! `[serve]`: the addresses on which the gateway accepts clients, the clients' tokens, and limits.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{IntoDeserializer as _, MapAccess, Visitor, value::MapAccessDeserializer},
};
use toolgate::settings::Switch;

use super::Text;

/// Addresses, tokens and limits of `toolgate serve`.
#[derive(Clone, Debug, Deserialize, PartialEq, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// The address to listen on, or a list of addresses. Other addresses than loopback need `tokens`.
    #[serde(deserialize_with = "addresses")]
    #[schemars(with = "Vec<String>")]
    pub listen: Vec<SocketAddr>,
    /// Further host names of the gateway, for example `gateway.example.com`. Requests with another `Host` are
    /// refused.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the gateway, for example `https://app.example.com`.
    pub origins: Vec<String>,
    /// The tokens that clients send as `Authorization: Bearer TOKEN`, by a name of your own: `NAME = "TOKEN"` for all
    /// namespaces, or a table. The principal of a client is `key:NAME`. Without tokens every program on this machine
    /// may use the gateway.
    pub tokens: BTreeMap<String, TokenConfig>,
    /// The limit of connections.
    pub connections: usize,
    /// The limit of sessions; an open `subscriptions/listen` counts as one.
    pub sessions: usize,
    /// The limit of subscribed resources over all sessions. One session may have 1,000, with URIs of up to 8 KiB.
    pub subscriptions: usize,
    /// The share of each limit that one principal may use if `tokens` has several, from 0 to 1: of `sessions`,
    /// `subscriptions`, `limits.in_flight`, `processes` of a server, calls that wait for their client, and the memory
    /// for all that; at least one of each. A principal at its limit gets 429; others are not affected.
    pub per_principal: f64,
    /// The time without use after which a session ends.
    pub session_idle: Switch<Duration>,
    /// The number of threads that serve clients; default: the number of cores.
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

/// One token, with a name of your own. `NAME = "TOKEN"` in `[serve.tokens]` opens every namespace. If there are
/// several tokens and several namespaces, each token must name its namespaces.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoundToken {
    /// The token.
    pub token: Text,
    /// The namespaces that the token opens, or `["*"]` for all. With this token, other namespaces answer 404.
    #[serde(default)]
    pub namespaces: Option<Vec<String>>,
}

impl TokenConfig {
    /// The token itself.
    #[must_use]
    pub fn secret(&self) -> &str {
        match self {
            Self::Plain(token) => token.as_str(),
            Self::Bound(bound) => bound.token.as_str(),
        }
    }

    /// The namespaces that the entry names; `None` if it has no `namespaces`.
    #[must_use]
    pub fn namespaces(&self) -> Option<&[String]> {
        match self {
            Self::Plain(_) => None,
            Self::Bound(bound) => bound.namespaces.as_deref(),
        }
    }
}

impl TokenConfig {
    /// Whether this entry has the same token as `old` and opens no namespace that `old` does not open.
    pub(crate) fn narrows(&self, old: &Self) -> bool {
        let fits = match (old.namespaces(), self.namespaces()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(old), Some(new)) => new.iter().all(|name| opens(Some(old), name)),
        };
        self.secret() == old.secret() && fits
    }
}

/// Whether a token whose entry names these namespaces opens `namespace`.
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

/// The entry of `serve.tokens.NAME.namespaces` that stands for all namespaces.
const ALL: &str = "*";

/// The default of `serve.listen`.
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
    /// The first invalid setting of the table, as a message for the operator.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let open = self.listen.iter().find(|address| !address.ip().is_loopback());
        if let Some(address) = open.filter(|_| self.tokens.is_empty()) {
            return Some(format!(
                "`{address}` can be reached from other machines, and clients need no token: set \
                 `[serve.tokens]`, or listen on 127.0.0.1"
            ));
        }
        if let Some((name, _)) = self.tokens.iter().find(|(_, token)| token.secret().len() < 16) {
            return Some(format!(
                "the token `{name}` in `[serve.tokens]` can be guessed: use 16 characters at least"
            ));
        }
        for (index, (name, token)) in self.tokens.iter().enumerate() {
            let mut before = self.tokens.iter().take(index);
            if let Some((other, _)) = before.find(|(_, other)| other.secret() == token.secret()) {
                return Some(format!(
                    "`serve.tokens.{other}` and `serve.tokens.{name}` are the same secret: give each its own"
                ));
            }
        }
        if let Some(host) = self.hosts.iter().find(|host| host.contains('/')) {
            return Some(format!(
                "`serve.hosts` names `{host}`: write the name of the host alone, as `gateway.example.com`"
            ));
        }
        if let Some(origin) = self.origins.iter().find(|origin| !origin.contains("://")) {
            return Some(format!(
                "`serve.origins` names `{origin}`: write it with its scheme, as `https://app.example.com`"
            ));
        }
        let repeated = self.listen.iter().enumerate().find(|(index, address)| {
            address.port() != 0 && self.listen.iter().take(*index).any(|other| other == *address)
        });
        if let Some((_, address)) = repeated {
            return Some(format!("`serve.listen` names `{address}` twice: remove one"));
        }
        if self.listen.is_empty() {
            return Some("`serve.listen` is empty: name an address, or leave it out".to_owned());
        }
        if [self.connections, self.sessions, self.subscriptions].contains(&0)
            || self.threads == Some(0)
        {
            return Some(
                "`connections`, `sessions`, `subscriptions` or `threads` of `[serve]` is 0: write at least 1"
                    .to_owned(),
            );
        }
        if !(self.per_principal > 0.0 && self.per_principal <= 1.0) {
            return Some("`serve.per_principal` must be above 0 and at most 1".to_owned());
        }
        None
    }

    /// The first token whose namespaces are invalid or missing, as a message for the operator. `namespaces` are those
    /// that the config defines.
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
        Port(u16),
        One(String),
        Several(Vec<String>),
    }
    let texts = match Either::deserialize(deserializer)? {
        Either::Port(port) => vec![port.to_string()],
        Either::One(text) => vec![text],
        Either::Several(texts) => texts,
    };
    texts.iter().map(|text| address(text).map_err(serde::de::Error::custom)).collect()
}

/// Reads an address: `127.0.0.1:8642`, `[::1]:8642`, `localhost:8642`, or a port alone, which means 127.0.0.1.
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
