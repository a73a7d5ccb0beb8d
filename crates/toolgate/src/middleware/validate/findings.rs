//! Results of a check: a refusal that lists all issues, or a call without unknown arguments.

use toolgate_wire::Json;

use super::{
    NAME,
    issues::{self, Issue, MAX_ISSUES},
};
use crate::{call::Call, failure::Failure, registry::Code};

/// All issues, each once, and the rules that found them.
#[derive(Default)]
pub(super) struct Findings<'a> {
    pub(super) issues: Vec<Issue>,
    pub(super) rules: Vec<&'a str>,
}

impl<'a> Findings<'a> {
    pub(super) fn add(&mut self, issues: Vec<Issue>, rule: &'a str) {
        if !issues.is_empty() {
            self.rules.push(rule);
        }
        for issue in issues {
            if !self.issues.iter().any(|known| known.is_same(&issue)) {
                self.issues.push(issue);
            }
        }
    }
}

/// The refusal for all issues.
pub(super) fn refusal(call: &Call, issues: &[Issue], rule: &str) -> Failure {
    Failure::new(Code::InvalidArguments, issues::text(call.id().name(), issues))
        .by(NAME, rule)
        .with_fact("issues", issues::facts(issues))
}

/// The call without these arguments. All others keep their spelling.
pub(super) fn without(mut call: Call, names: &[String]) -> Call {
    let Some(mut object) = call.arguments().and_then(Json::object) else {
        return call;
    };
    for name in names {
        object.remove(name);
    }
    let names: Vec<String> =
        names.iter().take(MAX_ISSUES).map(|name| issues::plain(name)).collect();
    let (tool, names) = (call.id(), names.join(", "));
    tracing::debug!(%tool, names, "arguments that the tool does not know are removed");
    call.set_arguments(object.finish());
    call
}

/// The refusal of a call that cannot be checked, with `strict`.
pub(super) fn uncheckable(call: &Call, why: &str) -> Failure {
    let name = issues::plain(call.id().name());
    let message = format!("The arguments of '{name}' cannot be checked: {why}");
    Failure::new(Code::InvalidArguments, message)
        .suggest("Use another tool, and tell the user that this one cannot be checked.")
        .by(NAME, "strict")
}

/// The refusal of arguments that would take too long to check.
pub(super) fn too_many(call: &Call, rule: &str) -> Failure {
    let name = issues::plain(call.id().name());
    let message = format!("The arguments of '{name}' cannot be checked: they are too many");
    Failure::new(Code::InvalidArguments, message)
        .suggest("Send fewer values in one call.")
        .by(NAME, rule)
}
