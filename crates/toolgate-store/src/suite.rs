//! The tests that every store passes. Each takes a store that is new and empty.
//!
//! ```no_run
//! # async fn new_store() -> std::sync::Arc<dyn toolgate_store::Store> { unimplemented!() }
//! # async fn tests() {
//! for (name, case) in toolgate_store::suite::CASES {
//!     println!("{name}");
//!     case(new_store().await).await;
//! }
//! # }
//! ```

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "these are tests, which fail by panicking, for stores of other crates too"
)]

mod audit;
mod bounds;
mod questions;
mod trees;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use toolgate::{
    Boxed,
    middleware::log::{CallRecord, RecordKind},
};

use crate::store::{Filter, Page, Store};

/// A test of a store.
pub type Case = fn(Arc<dyn Store>) -> Boxed<'static, ()>;

/// All tests, by name.
pub const CASES: &[(&str, Case)] = &[
    ("what is written is read again", |store| Box::pin(questions::round_trip(store))),
    ("newest first, page by page", |store| Box::pin(questions::pages(store))),
    ("a cursor stays where it is", |store| Box::pin(questions::stable_cursor(store))),
    ("what is newer is found once", |store| Box::pin(questions::following(store))),
    ("filters", |store| Box::pin(questions::filters(store))),
    ("a record is written once", |store| Box::pin(questions::once(store))),
    ("whatever is asked is data", |store| Box::pin(questions::hostile(store))),
    ("a tree is read back", |store| Box::pin(trees::whole(store))),
    ("a tree without its root", |store| Box::pin(trees::orphan(store))),
    ("parents in a circle", |store| Box::pin(trees::circle(store))),
    ("bounds by age", |store| Box::pin(bounds::by_age(store))),
    ("bounds by count", |store| Box::pin(bounds::by_records(store))),
    ("bounds by size", |store| Box::pin(bounds::by_bytes(store))),
    ("known tools", |store| Box::pin(bounds::known_tools(store))),
    ("first lists", |store| Box::pin(bounds::first_lists(store))),
    ("lines of the audit", |store| Box::pin(audit::lines(store))),
    ("many at once", |store| Box::pin(bounds::many_at_once(store))),
    ("a closed store fails", |store| Box::pin(bounds::closed(store))),
];

/// A record with every field set.
#[must_use]
pub fn sample(number: u32) -> CallRecord {
    CallRecord {
        id: format!("019c1429-7d00-7000-8000-{number:012x}"),
        parent: None,
        kind: RecordKind::Call,
        at_us: 1_700_000_000_000_000 + i64::from(number) * 1000,
        duration_us: 1204 + u64::from(number),
        session: "s-1".to_owned(),
        principal: "local:me".to_owned(),
        namespace: "default".to_owned(),
        client: Some("claude-code 2.0".to_owned()),
        server: Some("files".to_owned()),
        tool: Some("read_file".to_owned()),
        wire_name: Some("read".to_owned()),
        outcome: "ok".to_owned(),
        ran: "yes".to_owned(),
        code: Some("TOOL_FAILED".to_owned()),
        decided_by: Some("policy".to_owned()),
        rule: Some("team/deny/1".to_owned()),
        approval: Some(r#"{"id":"k7f2m9qx","state":"approved"}"#.to_owned()),
        arguments_bytes: Some(17),
        result_bytes: Some(1_000_000),
        error_bytes: Some(3),
        error: Some("é'\"\n".to_owned()),
        arguments: Some(r#"{"path":"a.txt"}"#.to_owned()),
        result: Some(r#"{"content":[]}"#.to_owned()),
    }
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

/// Writes `count` samples one after the other.
async fn fill(store: &dyn Store, count: u32) {
    let records: Vec<CallRecord> = (0..count).map(sample).collect();
    store.append(&records).await.unwrap();
}

/// The numbers of the samples in a page.
fn numbers(page: &Page) -> Vec<u32> {
    let records = page.records.iter();
    records.map(|record| u32::from_str_radix(&record.id[24..], 16).unwrap()).collect()
}

async fn all(store: &dyn Store, filter: &Filter) -> Vec<u32> {
    numbers(&store.query(filter, 10_000, None).await.unwrap())
}
