//! The chain over files: what anybody can check by hand, what a crash leaves, and what others did.

use std::fs;

use sha2::{Digest as _, Sha256};

use super::{
    files::{folder, numbered, read, said},
    *,
};
use crate::middleware::audit::{
    file::AuditFile,
    head,
    seal::Seal,
    verify::{FindingKind, Verify, verify},
};

fn open(path: &std::path::Path) -> AuditFile {
    AuditFile::open(path, u64::MAX, 5).unwrap()
}

fn report(path: &std::path::Path) -> verify::Report {
    verify(path, &Verify::default()).unwrap()
}

fn whats(path: &std::path::Path) -> Vec<FindingKind> {
    report(path).findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn the_chain_is_what_its_page_says() {
    let (_folder, path) = folder();
    let mut file = open(&path);
    file.say("one").unwrap();
    file.say("two").unwrap();
    let mut previous = "0".repeat(64);
    for (n, line) in read(&path).lines().enumerate() {
        let (body, hash) = line.split_once(",\"hash\":\"").unwrap();
        assert!(body.ends_with(&format!(",\"schema\":1,\"seq\":{}", n + 1)), "{body}");
        let digest = Sha256::digest(format!("{previous}\n{body}}}"));
        let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let digits = digits.concat();
        assert_eq!(hash, format!("{digits}\"}}"));
        previous = digits;
    }
    let record: Value = serde_json::from_str(read(&path).lines().next().unwrap()).unwrap();
    assert_eq!(record["previous_hash"], "0".repeat(64));
    assert_eq!((&record["event"], &record["algorithm"]), (&"begin".into(), &"sha256".into()));
    assert_eq!(fs::read(head::path_of(&path)).unwrap().len(), 20 + 1 + 64 + 1 + 20 + 1 + 64 + 1);
}

#[test]
fn a_chain_goes_on_over_restarts_and_rotation() {
    let (_folder, path) = folder();
    for round in 0..3 {
        let mut file = AuditFile::open(&path, 600, 100).unwrap();
        for n in 0..5 {
            file.say(&format!("{round} {n}")).unwrap();
        }
    }
    let report = report(&path);
    assert!(report.is_whole(), "{report:?}");
    assert!(numbered(&path, 3).exists(), "it was moved aside");
    assert_eq!((report.earlier, report.records), (0, report.last_seq));
}

#[test]
fn files_that_are_no_longer_kept_are_counted() {
    let (_folder, path) = folder();
    let mut file = AuditFile::open(&path, 1, 1).unwrap();
    for n in 0..5 {
        file.say(&n.to_string()).unwrap();
    }
    let report = report(&path);
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.records, report.earlier, report.last_seq), (4, 6, 10));
}

#[test]
fn a_record_that_was_cut_off_is_named_by_the_next() {
    let (_folder, path) = folder();
    let whole = {
        open(&path).say("one").unwrap();
        fs::read(&path).unwrap()
    };
    let mark = fs::read(head::path_of(&path)).unwrap();
    open(&path).say("two").unwrap();
    let longer = fs::read(&path).unwrap();
    for end in whole.len()..longer.len() {
        // The head is written after the record: it still says `one`.
        fs::write(&path, &longer[..end]).unwrap();
        fs::write(head::path_of(&path), &mark).unwrap();
        let cut = report(&path);
        assert!(cut.is_whole(), "{end}: {cut:?}");
        assert_eq!(cut.incomplete, end > whole.len());
        open(&path).say("three").unwrap();
        open(&path).say("four").unwrap();
        let report = report(&path);
        assert!(report.is_whole(), "{end}: {report:?}");
        // All but its newline is the record.
        let is_torn = end > whole.len() && end < longer.len() - 1;
        assert_eq!(report.torn, u64::from(is_torn), "{end}");
        // Whatever else stands there in its place is found.
        if is_torn {
            let mut bytes = fs::read(&path).unwrap();
            bytes[whole.len()] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_eq!(whats(&path)[0], FindingKind::Unreadable, "{end}");
        }
    }
}

#[test]
fn a_crash_while_the_crash_is_told_of_is_told_of_too() {
    let (_folder, path) = folder();
    open(&path).say("one").unwrap();
    let before = fs::read(&path).unwrap();
    let mark = fs::read(head::path_of(&path)).unwrap();
    for torn in ["{\"say\":\"tw", "{\"say\":\"tw\n{\"ts\":\"2026", "{\"say\":\"tw\n"] {
        let mut bytes = before.clone();
        bytes.extend_from_slice(torn.as_bytes());
        fs::write(&path, bytes).unwrap();
        fs::write(head::path_of(&path), &mark).unwrap();
        open(&path).say("three").unwrap();
        let report = report(&path);
        assert!(report.is_whole() && report.torn > 0, "{torn:?}: {report:?}");
    }
}

#[test]
fn a_file_without_a_chain_goes_on_with_one() {
    let (_folder, path) = folder();
    fs::write(&path, "{\"say\":\"old\"}\n{\"say\":\"older\"}\n{\"sa").unwrap();
    open(&path).say("new").unwrap();
    assert_eq!(report(&path).unchained, 2);
    assert_eq!(report(&path).torn, 1);
    assert!(report(&path).is_whole(), "{:?}", report(&path));
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"say\":\"from outside\"}\n");
    fs::write(&path, bytes).unwrap();
    assert_eq!(whats(&path), [FindingKind::Unchained]);
    open(&path).say("newer").unwrap();
    assert_eq!(whats(&path), [FindingKind::Unchained], "the chain goes on behind it");
}

#[test]
fn nobody_covers_up_a_missing_end_by_writing_on() {
    let (_folder, path) = folder();
    let mut file = open(&path);
    file.say("one").unwrap();
    let short = fs::read(&path).unwrap();
    file.say("two").unwrap();
    file.say("three").unwrap();
    // Cut off while it is open, and while it is not.
    fs::write(&path, &short).unwrap();
    assert_eq!(whats(&path), [FindingKind::CutOff(2)]);
    file.say("four").unwrap();
    assert_eq!(whats(&path), [FindingKind::Missing(2)]);
    open(&path).say("five").unwrap();
    assert_eq!(whats(&path), [FindingKind::Missing(2)]);
    fs::write(&path, &short).unwrap();
    open(&path).say("six").unwrap();
    assert!(matches!(whats(&path)[..], [FindingKind::Missing(_)]), "{:?}", whats(&path));
}

#[test]
fn a_head_that_is_gone_or_altered_is_told() {
    let (_folder, path) = folder();
    for _ in 0..2 {
        open(&path).say("one").unwrap();
    }
    let head = head::path_of(&path);
    let good = fs::read(&head).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&head, &bad).unwrap();
        assert_eq!(whats(&path), [FindingKind::HeadAltered], "{at}");
    }
    fs::remove_file(&head).unwrap();
    assert_eq!(whats(&path), [FindingKind::NoHead]);
    open(&path).say("two").unwrap();
    assert_eq!(whats(&path), [FindingKind::HeadWas("missing".to_owned())], "it is not covered up");
    fs::write(&head, "nonsense").unwrap();
    open(&path).say("three").unwrap();
    assert_eq!(whats(&path)[1..], [FindingKind::HeadWas("unreadable".to_owned())]);
    // An old head of its own is behind, as after a crash.
    fs::write(&path, read(&path).split_inclusive('\n').take(3).collect::<String>()).unwrap();
    fs::write(&head, &good).unwrap();
    assert!(whats(&path).is_empty(), "{:?}", whats(&path));
}

#[test]
fn with_a_key_nobody_else_can_write_on() {
    let (_folder, path) = folder();
    let key = b"a key of at least sixteen bytes".to_vec();
    let keyed = Seal::keyed(&key).unwrap();
    let check = |key: Option<&[u8]>| {
        let how = Verify { key: key.map(<[u8]>::to_vec), progress: None };
        let report = verify(&path, &how).unwrap();
        report.findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
    };
    let mut file = open(&path);
    for n in 0..3 {
        file.say_with(&keyed, &n.to_string()).unwrap();
    }
    assert_eq!(check(Some(&key)), []);
    assert_eq!(check(None), [FindingKind::NeedsKey]);
    assert_eq!(check(Some(b"another key, just as long")), [FindingKind::OtherKey]);
    // A forger's record, chained as well as it can be without the key.
    open(&path).say("forged").unwrap();
    let found = check(Some(&key));
    assert!(found.contains(&FindingKind::OtherKey), "{found:?}");
    let mut file = open(&path);
    file.say_with(&keyed, "and on").unwrap();
    assert!(check(Some(&key)).contains(&FindingKind::OtherKey), "it is not covered up");
    assert!(Seal::keyed(b"short").is_err());
    assert_eq!(said(&path).len(), 5);
}
