//! Validate: checks arguments against a schema before the tool runs, and results after it.
#![doc = include_str!("README.md")]

#[cfg(feature = "validate")]
mod arguments;
mod config;
#[cfg(feature = "validate")]
mod cost;
#[cfg(feature = "validate")]
mod findings;
#[cfg(feature = "validate")]
mod issues;
#[cfg(feature = "validate")]
mod layer;
#[cfg(feature = "validate")]
mod names;
#[cfg(feature = "validate")]
mod output;
#[cfg(feature = "validate")]
mod phases;
#[cfg(feature = "validate")]
mod schema;

pub use config::{OutputMode, ToolSchema, Unknown, ValidateConfig};
#[cfg(feature = "validate")]
pub use layer::Validate;
#[cfg(feature = "validate")]
#[doc(hidden)]
pub use phases::ValidatePhases;
#[cfg(feature = "validate")]
pub(crate) use schema::fits;

#[cfg(not(feature = "validate"))]
use crate::layer_spec::LEFT_OUT;
use crate::{
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    selector::BadSelector,
};

/// The layer's name.
pub const NAME: &str = "validate";

/// The name of the rule for published input schemas, in refusals and explanations.
#[cfg(feature = "validate")]
const INPUT_SCHEMA: &str = "inputSchema";

/// The declaration of the layer.
#[derive(Debug)]
pub struct ValidateSpec;

impl LayerSpec for ValidateSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "checks arguments before other layers decide on them"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<ValidateConfig>().map(|_| "`[validate]`")
    }

    fn missing_feature(&self) -> Option<&'static str> {
        (!cfg!(feature = "validate")).then_some("validate")
    }

    #[cfg(not(feature = "validate"))]
    fn build(&self, _: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        Ok(BuiltLayer::off(LEFT_OUT))
    }

    #[cfg(feature = "validate")]
    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let folder = inputs.get_or_default::<crate::layer_spec::SettingsFolder>();
        let config = inputs.get::<ValidateConfig>();
        let layer = config.map(|config| Validate::new(config, &folder.0)).transpose()?;
        Ok(BuiltLayer::if_some(layer, "there is no `[validate]`"))
    }
}

/// Why the settings of validate were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadValidate {
    /// A key of `validate.tools` selects no tools.
    #[error("`validate.tools`: {0}")]
    Selector(#[from] BadSelector),
    /// A schema cannot be used.
    #[error("the schema of `validate.tools.\"{tools}\"` is refused: {why}")]
    Schema {
        /// The selector.
        tools: String,
        /// The reason.
        why: String,
    },
    /// A selector has neither a schema nor `unknown`, or it has two schemas.
    #[error(
        "`validate.tools.\"{0}\"` needs either `schema` or `schema_file`, and not both, or `unknown` alone"
    )]
    OneOf(String),
    /// `strict` is set, but the published schemas that it applies to are not checked.
    #[error("`validate.strict` needs `validate.input_schema = true`: set it, or remove `strict`")]
    Strict,
    /// There is nothing to check.
    #[error(
        "`[validate]` checks nothing: set `input_schema = true`, `unknown`, `output` or `tools`, or remove \
         the table"
    )]
    Nothing,
}
