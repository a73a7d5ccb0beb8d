//! Policies of two selector lists. Deny takes precedence; a tool on neither list is denied.

use std::sync::Arc;

use super::verdict::PolicyVerdict;
use crate::{identity::ToolId, selector::Selector};

/// Both lists; each selector has the id by which messages name it.
#[derive(Debug)]
pub(super) struct Globs {
    deny: Vec<(Selector, Arc<str>)>,
    allow: Vec<(Selector, Arc<str>)>,
}

impl Globs {
    pub(super) fn new(allow: &[Selector], deny: &[Selector]) -> Self {
        let rules = |list: &str, selectors: &[Selector]| {
            let numbered = selectors.iter().enumerate();
            let id = |at, selector: &Selector| format!("{list}[{at}] {selector}").into();
            numbered.map(|(at, selector)| (selector.clone(), id(at, selector))).collect()
        };
        Self { deny: rules("deny", deny), allow: rules("allow", allow) }
    }

    pub(super) fn judge(&self, tool: &ToolId) -> PolicyVerdict {
        let hit = |rules: &[(Selector, Arc<str>)]| {
            let first = rules.iter().find(|(selector, _)| selector.covers(tool));
            first.map(|(_, id)| Arc::clone(id))
        };
        if let Some(rule) = hit(&self.deny) {
            return PolicyVerdict::deny(rule);
        }
        hit(&self.allow).map_or_else(|| PolicyVerdict::deny("default deny"), PolicyVerdict::allow)
    }

    pub(super) fn describe(&self) -> String {
        format!("{} allowed, {} denied", self.allow.len(), self.deny.len())
    }
}
