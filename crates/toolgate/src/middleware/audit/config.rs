//! Settings of audit: the tables `[audit]` and `[redact]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[audit]`: what is recorded, and where the records go.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "switches of a file, each with its own name")]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// The file that records are appended to, one JSON object a line; `stderr`; or `off`.
    pub file: Target,
    /// The size at which the file is moved aside, in bytes.
    pub rotate_bytes: u64,
    /// How many files that were moved aside are kept.
    pub keep_files: u32,
    /// How many records wait for the writer at most.
    pub queue: usize,
    /// What happens to a record that finds the queue full.
    pub on_full: OnFull,
    /// Which calls are recorded: `executions` (the tool ran, or may have run), `decisions` (it did not).
    #[serde(deserialize_with = "some_kind")]
    pub record: Vec<AuditKind>,
    /// Whether calls of readonly tools are recorded.
    pub readonly: bool,
    /// Which calls are recorded before they go to the tool, too: `mutating` (every call that is not
    /// known to be readonly), `all`, or `off`.
    pub intents: Intents,
    /// No record, no call: a call whose intent cannot be written is refused.
    pub required: bool,
    /// The file with the key that records are chained with, 16 bytes or more. Without one, whoever may
    /// write the file can also make up a chain that fits.
    pub key_file: Option<PathBuf>,
    /// Whether records are written to the `store`, too.
    pub store: bool,
    /// Whether records are sent to the collector of `[telemetry]`, too, as logs.
    pub otlp: bool,
}

impl AuditConfig {
    /// Whether calls of this kind are recorded.
    pub(super) fn records(&self, kind: AuditKind) -> bool {
        self.record.contains(&kind)
    }

    /// Which calls are recorded before they run. Where executions are of no interest, none is.
    pub(crate) fn intents(&self) -> Intents {
        match self.intents {
            _ if self.required => Intents::All,
            _ if !self.records(AuditKind::Executions) => Intents::Off,
            intents => intents,
        }
    }

    /// What is wrong with it, if something is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.record.is_empty() {
            return Some(NOTHING_RECORDED);
        }
        if self.required && !self.records(AuditKind::Executions) {
            return Some("`audit.required` needs `executions` in `audit.record`");
        }
        if self.required && self.file == Target::Off {
            return Some("`audit.required` needs an `audit.file`");
        }
        None
    }
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            file: Target::Off,
            rotate_bytes: 64 * 1024 * 1024,
            keep_files: 5,
            queue: 4096,
            on_full: OnFull::Wait,
            record: vec![AuditKind::Executions, AuditKind::Decisions],
            readonly: true,
            intents: Intents::Mutating,
            required: false,
            key_file: None,
            store: false,
            otlp: false,
        }
    }
}

/// What a record is about.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// The tool ran, or may have run.
    Executions,
    /// The tool did not run: somebody decided so.
    Decisions,
}

impl AuditKind {
    /// The word in a record.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Executions => "execution",
            Self::Decisions => "decision",
        }
    }
}

const NOTHING_RECORDED: &str =
    "nothing would be recorded: write `executions`, `decisions` or both, or `audit.file = \"off\"`";

fn some_kind<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<AuditKind>, D::Error> {
    let kinds = Vec::deserialize(deserializer)?;
    if kinds.is_empty() {
        return Err(serde::de::Error::custom(NOTHING_RECORDED));
    }
    Ok(kinds)
}

/// Which calls are recorded before they run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Intents {
    /// Every call that is not known to be readonly.
    #[default]
    Mutating,
    /// Every call.
    All,
    /// None.
    Off,
}

/// Where records go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: there is no audit.
    #[default]
    Off,
    /// Standard error, among the log.
    Stderr,
    /// A file.
    File(PathBuf),
}

impl From<&str> for Target {
    fn from(text: &str) -> Self {
        match text {
            "off" => Self::Off,
            "stderr" => Self::Stderr,
            path => Self::File(PathBuf::from(path)),
        }
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Err(serde::de::Error::custom(
                "an empty audit file: write a path, `stderr` or `off`",
            ));
        }
        Ok(Self::from(text.as_str()))
    }
}

/// What happens to a record that finds the queue full.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// The call waits for room: nothing is lost, and a slow disk slows calls down.
    #[default]
    Wait,
    /// The record is dropped and counted.
    Drop,
}

/// `[redact]`: what never reaches a record in clear.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RedactConfig {
    /// Further names of arguments whose values are replaced by a digest.
    pub keys: Vec<String>,
    /// Whether the built-in names apply: payloads (`keys`, `text`, `command`, `value`, `content`,
    /// `shell`, `environment`) and whatever sounds like a secret (`password`, `token`, …).
    pub defaults: bool,
    /// `sha256`: the same value has the same digest everywhere. `hmac`: digests are keyed, because
    /// short secrets can be guessed from a plain one.
    pub digest: DigestAlgorithm,
    /// The file with the key for `hmac`. Without one, each run has its own random key.
    pub key_file: Option<PathBuf>,
}

impl Default for RedactConfig {
    fn default() -> Self {
        Self { keys: Vec::new(), defaults: true, digest: DigestAlgorithm::Sha256, key_file: None }
    }
}

/// How a redacted value is summed up.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DigestAlgorithm {
    /// Plain SHA-256.
    #[default]
    Sha256,
    /// HMAC-SHA-256 with a key.
    Hmac,
}
