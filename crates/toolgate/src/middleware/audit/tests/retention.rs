//! Which rotated files are kept: by number, by age, by size, and all of them if records are required.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    files::{folder, numbered, read, said},
    *,
};
use crate::middleware::audit::{file::AuditFile, rotation::Retention};

const DAY: Duration = Duration::from_hours(24);

fn open(path: &Path, config: &AuditConfig) -> AuditFile {
    AuditFile::open_with(path, Retention::from(config), config.sync).unwrap()
}

/// Each record is rotated away by the next one.
fn rotating() -> AuditConfig {
    AuditConfig { rotate_bytes: 1, ..AuditConfig::default() }
}

fn age(path: &Path, age: Duration) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

fn kept(path: &Path) -> usize {
    (1..100).take_while(|n| numbered(path, *n).exists()).count()
}

#[test]
fn without_a_limit_of_the_operator_five_files_are_kept_and_all_of_required_records() {
    for (config, expected) in [
        (rotating(), 5),
        (AuditConfig { keep_files: Some(2), ..rotating() }, 2),
        (AuditConfig { required: true, ..rotating() }, 11),
        (AuditConfig { required: true, keep_files: Some(3), ..rotating() }, 3),
        (AuditConfig { keep_days: 1, ..rotating() }, 11),
        (AuditConfig { keep_bytes: u64::MAX, ..rotating() }, 11),
    ] {
        let (_folder, path) = folder();
        let mut file = open(&path, &config);
        for n in 0..12 {
            file.say(&n.to_string()).unwrap();
        }
        assert_eq!(kept(&path), expected, "{config:?}");
        assert_eq!(said(&path), ["11"]);
        let report = verify::verify(&path, &verify::Verify::default()).unwrap();
        assert!(report.is_whole(), "{report:?}");
        // Each file has its record and a `begin`.
        assert_eq!(report.earlier, 2 * (11 - expected as u64));
    }
}

#[test]
fn old_files_go_also_if_nothing_is_rotated() {
    let (_folder, path) = folder();
    let config = AuditConfig { keep_days: 3, ..rotating() };
    let mut file = open(&path, &config);
    for n in 0..5 {
        file.say(&n.to_string()).unwrap();
    }
    age(&numbered(&path, 2), 2 * DAY);
    age(&numbered(&path, 3), 4 * DAY);
    // The next run does it with its first record.
    let mut file = open(&path, &AuditConfig { rotate_bytes: u64::MAX, ..config });
    file.say("next").unwrap();
    assert_eq!((kept(&path), said(&path)), (2, vec!["4".to_owned(), "next".to_owned()]));
    assert!(!numbered(&path, 4).exists(), "it is older than the one that is too old");
}

#[test]
fn a_file_of_yesterday_is_rotated_if_there_is_a_limit_in_days() {
    for (keep_days, expected) in [(0, 0), (7, 1)] {
        let (_folder, path) = folder();
        let config = AuditConfig { keep_days, ..AuditConfig::default() };
        let old = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(25);
        fs::write(&path, format!("{{\"ts\":\"{old}\",\"say\":\"old\"}}\n")).unwrap();
        let mut file = open(&path, &config);
        file.say("new").unwrap();
        assert_eq!(kept(&path), expected, "{}", read(&path));
        file.say("newer").unwrap();
        assert_eq!(kept(&path), expected, "once a day");
    }
}

#[test]
fn the_oldest_files_go_until_the_rest_is_small_enough() {
    let (_folder, path) = folder();
    let mut file = open(&path, &AuditConfig { required: true, ..rotating() });
    for n in 0..8 {
        file.say(&n.to_string()).unwrap();
    }
    let size = fs::metadata(&path).unwrap().len();
    // They differ in their numbers only: four of them and a bit.
    let config = AuditConfig { keep_bytes: 4 * size + size / 2, ..AuditConfig::default() };
    open(&path, &config).say("x").unwrap();
    let all = fs::metadata(&path).unwrap().len() + 3 * size;
    assert!(kept(&path) <= 3 && all > 0, "{}", kept(&path));
    assert!(kept(&path) >= 2);
}

#[tokio::test]
async fn records_that_are_synced_are_in_the_file_before_the_call_runs() {
    let (_folder, path) = folder();
    let config = AuditConfig {
        file: Target::File(path.clone()),
        sync: AuditSync::Disk,
        ..AuditConfig::default()
    };
    let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
    let chain = Chain::builder().layer(Audit::new(sink.clone()));
    let chain = chain.layer(AuditIntent::new(sink.clone())).build().unwrap();
    let there = path.clone();
    let server = ScriptedServer::new(move |_| {
        assert!(read(&there).contains("\"event\":\"intent\""));
        ToolResult::new(json("{}")).into()
    });
    testing::call(&chain, &tool("t", Tier::Mutating), "{}", &server).await;
    sink.close(TEST_TIMEOUT);
    assert_eq!((server.calls(), sink.counts().written()), (1, 2));
    assert!(verify::verify(&path, &verify::Verify::default()).unwrap().is_whole());
}

#[test]
fn what_cannot_be_synced_is_refused() {
    for target in [Target::Stderr, Target::File("/dev/null".into())] {
        let config = AuditConfig { file: target, sync: AuditSync::Disk, ..AuditConfig::default() };
        let refused = AuditSink::open(&config, &RedactConfig::default()).unwrap_err().to_string();
        assert!(refused.contains("`audit.sync = \"disk\"` needs a regular file"), "{refused}");
    }
}
