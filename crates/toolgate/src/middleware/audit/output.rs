//! Further places that records go to, given by the program.

use std::{error::Error, fmt};

use super::AuditConfig;
use crate::context::CallId;

/// A place for records beside the file: a store, a collector.
///
/// Gets what was written to the file, line by line, on the audit's own thread: hand it over, do not
/// wait for a network. What fails here is counted and logged; it never touches a call.
pub trait AuditOutput: fmt::Debug + Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Whether the settings ask for it.
    fn is_wanted(&self, config: &AuditConfig) -> bool;

    /// Takes finished lines. Fails for all of them or for none.
    fn write(&self, lines: &[AuditLine<'_>]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// One finished record.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuditLine<'a> {
    /// The record as it stands in the file: one JSON object, without the newline. Where the file could not
    /// be written it has no `seq` and no `hash`.
    pub json: &'a str,
    /// What it is about.
    pub about: About,
}

/// What a record is about, for outputs that do not want to read it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct About {
    /// When the call began, or when this happened.
    pub at: jiff::Timestamp,
    /// `call`, `intent`, `rejected`, `lost`, `begin` or `torn`.
    pub event: &'static str,
    /// The call, where it is about one.
    pub call_id: Option<CallId>,
    /// How the call ended, where it did.
    pub outcome: Option<&'static str>,
}

impl About {
    /// About the record itself, not about a call.
    pub(super) fn now(event: &'static str) -> Self {
        Self { at: jiff::Timestamp::now(), event, call_id: None, outcome: None }
    }
}
