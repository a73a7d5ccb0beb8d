//! Further outputs of records, which the program provides.

use std::{error::Error, fmt};

use super::AuditConfig;
use crate::context::CallId;

/// An output of records beside the file, such as a store or a collector.
///
/// It receives the lines that were written to the file, on the audit's thread, and must not wait for a network. Errors
/// are counted and logged; they never affect a call.
pub trait AuditOutput: fmt::Debug + Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Whether the settings ask for it.
    fn is_wanted(&self, config: &AuditConfig) -> bool;

    /// Writes lines. Fails for all of them or for none.
    fn write(&self, lines: &[AuditLine<'_>]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// One rendered record.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuditLine<'a> {
    /// The line of the file: one JSON object, without the newline. It has no `seq` and no `hash` if the file could not
    /// be written.
    pub json: &'a str,
    /// Time, event and call of the record.
    pub about: About,
}

/// Time, event and call of a record, for outputs that do not parse its JSON.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct About {
    /// The start of the call, or the time of the event.
    pub at: jiff::Timestamp,
    /// `call`, `intent`, `rejected`, `lost`, `begin` or `torn`.
    pub event: &'static str,
    /// The call, if the record is about one.
    pub call_id: Option<CallId>,
    /// The class of the outcome, if the call has ended.
    pub outcome: Option<&'static str>,
}

impl About {
    /// For a record that is not about a call.
    pub(super) fn now(event: &'static str) -> Self {
        Self { at: jiff::Timestamp::now(), event, call_id: None, outcome: None }
    }
}
