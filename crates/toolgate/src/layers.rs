//! Every built-in layer in the default order. To add a layer, add a folder in `middleware/`, its `pub mod`
//! line in `middleware.rs`, and a line here.

use crate::layer_spec::LayerSpec;

/// Calls the macro that the input names with the table of built-in layers, outermost layer first. Each line has the
/// declaration of a layer, from its folder, and the tables of the layer in the config file. These tables become fields
/// of [`Settings`](crate::settings::Settings) and of the types of the config file.
#[doc(hidden)]
#[macro_export]
macro_rules! layers {
    ($($callback:ident)::+ { $($input:tt)* }) => {
        $($callback)::+! {
            { $($input)* }
            telemetry::TelemetrySpec;
            response_limit::ResponseLimitSpec;
            call_id::CallIdSpec;
            error_results::ErrorResultsSpec;
            preconditions::ConfirmArgumentSpec;
            log::LogSpec, log: LogConfig = "The call log, which `toolgate log` shows; needs a `store`.";
            audit::AuditSpec;
            trail::TrailSpec;
            overrides::OverridesSpec;
            validate::ValidateSpec, validate: ValidateConfig = "Checks of arguments and results against JSON Schemas.";
            filter::FilterSpec;
            flags::FlagsSpec, flags: FlagsConfig = "Tools that are disabled for a while.";
            policy::PolicySpec;
            safety::SafetySpec;
            scopes::ScopesSpec;
            rate_limit::RateLimitSpec;
            preconditions::PreconditionsSpec,
                confirm: ConfirmConfig = "Calls that a person has to confirm.",
                preconditions: PreconditionRules = "Further conditions for calls of some tools.";
            breaker::BreakerSpec, breaker: BreakerConfig = "The circuit breaker: stops calling a server that keeps failing, for a while.";
            audit::AuditIntentSpec;
            retry::RetrySpec, retry: RetryConfig = "Retries of read-only calls after transient errors.";
            timeout::TimeoutSpec;
            sanitize::SanitizeSpec, sanitize: SanitizeConfig = "Replaces secrets in the messages of servers.";
        }
    };
}

macro_rules! specs {
    ({} $($module:ident::$spec:ident $(, $table:ident: $type:ident = $about:tt)*;)*) => {
        &[$(&crate::middleware::$module::$spec),*]
    };
}

/// The declarations of the built-in layers, in the default order, outermost first.
pub const LAYERS: &[&dyn LayerSpec] = crate::layers!(specs {});

/// A layer in a default order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerPlace {
    /// The name of the layer.
    pub name: &'static str,
    /// The reason for its place.
    pub why: &'static str,
}

/// The built-in layers in the default order, outermost first.
pub fn default_order() -> impl Iterator<Item = LayerPlace> {
    LAYERS.iter().map(|spec| LayerPlace { name: spec.name(), why: spec.why() })
}

/// Whether a built-in layer has this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    LAYERS.iter().any(|spec| spec.name() == name)
}
