//! Persistence for toolgate: the call log, a copy of the audit, and the tools of each namespace.
#![doc = include_str!("../README.md")]

mod error;
mod log_writer;
mod sqlite;
mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

use std::sync::Arc;

pub use error::StoreError;
pub use log_writer::{LogWriter, write_log};
pub use sqlite::SqliteStore;
pub use store::{
    AuditRecord, Cursor, Filter, FirstList, Node, Page, PruneResult, Retention, Size, Store,
    StoreFuture, Tree,
};
pub use toolgate::middleware::log::{CallRecord, RecordKind};

/// Opens the store that a URL names: `sqlite:PATH`. Creates the file if it does not exist.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqliteStore::open(sqlite_path(url)?).await?))
}

/// Whether a store can be opened under this URL, without opening it.
pub fn check(url: &str) -> Result<(), StoreError> {
    sqlite::check_folder(sqlite_path(url)?)
}

/// The file that `sqlite:PATH` names.
pub fn sqlite_path(url: &str) -> Result<&std::path::Path, StoreError> {
    // A URL may contain a password, so the error repeats only its scheme.
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(StoreError::Url(format!(
            "`{url}` names no store: write `sqlite:` and a path, as `sqlite:{url}`"
        )));
    };
    if matches!(scheme, "postgres" | "postgresql") {
        return Err(StoreError::Url(
            "Postgres is coming, but is no store yet: use `sqlite:` and a path".to_owned(),
        ));
    }
    if scheme != "sqlite" {
        return Err(StoreError::Url(format!(
            "`{scheme}:` is no store: write `sqlite:` and a path, as `sqlite:toolgate.db`"
        )));
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path == ":memory:" || path.contains('?') {
        return Err(StoreError::Url(format!(
            "`{url}` names no file: write `sqlite:` and a path, without options, as `sqlite:toolgate.db`"
        )));
    }
    Ok(std::path::Path::new(path))
}
