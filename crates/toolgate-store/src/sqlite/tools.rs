//! The tools that were seen in each namespace.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use toolgate::ToolId;

use super::writer::Writer;
use crate::store::FirstList;

pub(super) async fn known(
    readers: &SqlitePool,
    namespace: &str,
) -> Result<Vec<ToolId>, sqlx::Error> {
    let rows: Vec<(String, String)> =
        sqlx::query_as(SELECT_KNOWN).bind(namespace).fetch_all(readers).await?;
    Ok(rows.into_iter().map(|(server, tool)| ToolId::new(server, tool)).collect())
}

/// Rows without a tool are marks: that a namespace was seen (no server), or that the first list of a server is not
/// approved yet.
const SELECT_KNOWN: &str =
    "SELECT server, tool FROM known_tools WHERE namespace = ? AND tool <> '' ORDER BY server, tool";

/// Approves the first list of a server, in one transaction.
pub(super) async fn approve(
    writer: &Writer,
    list: FirstList<'_>,
) -> Result<Vec<ToolId>, sqlx::Error> {
    let FirstList { namespace, servers, server, tools } = list;
    let mut connection = writer.get().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let sql = "SELECT EXISTS (SELECT 1 FROM known_tools WHERE namespace = ?)";
    let is_seen: bool =
        sqlx::query_scalar(sql).bind(namespace).fetch_one(&mut *transaction).await?;
    if !is_seen {
        let servers = servers.iter().map(|server| (&**server, ""));
        insert(&mut transaction, namespace, servers.chain([("", "")])).await?;
    }
    let sql = "DELETE FROM known_tools WHERE namespace = ? AND server = ? AND tool = ''";
    let waited = sqlx::query(sql).bind(namespace).bind(server).execute(&mut *transaction).await?;
    if waited.rows_affected() > 0 {
        let named = tools.iter().filter(|tool| !tool.name().is_empty());
        let named = named.map(|tool| (tool.server(), tool.name()));
        insert(&mut transaction, namespace, named).await?;
    }
    let rows: Vec<(String, String)> =
        sqlx::query_as(SELECT_KNOWN).bind(namespace).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(rows.into_iter().map(|(server, tool)| ToolId::new(server, tool)).collect())
}

async fn insert(
    connection: &mut SqliteConnection,
    namespace: &str,
    rows: impl Iterator<Item = (&str, &str)>,
) -> Result<(), sqlx::Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    for (server, tool) in rows {
        sqlx::query("INSERT OR IGNORE INTO known_tools VALUES (?, ?, ?, ?)")
            .bind(namespace)
            .bind(server)
            .bind(tool)
            .bind(now)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

pub(super) async fn remember(
    writer: &Writer,
    namespace: &str,
    tools: &[ToolId],
) -> Result<(), sqlx::Error> {
    let mut connection = writer.get().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let rows = tools.iter().map(|tool| (tool.server(), tool.name()));
    insert(&mut transaction, namespace, rows).await?;
    transaction.commit().await
}
