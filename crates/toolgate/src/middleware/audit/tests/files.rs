//! The audit file: private, appended to, moved aside, found again.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use super::*;
use crate::middleware::audit::file::AuditFile;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

fn numbered(path: &Path, n: u32) -> PathBuf {
    PathBuf::from(format!("{}.{n}", path.display()))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_file_is_private_and_its_folder_is_made() {
    let (folder, _) = folder();
    let path = folder.path().join("a/b/audit.jsonl");
    AuditFile::open(&path, 1000, 1).unwrap().append(b"1\n").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn records_are_appended_to_what_is_there() {
    let (_folder, path) = folder();
    fs::write(&path, "old\n").unwrap();
    AuditFile::open(&path, 1000, 1).unwrap().append(b"new\n").unwrap();
    assert_eq!(read(&path), "old\nnew\n");
}

#[test]
fn a_full_file_is_moved_aside_and_the_oldest_goes() {
    let (_folder, path) = folder();
    let mut file = AuditFile::open(&path, 4, 2).unwrap();
    for line in ["one\n", "two\n", "three\n", "four\n"] {
        file.append(line.as_bytes()).unwrap();
    }
    assert_eq!(read(&path), "four\n");
    assert_eq!(read(&numbered(&path, 1)), "three\n");
    assert_eq!(read(&numbered(&path, 2)), "two\n");
    assert!(!numbered(&path, 3).exists());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_was_full_before_is_moved_aside_at_once() {
    let (_folder, path) = folder();
    fs::write(&path, "from an earlier run\n").unwrap();
    AuditFile::open(&path, 10, 1).unwrap().append(b"new\n").unwrap();
    assert_eq!(read(&path), "new\n");
    assert_eq!(read(&numbered(&path, 1)), "from an earlier run\n");
}

#[test]
fn no_file_is_kept_if_none_is_wanted() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1, 0).unwrap();
    file.append(b"one\n").unwrap();
    file.append(b"two\n").unwrap();
    assert_eq!(read(&path), "two\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_was_moved_or_removed_is_found_missing_and_made_anew() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1000, 1).unwrap();
    file.append(b"one\n").unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    file.append(b"two\n").unwrap();
    assert_eq!((read(&moved), read(&path)), ("one\n".to_owned(), "two\n".to_owned()));
    fs::remove_file(&path).unwrap();
    file.append(b"three\n").unwrap();
    assert_eq!(read(&path), "three\n");
}

#[test]
fn a_file_that_cannot_be_moved_aside_goes_on_growing() {
    let (_folder, path) = folder();
    // A folder with something in it cannot be replaced by a file.
    fs::create_dir_all(numbered(&path, 1).join("in the way")).unwrap();
    let log = Log::default();
    let _guard = log.start();
    let mut file = AuditFile::open(&path, 8, 1).unwrap();
    for _ in 0..7 {
        file.append(b"123\n").unwrap();
    }
    assert_eq!(read(&path).lines().count(), 7);
    assert_eq!(log.lines().len(), 3, "told, and not with every record");
    // The lock is free again.
    fs::File::open(&path).unwrap().try_lock().unwrap();
    fs::remove_dir_all(numbered(&path, 1)).unwrap();
    for _ in 0..2 {
        file.append(b"later\n").unwrap();
    }
    assert_eq!(read(&numbered(&path, 1)).lines().count(), 8);
}

#[test]
fn a_file_that_was_moved_is_used_as_long_as_no_new_one_can_be_made() {
    let (folder, path) = folder();
    let mut file = AuditFile::open(&path, 1000, 1).unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    file.append(b"one\n").unwrap();
    assert_eq!(read(&moved), "one\n");
    fs::remove_file(&moved).unwrap();
    assert!(file.append(b"two\n").is_err(), "nobody could ever read it");
    fs::remove_dir(&path).unwrap();
    file.append(b"three\n").unwrap();
    assert_eq!(read(&path), "three\n");
}

#[test]
fn several_writers_lose_nothing_and_mix_no_lines() {
    const WRITERS: usize = 4;
    const LINES: usize = 200;
    let (folder, path) = folder();
    let write = |writer: usize| {
        let mut file = AuditFile::open(&path, 2000, 1000).unwrap();
        for n in 0..LINES {
            let line = format!("{writer} {n} {}\n", "x".repeat(n % 50));
            file.append(line.as_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
    });
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
    assert!(files.len() > 5, "it was moved aside again and again: {}", files.len());
    let text: String = files.iter().map(|path| read(path)).collect();
    let mut seen = std::collections::HashSet::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (writer, n) = (number(), number());
        assert_eq!(words.next().map(str::len), Some(n % 50), "{line}");
        assert!(seen.insert((writer, n)), "{line} stands there twice");
    }
    assert_eq!(seen.len(), WRITERS * LINES);
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
    let chain = testbed::chain(Audit::new(sink.clone()));
    testbed::call(&chain, &tool("t", None), "{}", &server).await;
    sink.close(PATIENCE);
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
