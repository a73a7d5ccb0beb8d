//! Telemetry: records a span and measurements for every call, listing and request.
#![doc = include_str!("README.md")]

mod config;
#[cfg(feature = "telemetry")]
mod ending;
#[cfg(feature = "telemetry")]
mod instruments;
#[cfg(feature = "telemetry")]
mod labels;
#[cfg(feature = "telemetry")]
mod layer;
#[cfg(feature = "telemetry")]
mod running;

pub use config::TelemetryConfig;
#[cfg(feature = "telemetry")]
pub use instruments::{Instruments, SCOPE};
#[cfg(feature = "telemetry")]
pub use layer::Telemetry;

#[cfg(not(feature = "telemetry"))]
use crate::layer_spec::LEFT_OUT;
use crate::layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec};

/// The layer's name.
pub const NAME: &str = "telemetry";

/// The declaration of the layer. It needs [`Instruments`], which the program sets in
/// [`Parts::inputs`](crate::stack::Parts::inputs).
#[derive(Debug)]
pub struct TelemetrySpec;

impl LayerSpec for TelemetrySpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "sees every call, including refused ones"
    }

    #[cfg(feature = "telemetry")]
    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<Instruments>().map(|_| "`[telemetry]`")
    }

    #[cfg(not(feature = "telemetry"))]
    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<TelemetryConfig>()?.arguments.then_some("`telemetry.arguments`")
    }

    fn missing_feature(&self) -> Option<&'static str> {
        (!cfg!(feature = "telemetry")).then_some("telemetry")
    }

    #[cfg(not(feature = "telemetry"))]
    fn build(&self, _: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        Ok(BuiltLayer::off(LEFT_OUT))
    }

    #[cfg(feature = "telemetry")]
    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let Some(instruments) = inputs.get::<Instruments>() else {
            return Ok(BuiltLayer::off("there is no `[telemetry]`"));
        };
        let mut layer = Telemetry::new(instruments.clone());
        if inputs.get_or_default::<TelemetryConfig>().arguments {
            layer = layer.telling_arguments(super::audit::Redactor::new(&inputs.get_or_default())?);
        }
        Ok(BuiltLayer::on(layer))
    }
}
