//! The connection that writes. SQLite has one writer at a time; here writers wait in order.

use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

/// The connection; `None` after it was closed.
///
/// Not a pool: a pool takes its connections back in a task of the runtime that used them, and a program that waits for
/// its last records may have stopped that runtime.
pub(super) struct Writer(Mutex<Option<SqliteConnection>>);

impl Writer {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self(Mutex::new(Some(connection)))
    }

    /// Locks the connection for one transaction.
    pub(super) async fn get(&self) -> Result<MappedMutexGuard<'_, SqliteConnection>, sqlx::Error> {
        MutexGuard::try_map(self.0.lock().await, Option::as_mut)
            .map_err(|_| sqlx::Error::PoolClosed)
    }

    pub(super) async fn close(&self) {
        let connection = self.0.lock().await.take();
        if let Some(connection) = connection
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the store did not close well");
        }
    }
}
