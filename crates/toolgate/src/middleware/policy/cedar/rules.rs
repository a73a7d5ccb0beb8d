//! Reading a file of rules. What could never do what it says is refused here, and not found out later.

use std::{collections::HashSet, path::Path, sync::Arc};

use cedar_policy::{EntityUid, Policy, PolicyId, PolicySet, ffi::DetailedError};

use super::{
    super::{config::is_principal, policies::PolicyError},
    inspect::{self, Reads},
};

/// One rule, under the id that it is told by.
pub(super) struct Rule {
    pub(super) id: Arc<str>,
    pub(super) policy: Policy,
    pub(super) reads: Reads,
}

impl Rule {
    /// A set of this rule and no other.
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
    /// The rules of this text, in its order. Each is called what its `@id("…")` says, else `policy0`,
    /// `policy1` and so on, counted over all rules of the file.
    pub(super) fn rules(self, text: &str) -> Result<Vec<Rule>, PolicyError> {
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
                return Err(self.fault(&rule.id, "stands there twice: give each its own `@id`"));
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn rule(self, policy: &Policy) -> Result<Rule, PolicyError> {
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
        Ok(Rule { id: id.into(), policy: policy.new_id(PolicyId::new(id)), reads })
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

/// Where a rule stands in its file: Cedar numbers them as `policy0`, `policy1`, …
fn place(id: &PolicyId) -> Option<usize> {
    let id: &str = id.as_ref();
    id.strip_prefix("policy")?.parse().ok()
}

/// Whether there can be an entity of this name. A rule about one that cannot be there never holds, and a
/// forbid that never holds is an open door.
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
