//! The store in a SQLite file. Several processes may use one file at once.

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
    sync::Arc,
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
    store::{Answer, AuditRecord, Cursor, Filter, Page, Pruned, Retention, Size, Store, Tree},
};

/// How long one process waits for another to let go of the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many questions are answered at the same time.
const READERS: u32 = 4;

/// A store in one SQLite file, private to its owner.
pub struct SqliteStore {
    path: PathBuf,
    writer: Writer,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens the file, makes it if it is not there, and brings its schema up to date.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        make_private(path).map_err(|error| StoreError::Unopened {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        // While others open the same new file, SQLite does not always wait as long as it was told to.
        let deadline = Instant::now() + PATIENCE;
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
            .busy_timeout(PATIENCE)
            .disable_statement_logging();
        // Whose file it is comes first: somebody else's must stay as it is.
        schema::check(path, &plain).await?;
        let options = plain
            .auto_vacuum(SqliteAutoVacuum::Incremental)
            .journal_mode(SqliteJournalMode::Wal)
            // A power cut may take the last moments of a log; a crash of ours takes nothing.
            .synchronous(SqliteSynchronous::Normal)
            .pragma("journal_size_limit", "67108864")
            .foreign_keys(false);
        let mut writer = options.connect().await.map_err(failed)?;
        schema::migrate(path, &mut writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
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

/// Makes the file, and the folders that it is in, for nobody but their owner. What is there already keeps
/// its mode.
fn make_private(path: &Path) -> io::Result<()> {
    use std::fs::{DirBuilder, OpenOptions};
    let (mut folders, mut file) = (DirBuilder::new(), OpenOptions::new());
    folders.recursive(true);
    file.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        folders.mode(0o700);
        file.mode(0o600);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        folders.create(folder)?;
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
    fn append<'a>(&'a self, records: &'a [CallRecord]) -> Answer<'a, ()> {
        Box::pin(async move {
            append::append(&self.writer, records).await.map_err(|error| self.failed(&error))
        })
    }

    fn query<'a>(
        &'a self,
        filter: &'a Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> Answer<'a, Page> {
        Box::pin(async move {
            let page = query::query(&self.readers, filter, limit, after).await;
            page.map_err(|error| self.failed(&error))
        })
    }

    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Option<CallRecord>> {
        Box::pin(
            async move { query::get(&self.readers, id).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn tree<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Tree>> {
        Box::pin(
            async move { tree::tree(&self.readers, id).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned> {
        Box::pin(async move {
            prune::prune(&self.writer, retention).await.map_err(|error| self.failed(&error))
        })
    }

    fn size(&self) -> Answer<'_, Size> {
        Box::pin(
            async move { prune::size(&self.readers).await.map_err(|error| self.failed(&error)) },
        )
    }

    fn known_tools<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<ToolId>> {
        Box::pin(async move {
            tools::known(&self.readers, namespace).await.map_err(|error| self.failed(&error))
        })
    }

    fn remember_tools<'a>(&'a self, namespace: &'a str, tools: &'a [ToolId]) -> Answer<'a, ()> {
        Box::pin(async move {
            let done = tools::remember(&self.writer, namespace, tools).await;
            done.map_err(|error| self.failed(&error))
        })
    }

    fn approve_first_list<'a>(
        &'a self,
        namespace: &'a str,
        servers: &'a [Arc<str>],
        server: &'a str,
        tools: &'a [ToolId],
    ) -> Answer<'a, Vec<ToolId>> {
        Box::pin(async move {
            let done = tools::approve(&self.writer, namespace, servers, server, tools).await;
            done.map_err(|error| self.failed(&error))
        })
    }

    fn append_audit<'a>(&'a self, lines: &'a [AuditRecord]) -> Answer<'a, ()> {
        Box::pin(async move {
            audit::append(&self.writer, lines).await.map_err(|error| self.failed(&error))
        })
    }

    fn audit(&self, since_us: i64, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        Box::pin(async move {
            let lines = audit::since(&self.readers, since_us, limit).await;
            lines.map_err(|error| self.failed(&error))
        })
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.readers.close().await;
            // The last one to go folds the journal into the file.
            self.writer.close().await;
        })
    }
}
