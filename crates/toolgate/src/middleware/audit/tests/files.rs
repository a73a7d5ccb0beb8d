//! The audit file: private, appended to, moved aside, found again.

use serde_json::json as value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::*;
use crate::middleware::audit::{
    batch::Batch,
    file::AuditFile,
    output::About,
    rotation::Retention,
    seal::{ChainedLines, Seal},
};

impl AuditFile {
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep_files: u32) -> std::io::Result<Self> {
        let kept = Retention { rotate_bytes, files: Some(keep_files), bytes: None, days: None };
        Self::open_with(path, kept, AuditSync::Os)
    }

    /// Appends one record that says this.
    pub(super) fn say(&mut self, what: &str) -> std::io::Result<()> {
        self.say_with(&Seal::plain(), what)
    }

    /// The same with a key.
    pub(super) fn say_with(&mut self, seal: &Seal, what: &str) -> std::io::Result<()> {
        let done = self.say_and_keep(seal, what);
        self.release(seal);
        done
    }

    /// The same without the end: the lock is kept, and the head is not written.
    pub(super) fn say_and_keep(&mut self, seal: &Seal, what: &str) -> std::io::Result<()> {
        let mut batch = Batch::default();
        batch.push(value!({"say": what}).to_string().as_bytes(), About::now("call"));
        self.append(&batch, seal, &mut ChainedLines::default())
    }
}

/// What the records of a file say.
pub(super) fn said(path: &Path) -> Vec<String> {
    let records = parse(&read(path));
    records.iter().map(|record| record["say"].as_str().unwrap_or("?").to_owned()).collect()
}

pub(super) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

pub(super) fn numbered(path: &Path, n: u32) -> PathBuf {
    PathBuf::from(format!("{}.{n}", path.display()))
}

fn file_of(path: &Path, keep_files: u32) -> AuditFile {
    AuditFile::open(path, u64::MAX, keep_files).unwrap()
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_file_is_private_and_its_folder_is_made() {
    let (folder, _) = folder();
    let path = folder.path().join("a/b/audit.jsonl");
    AuditFile::open(&path, 1000, 1).unwrap().say("1").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn records_are_appended_to_what_is_there() {
    let (_folder, path) = folder();
    fs::write(&path, "{\"say\":\"old\"}\n").unwrap();
    AuditFile::open(&path, 1000, 1).unwrap().say("new").unwrap();
    assert_eq!(said(&path), ["old", "new"]);
}

#[test]
fn a_full_file_is_moved_aside_and_the_oldest_goes() {
    let (_folder, path) = folder();
    let mut file = AuditFile::open(&path, 4, 2).unwrap();
    for line in ["one", "two", "three", "four"] {
        file.say(line).unwrap();
    }
    assert_eq!(said(&path), ["four"]);
    assert_eq!(said(&numbered(&path, 1)), ["three"]);
    assert_eq!(said(&numbered(&path, 2)), ["two"]);
    assert!(!numbered(&path, 3).exists());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_was_full_before_is_moved_aside_at_once() {
    let (_folder, path) = folder();
    fs::write(&path, "{\"say\":\"earlier\"}\n").unwrap();
    AuditFile::open(&path, 10, 1).unwrap().say("new").unwrap();
    assert_eq!(said(&path), ["new"]);
    assert_eq!(read(&numbered(&path, 1)), "{\"say\":\"earlier\"}\n");
}

#[test]
fn no_file_is_kept_if_none_is_wanted() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1, 0).unwrap();
    file.say("one").unwrap();
    file.say("two").unwrap();
    assert_eq!(said(&path), ["two"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the file and its head");
}

#[test]
fn a_file_that_was_moved_or_removed_is_found_missing_and_made_anew() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1000, 1).unwrap();
    file.say("one").unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    file.say("two").unwrap();
    assert_eq!((said(&moved), said(&path)), (vec!["one".to_owned()], vec!["two".to_owned()]));
    fs::remove_file(&path).unwrap();
    file.say("three").unwrap();
    assert_eq!(said(&path), ["three"]);
}

#[test]
fn a_file_that_cannot_be_moved_aside_goes_on_growing() {
    let (_folder, path) = folder();
    // A folder with something in it cannot be replaced by a file.
    fs::create_dir_all(numbered(&path, 1).join("in the way")).unwrap();
    let log = CapturedLog::default();
    let _guard = log.start();
    file_of(&path, 1).say("0").unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let mut file = AuditFile::open(&path, size, 1).unwrap();
    for _ in 0..7 {
        file.say("123").unwrap();
    }
    assert_eq!(said(&path).len(), 8);
    let told = log.lines().len();
    assert!((2..=4).contains(&told), "told, and not with every record: {told}");
    // The lock is free again.
    fs::File::open(&path).unwrap().try_lock().unwrap();
    fs::remove_dir_all(numbered(&path, 1)).unwrap();
    while !numbered(&path, 1).exists() {
        file.say("later").unwrap();
    }
    assert!(said(&numbered(&path, 1)).len() >= 8);
}

#[test]
fn a_file_that_was_moved_is_used_as_long_as_no_new_one_can_be_made() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1000, 1).unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    file.say("one").unwrap();
    assert_eq!(said(&moved), ["one"]);
    fs::remove_file(&moved).unwrap();
    assert!(file.say("two").is_err(), "nobody could ever read it");
    fs::remove_dir(&path).unwrap();
    file.say("three").unwrap();
    assert_eq!(said(&path), ["three"]);
}

#[test]
fn several_writers_lose_nothing_and_mix_no_lines() {
    const WRITERS: usize = 4;
    const LINES: usize = 200;
    let (folder, path) = folder();
    let write = |writer: usize| {
        let mut file = AuditFile::open(&path, 2000, 1000).unwrap();
        for n in 0..LINES {
            file.say(&format!("{writer} {n} {}", "x".repeat(n % 50))).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
    });
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(files.len() > 5, "it was moved aside again and again: {}", files.len());
    let records = files.iter().filter(|path| !path.to_string_lossy().ends_with(".head"));
    let mut seen = std::collections::HashSet::new();
    for line in records.flat_map(|path| said(path)) {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (writer, n) = (number(), number());
        assert_eq!(words.next().map(str::len), Some(n % 50), "{line}");
        assert!(seen.insert((writer, n)), "{line} stands there twice");
    }
    assert_eq!(seen.len(), WRITERS * LINES);
    let report = verify::verify(&path, &verify::Verify::default()).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert!(report.records > 800);
}

#[tokio::test]
async fn the_sink_opens_its_file_anew_when_it_is_told() {
    let (folder, path) = folder();
    let config = AuditConfig { file: Target::File(path.clone()), ..AuditConfig::default() };
    let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
    assert_eq!(sink.describe(), path.display().to_string());
    fs::rename(&path, folder.path().join("moved")).unwrap();
    sink.reopen();
    let server = answering(json("{}"));
    let chain = testing::chain(Audit::new(sink.clone()));
    testing::call(&chain, &tool("t", None), "{}", &server).await;
    sink.close(TEST_TIMEOUT);
    assert_eq!(parse(&read(&path)).len(), 1);
}

#[test]
fn a_file_that_cannot_be_opened_refuses_to_start() {
    let (folder, _) = folder();
    let config =
        AuditConfig { file: Target::File(folder.path().to_owned()), ..AuditConfig::default() };
    let error = AuditSink::open(&config, &RedactConfig::default()).unwrap_err().to_string();
    let start = format!("cannot open the audit file `{}`: ", folder.path().display());
    assert!(error.starts_with(&start), "{error}");
    assert!(error.ends_with("or choose another with `--audit`"), "{error}");
    let off = AuditSink::open(&AuditConfig::default(), &RedactConfig::default()).unwrap();
    assert!(off.is_none());
}
