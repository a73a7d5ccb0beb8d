//! The store in a SQLite file. Several processes may use one file at the same time.

mod append;
mod audit;
mod prune;
mod query;
mod schema;
#[cfg(test)]
mod tests;
mod tools;
mod tree;
mod writer;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sqlx::{
    ConnectOptions as _, SqlitePool,
    sqlite::{
        SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions,
        SqliteSynchronous,
    },
};
use toolgate::{Boxed, ToolId, middleware::log::CallRecord};

use self::writer::Writer;
use crate::{
    error::StoreError,
    store::{
        AuditRecord, Cursor, Filter, FirstList, Page, PruneResult, Retention, Size, Store,
        StoreFuture, Tree,
    },
};

/// How long a process waits for another one to release the file's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of simultaneous queries.
const MAX_READERS: u32 = 4;

/// A store in one SQLite file with mode 0600.
pub struct SqliteStore {
    path: PathBuf,
    writer: Writer,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens the file, creates it if it does not exist, and migrates its schema.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        check_folder(path)?;
        make_private(path).map_err(|error| StoreError::Unopened {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        // While several processes create the same file, SQLite does not always wait for the busy timeout.
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match Self::try_open(path).await {
                Err(error) if error.is_busy() && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                opened => return opened,
            }
        }
    }

    async fn try_open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: sqlx::Error| StoreError::of(path, &error);
        let plain = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();
        // The owner is checked first: a database of another program must not be changed.
        schema::check(path, &plain).await?;
        let options = plain
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .journal_mode(SqliteJournalMode::Wal)
            // A power cut may lose the last transactions of a log; a crash of this process loses none.
            .synchronous(SqliteSynchronous::Normal)
            .pragma("journal_size_limit", "67108864")
            // Pages of 4 kB: the journal is merged into the file, and both are synced, every 32 MB instead of 4 MB.
            .pragma("wal_autocheckpoint", "8000")
            .foreign_keys(false);
        let mut writer = options.connect().await.map_err(failed)?;
        schema::migrate(path, &mut writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(MAX_READERS)
            .max_lifetime(None)
            .idle_timeout(None)
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Ok(Self { path: path.to_owned(), writer: Writer::new(writer), readers })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, error: &sqlx::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }
}

/// Refuses a file whose folder does not exist: the path is probably misspelt.
pub(crate) fn check_folder(path: &Path) -> Result<(), StoreError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => Err(StoreError::NoFolder { folder: folder.to_owned() }),
        _ => Ok(()),
    }
}

/// Creates the file, accessible only to its owner. An existing one keeps its mode.
fn make_private(path: &Path) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        file.mode(0o600);
    }
    match file.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.path.display())
    }
}

impl Store for SqliteStore {
    fn append<'a>(&'a self, records: &'a [CallRecord]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            append::append(&self.writer, records).await.map_err(|error| self.failed(&error))
        })
    }

    fn query<'a>(
        &'a self,
        filter: &'a Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let page = query::query(&self.readers, filter, limit, after).await;
            page.map_err(|error| self.failed(&error))
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<CallRecord>> {
        Box::pin(
            async move { query::get(&self.readers, id).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn tree<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Tree>> {
        Box::pin(
            async move { tree::tree(&self.readers, id).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, PruneResult> {
        Box::pin(async move {
            prune::prune(&self.writer, retention).await.map_err(|error| self.failed(&error))
        })
    }

    fn size(&self) -> StoreFuture<'_, Size> {
        Box::pin(
            async move { prune::size(&self.readers).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn known_tools<'a>(&'a self, namespace: &'a str) -> StoreFuture<'a, Vec<ToolId>> {
        Box::pin(async move {
            tools::known(&self.readers, namespace).await.map_err(|error| self.failed(&error))
        })
    }

    fn remember_tools<'a>(
        &'a self,
        namespace: &'a str,
        tools: &'a [ToolId],
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let done = tools::remember(&self.writer, namespace, tools).await;
            done.map_err(|error| self.failed(&error))
        })
    }

    fn approve_first_list<'a>(&'a self, list: FirstList<'a>) -> StoreFuture<'a, Vec<ToolId>> {
        Box::pin(async move {
            let done = tools::approve(&self.writer, list).await;
            done.map_err(|error| self.failed(&error))
        })
    }

    fn append_audit<'a>(&'a self, lines: &'a [AuditRecord]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            audit::append(&self.writer, lines).await.map_err(|error| self.failed(&error))
        })
    }

    fn audit(&self, since_us: i64, limit: usize) -> StoreFuture<'_, Vec<AuditRecord>> {
        Box::pin(async move {
            let lines = audit::since(&self.readers, since_us, limit).await;
            lines.map_err(|error| self.failed(&error))
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.readers.close().await;
            // The last connection to close merges the journal into the file.
            self.writer.close().await;
        })
    }
}
