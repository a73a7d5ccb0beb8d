//! The schema of the file: its owner, its version, and the migrations.

use std::path::Path;

use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection, raw_sql, sqlite::SqliteConnectOptions,
};

use crate::error::StoreError;

/// The migrations in order. A released one is never changed; add new ones at the end.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_calls.sql"),
    include_str!("../../migrations/0002_audit.sql"),
    include_str!("../../migrations/0003_approvals.sql"),
];

/// The `application_id` in the file's header: `tgat`.
const APPLICATION_ID: i64 = 0x7467_6174;

/// The values in the file's header.
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
        // In one transaction: another process may be creating the file.
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
        if self.mark != APPLICATION_ID && !is_new {
            return Err(StoreError::Foreign { path });
        }
        if self.version > known() {
            return Err(StoreError::Newer { path, found: self.version, known: known() });
        }
        Ok(())
    }
}

fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Checks that the file belongs to toolgate, without changing it.
pub(super) async fn check(path: &Path, options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(path, &error);
    let mut connection = options.connect().await.map_err(failed)?;
    let header = Header::read(&mut connection).await.map_err(failed);
    connection.close().await.map_err(failed)?;
    header?.check(path)
}

/// Runs the missing migrations. If several processes try, one runs them and the others find them done.
pub(super) async fn migrate(
    path: &Path,
    connection: &mut SqliteConnection,
) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| StoreError::of(path, &error);
    let header = Header::read(connection).await.map_err(failed)?;
    if header.mark == APPLICATION_ID && header.version == known() {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let header = Header::read(&mut transaction).await.map_err(failed)?;
    header.check(path)?;
    let done = usize::try_from(header.version).unwrap_or(0);
    for step in MIGRATIONS.iter().skip(done) {
        raw_sql(*step).execute(&mut *transaction).await.map_err(failed)?;
    }
    // A pragma takes no bound values; these are our own numbers.
    let mark =
        format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}", known());
    raw_sql(sqlx::AssertSqlSafe(mark)).execute(&mut *transaction).await.map_err(failed)?;
    transaction.commit().await.map_err(failed)
}
