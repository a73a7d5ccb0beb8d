//! Tests of writing and querying.

use std::sync::Arc;

use super::{all, fill, numbers, sample};
use crate::store::{Cursor, Filter, Store};
use toolgate::middleware::log::{CallRecord, RecordKind};

pub(super) async fn round_trip(store: Arc<dyn Store>) {
    let full = sample(1);
    let bare =
        CallRecord { id: "bare".to_owned(), kind: RecordKind::Listing, ..CallRecord::default() };
    let edge = CallRecord {
        id: "edge".to_owned(),
        at_us: -1,
        duration_us: i64::MAX.unsigned_abs(),
        error: Some("nul \0 and 漢字".to_owned()),
        result: Some("x".repeat(1 << 20)),
        ..sample(2)
    };
    store.append(&[full.clone(), bare.clone(), edge.clone()]).await.unwrap();
    for record in [&full, &bare, &edge] {
        assert_eq!(store.get(&record.id).await.unwrap().as_ref(), Some(record));
    }
    let page = store.query(&Filter::default(), 10, None).await.unwrap();
    assert_eq!(page.records, [edge, bare, full]);
    assert_eq!(store.get("unknown").await.unwrap(), None);
    store.append(&[]).await.unwrap();
    assert_eq!(store.size().await.unwrap().records, 3);
}

pub(super) async fn pages(store: Arc<dyn Store>) {
    let empty = store.query(&Filter::default(), 10, None).await.unwrap();
    assert_eq!((empty.records.len(), empty.next), (0, None));
    fill(&*store, 25).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.query(&Filter::default(), 10, after).await.unwrap();
        seen.extend(numbers(&page));
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).rev().collect::<Vec<_>>());
    let exact = store.query(&Filter::default(), 25, None).await.unwrap();
    assert_eq!(exact.next, None, "nothing is left");
    for wrong in ["", "x", "-1", "1e3"] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong:?}");
    }
}

pub(super) async fn stable_cursor(store: Arc<dyn Store>) {
    fill(&*store, 10).await;
    let first = store.query(&Filter::default(), 4, None).await.unwrap();
    let later: Vec<CallRecord> = (10..15).map(sample).collect();
    store.append(&later).await.unwrap();
    let second = store.query(&Filter::default(), 4, first.next).await.unwrap();
    let again = store.query(&Filter::default(), 4, Some(first.head.next())).await.unwrap();
    assert_eq!(again.records, first.records);
    assert_eq!((numbers(&first), numbers(&second)), (vec![9, 8, 7, 6], vec![5, 4, 3, 2]));
}

pub(super) async fn following(store: Arc<dyn Store>) {
    let newer = |head| Filter { newer_than: Some(head), ..Filter::default() };
    let nothing = store.query(&Filter::default(), 10, None).await.unwrap();
    fill(&*store, 3).await;
    let page = store.query(&newer(nothing.head), 10, None).await.unwrap();
    assert_eq!(numbers(&page), [2, 1, 0]);
    assert_eq!(all(&*store, &newer(page.head)).await, [0; 0]);
    // Order is by the time of writing: a call that began earlier and ended later is newer.
    let long = CallRecord { at_us: 0, ..sample(3) };
    store.append(&[long]).await.unwrap();
    assert_eq!(all(&*store, &newer(page.head)).await, [3]);
    // The head is the newest of all records, not of those that pass.
    let none = Filter { outcomes: vec!["denied".to_owned()], ..Filter::default() };
    let head = store.query(&none, 10, None).await.unwrap().head;
    assert_eq!(all(&*store, &newer(head)).await, [0; 0]);
}

pub(super) async fn filters(store: Arc<dyn Store>) {
    let change = |number, change: fn(&mut CallRecord)| {
        let mut record = sample(number);
        change(&mut record);
        record
    };
    let records = [
        change(0, |record| record.tool = Some("write_file".to_owned())),
        change(1, |record| record.server = Some("search".to_owned())),
        change(2, |record| "denied".clone_into(&mut record.outcome)),
        change(3, |record| "preview".clone_into(&mut record.outcome)),
        change(4, |record| "key:ci".clone_into(&mut record.principal)),
        change(5, |record| (record.server, record.tool) = (None, None)),
        change(6, |record| record.tool = Some("a[b]/c".to_owned())),
        change(7, |record| "dev".clone_into(&mut record.namespace)),
        change(8, |record| "s-2".clone_into(&mut record.session)),
        change(9, |record| "timed_out".clone_into(&mut record.outcome)),
    ];
    store.append(&records).await.unwrap();
    let tools =
        |selector: &str| Filter { tool: Some(selector.parse().unwrap()), ..Filter::default() };
    let found = async |filter: Filter| all(&*store, &filter).await;
    assert_eq!(found(tools("files/write_*")).await, [0]);
    assert_eq!(found(tools("files/write?file")).await, [0]);
    assert_eq!(found(tools("files/WRITE_*")).await, [0; 0]);
    assert_eq!(found(tools("search/*")).await, [1]);
    assert_eq!(found(tools("*/a?b?/c")).await, [6]);
    assert_eq!(found(tools("*/*")).await, [9, 8, 7, 6, 4, 3, 2, 1, 0], "a listing has no tool");
    let two = vec!["denied".to_owned(), "preview".to_owned()];
    assert_eq!(found(Filter { outcomes: two, ..Filter::default() }).await, [3, 2]);
    assert_eq!(found(Filter { failed: true, ..Filter::default() }).await, [9, 2]);
    for principal in ["key:ci", "ci"] {
        let principal = Some(principal.to_owned());
        assert_eq!(found(Filter { principal, ..Filter::default() }).await, [4]);
    }
    let namespace = Some("dev".to_owned());
    assert_eq!(found(Filter { namespace, ..Filter::default() }).await, [7]);
    let session = Some("s-2".to_owned());
    assert_eq!(found(Filter { session, ..Filter::default() }).await, [8]);
    let since_us = Some(sample(8).at_us);
    assert_eq!(found(Filter { since_us, ..Filter::default() }).await, [9, 8]);
    let both = Filter { since_us, failed: true, ..Filter::default() };
    assert_eq!(found(both).await, [9]);
    for part in ["0003", &sample(3).id, "019c1429-7d00-7000-8000-000000000003"] {
        let id_part = Some(part.to_owned());
        assert_eq!(found(Filter { id_part, ..Filter::default() }).await, [3], "{part}");
    }
}

pub(super) async fn once(store: Arc<dyn Store>) {
    fill(&*store, 3).await;
    let other = CallRecord { outcome: "denied".to_owned(), ..sample(1) };
    store.append(&[other, sample(3)]).await.unwrap();
    assert_eq!(store.size().await.unwrap().records, 4);
    assert_eq!(store.get(&sample(1).id).await.unwrap(), Some(sample(1)));
}

pub(super) async fn hostile(store: Arc<dyn Store>) {
    fill(&*store, 2).await;
    let evil = "'; DROP TABLE calls; --";
    let text = Some(evil.to_owned());
    let filter = Filter {
        tool: Some(format!("{evil}/{evil}").parse().unwrap()),
        outcomes: vec![evil.to_owned()],
        principal: text.clone(),
        namespace: text.clone(),
        session: text.clone(),
        id_part: text,
        ..Filter::default()
    };
    assert_eq!(all(&*store, &filter).await, [0; 0]);
    assert_eq!(store.get(evil).await.unwrap(), None);
    assert!(store.tree(evil).await.unwrap().is_none());
    assert_eq!(store.known_tools(evil).await.unwrap(), []);
    store.append(&[CallRecord { id: evil.to_owned(), ..sample(9) }]).await.unwrap();
    assert!(store.get(evil).await.unwrap().is_some());
    assert_eq!(store.size().await.unwrap().records, 3);
}
