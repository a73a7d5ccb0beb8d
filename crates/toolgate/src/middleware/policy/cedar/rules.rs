//! Parses a file of rules. A rule that can never match is an error.

use std::{collections::HashSet, path::Path, sync::Arc};

use cedar_policy::{EntityUid, Policy, PolicyId, PolicySet, ffi::DetailedError};

use super::{
    super::{config::is_principal, policies::PolicyError},
    inspect::{self, Reads},
};

/// One rule with the id that messages name.
pub(super) struct CedarRule {
    pub(super) id: Arc<str>,
    pub(super) policy: Policy,
    pub(super) reads: Reads,
}

impl CedarRule {
    /// A policy set of this rule only.
    pub(super) fn alone(&self) -> Result<PolicySet, String> {
        PolicySet::from_policies([self.policy.clone()]).map_err(|fault| fault.to_string())
    }
}

/// The file of one policy, for messages.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) name: &'a str,
    pub(super) path: &'a Path,
}

impl File<'_> {
    /// The rules of this text, in order. The id of a rule is its `@id("…")`, otherwise `policy0`, `policy1` and so on,
    /// counted over all rules of the file.
    pub(super) fn rules(self, text: &str) -> Result<Vec<CedarRule>, PolicyError> {
        let set: PolicySet = text.parse().map_err(|fault| self.syntax(text, &fault))?;
        if let Some(template) = set.templates().next() {
            let message = "has slots, and nothing fills them here: write it out for each principal";
            return Err(self.fault(template.id().as_ref(), message));
        }
        let mut policies: Vec<_> = set.policies().collect();
        policies.sort_by_key(|policy| place(policy.id()));
        let mut ids = HashSet::new();
        let mut rules = Vec::with_capacity(policies.len());
        for policy in policies {
            let rule = self.rule(policy)?;
            if !ids.insert(Arc::clone(&rule.id)) {
                return Err(self.fault(&rule.id, "occurs twice: give each its own `@id`"));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn rule(self, policy: &Policy) -> Result<CedarRule, PolicyError> {
        let given: &str = policy.id().as_ref();
        let id = match policy.annotation("id") {
            Some("") => return Err(self.fault(given, "has an empty `@id`")),
            Some(id) => id,
            None => given,
        };
        for uid in policy.entity_literals() {
            nameable(&uid).map_err(|message| self.fault(id, &message))?;
        }
        let source = policy.to_json().map_err(|fault| self.fault(id, &fault.to_string()))?;
        let reads = inspect::reads(&source).map_err(|message| self.fault(id, &message))?;
        Ok(CedarRule { id: id.into(), policy: policy.new_id(PolicyId::new(id)), reads })
    }

    pub(super) fn fault(self, rule: &str, message: &str) -> PolicyError {
        PolicyError::Rule {
            name: self.name.to_owned(),
            path: self.path.to_owned(),
            rule: rule.to_owned(),
            message: message.to_owned(),
        }
    }

    fn syntax(self, text: &str, fault: &cedar_policy::ParseErrors) -> PolicyError {
        let fault = DetailedError::from(fault);
        let label = fault.source_locations.first();
        let before = label.and_then(|label| text.get(..label.loc.start)).unwrap_or_default();
        let expected = label.and_then(|label| label.label.as_deref());
        let more = [expected, fault.help.as_deref()].into_iter().flatten();
        let message = std::iter::once(fault.message.as_str()).chain(more).collect::<Vec<_>>();
        PolicyError::Syntax {
            name: self.name.to_owned(),
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            message: message.join("; "),
        }
    }
}

/// The index of a rule in its file: Cedar numbers rules as `policy0`, `policy1`, …
fn place(id: &PolicyId) -> Option<usize> {
    let id: &str = id.as_ref();
    id.strip_prefix("policy")?.parse().ok()
}

/// Whether an entity of this name can exist. A rule about another one never matches, and a `forbid` that never matches
/// would allow calls.
fn nameable(uid: &EntityUid) -> Result<(), String> {
    let id: &str = uid.id().as_ref();
    let is_nameable = match uid.type_name().to_string().as_str() {
        "Principal" => is_principal(id),
        "Tool" => {
            id.split_once('/').is_some_and(|(server, name)| !(server.is_empty() || name.is_empty()))
        }
        "Action" => id == "call",
        _ => false,
    };
    if is_nameable {
        return Ok(());
    }
    Err(format!(
        "names `{uid}`, which cannot be there: write `Principal::\"local:…\"` (or `key:…`, `subject:…`, \
         `anonymous`), `Action::\"call\"` or `Tool::\"server/name\"`"
    ))
}
