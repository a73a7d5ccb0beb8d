//! Tests of bounds, known tools, simultaneous use and closing.

use std::{sync::Arc, time::Duration};

use super::{all, fill, now_us, sample};
use crate::store::{Filter, FirstList, PruneResult, Retention, Store};
use toolgate::{ToolId, middleware::log::CallRecord};

pub(super) async fn by_age(store: Arc<dyn Store>) {
    let hour = 3_600_000_000;
    let aged = |number, hours: i64| CallRecord { at_us: now_us() - hours * hour, ..sample(number) };
    store.append(&[aged(0, 50), aged(1, 1), aged(2, 30), aged(3, 0)]).await.unwrap();
    let day = Duration::from_hours(24);
    let retention = Retention { age: Some(day), ..Retention::default() };
    let pruned = store.prune(&retention).await.unwrap();
    assert_eq!(pruned, PruneResult { by_age: 2, ..PruneResult::default() });
    assert_eq!(all(&*store, &Filter::default()).await, [3, 1]);
    assert_eq!(store.prune(&retention).await.unwrap().total(), 0);
    assert_eq!(store.prune(&Retention::default()).await.unwrap().total(), 0, "without end");
}

pub(super) async fn by_records(store: Arc<dyn Store>) {
    fill(&*store, 5000).await;
    let retention = Retention { records: Some(10), ..Retention::default() };
    let pruned = store.prune(&retention).await.unwrap();
    assert_eq!(pruned, PruneResult { by_records: 4990, ..PruneResult::default() });
    assert_eq!(all(&*store, &Filter::default()).await, (4990..5000).rev().collect::<Vec<_>>());
    let newest = store.query(&Filter::default(), 1, None).await.unwrap().head;
    // A cursor value is never used twice, even after all records were removed.
    let none = Retention { age: Some(Duration::ZERO), ..Retention::default() };
    assert_eq!(store.prune(&none).await.unwrap().by_age, 10);
    store.append(&[sample(7)]).await.unwrap();
    let filter = Filter { newer_than: Some(newest), ..Filter::default() };
    assert_eq!(all(&*store, &filter).await, [7]);
}

pub(super) async fn by_bytes(store: Arc<dyn Store>) {
    let empty = store.size().await.unwrap().bytes;
    let large = |number| CallRecord { result: Some("x".repeat(10_000)), ..sample(number) };
    let records: Vec<CallRecord> = (0..1000).map(large).collect();
    store.append(&records).await.unwrap();
    let before = store.size().await.unwrap();
    assert!(before.bytes > 10_000_000 && before.records == 1000, "{before:?}");
    let bound = 2_000_000;
    let retention = Retention { bytes: Some(bound), ..Retention::default() };
    let pruned = store.prune(&retention).await.unwrap();
    let after = store.size().await.unwrap();
    assert!(after.bytes <= bound, "{after:?}");
    assert!(after.records > 100, "no more goes than has to: {after:?}");
    assert_eq!(pruned.by_bytes, 1000 - after.records);
    assert_eq!(all(&*store, &Filter::default()).await[0], 999, "the newest stay");
    // A size below that of one record removes everything, and ends.
    let nothing = Retention { bytes: Some(1), ..Retention::default() };
    store.prune(&nothing).await.unwrap();
    let left = store.size().await.unwrap();
    assert!(left.records == 0 && left.bytes <= empty * 2, "{left:?}");
}

fn list<'a>(
    namespace: &'a str,
    servers: &'a [Arc<str>],
    server: &'a str,
    tools: &'a [ToolId],
) -> FirstList<'a> {
    FirstList { namespace, servers, server, tools }
}

/// The first list of each server that the namespace began with is approved, and no other, also with simultaneous calls.
pub(super) async fn first_lists(store: Arc<dyn Store>) {
    let servers: Vec<Arc<str>> = vec!["a".into(), "b".into(), "empty".into()];
    let id = |text: &str| {
        let (server, tool) = text.split_once('/').unwrap();
        ToolId::new(server, tool)
    };
    let approve = async |server: &str, tools: &[&str]| {
        let tools: Vec<ToolId> = tools.iter().map(|tool| id(tool)).collect();
        let known =
            store.approve_first_list(list("first", &servers, server, &tools)).await.unwrap();
        assert_eq!(known, store.known_tools("first").await.unwrap());
        known.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(approve("a", &["a/x", "a/y", "a/"]).await, ["a/x", "a/y"]);
    assert_eq!(approve("a", &["a/x", "a/evil"]).await, ["a/x", "a/y"], "the second list");
    assert_eq!(approve("empty", &[]).await, ["a/x", "a/y"]);
    assert_eq!(approve("empty", &["empty/evil"]).await, ["a/x", "a/y"], "it began with none");
    assert_eq!(approve("added", &["added/x"]).await, ["a/x", "a/y"], "a server of later");
    assert_eq!(approve("b", &["b/late"]).await, ["a/x", "a/y", "b/late"], "it came up late");
    // Tools of a store without approvals count as approved.
    store.remember_tools("before", &[id("a/x")]).await.unwrap();
    let known =
        store.approve_first_list(list("before", &servers, "b", &[id("b/x")])).await.unwrap();
    assert_eq!(known, [id("a/x")]);
    // One of two simultaneous lists is the first.
    let (one, two) = ([id("a/one")], [id("a/two")]);
    let (left, right) = tokio::join!(
        store.approve_first_list(list("race", &servers, "a", &one)),
        store.approve_first_list(list("race", &servers, "a", &two)),
    );
    assert_eq!(left.unwrap().len() + right.unwrap().len(), 2);
    assert_eq!(store.known_tools("race").await.unwrap().len(), 1);
}

pub(super) async fn known_tools(store: Arc<dyn Store>) {
    let tools = [ToolId::new("s", "b"), ToolId::new("s", "a"), ToolId::new("r", "a")];
    assert_eq!(store.known_tools("default").await.unwrap(), []);
    store.remember_tools("default", &tools).await.unwrap();
    store.remember_tools("default", &tools[..1]).await.unwrap();
    store.remember_tools("dev", &tools[..1]).await.unwrap();
    store.remember_tools("default", &[]).await.unwrap();
    let known = store.known_tools("default").await.unwrap();
    assert_eq!(known, [ToolId::new("r", "a"), ToolId::new("s", "a"), ToolId::new("s", "b")]);
    assert_eq!(store.known_tools("dev").await.unwrap(), [ToolId::new("s", "b")]);
    // Removing records keeps the known tools.
    let none = Retention { age: Some(Duration::ZERO), ..Retention::default() };
    store.prune(&none).await.unwrap();
    assert_eq!(store.known_tools("default").await.unwrap().len(), 3);
}

pub(super) async fn many_at_once(store: Arc<dyn Store>) {
    let mut tasks = Vec::new();
    for task in 0..8_u32 {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            for batch in 0..10 {
                let from = task * 1000 + batch * 50;
                let records: Vec<CallRecord> = (from..from + 50).map(sample).collect();
                store.append(&records).await.unwrap();
                store.query(&Filter::default(), 5, None).await.unwrap();
                let retention = Retention { records: Some(1_000_000), ..Retention::default() };
                store.prune(&retention).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.size().await.unwrap().records, 4000);
}

pub(super) async fn closed(store: Arc<dyn Store>) {
    fill(&*store, 1).await;
    store.close().await;
    assert!(store.append(&[sample(2)]).await.is_err());
    assert!(store.query(&Filter::default(), 1, None).await.is_err());
    store.close().await;
}
