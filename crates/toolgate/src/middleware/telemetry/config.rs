//! Settings of telemetry that are the layer's own. Where spans and metrics go is the program's.

use serde::Deserialize;

/// What of `[telemetry]` concerns the layer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// Whether spans contain the arguments of calls, redacted as in the audit.
    pub arguments: bool,
}
