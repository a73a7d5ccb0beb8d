//! All policies by name, read and compiled at startup.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "cedar")]
use super::cedar::Cedar;
use super::{
    config::PolicyConfig,
    globs::Globs,
    verdict::{PolicyRequest, PolicyVerdict},
};
use crate::layer_spec::BadSettings;

/// The compiled policies of a config. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<BTreeMap<Arc<str>, Arc<NamedPolicy>>>);

/// Why policies are invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A policy has an empty name. A `policyId` that is not a string counts as empty, so no policy may have that name.
    #[error("a policy has an empty name: write `[policies.NAME]`")]
    NoName,
    /// A policy has both forms.
    #[error("policy `{0}` has `cedar` beside `allow` or `deny`: keep one form")]
    BothForms(String),
    /// A policy is written in Cedar, which this build does not support.
    #[error(
        "policy `{0}` is written in Cedar, and this toolgate was built without it: build it with the \
         feature `cedar`, or write `allow` and `deny`"
    )]
    WithoutCedar(String),
    /// A Cedar file cannot be read.
    #[error("policy `{name}`: cannot read `{}`: {source}; correct the path in `cedar`, or create the file", path.display())]
    Unreadable {
        /// The policy.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A Cedar file does not parse.
    #[error("policy `{name}`: {}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The policy.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
        /// The fault.
        message: String,
    },
    /// A rule of a Cedar file can never match.
    #[error("policy `{name}`: {}: rule `{rule}` {message}", path.display())]
    Rule {
        /// The policy.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The rule.
        rule: String,
        /// The fault.
        message: String,
    },
    /// A principal is bound to a policy that does not exist.
    #[error("{bound} is bound to the policy `{name}`, which does not exist: {known}")]
    Unknown {
        /// The principal.
        bound: String,
        /// The policy.
        name: String,
        /// The existing policies, in words.
        known: String,
    },
}

impl PolicyError {
    /// The error of the settings, with its key.
    pub(super) fn into_bad_settings(self) -> BadSettings {
        let bad = BadSettings::new(self.to_string());
        match &self {
            Self::NoName => bad.at(&["policies"]),
            Self::BothForms(name)
            | Self::WithoutCedar(name)
            | Self::Unreadable { name, .. }
            | Self::Syntax { name, .. }
            | Self::Rule { name, .. } => bad.at(&["policies", name]),
            Self::Unknown { .. } => bad.at(&["policy"]),
        }
    }
}

impl Policies {
    /// Compiles all policies. Relative paths of Cedar files are relative to `base`.
    pub fn load(
        configs: &BTreeMap<String, PolicyConfig>,
        base: &Path,
    ) -> Result<Self, PolicyError> {
        let mut policies = BTreeMap::new();
        for (name, config) in configs {
            let rules = Rules::load(name, config, base)?;
            let name: Arc<str> = name.as_str().into();
            policies.insert(Arc::clone(&name), Arc::new(NamedPolicy { name, rules }));
        }
        Ok(Self(Arc::new(policies)))
    }

    /// The names of all policies.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<NamedPolicy>> {
        self.0.get(name)
    }

    /// The policy of this name.
    pub(super) fn bound(&self, name: &str, bound: &str) -> Result<Arc<NamedPolicy>, PolicyError> {
        let unknown = || {
            let names: Vec<_> = self.names().map(|name| format!("`{name}`")).collect();
            let known = if names.is_empty() {
                format!("write one as `[policies.{name}]`")
            } else {
                format!("the policies are {}", names.join(", "))
            };
            PolicyError::Unknown { bound: bound.to_owned(), name: name.to_owned(), known }
        };
        self.get(name).cloned().ok_or_else(unknown)
    }

    /// Whether any policy depends on more than a tool's identity.
    pub(super) fn need_facts(&self) -> bool {
        self.0.values().any(|policy| policy.rules.needs_facts())
    }
}

/// One policy with its name.
#[derive(Debug)]
pub(super) struct NamedPolicy {
    pub(super) name: Arc<str>,
    rules: Rules,
}

impl NamedPolicy {
    pub(super) fn judge(&self, asked: PolicyRequest<'_>) -> PolicyVerdict {
        match &self.rules {
            Rules::Globs(globs) => globs.judge(asked.tool.id()),
            #[cfg(feature = "cedar")]
            Rules::Cedar(cedar) => cedar.judge(asked),
        }
    }

    pub(super) fn describe(&self) -> String {
        let rules = match &self.rules {
            Rules::Globs(globs) => globs.describe(),
            #[cfg(feature = "cedar")]
            Rules::Cedar(cedar) => cedar.describe(),
        };
        format!("{} ({rules})", self.name)
    }
}

#[derive(Debug)]
enum Rules {
    Globs(Globs),
    #[cfg(feature = "cedar")]
    Cedar(Box<Cedar>),
}

impl Rules {
    fn load(name: &str, config: &PolicyConfig, base: &Path) -> Result<Self, PolicyError> {
        if name.is_empty() {
            return Err(PolicyError::NoName);
        }
        let Some(path) = &config.cedar else {
            return Ok(Self::Globs(Globs::new(&config.allow, &config.deny)));
        };
        if !config.allow.is_empty() || !config.deny.is_empty() {
            return Err(PolicyError::BothForms(name.to_owned()));
        }
        Self::cedar(name, &base.join(path))
    }

    #[cfg(feature = "cedar")]
    fn cedar(name: &str, path: &Path) -> Result<Self, PolicyError> {
        let text = std::fs::read_to_string(path).map_err(|source| PolicyError::Unreadable {
            name: name.to_owned(),
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::Cedar(Box::new(Cedar::parse(name, path, &text)?)))
    }

    #[cfg(not(feature = "cedar"))]
    fn cedar(name: &str, _: &Path) -> Result<Self, PolicyError> {
        Err(PolicyError::WithoutCedar(name.to_owned()))
    }

    /// Only Cedar rules can read a tool's tier or hints.
    fn needs_facts(&self) -> bool {
        !matches!(self, Self::Globs(_))
    }
}
