//! Settings of audit: the tables `[audit]` and `[redact]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[audit]`: one record per call, in a hash chain.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "switches of a file, each with its own name")]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuditConfig {
    /// The file to which records are appended, `stderr`, or `off`; default of the program: `audit.jsonl` in the state
    /// folder (`~/.local/state/toolgate`).
    pub file: Target,
    /// The size in bytes at which the file is rotated.
    #[serde(deserialize_with = "crate::byte_size::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::byte_size::schema"))]
    pub rotate_bytes: u64,
    /// The number of rotated files that are kept; older ones are removed. Default: 5, or all of them with `required`,
    /// `keep_days` or `keep_bytes`.
    pub keep_files: Option<u32>,
    /// The number of days after which rotated files are removed; `0`: never. The file is then rotated every day.
    pub keep_days: u32,
    /// The size in bytes of all files together above which the oldest rotated files are removed; `0`: no limit.
    #[serde(deserialize_with = "crate::byte_size::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::byte_size::schema"))]
    pub keep_bytes: u64,
    /// What a record that was written survives.
    pub sync: AuditSync,
    /// The most records that wait to be written.
    pub queue: usize,
    /// What happens to a record if the queue is full.
    pub on_full: OnFull,
    /// Which calls are recorded.
    #[serde(deserialize_with = "some_kind")]
    pub record: Vec<AuditKind>,
    /// Whether calls of readonly tools are recorded.
    pub readonly: bool,
    /// Which calls are also recorded before they run.
    pub intents: Intents,
    /// Whether a call is refused if it cannot be recorded before it runs.
    pub required: bool,
    /// The file with the key of the hash chain, 16 bytes or more. Without a key, anyone who can write the audit file
    /// can forge a valid chain.
    pub key_file: Option<PathBuf>,
    /// Whether records are also written to the `store`.
    pub store: bool,
    /// Whether records are also sent to the collector of `[telemetry]`, as logs.
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

    /// How many rotated files are kept; `None`: all that the other limits leave.
    pub(super) fn kept_files(&self) -> Option<u32> {
        // Without a limit of the operator's own, required records are never removed.
        let has_other_limit = self.keep_days > 0 || self.keep_bytes > 0;
        self.keep_files.or((!self.required && !has_other_limit).then_some(DEFAULT_KEEP_FILES))
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
        if self.sync == AuditSync::Disk && self.file == Target::Stderr {
            return Some(SYNC_NEEDS_FILE);
        }
        None
    }
}

/// The number of rotated files that are kept if no limit is set.
const DEFAULT_KEEP_FILES: u32 = 5;

pub(super) const SYNC_NEEDS_FILE: &str =
    "`audit.sync = \"disk\"` needs a regular file as `audit.file`";

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            file: Target::Off,
            rotate_bytes: 64 * 1024 * 1024,
            keep_files: None,
            keep_days: 0,
            keep_bytes: 0,
            sync: AuditSync::Os,
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
    /// The tool did not run, because toolgate or a person denied the call.
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

/// What a record that was written survives.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AuditSync {
    /// Every end of toolgate, also `kill -9`. A power cut or a crash of the operating system may lose the last moments.
    #[default]
    Os,
    /// Also a power cut: each write is followed by `fdatasync`, which concurrent calls share.
    Disk,
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

/// What happens to a record if the queue is full.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// The call waits: no record is lost, and a slow disk delays calls.
    #[default]
    Wait,
    /// The record is dropped and counted.
    Drop,
}

/// `[redact]`: which arguments are redacted in records.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RedactConfig {
    /// Further names of arguments whose values are replaced by a digest.
    pub keys: Vec<String>,
    /// Whether the built-in names apply: payloads (`keys`, `text`, `command`, `value`, `content`, `shell`,
    /// `environment`) and names of secrets (`password`, `token`, …).
    pub defaults: bool,
    /// The kind of digest that replaces a value.
    pub digest: DigestAlgorithm,
    /// The file with the key for `hmac`, 16 bytes or more; default: a random key per run.
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
    /// SHA-256: the same value has the same digest everywhere. A short secret can be guessed from it.
    #[default]
    Sha256,
    /// HMAC-SHA-256 with the key of `key_file`.
    Hmac,
}
