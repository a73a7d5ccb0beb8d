//! Records of calls: opens, writes and closes the call log, the audit in the store, the trail, spans and metrics.

mod audit_store;
mod sinks;
pub(crate) mod store_records;
pub(crate) mod telemetry;
mod trail;

pub use sinks::RecordSinks;

/// Why records cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RecordsError(pub(crate) String);
