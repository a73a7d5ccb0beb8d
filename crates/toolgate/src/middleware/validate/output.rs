//! Checks the structured content of results against the tool's output schema.

use std::sync::atomic::Ordering;

use toolgate_wire::{Json, mcp::member};

use super::{
    NAME, OutputMode,
    arguments::{self, Unreadable},
    issues::{self, Issue},
    schema::{DefinitionSchema, SchemaCache},
};
use crate::{
    failure::Failure,
    outcome::Outcome,
    registry::{Class, Code},
    tool::Tool,
};

/// The name of the rule in failures.
const OUTPUT_SCHEMA: &str = "outputSchema";
/// The JSON pointer of structured content in a result.
const MEMBER: &str = "structuredContent";
const PLACE: &str = "/structuredContent";

/// The check of results.
#[derive(Debug)]
pub(super) struct Results {
    published: SchemaCache,
    mode: OutputMode,
    strict: bool,
}

/// The fault of a result.
enum ResultFault {
    Issues(Vec<Issue>),
    /// The tool's output schema cannot be used.
    Unusable,
    /// The content would take too long to check.
    TooMany,
}

impl Results {
    pub(super) fn new(mode: OutputMode, strict: bool) -> Self {
        Self { published: SchemaCache::new(OUTPUT_SCHEMA, false), mode, strict }
    }

    pub(super) fn is_enforced(&self) -> bool {
        self.mode == OutputMode::Enforce
    }

    /// The failure for the result of a task with an unknown tool, which has no schema.
    pub(super) fn of_unknown(&self, outcome: Outcome) -> Outcome {
        if !self.is_enforced() || outcome.class() != Class::Ok || outcome.failure().is_some() {
            return outcome;
        }
        let message = "The result of the task cannot be checked, and is withheld: the gateway does not know \
                       which tool the task is of. The tool did run.";
        failure(message.to_owned()).by(NAME, OUTPUT_SCHEMA).into()
    }

    /// The outcome, or the failure that replaces it.
    pub(super) fn check(&self, tool: &Tool, outcome: Outcome) -> Outcome {
        if outcome.class() != Class::Ok || outcome.failure().is_some() {
            return outcome;
        }
        let Some(result) = outcome.result() else { return outcome };
        let Some(compiled) = self.published.of(tool).filter(|compiled| compiled.is_published)
        else {
            return outcome;
        };
        match wrong(&compiled, result.json()) {
            None => outcome,
            Some(ResultFault::Issues(issues)) if self.is_enforced() => unfit(tool, &issues).into(),
            Some(ResultFault::TooMany) if self.is_enforced() => {
                uncheckable(tool, "it holds too many values", OUTPUT_SCHEMA).into()
            }
            Some(ResultFault::Unusable) if self.is_enforced() && self.strict => {
                uncheckable(tool, "its output schema cannot be used", "strict").into()
            }
            Some(wrong) => {
                // Log once per definition, because the tool will fail on every call.
                if !compiled.is_told.swap(true, Ordering::Relaxed) {
                    warn(tool, &wrong);
                }
                outcome
            }
        }
    }
}

fn wrong(compiled: &DefinitionSchema, result: &Json) -> Option<ResultFault> {
    let members = result.object().unwrap_or_default();
    let is_complete =
        members.get(member::RESULT_TYPE).is_none_or(|kind| kind.as_str() == "\"complete\"");
    // A task that has just started has no content yet.
    let is_task = members.contains("task") && !members.contains("content");
    if !is_complete || is_task {
        return None;
    }
    let Some(schema) = &compiled.schema else {
        return Some(ResultFault::Unusable);
    };
    let content = match members.get(MEMBER) {
        None => return Some(ResultFault::Issues(vec![Issue::no_content(PLACE)])),
        Some(_) if members.keys().filter(|key| key == MEMBER).count() > 1 => {
            return Some(ResultFault::Issues(vec![Issue::twice("", MEMBER)]));
        }
        Some(content) => content,
    };
    let content = match arguments::read(Some(&content)) {
        Ok(content) => content,
        Err(Unreadable::DuplicateKey(name)) => {
            return Some(ResultFault::Issues(vec![Issue::twice(PLACE, &name)]));
        }
        Err(Unreadable::Other) => return Some(ResultFault::Issues(vec![Issue::unreadable(PLACE)])),
    };
    match schema.issues(&content, PLACE) {
        None => Some(ResultFault::TooMany),
        Some(issues) if issues.is_empty() => None,
        Some(issues) => Some(ResultFault::Issues(issues)),
    }
}

fn unfit(tool: &Tool, issues: &[Issue]) -> Failure {
    let name = issues::plain(tool.id().name());
    let message = format!(
        "The result of '{name}' does not fit the output schema that the tool publishes, and is withheld. \
         The tool did run.{}",
        issues::lines(issues)
    );
    failure(message).by(NAME, OUTPUT_SCHEMA).with_fact("issues", issues::facts(issues))
}

/// The failure for content that cannot be checked.
fn uncheckable(tool: &Tool, why: &str, rule: &'static str) -> Failure {
    let name = issues::plain(tool.id().name());
    let message = format!(
        "The result of '{name}' cannot be checked, and is withheld: {why}. The tool did run."
    );
    failure(message).by(NAME, rule)
}

fn failure(message: String) -> Failure {
    Failure::new(Code::OutputInvalid, message).suggest(
        "Do not call it again to mend this: it would run again. Report it to the operator.",
    )
}

fn warn(tool: &Tool, wrong: &ResultFault) {
    let tool = tool.id();
    match wrong {
        ResultFault::Issues(issues) => {
            let places = issues::places(issues);
            tracing::warn!(%tool, "a result does not fit the published output schema: {places}");
        }
        ResultFault::Unusable => {
            tracing::warn!(%tool, "a result is not checked: the output schema cannot be used");
        }
        ResultFault::TooMany => {
            tracing::warn!(%tool, "a result is not checked: it holds too many values");
        }
    }
}
