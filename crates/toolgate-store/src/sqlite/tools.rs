//! The tools that namespaces were seen with.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{Connection as _, SqlitePool};
use toolgate::ToolId;

use super::writer::Writer;

pub(super) async fn known(
    readers: &SqlitePool,
    namespace: &str,
) -> Result<Vec<ToolId>, sqlx::Error> {
    let sql = "SELECT server, tool FROM known_tools WHERE namespace = ? ORDER BY server, tool";
    let rows: Vec<(String, String)> =
        sqlx::query_as(sql).bind(namespace).fetch_all(readers).await?;
    Ok(rows.into_iter().map(|(server, tool)| ToolId::new(server, tool)).collect())
}

pub(super) async fn remember(
    writer: &Writer,
    namespace: &str,
    tools: &[ToolId],
) -> Result<(), sqlx::Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    let mut connection = writer.get().await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for tool in tools {
        sqlx::query("INSERT OR IGNORE INTO known_tools VALUES (?, ?, ?, ?)")
            .bind(namespace)
            .bind(tool.server())
            .bind(tool.name())
            .bind(now)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}
