//! What comes of a check: a refusal that tells everything at once, or a call without what has to go.

use toolgate_wire::Json;

use super::{
    NAME,
    issues::{self, Issue, MOST_ISSUES},
};
use crate::{call::Call, failure::Failure, registry::Code};

/// Everything that is wrong, each thing once, and the rules that say so.
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

/// The call is refused for all of them at once.
pub(super) fn refusal(call: &Call, issues: &[Issue], rule: &str) -> Failure {
    Failure::new(Code::InvalidArguments, issues::text(call.id().name(), issues))
        .by(NAME, rule)
        .with_fact("issues", issues::facts(issues))
}

/// The call without these arguments. All others keep their very spelling.
pub(super) fn without(mut call: Call, names: &[String]) -> Call {
    let Some(mut object) = call.arguments().and_then(Json::object) else {
        return call;
    };
    for name in names {
        object.remove(name);
    }
    let names: Vec<String> =
        names.iter().take(MOST_ISSUES).map(|name| issues::plain(name)).collect();
    let (tool, names) = (call.id(), names.join(", "));
    tracing::debug!(%tool, names, "arguments that the tool does not know are removed");
    call.set_arguments(object.finish());
    call
}

/// Strictly, what cannot be checked does not pass.
pub(super) fn uncheckable(call: &Call, why: &str) -> Failure {
    let name = issues::plain(call.id().name());
    let message = format!("The arguments of '{name}' cannot be checked: {why}");
    Failure::new(Code::InvalidArguments, message)
        .suggest("Use another tool, and tell the user that this one cannot be checked.")
        .by(NAME, "strict")
}

/// Arguments that would take too long to check are refused: the caller chose how many there are.
pub(super) fn too_many(call: &Call, rule: &str) -> Failure {
    let name = issues::plain(call.id().name());
    let message = format!("The arguments of '{name}' cannot be checked: they are too many");
    Failure::new(Code::InvalidArguments, message)
        .suggest("Send fewer values in one call.")
        .by(NAME, rule)
}
