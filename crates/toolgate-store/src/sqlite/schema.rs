//! The schema of the file: whose it is, how new it is, and the steps that bring it up to date.

use std::path::Path;

use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection, raw_sql, sqlite::SqliteConnectOptions,
};

use crate::error::StoreError;

/// The steps, in order. A step that was released is never changed; what changes is added below.
const STEPS: &[&str] = &[
    include_str!("../../migrations/0001_calls.sql"),
    include_str!("../../migrations/0002_audit.sql"),
    include_str!("../../migrations/0003_approvals.sql"),
];

/// The mark in the file's header that says that it is ours: `tgat`.
const MARK: i64 = 0x7467_6174;

/// What the header says.
struct Header {
    mark: i64,
    version: i64,
    is_empty: bool,
}

impl Header {
    async fn read(connection: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let number = async |connection: &mut SqliteConnection, sql: &'static str| {
            sqlx::query_scalar::<_, i64>(sql).fetch_one(connection).await
        };
        // All from one moment: another process may be making the file just now.
        let mut moment = connection.begin().await?;
        let header = Self {
            mark: number(&mut moment, "PRAGMA application_id").await?,
            version: number(&mut moment, "PRAGMA user_version").await?,
            is_empty: number(&mut moment, "SELECT count(*) FROM sqlite_schema").await? == 0,
        };
        moment.commit().await?;
        Ok(header)
    }

    fn check(&self, path: &Path) -> Result<(), StoreError> {
        let path = path.to_owned();
        let is_new = self.mark == 0 && self.version == 0 && self.is_empty;
        if self.mark != MARK && !is_new {
            return Err(StoreError::Foreign { path });
        }
        if self.version > known() {
            return Err(StoreError::Newer { path, found: self.version, known: known() });
        }
        Ok(())
    }
}

fn known() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Looks whether the file is ours, without a change to it.
pub(super) async fn check(path: &Path, options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(path, &error);
    let mut connection = options.connect().await.map_err(failed)?;
    let header = Header::read(&mut connection).await.map_err(failed);
    connection.close().await.map_err(failed)?;
    header?.check(path)
}

/// Takes the steps that the file lacks. Of several processes that try, one does it and the others find it
/// done.
pub(super) async fn migrate(
    path: &Path,
    connection: &mut SqliteConnection,
) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(path, &error);
    let header = Header::read(connection).await.map_err(failed)?;
    if header.mark == MARK && header.version == known() {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let header = Header::read(&mut transaction).await.map_err(failed)?;
    header.check(path)?;
    let done = usize::try_from(header.version).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        raw_sql(*step).execute(&mut *transaction).await.map_err(failed)?;
    }
    // Numbers of our own: there is nothing to bind in a pragma.
    let mark = format!("PRAGMA application_id = {MARK}; PRAGMA user_version = {}", known());
    raw_sql(sqlx::AssertSqlSafe(mark)).execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}
