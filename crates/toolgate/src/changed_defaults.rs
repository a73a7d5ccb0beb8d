//! A constructor for types whose fields may become more: the defaults, with changes.

/// Implements `with` for types that have a default.
macro_rules! with_changed_defaults {
    ($($type:ty)*) => {$(
        impl $type {
            /// The defaults, changed by a function. The type may get further fields, so that a literal of it does not
            /// compile outside of this crate.
            #[must_use]
            pub fn with(change: impl FnOnce(&mut Self)) -> Self {
                let mut changed = Self::default();
                change(&mut changed);
                changed
            }
        }
    )*};
}

with_changed_defaults! {
    crate::middleware::audit::AuditConfig
    crate::middleware::audit::RedactConfig
    crate::middleware::breaker::BreakerConfig
    crate::middleware::filter::FilterConfig
    crate::middleware::flags::FlagsConfig
    crate::middleware::log::LogConfig
    crate::middleware::overrides::OverrideConfig
    crate::middleware::policy::PolicyConfig
    crate::middleware::preconditions::ConfirmConfig
    crate::middleware::rate_limit::RateLimitConfig
    crate::middleware::response_limit::ResponseLimitConfig
    crate::middleware::retry::RetryConfig
    crate::middleware::sanitize::SanitizeConfig
    crate::middleware::telemetry::TelemetryConfig
    crate::middleware::validate::ValidateConfig
    crate::settings::LimitsConfig
    crate::settings::Settings
    crate::settings::ToolSettings
    crate::stack::Parts
}
