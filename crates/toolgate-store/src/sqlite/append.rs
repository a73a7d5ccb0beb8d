//! Writes records: many rows in a statement, one transaction for a batch.

use std::{fmt::Write as _, sync::LazyLock};

use sqlx::{Connection as _, Sqlite, query::Query, sqlite::SqliteArguments};
use toolgate::middleware::log::CallRecord;

use super::writer::Writer;

/// The columns of a record, in the order in which they are bound and read.
pub(super) const COLUMNS: &str = "id, parent, kind, at_us, duration_us, session, principal, namespace, client, \
    server, tool, wire_name, outcome, ran, code, decided_by, rule, arguments_bytes, result_bytes, error_bytes, \
    error, arguments, result, approval";

const WIDTH: usize = 24;

/// The numbers of rows in a statement: few, so that each statement is prepared once.
const STATEMENT_ROWS: [usize; 4] = [128, 32, 8, 1];

static INSERTS: LazyLock<[String; STATEMENT_ROWS.len()]> =
    LazyLock::new(|| STATEMENT_ROWS.map(insert));

fn insert(rows: usize) -> String {
    let row = format!("({})", vec!["?"; WIDTH].join(","));
    let mut sql = String::new();
    let _ = write!(sql, "INSERT OR IGNORE INTO calls ({COLUMNS}) VALUES ");
    sql + &vec![row; rows].join(",")
}

pub(super) async fn append(writer: &Writer, records: &[CallRecord]) -> Result<(), sqlx::Error> {
    if records.is_empty() {
        return Ok(());
    }
    // The transaction takes the write lock immediately: SQLite does not wait for a lock that is requested later.
    let mut connection = writer.get().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut rest = records;
    for (rows, sql) in STATEMENT_ROWS.into_iter().zip(INSERTS.iter()) {
        while rest.len() >= rows {
            let (now, later) = rest.split_at(rows);
            // The text contains only constants and placeholders.
            let mut query = sqlx::query(sqlx::AssertSqlSafe(sql.as_str()));
            for record in now {
                query = bind(query, record);
            }
            query.execute(&mut *transaction).await?;
            rest = later;
        }
    }
    transaction.commit().await
}

type Insert<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Binds the columns in the order of [`COLUMNS`].
fn bind<'q>(query: Insert<'q>, record: &'q CallRecord) -> Insert<'q> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    query
        .bind(record.id.as_str())
        .bind(record.parent.as_deref())
        .bind(record.kind.name())
        .bind(record.at_us)
        .bind(number(record.duration_us))
        .bind(record.session.as_str())
        .bind(record.principal.as_str())
        .bind(record.namespace.as_str())
        .bind(record.client.as_deref())
        .bind(record.server.as_deref())
        .bind(record.tool.as_deref())
        .bind(record.wire_name.as_deref())
        .bind(record.outcome.as_str())
        .bind(record.ran.as_str())
        .bind(record.code.as_deref())
        .bind(record.decided_by.as_deref())
        .bind(record.rule.as_deref())
        .bind(record.arguments_bytes.map(number))
        .bind(record.result_bytes.map(number))
        .bind(record.error_bytes.map(number))
        .bind(record.error.as_deref())
        .bind(record.arguments.as_deref())
        .bind(record.result.as_deref())
        .bind(record.approval.as_deref())
}
