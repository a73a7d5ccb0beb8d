//! The lock that a process keeps between its batches: others get it, and a head that is behind hides nothing.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    files::{folder, read, said},
    *,
};
use crate::middleware::audit::{
    file::AuditFile,
    head::{self, HeadState},
    seal::Seal,
    verify::{FindingKind, Report, Verify, verify},
};

/// More than are written before the others have had their turn, and few enough to be read in no time.
const MOST_RECORDS: usize = 20_000;

fn open(path: &Path) -> AuditFile {
    AuditFile::open(path, u64::MAX, 5).unwrap()
}

fn report(path: &Path) -> Report {
    verify(path, &Verify::default()).unwrap()
}

fn whats(path: &Path) -> Vec<FindingKind> {
    report(path).findings.into_iter().map(|finding| finding.what).collect()
}

fn marked(path: &Path) -> u64 {
    match head::read(path, &Seal::plain()).unwrap() {
        HeadState::Mark(mark) => mark.point.seq,
        other => panic!("{other:?}"),
    }
}

/// What a process leaves that is killed here: a copy of the file and its head.
fn killed_copy(path: &Path, folder: &Path) -> std::path::PathBuf {
    let copy = folder.join("copy.jsonl");
    fs::copy(path, &copy).unwrap();
    fs::copy(head::path_of(path), head::path_of(&copy)).unwrap();
    copy
}

#[test]
fn a_head_that_is_behind_its_file_after_a_crash_verifies_and_the_chain_goes_on() {
    let (folder, path) = folder();
    let (mut file, seal) = (open(&path), Seal::plain());
    file.say("one").unwrap();
    for _ in 0..3 {
        file.say_and_keep(&seal, "kept").unwrap();
    }
    assert_eq!(marked(&path), 2, "the head is written later");
    let copy = killed_copy(&path, folder.path());
    assert_eq!((report(&copy).last_seq, whats(&copy)), (5, vec![]));
    open(&copy).say("and on").unwrap();
    assert_eq!((report(&copy).last_seq, whats(&copy)), (6, vec![]), "{}", read(&copy));
    assert_eq!(marked(&copy), 6);
    file.release(&seal);
    assert_eq!((marked(&path), whats(&path)), (5, vec![]));
}

#[test]
fn an_end_that_is_cut_off_while_the_lock_is_kept_is_found_although_the_head_is_behind() {
    let (_folder, path) = folder();
    let (mut file, seal) = (open(&path), Seal::plain());
    file.say("one").unwrap();
    let short = fs::read(&path).unwrap();
    file.say_and_keep(&seal, "two").unwrap();
    file.say_and_keep(&seal, "three").unwrap();
    fs::write(&path, &short).unwrap();
    file.say_and_keep(&seal, "four").unwrap();
    file.release(&seal);
    assert_eq!(whats(&path), [FindingKind::Missing(2)]);
    // The same without a head to tell.
    fs::remove_file(head::path_of(&path)).unwrap();
    fs::write(&path, &short).unwrap();
    file.say("five").unwrap();
    let found = whats(&path);
    assert!(found.iter().any(|what| matches!(what, FindingKind::Missing(_))), "{found:?}");
}

#[test]
fn a_file_that_is_moved_or_removed_while_its_lock_is_kept_is_made_anew() {
    let (folder, path) = folder();
    let (mut file, seal) = (open(&path), Seal::plain());
    file.say_and_keep(&seal, "one").unwrap();
    fs::remove_file(&path).unwrap();
    file.say_and_keep(&seal, "two").unwrap();
    assert_eq!(said(&path), ["two"], "not one record goes to a file that is gone");
    fs::rename(&path, folder.path().join("moved")).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT * 6;
    while !path.exists() {
        file.say_and_keep(&seal, "three").unwrap();
        assert!(Instant::now() < deadline);
    }
    file.release(&seal);
    let told = report(&path);
    assert!(told.is_whole(), "{told:?}");
    assert!(told.earlier >= 3, "what was moved is counted: {told:?}");
}

#[test]
fn who_waits_gets_the_lock_from_a_process_that_writes_on_and_on() {
    let (_folder, path) = folder();
    let (done, seal) = (AtomicBool::new(false), Seal::plain());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = open(&path);
            for _ in 0..MOST_RECORDS {
                file.say_and_keep(&seal, "on and on").unwrap();
                file.after_batch(&seal);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            file.release(&seal);
        });
        scope.spawn(|| {
            let mut file = open(&path);
            for n in 0..20 {
                file.say(&format!("between {n}")).unwrap();
            }
            assert!(report(&path).is_whole(), "a reader gets its moment too");
            done.store(true, Ordering::Relaxed);
        });
    });
    let told = report(&path);
    assert!(told.is_whole(), "{told:?}");
    let between = said(&path).iter().filter(|said| said.starts_with("between")).count();
    assert_eq!(between, 20);
}

#[test]
fn a_sink_at_rest_keeps_no_lock_and_its_head_is_complete() {
    let (_folder, path) = folder();
    let config = AuditConfig { file: Target::File(path.clone()), ..AuditConfig::default() };
    let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
    let chain = Chain::builder().layer(Audit::new(sink.clone()));
    let chain = chain.layer(AuditIntent::new(sink.clone())).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let server = answering(json("{}"));
    runtime.block_on(async {
        for _ in 0..500 {
            testing::call(&chain, &tool("t", Tier::Mutating), "{}", &server).await;
        }
    });
    // The sink stays open, and there is no other call.
    let deadline = Instant::now() + TEST_TIMEOUT * 6;
    let other = fs::File::open(&path).unwrap();
    loop {
        let is_free = other.try_lock().is_ok();
        let records = parse(&read(&path)).len();
        if is_free && records == 1000 && marked(&path) == 1001 {
            break;
        }
        let _ = other.unlock();
        assert!(Instant::now() < deadline, "{is_free} {records} {}", marked(&path));
        std::thread::yield_now();
    }
    other.unlock().unwrap();
    // A sink that is closed keeps no lock either, and others may write while it is still held.
    sink.close(TEST_TIMEOUT);
    open(&path).say("another").unwrap();
    assert!(report(&path).is_whole());
}
