//! Trees of nested calls.

use std::collections::{HashMap, HashSet};

use sqlx::{QueryBuilder, Sqlite, SqliteConnection, SqlitePool};
use toolgate::middleware::log::CallRecord;

use super::{
    append::COLUMNS,
    query::{get, record},
};
use crate::store::{Node, Tree};

/// The maximum number of calls in a tree, which is made for people to read.
const MAX_CALLS: usize = 10_000;
/// The maximum number of ancestors that are followed. Clients name the parents, so a chain of parents may have no end.
const MAX_ANCESTORS: usize = 1_000;

pub(super) async fn tree(readers: &SqlitePool, id: &str) -> Result<Option<Tree>, sqlx::Error> {
    let Some(asked) = get(readers, id).await? else { return Ok(None) };
    let mut connection = readers.acquire().await?;
    let root = root(&mut connection, &asked).await?;
    let records = descendants(&mut connection, &root).await?;
    let is_cut = records.len() >= MAX_CALLS;
    let mut nodes = arrange(records, &root);
    let missing_parent = nodes.first().and_then(|node| node.record.parent.clone());
    if !nodes.iter().any(|node| node.record.id == asked.id) {
        nodes.push(Node { depth: 0, record: asked });
    }
    Ok(Some(Tree { nodes, missing_parent, is_cut }))
}

/// The id of the first ancestor.
async fn root(
    connection: &mut SqliteConnection,
    asked: &CallRecord,
) -> Result<String, sqlx::Error> {
    let (mut root, mut seen) = (asked.id.clone(), HashSet::from([asked.id.clone()]));
    let mut parent = asked.parent.clone();
    while let Some(id) = parent.filter(|id| seen.len() < MAX_ANCESTORS && seen.insert(id.clone())) {
        let found: Option<(Option<String>,)> =
            sqlx::query_as("SELECT parent FROM calls WHERE id = ?")
                .bind(&id)
                .fetch_optional(&mut *connection)
                .await?;
        let Some((above,)) = found else { break };
        (root, parent) = (id, above);
    }
    Ok(root)
}

async fn descendants(
    connection: &mut SqliteConnection,
    root: &str,
) -> Result<Vec<CallRecord>, sqlx::Error> {
    // UNION ignores rows that exist already, so a cycle ends.
    let mut sql = QueryBuilder::<Sqlite>::new("WITH RECURSIVE family(member) AS (SELECT ");
    sql.push_bind(root).push(
        " UNION SELECT calls.id FROM calls JOIN family ON calls.parent = family.member LIMIT ",
    );
    sql.push_bind(i64::try_from(MAX_CALLS).unwrap_or(i64::MAX)).push(format!(
        ") SELECT {COLUMNS} FROM family JOIN calls ON calls.id = family.member ORDER BY at_us, seq"
    ));
    let rows = sql.build().fetch_all(connection).await?;
    rows.iter().map(record).collect()
}

/// Orders the calls: each is followed by its children.
fn arrange(records: Vec<CallRecord>, root: &str) -> Vec<Node> {
    let mut children: HashMap<String, Vec<CallRecord>> = HashMap::new();
    let mut first = None;
    for record in records {
        match &record.parent {
            Some(parent) if record.id != root => {
                children.entry(parent.clone()).or_default().push(record);
            }
            _ => first = Some(record),
        }
    }
    let mut nodes = Vec::new();
    let mut waiting: Vec<Node> =
        first.into_iter().map(|record| Node { depth: 0, record }).collect();
    while let Some(node) = waiting.pop() {
        let below = children.remove(&node.record.id).unwrap_or_default();
        let depth = node.depth + 1;
        waiting.extend(below.into_iter().rev().map(|record| Node { depth, record }));
        nodes.push(node);
    }
    nodes
}
