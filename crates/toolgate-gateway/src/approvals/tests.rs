//! The folder of approvals: one request per call, one use per approval, clear refusals.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::json;

use super::*;

fn record(id: &str) -> ApprovalRecord {
    serde_json::from_value(json!({"id": id, "state": "pending", "principal": "key:a",
        "namespace": "default", "server": "main", "tool": "wipe", "rule": "confirm", "arguments": {},
        "is_whole": true, "created_ms": now_ms(), "expires_ms": now_ms() + 60_000, "ttl_ms": 60_000,
        "call": "00"}))
    .unwrap()
}

fn kept(records: &[ApprovalRecord]) -> (tempfile::TempDir, ApprovalFolder) {
    let state = tempfile::tempdir().unwrap();
    let approvals = ApprovalFolder::new(state.path(), "test");
    let folder = folder::lock(approvals.path(), true).unwrap().unwrap();
    for record in records {
        folder.write(record).unwrap();
    }
    drop(folder);
    (state, approvals)
}

fn refused(approvals: &ApprovalFolder, typed: &str) -> String {
    approvals.decide(typed, &Verdict::Approve, "local:me").unwrap_err().to_string()
}

#[test]
fn beginnings_of_ids_are_enough_where_they_tell_requests_apart() {
    let (_state, approvals) = kept(&[record("abcd2345"), record("abce2345"), record("xy234567")]);
    assert!(refused(&approvals, "abc").contains("`abcd2345`, `abce2345`"));
    for typed in ["", " ", "*", "b", "abcd23456"] {
        assert!(refused(&approvals, typed).contains("there is no approval"), "{typed:?}");
    }
    let approved = approvals.decide("X", &Verdict::Approve, "local:me").unwrap();
    assert_eq!((approved.id.as_str(), approved.state), ("xy234567", ApprovalState::Approved));
    assert!(refused(&approvals, "xy").contains("already approved by local:me"));
    // Of two ids with the same beginning, the pending request is decided.
    let denied = approvals.decide("abcd", &Verdict::Deny(None), "local:me").unwrap();
    assert_eq!(denied.state, ApprovalState::Denied);
    assert_eq!(approvals.decide("abc", &Verdict::Approve, "local:me").unwrap().id, "abce2345");
}

#[test]
fn what_is_over_cannot_be_decided() {
    let expired = ApprovalRecord { expires_ms: now_ms() - 1, ..record("expired2") };
    let used = ApprovalRecord { state: ApprovalState::Used, ..record("used2345") };
    let (_state, approvals) = kept(&[expired, used]);
    assert!(refused(&approvals, "exp").contains("has expired"));
    assert!(refused(&approvals, "used").contains("already run"));
    let nowhere = ApprovalFolder::new(Path::new("/nowhere"), "test");
    assert!(refused(&nowhere, "a").contains("there is no approval"));
    assert_eq!(nowhere.list().unwrap(), []);
}

#[test]
fn changed_copied_and_open_records_mean_nothing() {
    let (_state, approvals) = kept(&[record("abcd2345")]);
    let file = approvals.path().join("abcd2345.approval");
    let text = std::fs::read(&file).unwrap();
    std::fs::copy(&file, approvals.path().join("copy2345.approval")).unwrap();
    assert_eq!(approvals.list().unwrap().len(), 1);
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        std::fs::write(&file, changed).unwrap();
        assert_eq!(approvals.list().unwrap(), [], "byte {at}");
    }
    std::fs::write(&file, &text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(approvals.list().unwrap(), []);
    std::fs::set_permissions(approvals.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
    assert!(approvals.list().unwrap_err().to_string().contains("open to others (mode 750)"));
}

#[test]
fn what_is_over_is_kept_for_a_while_and_not_without_bound() {
    let over = |n: usize| ApprovalRecord {
        expires_ms: now_ms() - 1,
        created_ms: i64::try_from(n).unwrap(),
        ..record(&format!("over{n:04}"))
    };
    let old = ApprovalRecord { expires_ms: now_ms() - RETENTION_MS - 1, ..record("old23456") };
    let mut records: Vec<_> = (0..MAX_CLOSED_RECORDS + 10).map(over).collect();
    records.push(old);
    let (_state, approvals) = kept(&records);
    let folder = folder::lock(approvals.path(), false).unwrap().unwrap();
    remove_closed(&folder, &folder.records().unwrap(), "key:a", now_ms());
    let left = folder.records().unwrap();
    assert!(left.len() <= MAX_CLOSED_RECORDS && left.iter().all(|one| one.id != "old23456"));
    // The newest ones stay.
    assert!(left.iter().any(|one| one.id == format!("over{:04}", MAX_CLOSED_RECORDS + 9)));
}

#[tokio::test]
async fn a_watch_notices_a_decision() {
    let (_state, approvals) = kept(&[record("abcd2345")]);
    let mut watch = approvals.watch().unwrap();
    approvals.decide("abcd", &Verdict::Approve, "local:me").unwrap();
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.unwrap();
}
