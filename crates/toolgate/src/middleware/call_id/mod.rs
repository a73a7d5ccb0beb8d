//! Call id: adds the id under which a call is logged to the result of the call.
#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use toolgate_wire::{Json, Kind, Object, mcp::member};

use crate::{
    call::Call,
    context::Context,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
};

/// The layer's name.
pub const NAME: &str = "call-id";

/// The declaration of the layer.
#[derive(Debug)]
pub struct CallIdSpec;

impl LayerSpec for CallIdSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "adds the id of the call to every result, including error results"
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let has_log = inputs.get::<super::log::LogSink>().is_some();
        Ok(BuiltLayer::if_some(has_log.then_some(ReturnCallId), "there is no `store` for the log"))
    }
}

/// The member of a result's `_meta` that holds the id.
pub const KEY: &str = "toolgate/call_uuid";

/// Adds the id of each call to its result.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReturnCallId;

impl Middleware for ReturnCallId {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("a result tells its call's id in _meta[\"{KEY}\"]")
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Outside(super::error_results::NAME, "error results have an id too"),
            Order::Inside(super::response_limit::NAME, "the id counts towards the size limit"),
        ]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let outcome = next.call(cx, call).await;
        marked(cx, outcome)
    }

    async fn result(&self, cx: &mut Context, _: &Call, outcome: Outcome) -> Outcome {
        marked(cx, outcome)
    }
}

/// The outcome with the id of the call in its result, if the outcome has a result.
fn marked(cx: &Context, mut outcome: Outcome) -> Outcome {
    let id = cx.call_id();
    let marked = outcome.result().and_then(|result| {
        let json = mark(result.json(), &id.to_string())?;
        Some(result.with_json(json))
    });
    if let Some(result) = marked {
        outcome.set_result(result);
    }
    outcome
}

/// The result with the id in its `_meta`; every other member keeps its bytes. `None` if the result, or its `_meta`, is
/// not an object.
fn mark(result: &Json, id: &str) -> Option<Json> {
    let mut result = result.object()?;
    let mut meta = match result.get(member::META) {
        None => Object::new(),
        Some(meta) if meta.kind() == Kind::Null => Object::new(),
        Some(meta) => meta.object()?,
    };
    meta.set(KEY, Json::string(id));
    result.set(member::META, meta.finish());
    Some(result.finish())
}
