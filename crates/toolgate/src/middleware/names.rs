//! Names of layers behind features: they keep their place, and their name, in a build without them.

pub(crate) const TELEMETRY: &str = "telemetry";
pub(crate) const VALIDATE: &str = "validate";
pub(crate) const RATE_LIMIT: &str = "rate-limit";
pub(crate) const SANITIZE: &str = "sanitize";
