//! Settings of scopes: words that tools require and callers are granted.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer};

use crate::{
    middleware::policy::PrincipalPattern,
    selector::{Selector, glob},
};

/// A scope, as `read`, `files` or `files:write`. Where it is granted, `*` stands for any run of
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(String);

/// Why a text is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scope: write letters, digits and `_ . : / * -`, as `read` or `files:write`")]
pub struct BadScope(String);

impl Scope {
    /// The scope as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether granting this one grants `wanted`.
    #[must_use]
    pub fn grants(&self, wanted: &str) -> bool {
        // No `?` can stand in a scope, so `*` is the only wildcard.
        glob(&self.0, wanted)
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.:/*-".contains(c);
        if text.is_empty() || !text.chars().all(fits) {
            return Err(BadScope(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Scope {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scope".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// The environment variable with a comma-separated list of scopes. No caller gets a scope outside of it.
pub const VARIABLE: &str = "MCP_SCOPES";

/// Why the value of [`VARIABLE`] is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScopeVariable {
    /// One of its words is no scope.
    #[error("the variable {VARIABLE} is refused: {0}")]
    Scope(#[from] BadScope),
    /// The variable is set but empty, which could mean no scopes or all scopes.
    #[error(
        "the variable {VARIABLE} is set, but names no scope: name some, as `read,write`, or unset it"
    )]
    Empty,
}

/// Reads the value of [`VARIABLE`]: scopes with commas between them, blanks around them ignored.
pub fn from_variable(value: &str) -> Result<Vec<Scope>, BadScopeVariable> {
    let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
    let scopes = words.map(str::parse).collect::<Result<Vec<Scope>, _>>()?;
    if scopes.is_empty() { Err(BadScopeVariable::Empty) } else { Ok(scopes) }
}

/// Who is granted what. A scope is granted where every one of those that are given grants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// `scopes` of the namespace, for all who call.
    pub namespace: Option<Vec<Scope>>,
    /// `grants` of the namespace: those whom a pattern covers get what stands beside it, and those whom none
    /// covers get nothing.
    pub principals: Option<Vec<(PrincipalPattern, Vec<Scope>)>>,
    /// [`VARIABLE`], for all who call.
    pub variable: Option<Vec<Scope>>,
}

impl Granted {
    /// Whether anything is given at all.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.namespace.is_some() || self.principals.is_some() || self.variable.is_some()
    }
}

/// What the layer is set to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopesConfig {
    /// Who is granted what.
    pub granted: Granted,
    /// `scopes` of single tools: those that they require.
    pub required: Vec<(Selector, Vec<Scope>)>,
}

impl ScopesConfig {
    /// Whether anything is granted or required.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.granted.is_given() || !self.required.is_empty()
    }
}
