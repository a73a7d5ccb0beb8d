//! What a caller is granted: the one place that is asked, whoever grants.

use crate::{
    context::Context,
    middleware::scopes::config::{Granted, Scope},
};

/// One who grants: its name for the operator, and the scopes.
pub(super) struct Source<'a> {
    pub(super) name: Grantor,
    scopes: Vec<&'a Scope>,
}

/// Where a grant is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grantor {
    Namespace,
    Principals,
    Variable,
}

impl Source<'_> {
    fn grants(&self, wanted: &str) -> bool {
        self.scopes.iter().any(|scope| scope.grants(wanted))
    }
}

/// All that are given for one caller. What one of them does not grant is not granted.
pub(super) struct Sources<'a>(Vec<Source<'a>>);

impl<'a> Sources<'a> {
    /// Gathers what the caller is granted. What a token grants belongs here too, as one more.
    pub(super) fn of(granted: &'a Granted, cx: &Context) -> Self {
        let mut sources = Vec::new();
        if let Some(scopes) = &granted.namespace {
            sources.push(Source { name: Grantor::Namespace, scopes: scopes.iter().collect() });
        }
        if let Some(patterns) = &granted.principals {
            let covering = patterns.iter().filter(|(pattern, _)| pattern.covers(cx.principal()));
            let scopes = covering.flat_map(|(_, scopes)| scopes).collect();
            sources.push(Source { name: Grantor::Principals, scopes });
        }
        if let Some(scopes) = &granted.variable {
            sources.push(Source { name: Grantor::Variable, scopes: scopes.iter().collect() });
        }
        Self(sources)
    }

    /// Whether nobody says anything about scopes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them grant it.
    pub(super) fn grant(&self, wanted: &str) -> bool {
        !self.0.is_empty() && self.0.iter().all(|source| source.grants(wanted))
    }

    /// Those that do not grant it.
    pub(super) fn lacking(&self, wanted: &str) -> impl Iterator<Item = Grantor> {
        self.0.iter().filter(move |source| !source.grants(wanted)).map(|source| source.name)
    }

    /// The scopes that all of them grant, each once, in the order of the first that names them.
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
