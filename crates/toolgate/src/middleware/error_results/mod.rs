//! Errors to results: answers a failed call with a result that a model can read and act on.
#![doc = include_str!("README.md")]

mod arguments;
pub(in crate::middleware) mod mask;
mod mcp_core;
#[cfg(test)]
mod tests;

use toolgate_wire::Json;

pub use mcp_core::McpCoreResults;

use crate::{
    call::Call,
    context::Context,
    failure::{Failure, RpcError},
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::{Outcome, ToolResult},
    preset::Preset,
    registry::{Code, Delivery},
};

/// The layer's name.
pub const NAME: &str = "errors-to-results";

/// The declaration of the layer.
#[derive(Debug)]
pub struct ErrorResultsSpec;

impl LayerSpec for ErrorResultsSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "turns failures of the layers inside of it into error results"
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        Ok(match inputs.get::<Preset>() {
            Some(Preset::McpCore) => BuiltLayer::on(McpCoreResults),
            _ => BuiltLayer::on(ErrorResults),
        })
    }
}

/// Renders failures of calls as results with `isError`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorResults;

impl Middleware for ErrorResults {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "a failed call answers with isError, the message and _meta".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    fn order(&self) -> &'static [Order] {
        ORDER
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let outcome = next.call(cx, call.clone()).await;
        render_outcome(outcome, cx, &call, |failure, message, _| render(failure, message))
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        render_outcome(outcome, cx, call, |failure, message, _| render(failure, message))
    }
}

/// Adds the result that `render` makes to the outcome of a failed call. Outcomes that have a result, and failures that
/// clients receive as errors, stay as they are.
fn render_outcome(
    mut outcome: Outcome,
    cx: &Context,
    call: &Call,
    render: impl Fn(&Failure, &RenderedFailure, &Call) -> ToolResult,
) -> Outcome {
    let Some(failure) = outcome.failure() else {
        return outcome;
    };
    let has_other_delivery = failure.code().entry().delivery != Delivery::Result
        || failure.rpc().is_some_and(RpcError::is_for_the_client);
    if outcome.result().is_some() || has_other_delivery {
        return outcome;
    }
    let message = explain(failure, call, cx);
    log(failure, &message, call);
    let result = render(failure, &message, call);
    outcome.set_result(result);
    outcome
}

const RENDERED: &str = "it turns failures of the layers inside of it into error results";
const ORDER: &[Order] = &[
    Order::Outside(super::audit::NAME, RENDERED),
    Order::Outside(super::safety::NAME, RENDERED),
    Order::Outside(super::retry::NAME, RENDERED),
    Order::Outside(super::timeout::NAME, RENDERED),
    Order::OutsideDecisions("a refusal outside of it would reach the client as a JSON-RPC error"),
];

/// The text of an error result: the message, and how to recover.
struct RenderedFailure {
    message: String,
    suggestion: Option<String>,
}

fn explain(failure: &Failure, call: &Call, cx: &Context) -> RenderedFailure {
    let mut message = failure.message().to_owned();
    let mut suggestion = failure.suggestion().map(str::to_owned);
    if failure.code() == Code::InvalidArguments {
        let none = Json::empty_object();
        let given = call.arguments().unwrap_or(&none);
        // Messages of `validate` hold no values of arguments. Masking would only remove words of the schema.
        if failure.decided_by() != Some("validate") {
            message = arguments::without_values(&message, given);
        }
        suggestion = suggestion.or_else(|| {
            let unexpected = arguments::unexpected(call.tool(), given);
            arguments::suggestion(call.tool(), &unexpected, cx.client())
        });
    }
    RenderedFailure { message, suggestion }
}

/// The result for a failure that needs no further explanation.
pub(crate) fn rendered(failure: &Failure) -> ToolResult {
    let message = RenderedFailure {
        message: failure.message().to_owned(),
        suggestion: failure.suggestion().map(str::to_owned),
    };
    render(failure, &message)
}

fn render(failure: &Failure, message: &RenderedFailure) -> ToolResult {
    let mut text = message.message.clone();
    let mut meta = serde_json::json!({
        "error_type": failure.error_type(),
        "expected": failure.is_expected(),
        "code": failure.code_name(),
    });
    if let Some(meta) = meta.as_object_mut() {
        if let Some(suggestion) = &message.suggestion {
            text.push('\n');
            text.push_str(suggestion);
            meta.insert("suggestion".to_owned(), suggestion.as_str().into());
        }
        if let Some(ran) = failure.known_executed() {
            meta.insert("ran".to_owned(), ran.into());
        }
        if let Some(rule) = failure.rule() {
            meta.insert("rule".to_owned(), rule.into());
        }
        if let Some(seconds) = failure.retry_after_seconds() {
            meta.insert("retry_after".to_owned(), seconds.into());
        }
        for (name, value) in failure.facts() {
            meta.insert((*name).to_owned(), value.clone());
        }
    }
    let result = serde_json::json!({
        "content": [{"type": "text", "text": text}],
        "isError": true,
        "_meta": meta,
    });
    ToolResult::known(Json::value(&result), true, None)
}

/// Logs a failure that the caller can correct as a warning, and other failures as errors.
fn log(failure: &Failure, message: &RenderedFailure, call: &Call) {
    let (tool, code) = (call.id(), failure.code_name());
    if failure.code().entry().class == crate::registry::Class::Preview {
        // A preview is not a failure: the caller reads what the call would do.
        tracing::info!(%tool, code, "the call was only shown");
    } else if failure.is_expected() {
        tracing::warn!(%tool, code, "{}", message.message);
    } else {
        tracing::error!(%tool, code, "{}", message.message);
    }
}
