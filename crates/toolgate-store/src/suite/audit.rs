//! Tests of audit lines.

use std::sync::Arc;

use super::fill;
use crate::store::{AuditRecord, Retention, Store};

fn line(number: i64) -> AuditRecord {
    AuditRecord {
        at_us: 1_700_000_000_000_000 + number,
        event: "call".to_owned(),
        call_id: (number % 2 == 0).then(|| format!("call-{number}")),
        outcome: (number % 3 == 0).then(|| "ok".to_owned()),
        line: format!("{{\"n\":{number},\"text\":\"\u{e9}'\\n\"}}"),
    }
}

pub(super) async fn lines(store: Arc<dyn Store>) {
    assert!(store.audit(0, 10).await.unwrap().is_empty());
    let all: Vec<AuditRecord> = (0..20).map(line).collect();
    for batch in all.chunks(7) {
        store.append_audit(batch).await.unwrap();
    }
    assert_eq!(store.audit(0, 100).await.unwrap(), all);
    assert_eq!(store.audit(0, 3).await.unwrap(), all[17..], "the newest, oldest first");
    assert_eq!(store.audit(all[15].at_us, 100).await.unwrap(), all[15..]);
    assert!(store.audit(all[19].at_us + 1, 100).await.unwrap().is_empty());
    let age = Retention { age: Some(std::time::Duration::from_hours(24)), ..Retention::default() };
    store.prune(&age).await.unwrap();
    assert!(store.audit(0, 100).await.unwrap().is_empty(), "it is kept as long as calls are");
    let large: Vec<AuditRecord> =
        (0..500).map(|n| AuditRecord { line: "x".repeat(2000), ..line(n) }).collect();
    store.append_audit(&large).await.unwrap();
    fill(&*store, 100).await;
    let bytes = Retention { bytes: Some(600_000), ..Retention::default() };
    store.prune(&bytes).await.unwrap();
    let (lines, size) = (store.audit(0, 1000).await.unwrap(), store.size().await.unwrap());
    assert!(size.bytes <= 600_000 && size.records > 10, "{size:?}: calls do not go for the audit");
    assert!(lines.len() > 10 && lines.len() < 400, "{}", lines.len());
    store.close().await;
    assert!(store.append_audit(&all).await.is_err());
}
