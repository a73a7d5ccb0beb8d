//! Layers that are compiled from their settings, and may refuse them.

use std::sync::Arc;

use super::{Parts, StackError};
use crate::{
    chain::Builder,
    middleware::{
        audit::Redactor,
        breaker::{self, Breaker},
        filter::{self, Filter},
        flags::{self, Flags},
        overrides::{self, CurrentOverrides, Overrides},
        policy::{self, Bindings, Policies, Policy},
        preconditions::{self, BadPreconditions, ConfirmArgument, Gate, Preconditions, Seals},
        scopes::Scopes,
    },
    presets::Preset,
    settings::Settings,
};

/// Compiled layers, made once for a stack.
pub(super) struct Layers {
    pub(super) overrides: CurrentOverrides,
    filter: Arc<Filter>,
    breaker: Option<Arc<Breaker>>,
    flags: Option<Arc<Flags>>,
    policy: Arc<Policy>,
    gate: Arc<Gate>,
    #[cfg(feature = "telemetry")]
    telemetry: Option<Arc<crate::middleware::telemetry::Telemetry>>,
    #[cfg(feature = "validate")]
    validate: Option<Arc<crate::middleware::validate::Validate>>,
    #[cfg(feature = "rate-limit")]
    rate_limit: Option<Arc<crate::middleware::rate_limit::RateLimit>>,
    #[cfg(feature = "sanitize")]
    sanitize: Option<Arc<crate::middleware::sanitize::Sanitize>>,
}

/// The refusal of a layer, with its name.
fn refused<E: ToString>(layer: &'static str) -> impl Fn(E) -> StackError {
    move |error| StackError::Layer { layer, why: error.to_string() }
}

impl Layers {
    pub(super) fn new(settings: &Settings, parts: &Parts) -> Result<Self, StackError> {
        let changed = settings.overrides().map_err(refused(overrides::NAME))?;
        let overrides = Overrides::new(changed).map_err(refused(overrides::NAME))?;
        let filter = Filter::new(&settings.filter(), parts.known.clone());
        let policies = Policies::load(&settings.policies, &settings.folder);
        let policies = policies.map_err(refused(policy::NAME))?;
        let bindings = Bindings {
            namespace: settings.policy.clone(),
            principals: settings.principals.clone(),
        };
        let policy = Policy::new(&policies, &bindings).map_err(refused(policy::NAME))?;
        Ok(Self {
            overrides: CurrentOverrides::new(overrides),
            filter: Arc::new(filter.map_err(refused(filter::NAME))?),
            breaker: breaker(settings, parts)?,
            flags: settings.flags.clone().map(|config| Arc::new(Flags::new(config))),
            policy: Arc::new(policy),
            gate: gate(settings, parts).map_err(refused(preconditions::NAME))?,
            #[cfg(feature = "telemetry")]
            telemetry: telemetry(settings, parts)?,
            #[cfg(feature = "validate")]
            validate: validate(settings)?,
            #[cfg(feature = "rate-limit")]
            rate_limit: rate_limit(settings, parts)?,
            #[cfg(feature = "sanitize")]
            sanitize: sanitize(settings)?,
        })
    }

    /// Adds the layer of this name if it is switched on; else says what is missing.
    pub(super) fn add(
        &self,
        builder: Builder,
        name: &str,
    ) -> Result<Builder, (Builder, &'static str)> {
        match name {
            // These three are always there: what a request says to narrow itself must be heeded.
            filter::NAME => Ok(builder.layer(Arc::clone(&self.filter))),
            policy::NAME => Ok(builder.layer(Arc::clone(&self.policy))),
            preconditions::NAME => Ok(builder.layer(Preconditions::new(Arc::clone(&self.gate)))),
            preconditions::CONFIRM_ARGUMENT if self.gate.is_empty() => {
                Err((builder, "there is neither `[confirm]` nor `[[preconditions]]`"))
            }
            preconditions::CONFIRM_ARGUMENT => {
                Ok(builder.layer(ConfirmArgument::new(Arc::clone(&self.gate))))
            }
            breaker::NAME => optional(builder, self.breaker.as_ref(), "there is no `[breaker]`"),
            flags::NAME => optional(builder, self.flags.as_ref(), "there is no `[flags]`"),
            #[cfg(feature = "telemetry")]
            crate::middleware::telemetry::NAME => {
                optional(builder, self.telemetry.as_ref(), "there is no `[telemetry]`")
            }
            #[cfg(feature = "validate")]
            crate::middleware::validate::NAME => {
                optional(builder, self.validate.as_ref(), "there is no `[validate]`")
            }
            #[cfg(feature = "rate-limit")]
            crate::middleware::rate_limit::NAME => optional(
                builder,
                self.rate_limit.as_ref(),
                "there is neither `limits.rate` nor `limits.quota`",
            ),
            #[cfg(feature = "sanitize")]
            crate::middleware::sanitize::NAME => {
                optional(builder, self.sanitize.as_ref(), "there is no `[sanitize]`")
            }
            _ => Err((builder, "it is off, or this build of toolgate does not have it")),
        }
    }

    /// What was given out and used of confirmations; for the next stack too.
    pub(super) fn seals(&self) -> Arc<Seals> {
        self.gate.seals()
    }

    /// Layers behind features, with whether a setting asks for them.
    pub(super) fn asked(
        settings: &Settings,
        parts: &Parts,
    ) -> Vec<(&'static str, &'static str, bool)> {
        let _ = (settings, parts);
        vec![
            #[cfg(feature = "telemetry")]
            (crate::middleware::telemetry::NAME, "`[telemetry]`", parts.telemetry.is_some()),
            #[cfg(feature = "validate")]
            (crate::middleware::validate::NAME, "`[validate]`", settings.validate.is_some()),
            #[cfg(feature = "rate-limit")]
            (
                crate::middleware::rate_limit::NAME,
                "`limits.rate` or `limits.quota`",
                !settings.limits.rate.is_empty() || !settings.limits.quota.is_empty(),
            ),
            #[cfg(feature = "sanitize")]
            (crate::middleware::sanitize::NAME, "`[sanitize]`", settings.sanitize.is_some()),
        ]
    }
}

fn breaker(settings: &Settings, parts: &Parts) -> Result<Option<Arc<Breaker>>, StackError> {
    let Some(config) = settings.breaker.clone() else { return Ok(None) };
    let breaker = Breaker::new(config, parts.circuits.clone());
    breaker.map(|breaker| Some(Arc::new(breaker))).map_err(refused(breaker::NAME))
}

fn gate(settings: &Settings, parts: &Parts) -> Result<Arc<Gate>, BadPreconditions> {
    let seals = match &parts.seals {
        Some(seals) => Arc::clone(seals),
        None => Arc::new(Seals::new().map_err(BadPreconditions::Random)?),
    };
    let redactor = Redactor::new(&settings.redact);
    let redactor = redactor.map_err(|error| BadPreconditions::Redact(error.to_string()))?;
    let confirm = settings.confirm.as_ref();
    let mut own = parts.preconditions.clone();
    if let Some(scopes) = settings.scopes() {
        own.push(Arc::new(Scopes::new(scopes)));
    }
    let gate = Gate::new(confirm, &settings.preconditions, &own, seals, redactor)?;
    let gate = gate.with_approvals(parts.approvals.clone());
    Ok(Arc::new(match settings.chain.preset() {
        Some(Preset::McpCore) => gate.opened_by("`MCP_DRY_RUN` is not `false`"),
        _ => gate,
    }))
}

fn optional<M: crate::Middleware>(
    builder: Builder,
    layer: Option<&Arc<M>>,
    missing: &'static str,
) -> Result<Builder, (Builder, &'static str)> {
    match layer {
        Some(layer) => Ok(builder.layer(Arc::clone(layer))),
        None => Err((builder, missing)),
    }
}

#[cfg(feature = "telemetry")]
fn telemetry(
    settings: &Settings,
    parts: &Parts,
) -> Result<Option<Arc<crate::middleware::telemetry::Telemetry>>, StackError> {
    use crate::middleware::{
        audit::Redactor,
        telemetry::{NAME, Telemetry},
    };
    let Some(instruments) = &parts.telemetry else { return Ok(None) };
    let mut layer = Telemetry::new(instruments.clone());
    if settings.telemetry.arguments {
        layer = layer.telling_arguments(Redactor::new(&settings.redact).map_err(refused(NAME))?);
    }
    Ok(Some(Arc::new(layer)))
}

#[cfg(feature = "validate")]
fn validate(
    settings: &Settings,
) -> Result<Option<Arc<crate::middleware::validate::Validate>>, StackError> {
    use crate::middleware::validate::{NAME, Validate};
    let compile = |config| Validate::new(config, &settings.folder);
    let made = settings.validate.as_ref().map(compile).transpose();
    Ok(made.map_err(refused(NAME))?.map(Arc::new))
}

#[cfg(feature = "rate-limit")]
fn rate_limit(
    settings: &Settings,
    parts: &Parts,
) -> Result<Option<Arc<crate::middleware::rate_limit::RateLimit>>, StackError> {
    use crate::middleware::rate_limit::{NAME, RateLimit, RateLimitConfig};
    let (rate, quota) = (settings.limits.rate.clone(), settings.limits.quota.clone());
    let config = RateLimitConfig { rate, quota };
    if !config.is_on() {
        return Ok(None);
    }
    let made = RateLimit::new(&config, parts.counters.clone()).map_err(refused(NAME))?;
    Ok(Some(Arc::new(made)))
}

#[cfg(feature = "sanitize")]
fn sanitize(
    settings: &Settings,
) -> Result<Option<Arc<crate::middleware::sanitize::Sanitize>>, StackError> {
    use crate::middleware::sanitize::{NAME, Sanitize};
    let made = settings.sanitize.as_ref().map(Sanitize::new).transpose();
    Ok(made.map_err(refused(NAME))?.map(Arc::new))
}
