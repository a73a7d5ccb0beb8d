//! Verification: every change of a real record is found, and the line is named.

use std::{fs, path::Path};

use super::{
    files::{folder, numbered},
    *,
};
use crate::{
    middleware::audit::verify::{Finding, FindingKind, Report, Verify, verify},
    random::Random,
};

/// A file of real records: calls of all tiers, with intents, refusals and failures.
async fn real(path: &Path) -> Vec<Vec<u8>> {
    let settings = Settings {
        safety: Some(Tier::Mutating),
        audit: AuditConfig { file: Target::File(path.to_owned()), ..AuditConfig::default() },
        ..Settings::default()
    };
    let stack = stack::build(&settings).unwrap();
    for n in 0..8 {
        for tier in Tier::ALL {
            let server = answering(json(r#"{"content":[]}"#));
            let arguments = format!(r#"{{"keys":"{n}","path":"a{n}"}}"#);
            testing::call(&stack.chain, &tool("t", tier), &arguments, &server).await;
        }
    }
    stack.audit.unwrap().close(TEST_TIMEOUT);
    let lines = fs::read(path).unwrap();
    lines.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn check(path: &Path, lines: &[Vec<u8>]) -> Report {
    fs::write(path, lines.concat()).unwrap();
    verify(path, &Verify::default()).unwrap()
}

/// The first finding, which must be about one of these lines (from 1 on).
#[track_caller]
fn found(path: &Path, lines: &[Vec<u8>], at: &[usize], what: &str) -> Finding {
    let report = check(path, lines);
    let first = report.findings.first().cloned();
    let first = first.unwrap_or_else(|| panic!("{what} is not found: {report:?}"));
    let line = usize::try_from(first.line).unwrap();
    assert!(at.contains(&line), "{what} is found elsewhere: {report:?}");
    first
}

#[tokio::test]
async fn what_was_written_is_whole() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    assert_eq!(lines.len(), 1 + 3 * 8 + 8);
    let report = check(&path, &lines);
    assert!(report.is_whole() && report.under_way.is_empty() && !report.incomplete, "{report:?}");
    assert_eq!((report.records, report.last_seq), (33, 33));
}

#[tokio::test]
async fn every_flipped_byte_is_found() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    let mut dice = Random::new(3);
    let mut count = 0;
    for line in 0..lines.len() {
        let length = lines[line].len();
        // Where it matters most each byte, elsewhere some of them.
        let at_end = length - 90..length;
        let some: Vec<usize> = (0..12).map(|_| dice.roll(length - 90)).collect();
        for at in at_end.chain(some) {
            let mut changed = lines.clone();
            let bit = 1 << dice.roll(8);
            changed[line][at] ^= bit;
            let mut near = vec![line + 1];
            if line == 0 {
                // FindingKind was the beginning may look like a line of a time without a chain.
                near.push(2);
            }
            if at == length - 1 {
                // Two lines became one.
                near.push(line + 2);
                if line + 1 == lines.len() {
                    near.push(line);
                }
            }
            found(&path, &changed, &near, &format!("bit {bit} of byte {at} in line {}", line + 1));
            count += 1;
        }
    }
    assert!(count > 3000, "{count}");
}

#[tokio::test]
async fn every_dropped_record_is_found() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    for line in 0..lines.len() {
        let mut changed = lines.clone();
        changed.remove(line);
        let finding = found(&path, &changed, &[line + 1, line], &format!("dropped {line}"));
        match finding.what {
            FindingKind::NoBeginning => assert_eq!(line, 0),
            FindingKind::CutOff(1) => assert_eq!(line, lines.len() - 1),
            what => assert_eq!(what, FindingKind::Missing(1)),
        }
    }
    for end in 0..lines.len() {
        let missing = u64::try_from(lines.len() - end).unwrap();
        let finding = found(&path, &lines[..end], &[end], &format!("cut at {end}"));
        assert_eq!(finding.what, FindingKind::CutOff(missing));
    }
}

#[tokio::test]
async fn every_record_out_of_its_place_is_found() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    for line in 1..lines.len() - 1 {
        let mut changed = lines.clone();
        changed.swap(line, line + 1);
        let report = check(&path, &changed);
        assert_eq!(report.findings.len(), 1, "{report:?}");
        assert_eq!(
            (&report.findings[0].what, report.findings[0].line),
            (&FindingKind::OutOfOrder, line as u64 + 2)
        );
    }
    let mut dice = Random::new(5);
    for _ in 0..200 {
        let mut pick = || dice.roll(lines.len());
        let (a, b) = (pick(), pick());
        if a == b {
            continue;
        }
        let mut changed = lines.clone();
        changed.swap(a, b);
        found(
            &path,
            &changed,
            &[a.min(b) + 1, a.min(b) + 2, b.max(a) + 1],
            &format!("swapped {a} and {b}"),
        );
    }
    for line in 0..lines.len() {
        for to in [line + 1, lines.len()] {
            let mut changed = lines.clone();
            changed.insert(to, lines[line].clone());
            let finding = found(&path, &changed, &[to + 1], &format!("{line} again at {to}"));
            assert_eq!(finding.what, FindingKind::Duplicated);
        }
    }
}

#[tokio::test]
async fn a_forged_record_is_found() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    let forged = |seq: usize| {
        let hash = "ab".repeat(32);
        format!("{{\"event\":\"call\",\"schema\":1,\"seq\":{seq},\"hash\":\"{hash}\"}}\n")
            .into_bytes()
    };
    for at in 1..=lines.len() {
        let mut changed = lines.clone();
        changed.insert(at, forged(at + 1));
        let finding = found(&path, &changed, &[at + 1], &format!("forged at {at}"));
        assert_eq!(finding.what, FindingKind::Altered);
        let mut changed = lines.clone();
        changed.insert(at, b"not a record\n".to_vec());
        found(&path, &changed, &[at + 1], &format!("garbage at {at}"));
    }
}

#[tokio::test]
async fn a_file_in_the_middle_that_is_gone_is_found() {
    let (_folder, path) = folder();
    let config = AuditConfig {
        file: Target::File(path.clone()),
        rotate_bytes: 1500,
        keep_files: Some(100),
        ..AuditConfig::default()
    };
    for n in 0..6 {
        let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
        let chain = testing::chain(Audit::new(sink.clone()));
        let server = answering(json("{}"));
        for _ in 0..5 {
            testing::call(&chain, &tool("t", None), &format!("{{\"n\":{n}}}"), &server).await;
        }
        sink.close(TEST_TIMEOUT);
    }
    assert!(verify(&path, &Verify::default()).unwrap().is_whole());
    let second = numbered(&path, 2);
    fs::remove_file(second).unwrap();
    let report = verify(&path, &Verify::default()).unwrap();
    assert!(
        matches!(report.findings[..], [Finding { what: FindingKind::Missing(_), line: 1, .. }]),
        "{report:?}"
    );
}

#[tokio::test]
async fn calls_without_an_end_are_told() {
    let (_folder, path) = folder();
    let lines = real(&path).await;
    let is_intent =
        |line: &&Vec<u8>| String::from_utf8_lossy(line).contains("\"event\":\"intent\"");
    let intents: Vec<usize> =
        lines.iter().enumerate().filter(|(_, l)| is_intent(l)).map(|(n, _)| n).collect();
    let end = intents[2] + 1;
    let report = check(&path, &lines[..end]);
    assert_eq!(report.under_way.len(), 1, "{report:?}");
    let call = &report.under_way[0];
    assert_eq!((call.tool.as_str(), call.line), ("t", end as u64));
    assert!(call.call_id.len() == 36 && call.ts.ends_with('Z'));
}
