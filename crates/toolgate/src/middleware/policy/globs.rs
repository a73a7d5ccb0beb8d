//! The simple form: two lists of selectors. Deny wins; what is on neither list is denied.

use std::sync::Arc;

use super::verdict::Verdict;
use crate::{identity::ToolId, selector::Selector};

/// Both lists, each selector with the id under which it is told as a rule.
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

    pub(super) fn judge(&self, tool: &ToolId) -> Verdict {
        let hit = |rules: &[(Selector, Arc<str>)]| {
            let first = rules.iter().find(|(selector, _)| selector.covers(tool));
            first.map(|(_, id)| Arc::clone(id))
        };
        if let Some(rule) = hit(&self.deny) {
            return Verdict::deny(rule);
        }
        hit(&self.allow).map_or_else(|| Verdict::deny("default deny"), Verdict::allow)
    }

    pub(super) fn describe(&self) -> String {
        format!("{} allowed, {} denied", self.allow.len(), self.deny.len())
    }
}
