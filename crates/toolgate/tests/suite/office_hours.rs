//! A layer that is not built in, in one file: its settings, its decision and its declaration.

use serde::Deserialize;
use serde_json::Value;
use toolgate::{
    Authorize, BadSettings, BuiltLayer, Code, Context, Denial, Failure, LayerInputs, LayerSpec,
    Order, ToolAccess, middleware,
};

const NAME: &str = "office-hours";

/// `[layers.office-hours]`
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct OfficeHours {
    /// Whether the office is open.
    open: bool,
}

impl Authorize for OfficeHours {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        (if self.open { "open" } else { "closed" }).to_owned()
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Inside(middleware::error_results::NAME, "denials are rendered too")]
    }

    fn decide(&self, _: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        if self.open {
            return Ok(());
        }
        let message = format!("`{}` has to wait: the office is closed", access.name());
        Err(Failure::new(Code::Refused, message).by(NAME, "closed").into())
    }

    fn allowed_by(&self, _: &Context, _: &ToolAccess<'_>) -> String {
        "open".to_owned()
    }
}

/// The declaration of the layer.
#[derive(Debug)]
pub(crate) struct OfficeHoursSpec;

impl LayerSpec for OfficeHoursSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "a denial costs nothing further in"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<OfficeHours>().map(|_| "`[layers.office-hours]`")
    }

    fn read_table(&self, table: &Value, inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        inputs.set(OfficeHours::deserialize(table)?);
        Ok(())
    }

    #[cfg(feature = "schema")]
    fn table_schema(&self, generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        Some(generator.subschema_for::<OfficeHours>())
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let layer = inputs.get::<OfficeHours>().cloned();
        Ok(BuiltLayer::if_some(layer, "there is no `[layers.office-hours]`"))
    }
}
