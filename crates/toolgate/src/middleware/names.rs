//! Names of layers behind features, which are also needed in builds without those features.

pub(crate) const TELEMETRY: &str = "telemetry";
pub(crate) const VALIDATE: &str = "validate";
pub(crate) const RATE_LIMIT: &str = "rate-limit";
pub(crate) const SANITIZE: &str = "sanitize";
