//! Failures as mcp-core renders them: with its codes, categories and hints.

use serde_json::{Map, Value, json};
use toolgate_wire::{Json, mcp::member};

use super::{NAME, ORDER, RenderedFailure, render, render_outcome};
use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Hooks, Middleware, Order},
    outcome::{Outcome, ToolResult},
    registry::{Class, Code, RetrySafety},
};

/// Renders failures as mcp-core's documentation says: a markdown text with a recovery hint, and `structuredContent`
/// with `code`, `retriable`, `category`, `message` and `recovery_hint`.
///
/// If the tool has an output schema, the object is in `_meta.error` instead, because clients validate the
/// `structuredContent` of errors too.
#[derive(Clone, Copy, Debug)]
pub struct McpCoreResults;

impl Middleware for McpCoreResults {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "a failed call answers with isError and structuredContent, as mcp-core".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    fn order(&self) -> &'static [Order] {
        ORDER
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let outcome = next.call(cx, call.clone()).await;
        render_outcome(outcome, cx, &call, rendered)
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        render_outcome(outcome, cx, call, rendered)
    }
}

/// mcp-core's name for a code, or toolgate's if it has none.
fn code(failure: &Failure) -> &'static str {
    match failure.code() {
        Code::InvalidArguments => "VALIDATION_FAILED",
        Code::ConfirmRequired => "DRY_RUN_PREVIEW",
        Code::Internal => "INTERNAL_ERROR",
        Code::Overloaded => "BULKHEAD_FULL",
        other => other.name(),
    }
}

/// The category: an error that the caller can correct is the client's.
fn category(failure: &Failure) -> &'static str {
    match failure.code().entry().class {
        Class::TimedOut | Class::UpstreamFailed | Class::Internal => "server",
        _ => "client",
    }
}

fn title(failure: &Failure) -> &'static str {
    match failure.code() {
        Code::DryRunPreview | Code::ConfirmRequired => "Dry-Run",
        Code::InvalidArguments => "Validation failed",
        _ if category(failure) == "server" => "Server error",
        _ => "Refused",
    }
}

fn rendered(failure: &Failure, message: &RenderedFailure, call: &Call) -> ToolResult {
    let plain = render(failure, message);
    let hint = message.suggestion.as_deref().unwrap_or(failure.code().entry().hint);
    let text = format!("**{}**: {}\n\n**Recovery**: {hint}", title(failure), message.message);
    let mut error = Map::new();
    error.insert("code".to_owned(), code(failure).into());
    // Only if a retry is safe: the tool did not run, and the cause is transient.
    error.insert("retriable".to_owned(), (failure.retry() == RetrySafety::Safe).into());
    error.insert("category".to_owned(), category(failure).into());
    error.insert("message".to_owned(), message.message.as_str().into());
    error.insert("recovery_hint".to_owned(), hint.into());
    error.insert("tool".to_owned(), call.id().name().into());
    if let Some(seconds) = failure.retry_after_seconds() {
        error.insert("retry_after_ms".to_owned(), (seconds * 1000).into());
    }
    for (name, value) in failure.facts() {
        error.insert((*name).to_owned(), value.clone());
    }
    let Some(mut result) = plain.json().object() else { return plain };
    let content = json!([{"type": "text", "text": text}]);
    result.set("content", Json::value(&content));
    let error = Json::value(&Value::Object(error));
    let has_schema =
        call.tool().definition().is_some_and(|json| json.get(member::OUTPUT_SCHEMA).is_some());
    if has_schema {
        let mut meta = result.get(member::META).and_then(|meta| meta.object()).unwrap_or_default();
        meta.set("error", error);
        result.set(member::META, meta.finish());
    } else {
        result.set(member::STRUCTURED_CONTENT, error);
    }
    plain.with_json(result.finish())
}
