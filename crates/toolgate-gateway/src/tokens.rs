//! Bearer tokens: which principal a token belongs to, and which namespaces it opens.

use std::{collections::BTreeMap, fmt};

use hyper::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use crate::config::serve::{TokenConfig, opens};

/// The bearer token of a request; `None` unless there is exactly one well-formed `Authorization` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    let is_whole = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_whole).then_some(token)
}

/// Why the configured tokens cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokensError {
    #[error("`serve.tokens.{0}` is empty: give it a secret, or leave it out")]
    Empty(String),
    #[error(
        "`serve.tokens.{0}` has characters that a header cannot carry: use visible ASCII without spaces"
    )]
    NotSendable(String),
    #[error("`serve.tokens.{0}` and `serve.tokens.{1}` are the same secret: give each its own")]
    Same(String, String),
}

/// The configured tokens. Only digests of the secrets are kept.
#[derive(Default)]
pub(crate) struct Tokens(Vec<TokenEntry>);

/// One configured token.
pub(crate) struct TokenEntry {
    pub(crate) name: Box<str>,
    digest: [u8; 32],
    namespaces: Option<Vec<String>>,
}

impl TokenEntry {
    /// Whether the token gives access to a namespace.
    pub(crate) fn opens(&self, namespace: &str) -> bool {
        opens(self.namespaces.as_deref(), namespace)
    }
}

impl Tokens {
    pub(crate) fn new(tokens: &BTreeMap<String, TokenConfig>) -> Result<Self, TokensError> {
        let mut entries: Vec<TokenEntry> = Vec::new();
        for (name, token) in tokens {
            let secret = token.secret();
            if secret.is_empty() {
                return Err(TokensError::Empty(name.to_owned()));
            }
            if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(TokensError::NotSendable(name.to_owned()));
            }
            let digest = digest(secret);
            if let Some(other) = entries.iter().find(|entry| entry.digest == digest) {
                return Err(TokensError::Same(other.name.to_string(), name.to_owned()));
            }
            let namespaces = token.namespaces().map(<[String]>::to_vec);
            entries.push(TokenEntry { name: name.as_str().into(), digest, namespaces });
        }
        Ok(Self(entries))
    }

    /// Whether no tokens are configured, so that clients need none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of a token. Compares all entries, so that the time taken reveals nothing about the secrets.
    pub(crate) fn owner(&self, token: &str) -> Option<&TokenEntry> {
        let shown = digest(token);
        let mut found = u64::MAX;
        for (number, entry) in (0..).zip(&self.0) {
            found.conditional_assign(&number, entry.digest.ct_eq(&shown));
        }
        self.0.get(usize::try_from(found).ok()?)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|entry| &entry.name)).finish()
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn tokens(list: &[(&str, &str)]) -> Result<Tokens, TokensError> {
        let token = |(name, secret): &(&str, &str)| {
            ((*name).to_owned(), TokenConfig::Plain((*secret).to_owned().into()))
        };
        Tokens::new(&list.iter().map(token).collect())
    }

    #[test]
    fn one_header_of_one_form_carries_a_token() {
        for (values, token) in [
            (&["Bearer abc"] as &[&str], Some("abc")),
            (&["bearer  a.b-c_d~e+f/g=="], Some("a.b-c_d~e+f/g==")),
            (&["BEARER !$x"], Some("!$x")),
            (&[], None),
            (&["Bearer abc", "Bearer abc"], None),
            (&["Bearer"], None),
            (&["Bearer "], None),
            (&["Bearer a b"], None),
            (&["Bearer a\tb"], None),
            (&["Bearer\tab"], None),
            (&["Bearer \u{e4}"], None),
            (&["Basic abc"], None),
            (&["abc"], None),
            (&["Bearerx abc"], None),
        ] {
            let header = |value: &&str| HeaderValue::from_bytes(value.as_bytes()).unwrap();
            let headers = values.iter().map(|value| (AUTHORIZATION, header(value))).collect();
            assert_eq!(bearer(&headers), token, "{values:?}");
        }
    }

    #[test]
    fn a_token_is_its_owners_and_no_others() {
        let tokens = tokens(&[("ci", "one"), ("laptop", "two"), ("bot", "three")]).unwrap();
        assert!(!tokens.is_empty());
        for (token, owner) in [("one", Some("ci")), ("two", Some("laptop")), ("three", Some("bot"))]
        {
            assert_eq!(tokens.owner(token).map(|entry| &*entry.name), owner);
        }
        for other in ["", "One", "one ", "onetwo", "thre"] {
            assert!(tokens.owner(other).is_none(), "{other}");
        }
        assert!(Tokens::default().owner("x").is_none());
    }

    #[test]
    fn secrets_are_not_shown() {
        let tokens = tokens(&[("ci", "one")]).unwrap();
        assert_eq!(format!("{tokens:?}"), r#"{"ci"}"#);
    }

    #[test]
    fn tokens_that_cannot_work_are_refused() {
        let refused = |list: &[(&str, &str)]| tokens(list).unwrap_err().to_string();
        assert!(refused(&[("ci", "")]).contains("`serve.tokens.ci` is empty"));
        assert!(refused(&[("ci", "a b")]).contains("visible ASCII"));
        assert!(refused(&[("a", "x"), ("b", "x")]).contains("`serve.tokens.b`"));
    }
}
