//! Removes the oldest records in small transactions, so that writers do not wait for long.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{SqliteConnection, SqlitePool};

use super::writer::Writer;
use crate::store::{PruneResult, Retention, Size};

/// The number of records removed in a transaction.
const MAX_PRUNED_RECORDS: i64 = 500;
/// How many pages are returned to the file system in a transaction.
const RETURN_PAGES: &str = "PRAGMA incremental_vacuum(500)";
/// Pages are returned only if more than one in this many is free: new records soon reuse free pages, and moving pages
/// is slow.
const FREE_PAGES_SHARE: i64 = 4;

pub(super) async fn prune(
    writer: &Writer,
    retention: &Retention,
) -> Result<PruneResult, sqlx::Error> {
    let mut pruned = PruneResult::default();
    if let Some(age) = retention.age {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = i64::try_from(now.saturating_sub(age).as_micros()).unwrap_or(i64::MAX);
        pruned.by_age =
            all(writer, "SELECT seq FROM calls WHERE at_us < ?1 ORDER BY at_us", before).await?;
        while oldest_of_audit(writer, "WHERE at_us < ?2", before, MAX_PRUNED_RECORDS).await? > 0 {}
    }
    if let Some(most) = retention.records {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let bound = "SELECT seq FROM calls ORDER BY seq DESC LIMIT 1 OFFSET ?";
        let bound: Option<i64> =
            sqlx::query_scalar(bound).bind(most).fetch_optional(&mut *writer.get().await?).await?;
        if let Some(bound) = bound {
            pruned.by_records =
                all(writer, "SELECT seq FROM calls WHERE seq <= ?1 ORDER BY seq", bound).await?;
        }
    }
    if let Some(most) = retention.bytes {
        pruned.by_bytes = down_to(writer, most).await?;
    }
    if pruned.total() > 0 {
        give_back(writer).await?;
    }
    Ok(pruned)
}

/// Removes the records that `which` selects below the limit.
async fn all(writer: &Writer, which: &'static str, bound: i64) -> Result<u64, sqlx::Error> {
    let mut removed = 0;
    loop {
        // The text contains only constants.
        let sql = format!("DELETE FROM calls WHERE seq IN ({which} LIMIT ?2)");
        let delete = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(bound).bind(MAX_PRUNED_RECORDS);
        match delete.execute(&mut *writer.get().await?).await?.rows_affected() {
            0 => return Ok(removed),
            count => removed += count,
        }
    }
}

/// Removes the oldest audit lines: the store has a copy, the audit file has all of them.
async fn oldest_of_audit(
    writer: &Writer,
    which: &'static str,
    bound: i64,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    // The text contains only constants.
    let sql = format!(
        "DELETE FROM audit WHERE id IN (SELECT id FROM audit {which} ORDER BY id LIMIT ?1)"
    );
    let delete = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(limit).bind(bound);
    Ok(delete.execute(&mut *writer.get().await?).await?.rows_affected())
}

/// Removes the oldest records until the rest has at most `most` bytes.
async fn down_to(writer: &Writer, most: u64) -> Result<u64, sqlx::Error> {
    let mut removed = 0;
    loop {
        let Size { records, bytes } = measure(&mut *writer.get().await?).await?;
        let lines: i64 = sqlx::query_scalar("SELECT count(*) FROM audit")
            .fetch_one(&mut *writer.get().await?)
            .await?;
        let lines = u64::try_from(lines).unwrap_or(0);
        if bytes <= most || records + lines == 0 {
            return Ok(removed);
        }
        // The share of records to remove if all have the same size; the next round corrects the difference.
        let share = |of: u64| (bytes - most).saturating_mul(of) / bytes.max(1) + 1;
        let mut left = i64::try_from(share(lines)).unwrap_or(i64::MAX);
        while left > 0 && oldest_of_audit(writer, "", 0, left.min(MAX_PRUNED_RECORDS)).await? > 0 {
            left -= MAX_PRUNED_RECORDS;
        }
        let too_many = share(records);
        let mut left = i64::try_from(too_many).unwrap_or(i64::MAX);
        while left > 0 {
            let sql = "DELETE FROM calls WHERE seq IN (SELECT seq FROM calls ORDER BY seq LIMIT ?)";
            let delete = sqlx::query(sql)
                .bind(left.min(MAX_PRUNED_RECORDS))
                .execute(&mut *writer.get().await?)
                .await?;
            if delete.rows_affected() == 0 {
                break;
            }
            removed += delete.rows_affected();
            left -= MAX_PRUNED_RECORDS;
        }
    }
}

/// Returns free pages to the file system if there are many.
async fn give_back(writer: &Writer) -> Result<(), sqlx::Error> {
    let mut before = i64::MAX;
    loop {
        let mut connection = writer.get().await?;
        let pages =
            "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count";
        let (all, free): (i64, i64) = sqlx::query_as(pages).fetch_one(&mut *connection).await?;
        if free < all / FREE_PAGES_SHARE || free >= before || free == 0 {
            return Ok(());
        }
        before = free;
        sqlx::query(RETURN_PAGES).fetch_all(&mut *connection).await?;
    }
}

pub(super) async fn size(readers: &SqlitePool) -> Result<Size, sqlx::Error> {
    measure(&mut *readers.acquire().await?).await
}

async fn measure(connection: &mut SqliteConnection) -> Result<Size, sqlx::Error> {
    let (records, pages, free, page): (i64, i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM calls), page_count, freelist_count, page_size \
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    .fetch_one(connection)
    .await?;
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Size { records: number(records), bytes: number((pages - free) * page) })
}
