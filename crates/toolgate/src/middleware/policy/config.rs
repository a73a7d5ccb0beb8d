//! Settings of policy: the tables `[policies.NAME]`, and who is bound to which of them.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer};

use crate::{
    identity::Principal,
    selector::{Selector, glob},
};

/// `[policies.NAME]`: one policy, with lists of selectors or a Cedar file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PolicyConfig {
    /// Tools that may be called, as `server/tool` selectors. Tools on neither list are denied.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub allow: Vec<Selector>,
    /// Tools that may not be called; wins over `allow`.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub deny: Vec<Selector>,
    /// The file with the policy in Cedar, relative to the config file.
    pub cedar: Option<PathBuf>,
}

/// Who is bound to which policy, by the operator. Every policy that is bound to a call must allow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// The policy of the namespace, for all who call.
    pub namespace: Option<String>,
    /// Policies of those whom a pattern covers, on top.
    pub principals: Vec<(PrincipalPattern, String)>,
}

impl Bindings {
    /// Whether a policy is bound to the namespace or to a principal.
    #[must_use]
    pub fn binds(&self) -> bool {
        self.namespace.is_some() || !self.principals.is_empty()
    }
}

/// The tables `[policies.NAME]`, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyTables(pub BTreeMap<String, PolicyConfig>);

/// A glob over principals: `local:*`, `key:ci-*`, `subject:alice`, `anonymous`, `*`.
///
/// `*` stands for any run of characters (also none), `?` for exactly one, everything else for itself,
/// case included. A pattern that can cover no principal is refused, because its binding would have no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PrincipalPattern(String);

/// Why a text is no pattern for principals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can cover no principal: write `local:…`, `key:…`, `subject:…` or `anonymous`, with `*` and \
     `?` as wildcards"
)]
pub struct BadPrincipal(String);

impl PrincipalPattern {
    /// Whether the pattern covers this principal.
    #[must_use]
    pub fn covers(&self, principal: &Principal) -> bool {
        glob(&self.0, &principal.to_string())
    }
}

impl FromStr for PrincipalPattern {
    type Err = BadPrincipal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let may_cover = match text.split_once(':') {
            Some((kind, who)) => !who.is_empty() && KINDS.iter().any(|known| glob(kind, known)),
            // Without a colon the pattern needs a `*`, which can match the colon, or must match `anonymous`.
            None => text.contains('*') || glob(text, "anonymous"),
        };
        if may_cover { Ok(Self(text.to_owned())) } else { Err(BadPrincipal(text.to_owned())) }
    }
}

/// What stands before the colon of a principal.
const KINDS: [&str; 3] = ["local", "key", "subject"];

/// Whether a principal may be called this.
#[cfg(feature = "cedar")]
pub(super) fn is_principal(text: &str) -> bool {
    match text.split_once(':') {
        Some((kind, _)) => KINDS.contains(&kind),
        None => text == "anonymous",
    }
}

impl fmt::Display for PrincipalPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PrincipalPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PrincipalPattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PrincipalPattern".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
