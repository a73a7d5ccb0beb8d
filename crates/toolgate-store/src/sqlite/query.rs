//! Reads records: by filter in pages, or one by its id.

use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool, sqlite::SqliteRow};
use toolgate::middleware::log::{CallRecord, RecordKind};

use super::append::COLUMNS;
use crate::store::{Cursor, Filter, NOT_FAILED, Page};

pub(super) async fn query(
    readers: &SqlitePool,
    filter: &Filter,
    limit: usize,
    after: Option<Cursor>,
) -> Result<Page, sqlx::Error> {
    // One record more than requested shows whether there is a next page.
    let fetched = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut sql = QueryBuilder::<Sqlite>::new(format!("SELECT {COLUMNS}, seq FROM calls WHERE 1"));
    narrow(&mut sql, filter, after);
    sql.push(" ORDER BY seq DESC LIMIT ").push_bind(fetched);
    // In one transaction, so that the head and the page are of the same state.
    let mut transaction = readers.begin().await?;
    let head = sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM calls");
    let head = Cursor(head.fetch_one(&mut *transaction).await?);
    let mut rows = sql.build().fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|row| row.try_get("seq").map(Cursor)).transpose()?;
    let records = rows.iter().map(record).collect::<Result<_, _>>()?;
    Ok(Page { records, next: last.filter(|_| has_more), head })
}

fn narrow(sql: &mut QueryBuilder<Sqlite>, filter: &Filter, after: Option<Cursor>) {
    if let Some(Cursor(seq)) = after {
        sql.push(" AND seq < ").push_bind(seq);
    }
    if let Some(Cursor(seq)) = filter.newer_than {
        sql.push(" AND seq > ").push_bind(seq);
    }
    if let Some(since) = filter.since_us {
        sql.push(" AND at_us >= ").push_bind(since);
    }
    if let Some(selector) = &filter.tool {
        let text = selector.to_string();
        let (server, tool) = text.split_once('/').unwrap_or(("*", &text));
        sql.push(" AND server GLOB ").push_bind(glob(server));
        sql.push(" AND tool GLOB ").push_bind(glob(tool));
    }
    if !filter.outcomes.is_empty() {
        sql.push(" AND outcome IN (");
        let mut list = sql.separated(", ");
        for outcome in &filter.outcomes {
            list.push_bind(outcome.clone());
        }
        sql.push(")");
    }
    if filter.failed {
        sql.push(" AND outcome NOT IN (");
        let mut list = sql.separated(", ");
        for outcome in NOT_FAILED {
            list.push_bind(outcome);
        }
        sql.push(")");
    }
    if let Some(principal) = &filter.principal {
        sql.push(" AND (principal = ").push_bind(principal.clone());
        sql.push(" OR substr(principal, instr(principal, ':') + 1) = ")
            .push_bind(principal.clone());
        sql.push(")");
    }
    for (column, wanted) in [("namespace", &filter.namespace), ("session", &filter.session)] {
        if let Some(wanted) = wanted {
            sql.push(format!(" AND {column} = ")).push_bind(wanted.clone());
        }
    }
    if let Some(part) = &filter.id_part {
        sql.push(" AND (substr(id, 1, length(").push_bind(part.clone());
        sql.push(")) = ").push_bind(part.clone());
        sql.push(" OR substr(id, -length(").push_bind(part.clone());
        sql.push(")) = ").push_bind(part.clone()).push(")");
    }
}

/// Converts a glob: toolgate's globs have `*` and `?`, SQLite's also `[…]`.
fn glob(pattern: &str) -> String {
    pattern.replace('[', "[[]")
}

pub(super) async fn get(readers: &SqlitePool, id: &str) -> Result<Option<CallRecord>, sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new(format!("SELECT {COLUMNS} FROM calls WHERE id = "));
    let row = sql.push_bind(id).build().fetch_optional(readers).await?;
    row.as_ref().map(record).transpose()
}

/// Reads a row of [`COLUMNS`].
pub(super) fn record(row: &SqliteRow) -> Result<CallRecord, sqlx::Error> {
    let number = |name: &str| -> Result<Option<u64>, sqlx::Error> {
        let number: Option<i64> = row.try_get(name)?;
        Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
    };
    let kind: String = row.try_get("kind")?;
    Ok(CallRecord {
        id: row.try_get("id")?,
        parent: row.try_get("parent")?,
        kind: if kind == RecordKind::Listing.name() {
            RecordKind::Listing
        } else {
            RecordKind::Call
        },
        at_us: row.try_get("at_us")?,
        duration_us: number("duration_us")?.unwrap_or(0),
        session: row.try_get("session")?,
        principal: row.try_get("principal")?,
        namespace: row.try_get("namespace")?,
        client: row.try_get("client")?,
        server: row.try_get("server")?,
        tool: row.try_get("tool")?,
        wire_name: row.try_get("wire_name")?,
        outcome: row.try_get("outcome")?,
        ran: row.try_get("ran")?,
        code: row.try_get("code")?,
        decided_by: row.try_get("decided_by")?,
        rule: row.try_get("rule")?,
        arguments_bytes: number("arguments_bytes")?,
        result_bytes: number("result_bytes")?,
        error_bytes: number("error_bytes")?,
        error: row.try_get("error")?,
        arguments: row.try_get("arguments")?,
        result: row.try_get("result")?,
        approval: row.try_get("approval")?,
    })
}
