//! The audit lines.

use sqlx::{Connection as _, SqlitePool};

use super::writer::Writer;
use crate::store::AuditRecord;

pub(super) async fn append(writer: &Writer, lines: &[AuditRecord]) -> Result<(), sqlx::Error> {
    let mut connection = writer.get().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let sql = "INSERT INTO audit (at_us, event, call_id, outcome, line) VALUES (?, ?, ?, ?, ?)";
    for line in lines {
        sqlx::query(sql)
            .bind(line.at_us)
            .bind(line.event.as_str())
            .bind(line.call_id.as_deref())
            .bind(line.outcome.as_deref())
            .bind(line.line.as_str())
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

type Row = (i64, String, Option<String>, Option<String>, String);

pub(super) async fn since(
    readers: &SqlitePool,
    since_us: i64,
    limit: usize,
) -> Result<Vec<AuditRecord>, sqlx::Error> {
    let sql = "SELECT at_us, event, call_id, outcome, line FROM audit WHERE at_us >= ? \
               ORDER BY id DESC LIMIT ?";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows: Vec<Row> = sqlx::query_as(sql).bind(since_us).bind(limit).fetch_all(readers).await?;
    let lines = rows.into_iter().rev().map(|(at_us, event, call_id, outcome, line)| AuditRecord {
        at_us,
        event,
        call_id,
        outcome,
        line,
    });
    Ok(lines.collect())
}
