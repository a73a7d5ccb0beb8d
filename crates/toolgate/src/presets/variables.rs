//! The environment variables of the presets. Each has the meaning that its system documents; an invalid value never
//! allows more.

use std::time::Duration;

use super::Preset;
use crate::{
    Tier,
    middleware::{
        audit::{AuditConfig, AuditKind, Target},
        breaker::BreakerConfig,
        preconditions::Mode,
    },
    settings::{Settings, Switch},
};

/// A variable with an invalid value. toolgate refuses to start, because a guess could allow more than was meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {name} is `{value}`: write {expected}, or unset it")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    expected: &'static str,
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

const LIBTMUX: &[(&str, &str)] = &[(
    "LIBTMUX_SAFETY",
    "the highest allowed tier: `readonly`, `mutating` (default) or `destructive`; any other value means `readonly`",
)];

const MCP_CORE: &[(&str, &str)] = &[
    (
        "MCP_DRY_RUN",
        "`true` (default): gated tools only show a preview; `false`: they run after a confirmation",
    ),
    ("MCP_SCOPES", "the granted scopes, separated by commas"),
    ("MCP_AUDIT_ENABLED", "`false` switches the audit off; wins over `MCP_AUDIT_SINK`"),
    ("MCP_AUDIT_SINK", "`stderr` (default), `file` or `none`"),
    ("MCP_AUDIT_FILE", "the file for `MCP_AUDIT_SINK=file`; default `./audit.jsonl`"),
    ("MCP_TIMEOUT_DEFAULT_MS", "the timeout of a call, in milliseconds"),
    ("MCP_BULKHEAD_LIMIT", "the limit of requests in flight"),
    ("MCP_CIRCUIT_ENABLED", "`false` switches the circuit breaker off"),
    (
        "MCP_CIRCUIT_FAILURE_THRESHOLD",
        "the number of consecutive failures that opens the circuit; default 10",
    ),
    (
        "MCP_CIRCUIT_HALF_OPEN_AFTER_MS",
        "how long an open circuit refuses calls, in milliseconds; default 60000",
    ),
];

impl Preset {
    /// The variables that the preset reads, each with its meaning.
    #[must_use]
    pub const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Libtmux => LIBTMUX,
            Self::Metamcp => &[],
            Self::McpCore => MCP_CORE,
        }
    }

    /// Applies the variables of the preset to the settings. Returns a warning for an invalid value if the document of
    /// the system defines a fallback; other invalid values are errors.
    pub fn read_variables(
        self,
        settings: &mut Settings,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>, BadVariable> {
        match self {
            Self::Libtmux => Ok(libtmux(settings, lookup)),
            Self::Metamcp => Ok(None),
            Self::McpCore => mcp_core(settings, lookup).map(|()| None),
        }
    }
}

/// An invalid tier falls back to `readonly`, as libtmux-mcp documents.
fn libtmux(settings: &mut Settings, lookup: Lookup<'_>) -> Option<String> {
    let value = lookup("LIBTMUX_SAFETY")?;
    let tier = value.parse::<Tier>().ok();
    settings.safety = Some(tier.unwrap_or(Tier::Readonly));
    let warning = || format!("invalid LIBTMUX_SAFETY='{value}', falling back to readonly");
    tier.is_none().then(warning)
}

fn flag(lookup: Lookup<'_>, name: &'static str) -> Result<Option<bool>, BadVariable> {
    match lookup(name).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            Err(BadVariable { name, value: other.to_owned(), expected: "`true` or `false`" })
        }
    }
}

fn number(lookup: Lookup<'_>, name: &'static str) -> Result<Option<u32>, BadVariable> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => Err(BadVariable { name, value, expected: "a number above zero" }),
    }
}

fn mcp_core(settings: &mut Settings, lookup: Lookup<'_>) -> Result<(), BadVariable> {
    if let (Some(dry), Some(confirm)) = (flag(lookup, "MCP_DRY_RUN")?, &mut settings.confirm) {
        confirm.set_mode(if dry { Mode::Preview } else { Mode::Ask });
    }
    let file = lookup("MCP_AUDIT_FILE").filter(|file| !file.is_empty());
    let sink = match lookup("MCP_AUDIT_SINK").as_deref() {
        None => None,
        Some("stderr") => Some(Target::Stderr),
        Some("none") => Some(Target::Off),
        Some("file") => {
            let file = file.unwrap_or_else(|| "./audit.jsonl".to_owned());
            Some(Target::File(file.into()))
        }
        Some(other) => {
            let (name, value) = ("MCP_AUDIT_SINK", other.to_owned());
            return Err(BadVariable { name, value, expected: "`stderr`, `file` or `none`" });
        }
    };
    if let Some(sink) = sink {
        settings.audit.file = sink;
    }
    if flag(lookup, "MCP_AUDIT_ENABLED")? == Some(false) {
        settings.audit.file = Target::Off;
    }
    if let Some(millis) = number(lookup, "MCP_TIMEOUT_DEFAULT_MS")? {
        settings.limits.timeout = Switch::On(Duration::from_millis(millis.into()));
    }
    if let Some(most) = number(lookup, "MCP_BULKHEAD_LIMIT")? {
        settings.limits.in_flight = most as usize;
    }
    circuit(settings, lookup)
}

fn circuit(settings: &mut Settings, lookup: Lookup<'_>) -> Result<(), BadVariable> {
    if let Some(failures) = number(lookup, "MCP_CIRCUIT_FAILURE_THRESHOLD")? {
        settings.breaker.get_or_insert_with(mcp_core_breaker).failures = failures;
    }
    if let Some(millis) = number(lookup, "MCP_CIRCUIT_HALF_OPEN_AFTER_MS")? {
        let breaker = settings.breaker.get_or_insert_with(mcp_core_breaker);
        breaker.wait = Duration::from_millis(millis.into());
        breaker.max_wait = breaker.max_wait.max(breaker.wait);
    }
    match flag(lookup, "MCP_CIRCUIT_ENABLED")? {
        Some(false) => settings.breaker = None,
        _ => {
            settings.breaker.get_or_insert_with(mcp_core_breaker);
        }
    }
    Ok(())
}

/// The breaker of mcp-core. Only consecutive failures open a circuit, and each opening lasts the same time.
pub(super) fn mcp_core_breaker() -> BreakerConfig {
    let wait = Duration::from_secs(60);
    BreakerConfig { failures: 10, share: 1.0, of: 64, wait, max_wait: wait, ..Default::default() }
}

/// The audit of mcp-core: it writes to stderr, and records only executed calls.
pub(super) fn mcp_core_audit() -> AuditConfig {
    AuditConfig {
        file: Target::Stderr,
        record: vec![AuditKind::Executions],
        readonly: false,
        ..AuditConfig::default()
    }
}
