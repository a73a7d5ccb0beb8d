//! Calls that write their intents themselves: no record is lost and no call is blocked.

use std::{fs, path::Path, pin::pin, task::Poll};

use super::{
    files::{folder, read, said},
    *,
};
use crate::middleware::audit::{file::AuditFile, seal::Seal};

fn sink_at(path: &Path) -> AuditSink {
    let config = AuditConfig { file: Target::File(path.to_owned()), ..AuditConfig::default() };
    AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap()
}

fn chain_of(sink: &AuditSink) -> Chain {
    let chain = Chain::builder().layer(Audit::new(sink.clone()));
    chain.layer(AuditIntent::new(sink.clone())).build().unwrap()
}

fn count(path: &Path, event: &str) -> usize {
    parse(&read(path)).iter().filter(|record| record["event"] == event).count()
}

/// Waits until there are so many records of this kind.
fn await_count(path: &Path, event: &str, expected: usize) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while count(path, event) < expected {
        assert!(Instant::now() < deadline, "{}", read(path));
        std::thread::yield_now();
    }
}

#[test]
fn calls_of_several_threads_are_in_the_file_before_they_run() {
    const THREADS: usize = 3;
    const TASKS: usize = 8;
    const CALLS: usize = 12;
    let (_folder, path) = folder();
    let sink = sink_at(&path);
    // Further processes write, too, and hold the file now and then.
    let others = [sink_at(&path), sink.clone(), sink.clone()];
    std::thread::scope(|scope| {
        for (thread, sink) in others.iter().enumerate() {
            let path = path.clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let local = tokio::task::LocalSet::new();
                for task in 0..TASKS {
                    let (path, chain) = (path.clone(), chain_of(sink));
                    local.spawn_local(async move {
                        for call in 0..CALLS {
                            let marker = format!("{thread}-{task}-{call}.");
                            let (there, path) = (marker.clone(), path.clone());
                            let server = ScriptedServer::new(move |_| {
                                assert!(read(&path).contains(&there), "not announced: {there}");
                                ToolResult::new(json("{}")).into()
                            });
                            // Some of them are too large to be told on this thread.
                            let filler = "f".repeat(if call % 4 == 3 { 5000 } else { 5 });
                            let arguments = format!(r#"{{"path":"{marker}","filler":"{filler}"}}"#);
                            let mutating = tool("t", Tier::Mutating);
                            testing::call(&chain, &mutating, &arguments, &server).await;
                            assert_eq!(server.calls(), 1);
                        }
                    });
                }
                runtime.block_on(local);
            });
        }
    });
    for sink in &others {
        sink.close(TEST_TIMEOUT);
        assert_eq!(sink.counts().lost(), 0);
    }
    assert_eq!(count(&path, "intent"), THREADS * TASKS * CALLS);
    assert_eq!(count(&path, "call"), THREADS * TASKS * CALLS);
    let report = verify::verify(&path, &verify::Verify::default()).unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert!(report.under_way.is_empty());
}

#[tokio::test]
async fn while_another_process_holds_the_file_only_who_must_wait_does() {
    let (_folder, path) = folder();
    let sink = sink_at(&path);
    let (chain, server) = (chain_of(&sink), answering(json("{}")));
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let mutating = tool("t", Tier::Mutating);
    let mut call = pin!(testing::call(&chain, &mutating, "{}", &server));
    // This thread goes on: it never waits for the lock itself.
    for _ in 0..10 {
        let polled = futures_poll(call.as_mut()).await;
        assert!(polled.is_pending(), "it cannot be written");
        tokio::task::yield_now().await;
    }
    assert_eq!((server.calls(), read(&path).len()), (0, 0));
    held.unlock().unwrap();
    tokio::time::timeout(TEST_TIMEOUT, call).await.unwrap();
    assert_eq!(server.calls(), 1);
    sink.close(TEST_TIMEOUT);
    assert_eq!((count(&path, "intent"), count(&path, "call")), (1, 1));
}

/// Polls once, with the waker of this task.
async fn futures_poll<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[tokio::test]
async fn what_a_call_leaves_behind_when_it_is_given_up_is_written_all_the_same() {
    let (_folder, path) = folder();
    let sink = sink_at(&path);
    let server = answering(json("{}"));
    let intents = Chain::builder().layer(AuditIntent::new(sink.clone())).build().unwrap();
    let mutating = tool("t", Tier::Mutating);
    for (n, chain) in [&intents, &chain_of(&sink)].into_iter().enumerate() {
        {
            let mut call = pin!(testing::call(chain, &mutating, "{}", &server));
            assert!(futures_poll(call.as_mut()).await.is_pending());
        }
        // There is no other call, and the sink stays open.
        await_count(&path, "intent", n + 1);
    }
    await_count(&path, "call", 1);
    assert_eq!(server.calls(), 0);
    let record = parse(&read(&path)).into_iter().find(|record| record["event"] == "call").unwrap();
    assert_eq!((&record["outcome"], &record["intent"]), (&"cancelled".into(), &true.into()));
    sink.close(TEST_TIMEOUT);
}

#[tokio::test]
async fn a_sink_that_nobody_holds_any_more_ends_its_thread() {
    let (_folder, path) = folder();
    let sink = sink_at(&path);
    let server = answering(json("{}"));
    testing::call(&chain_of(&sink), &tool("t", Tier::Mutating), "{}", &server).await;
    let shared = sink.shared();
    drop(sink);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while shared.strong_count() > 0 {
        assert!(Instant::now() < deadline, "it waits for nobody");
        std::thread::yield_now();
    }
    assert_eq!((count(&path, "intent"), count(&path, "call")), (1, 1));
}

#[test]
fn a_full_file_is_left_to_who_may_wait() {
    let (_folder, path) = folder();
    AuditFile::open(&path, u64::MAX, 5).unwrap().say("one").unwrap();
    let room = fs::metadata(&path).unwrap().len() + 1;
    let mut file = AuditFile::open(&path, room, 5).unwrap();
    assert!(file.try_lock_for_batch(&Seal::plain()), "there is room");
    file.say("two").unwrap();
    assert!(!file.try_lock_for_batch(&Seal::plain()), "it has to be moved aside");
    fs::File::open(&path).unwrap().try_lock().unwrap();
    file.say("three").unwrap();
    assert_eq!(said(&path), ["three"]);
    assert!(verify::verify(&path, &verify::Verify::default()).unwrap().is_whole());
}
