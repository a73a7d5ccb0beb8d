//! What a check found.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};

/// What a check found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Records of the chain that were read.
    pub records: u64,
    /// The last record's number.
    pub last_seq: u64,
    /// Everything that should not be so. If there is nothing, the record is whole.
    pub findings: Vec<Finding>,
    /// Further findings, which are only counted.
    pub more: u64,
    /// Calls that began and have no end.
    pub under_way: Vec<UnderWay>,
    /// Records before the first one that is here: in files that are no longer kept.
    pub earlier: u64,
    /// Lines of a time without a chain, before the first record of it.
    pub unchained: u64,
    /// Lines that a crash or a full disk cut off, and that a later record names.
    pub torn: u64,
    /// Records that toolgate itself says it lost.
    pub lost: u64,
    /// Whether the last record was cut off, and nothing has been written since.
    pub incomplete: bool,
}

impl Report {
    /// Whether the record is whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Something that should not be so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on; 0 if it is about the file as such.
    pub line: u64,
    /// The number of the record, as far as one can be read.
    pub seq: Option<u64>,
    /// What is wrong.
    pub what: What,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The record is not what was written.
    Altered,
    /// Records are missing before this one.
    Missing(u64),
    /// The record stands later than it was written.
    OutOfOrder,
    /// The record stands there again.
    Duplicated,
    /// Records are missing at the end.
    CutOff(u64),
    /// A line that is not part of the chain, after it began.
    Unchained,
    /// A line that is no record, and that no later record names as cut off.
    Unreadable,
    /// The chain begins in the middle.
    NoBeginning,
    /// The records from here on are made with another key, or with none.
    OtherKey,
    /// The records from here on are made with a key, which is needed to check them.
    NeedsKey,
    /// The head is missing, so nobody can tell whether the end is.
    NoHead,
    /// The head is not what toolgate wrote.
    HeadAltered,
    /// The head was missing, or not what toolgate wrote, when this was written.
    HeadWas(String),
}

impl What {
    /// The word for it.
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

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered => f.write_str("altered: not what was written"),
            Self::Missing(count) => write!(f, "{} missing before this one", records(*count)),
            Self::OutOfOrder => f.write_str("out of order: it was written before the one above"),
            Self::Duplicated => f.write_str("duplicated: its number was there before"),
            Self::CutOff(count) => write!(f, "cut off: {} missing at the end", records(*count)),
            Self::Unchained => f.write_str("not part of the chain: toolgate did not write it here"),
            Self::Unreadable => f.write_str("unreadable: no record, and no crash is told of"),
            Self::NoBeginning => {
                f.write_str("the beginning of the chain is missing before this one")
            }
            Self::OtherKey => f.write_str("from here on made with another key, or with none"),
            Self::NeedsKey => {
                f.write_str("from here on made with a key: give it with `--key-file`")
            }
            Self::NoHead => {
                f.write_str("the head is missing: nobody can tell whether the end was cut off")
            }
            Self::HeadAltered => f.write_str("the head is not what toolgate wrote"),
            Self::HeadWas(fault) => {
                write!(f, "the head was {fault} then: records before this one may be missing")
            }
        }
    }
}

impl Serialize for What {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A call that began and has no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    /// The file.
    pub file: PathBuf,
    /// The line of its intent.
    pub line: u64,
    /// When it began.
    pub ts: String,
    /// The call.
    pub call_id: String,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
}
