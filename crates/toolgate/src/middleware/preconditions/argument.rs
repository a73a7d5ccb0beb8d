//! `__confirm`: the caller's confirmation as an argument, for clients that cannot set `_meta`.

use std::sync::Arc;

use serde_json::json;
use toolgate_wire::{Json, mcp::member};

use super::{
    Gate,
    seals::{PREFIX, is_seal},
};
use crate::{
    call::{Call, Listing, ToolList},
    client_input::ClientInput,
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "confirm-argument";

/// The declaration of the layer.
#[derive(Debug)]
pub struct ConfirmArgumentSpec;

impl LayerSpec for ConfirmArgumentSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "removes the reserved argument before other layers check or record the arguments"
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let gate = Gate::from_inputs(inputs)?;
        let missing = "there is neither `[confirm]` nor `[[preconditions]]`";
        let layer = (!gate.is_empty()).then(|| ConfirmArgument::new(gate));
        Ok(BuiltLayer::if_some(layer, missing))
    }
}

/// The reserved argument.
const ARGUMENT: &str = "__confirm";

/// The value of the removed argument.
#[derive(Clone, Debug)]
pub(super) struct ArgumentKey(pub(super) Json);

/// Removes `__confirm` from the arguments of gated tools before other layers check or record them, and adds it to
/// their schemas.
#[derive(Clone, Debug)]
pub struct ConfirmArgument {
    gate: Arc<Gate>,
}

impl ConfirmArgument {
    /// The layer for the tools of this gate.
    #[must_use]
    pub fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }

    fn is_of_use(&self, cx: &Context) -> bool {
        let config = &self.gate.config;
        let by_token =
            config.fallback.gives_token() && matches!(cx.client_input(), ClientInput::Unavailable);
        config.boolean || by_token
    }
}

/// The tool's definition with the reserved argument in its schema.
fn with_argument(tool: &Tool) -> Option<Tool> {
    let mut definition = tool.definition()?.object()?;
    let mut schema = definition.get(member::INPUT_SCHEMA).and_then(|json| json.object())?;
    let mut properties = match schema.get("properties") {
        Some(json) => json.object()?,
        None => toolgate_wire::Object::new(),
    };
    let description =
        "Leave it out at first: the answer says if it is needed, and what to put here.";
    let property = json!({"type": ["string", "boolean"], "description": description});
    properties.set(ARGUMENT, Json::value(&property));
    schema.set("properties", properties.finish());
    definition.set(member::INPUT_SCHEMA, schema.finish());
    Some(tool.published(definition.finish()))
}

impl Middleware for ConfirmArgument {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "`__confirm` is lifted off the arguments of tools that need a confirmation".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn order(&self) -> &'static [Order] {
        const UNSEEN: &str = "other layers must not check or record the reserved argument";
        &[
            Order::Outside(
                super::NAME,
                "it reads the confirmation that this layer removes from the arguments",
            ),
            Order::Outside(super::super::validate::NAME, UNSEEN),
            Order::Outside(super::super::overrides::NAME, UNSEEN),
            Order::Outside(super::super::audit::NAME, UNSEEN),
            Order::Outside(super::super::log::NAME, UNSEEN),
            Order::Outside(super::super::trail::NAME, UNSEEN),
        ]
    }

    fn needs_tools(&self) -> bool {
        self.gate.needs_tools()
    }

    async fn call(&self, cx: &mut Context, mut call: Call, next: Next<'_>) -> Outcome {
        // No tool should receive a confirmation token of toolgate, whichever tool it was sent to.
        let is_gated = self.gate.may_ask(call.tool());
        let may_have_one = |json: &&Json| {
            is_gated || memchr::memmem::find(json.as_bytes(), PREFIX.as_bytes()).is_some()
        };
        if let Some(mut arguments) = call.arguments().filter(may_have_one).and_then(Json::object)
            && let Some(key) = arguments.remove(ARGUMENT)
            && (is_gated || key.text().is_some_and(|text| is_seal(&text)))
        {
            cx.extensions_mut().insert(ArgumentKey(key));
            call.lift_arguments(arguments.finish());
        }
        next.call(cx, call).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        if self.is_of_use(cx) && list.tools().iter().any(|tool| self.gate.may_ask(tool)) {
            let publish = |tool: &Arc<Tool>| match with_argument(tool) {
                Some(published) if self.gate.may_ask(tool) => Arc::new(published),
                _ => Arc::clone(tool),
            };
            list.set_tools(list.tools().iter().map(publish).collect());
        }
        Ok(list)
    }
}
