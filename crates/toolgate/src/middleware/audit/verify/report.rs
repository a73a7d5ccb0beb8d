//! The result of a verification.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};

/// The result of a verification.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Number of records of the chain.
    pub records: u64,
    /// The number of the last record.
    pub last_seq: u64,
    /// Faults. Without any, the audit is complete.
    pub findings: Vec<Finding>,
    /// Number of further findings that are not listed.
    pub more: u64,
    /// Calls with an intent and without an outcome.
    pub under_way: Vec<UnfinishedCall>,
    /// Records before the first one in these files, in files that were removed.
    pub earlier: u64,
    /// Lines without a chain, before its first record.
    pub unchained: u64,
    /// Lines that a crash or a full disk cut off, and that a later record describes.
    pub torn: u64,
    /// Records that toolgate recorded as lost.
    pub lost: u64,
    /// Whether the last record is incomplete and no record follows.
    pub incomplete: bool,
}

impl Report {
    /// Whether the audit is complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The number of the record, if it can be read.
    pub seq: Option<u64>,
    /// The kind of fault.
    pub what: FindingKind,
}

/// The kind of fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// The record was altered.
    Altered,
    /// Records are missing before this one.
    Missing(u64),
    /// The record is later in the file than it was written.
    OutOfOrder,
    /// The record occurs twice.
    Duplicated,
    /// Records are missing at the end.
    CutOff(u64),
    /// A line after the start of the chain that is not part of it.
    Unchained,
    /// A line that is not a record and that no later record describes as cut off.
    Unreadable,
    /// The start of the chain is missing.
    NoBeginning,
    /// The following records were written with another key, or without one.
    OtherKey,
    /// The following records were written with a key, which is needed to verify them.
    NeedsKey,
    /// The head is missing, so a missing end cannot be detected.
    NoHead,
    /// The head was altered.
    HeadAltered,
    /// The head was missing or altered when this record was written.
    HeadWas(String),
}

impl FindingKind {
    /// The name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Altered => "altered",
            Self::Missing(_) => "missing",
            Self::OutOfOrder => "out_of_order",
            Self::Duplicated => "duplicated",
            Self::CutOff(_) => "cut_off",
            Self::Unchained => "unchained",
            Self::Unreadable => "unreadable",
            Self::NoBeginning => "no_beginning",
            Self::OtherKey => "other_key",
            Self::NeedsKey => "needs_key",
            Self::NoHead => "no_head",
            Self::HeadAltered => "head_altered",
            Self::HeadWas(_) => "head_was",
        }
    }
}

fn records(count: u64) -> String {
    if count == 1 { "1 record is".to_owned() } else { format!("{count} records are") }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered => f.write_str("altered: not what was written"),
            Self::Missing(count) => write!(f, "{} missing before this one", records(*count)),
            Self::OutOfOrder => f.write_str("out of order: it was written before the one above"),
            Self::Duplicated => f.write_str("duplicated: its number was there before"),
            Self::CutOff(count) => write!(f, "cut off: {} missing at the end", records(*count)),
            Self::Unchained => f.write_str("not part of the chain: toolgate did not write it here"),
            Self::Unreadable => f.write_str(
                "unreadable: not a record, and no later record describes it as cut off by a crash",
            ),
            Self::NoBeginning => {
                f.write_str("the beginning of the chain is missing before this one")
            }
            Self::OtherKey => f.write_str("from here on made with another key, or with none"),
            Self::NeedsKey => {
                f.write_str("from here on made with a key: give it with `--key-file`")
            }
            Self::NoHead => f.write_str(
                "the head is missing: verification cannot detect whether the end was cut off",
            ),
            Self::HeadAltered => f.write_str("the head is not what toolgate wrote"),
            Self::HeadWas(fault) => {
                write!(f, "the head was {fault} then: records before this one may be missing")
            }
        }
    }
}

impl Serialize for FindingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A call with an intent and without an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnfinishedCall {
    /// The file.
    pub file: PathBuf,
    /// The line of its intent.
    pub line: u64,
    /// The start of the call.
    pub ts: String,
    /// The id of the call.
    pub call_id: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
}
