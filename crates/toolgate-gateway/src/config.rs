//! `toolgate.toml`, as far as `toolgate wrap` reads it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toolgate::{
    Selector, Tier, ToolSettings,
    middleware::{
        audit::{AuditConfig, RedactConfig, Target},
        retry::RetryConfig,
    },
    settings::{Annotations, ChainOrder, LimitsConfig, Settings},
};

use crate::wrap::NAMESPACE;

/// Why a config file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the config `{path}`: {source}; check the path given with `--config`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It does not say what it should.
    #[error("the config `{path}` is refused:\n{source}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
}

/// The file. A key that it does not know is refused: a rule that nobody heeds is worse than none.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    namespaces: BTreeMap<String, Namespace>,
    audit: AuditConfig,
    redact: RedactConfig,
    limits: LimitsConfig,
    retry: Option<RetryConfig>,
}

/// `[namespaces.NAME]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Namespace {
    chain: ChainOrder,
    safety: Option<Tier>,
    annotations: Annotations,
    tools: BTreeMap<String, ToolSettings>,
}

/// What a file says.
#[derive(Debug)]
pub struct Loaded {
    /// The settings of the namespace that a wrapped server joins.
    pub settings: Settings,
    /// Whether the file itself says where the audit goes.
    pub says_audit: bool,
}

/// Reads a config file.
pub fn read(path: &Path) -> Result<Loaded, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let refused = |source: toml::de::Error| ConfigError::Refused {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let file: File = toml::from_str(&text).map_err(refused)?;
    let table: toml::Table = toml::from_str(&text).map_err(refused)?;
    let says_audit = table.get("audit").is_some_and(|audit| audit.get("file").is_some());
    let mut settings = settings(file).map_err(refused)?;
    // Paths in a file are meant from where the file is.
    if let (Target::File(audit), Some(folder)) = (&mut settings.audit.file, path.parent()) {
        *audit = folder.join(&*audit);
    }
    if let (Some(key), Some(folder)) = (&mut settings.redact.key_file, path.parent()) {
        *key = folder.join(&*key);
    }
    Ok(Loaded { settings, says_audit })
}

fn settings(mut file: File) -> Result<Settings, toml::de::Error> {
    use serde::de::Error as _;
    let namespace = file.namespaces.remove(NAMESPACE).unwrap_or_default();
    if let Some(other) = file.namespaces.keys().next() {
        return Err(toml::de::Error::custom(format!(
            "namespace `{other}`: a wrapped server joins `{NAMESPACE}`, and no other is served yet"
        )));
    }
    let mut tools = Vec::new();
    for (selector, tool) in namespace.tools {
        let selector: Selector = selector.parse().map_err(toml::de::Error::custom)?;
        tools.push((selector, tool));
    }
    Ok(Settings {
        chain: namespace.chain,
        safety: namespace.safety,
        annotations: namespace.annotations,
        tools,
        audit: file.audit,
        redact: file.redact,
        limits: file.limits,
        retry: file.retry,
    })
}
