//! The scopes of a caller, from all sources of grants.

use crate::{
    context::Context,
    middleware::scopes::config::{Granted, Scope},
};

/// A source of grants: its name and its scopes.
pub(super) struct Source<'a> {
    pub(super) name: GrantSource,
    scopes: Vec<&'a Scope>,
}

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantSource {
    Namespace,
    Principals,
    Variable,
}

impl Source<'_> {
    fn grants(&self, wanted: &str) -> bool {
        self.scopes.iter().any(|scope| scope.grants(wanted))
    }
}

/// All sources for one caller. A scope is granted only if every source grants it.
pub(super) struct Sources<'a>(Vec<Source<'a>>);

impl<'a> Sources<'a> {
    /// Collects the grants of the caller. Scopes of a token would be one more source.
    pub(super) fn of(granted: &'a Granted, cx: &Context) -> Self {
        let mut sources = Vec::new();
        if let Some(scopes) = &granted.namespace {
            sources.push(Source { name: GrantSource::Namespace, scopes: scopes.iter().collect() });
        }
        if let Some(patterns) = &granted.principals {
            let covering = patterns.iter().filter(|(pattern, _)| pattern.covers(cx.principal()));
            let scopes = covering.flat_map(|(_, scopes)| scopes).collect();
            sources.push(Source { name: GrantSource::Principals, scopes });
        }
        if let Some(scopes) = &granted.variable {
            sources.push(Source { name: GrantSource::Variable, scopes: scopes.iter().collect() });
        }
        Self(sources)
    }

    /// Whether there is no source.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all sources grant the scope.
    pub(super) fn grant(&self, wanted: &str) -> bool {
        !self.0.is_empty() && self.0.iter().all(|source| source.grants(wanted))
    }

    /// The sources that do not grant the scope.
    pub(super) fn lacking(&self, wanted: &str) -> impl Iterator<Item = GrantSource> {
        self.0.iter().filter(move |source| !source.grants(wanted)).map(|source| source.name)
    }

    /// The scopes that all sources grant, each once, in the order of the first source.
    pub(super) fn common(&self) -> Vec<&'a str> {
        let mut common: Vec<&str> = Vec::new();
        for scope in self.0.iter().flat_map(|source| &source.scopes) {
            let scope = scope.as_str();
            if !common.contains(&scope) && self.grant(scope) {
                common.push(scope);
            }
        }
        common
    }
}
