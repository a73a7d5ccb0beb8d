//! The queue before the writer: full, broken, slow, closed.

use std::{
    io,
    pin::pin,
    sync::mpsc::{Receiver, Sender, channel},
    task::{Context as TaskContext, Poll, Waker},
};

use super::*;

/// A sink whose every write says that it has come, and waits to be told how it ends.
struct Slow {
    sink: AuditSink,
    entered: Receiver<String>,
    release: Sender<io::Result<()>>,
}

impl Slow {
    fn new(on_full: OnFull) -> Self {
        let config = AuditConfig { queue: 1, on_full, ..AuditConfig::default() };
        let (enter, entered) = channel();
        let (release, released) = channel();
        let sink = AuditSink::probe(&config, move |lines| {
            enter.send(String::from_utf8(lines.to_vec()).unwrap()).unwrap();
            released.recv_timeout(TEST_TIMEOUT).unwrap_or(Ok(()))
        });
        Self { sink, entered, release }
    }

    /// The lines of the write that is under way.
    fn entered(&self) -> String {
        self.entered.recv_timeout(TEST_TIMEOUT).unwrap()
    }

    async fn call(&self) {
        let chain = testing::chain(Audit::new(self.sink.clone()));
        let server = answering(json(r#"{"content":[]}"#));
        let outcome = testing::call(&chain, &tool("t", None), "{}", &server).await;
        assert!(outcome.failure().is_none(), "no sink changes an outcome");
    }

    /// The writer is busy with one record and the queue is full with another.
    async fn fill(&self) {
        self.call().await;
        self.entered();
        self.call().await;
    }

    fn lost(&self) -> u64 {
        self.sink.counts().lost()
    }
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}

fn events(lines: &str) -> Vec<String> {
    let events = parse(lines);
    let events = events.iter().map(|record| match record["records"].as_u64() {
        Some(count) => format!("{} {count}", record["event"].as_str().unwrap()),
        None => record["event"].as_str().unwrap().to_owned(),
    });
    events.collect()
}

#[tokio::test]
async fn a_call_waits_for_room_and_nothing_is_lost() {
    let slow = Slow::new(OnFull::Wait);
    slow.fill().await;
    let mut third = pin!(slow.call());
    assert!(poll(third.as_mut()).is_pending());
    slow.release.send(Ok(())).unwrap();
    assert_eq!(events(&slow.entered()), ["call"]);
    third.await;
    slow.release.send(Ok(())).unwrap();
    assert_eq!(events(&slow.entered()), ["call"]);
    slow.release.send(Ok(())).unwrap();
    slow.sink.close(TEST_TIMEOUT);
    assert_eq!((slow.sink.counts().written(), slow.lost()), (3, 0));
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_waits_for_room_is_counted() {
    let slow = Slow::new(OnFull::Wait);
    slow.fill().await;
    {
        let mut third = pin!(slow.call());
        assert!(poll(third.as_mut()).is_pending());
    }
    assert_eq!(slow.lost(), 1);
    slow.release.send(Ok(())).unwrap();
    assert_eq!(events(&slow.entered()), ["lost 1", "call"]);
    slow.release.send(Ok(())).unwrap();
    slow.sink.close(TEST_TIMEOUT);
    assert_eq!((slow.sink.counts().written(), slow.lost()), (2, 1));
}

#[tokio::test]
async fn a_record_is_dropped_and_counted_if_the_setting_says_so() {
    let slow = Slow::new(OnFull::Drop);
    slow.fill().await;
    slow.call().await;
    slow.call().await;
    assert_eq!(slow.lost(), 2);
    slow.release.send(Ok(())).unwrap();
    assert_eq!(events(&slow.entered()), ["lost 2", "call"]);
    // What is lost while the gap is being told is told with the next record.
    slow.call().await;
    slow.call().await;
    assert_eq!(slow.lost(), 3);
    slow.release.send(Ok(())).unwrap();
    assert_eq!(events(&slow.entered()), ["lost 1", "call"]);
    slow.release.send(Ok(())).unwrap();
    slow.sink.close(TEST_TIMEOUT);
    assert_eq!((slow.sink.counts().written(), slow.lost()), (3, 3));
}

#[tokio::test]
async fn a_broken_sink_changes_no_outcome_and_the_gap_is_told_once_it_works_again() {
    let slow = Slow::new(OnFull::Wait);
    for broken in 1..=3 {
        slow.call().await;
        let lost = format!("lost {}", broken - 1);
        let told = events(&slow.entered());
        assert_eq!(
            told.first().map(String::as_str),
            Some(if broken == 1 { "call" } else { &lost })
        );
        slow.release.send(Err(io::Error::other("broken on purpose"))).unwrap();
    }
    slow.call().await;
    assert_eq!(events(&slow.entered()), ["lost 3", "call"]);
    slow.release.send(Ok(())).unwrap();
    slow.call().await;
    assert_eq!(events(&slow.entered()), ["call"], "a gap is told once");
    slow.release.send(Ok(())).unwrap();
    slow.sink.close(TEST_TIMEOUT);
    assert_eq!((slow.sink.counts().written(), slow.lost()), (2, 3));
}

#[tokio::test]
async fn a_gap_at_the_end_is_told_when_the_sink_closes() {
    let slow = Slow::new(OnFull::Wait);
    slow.call().await;
    slow.entered();
    slow.release.send(Err(io::Error::other("broken on purpose"))).unwrap();
    slow.release.send(Ok(())).unwrap();
    slow.sink.close(TEST_TIMEOUT);
    assert_eq!(events(&slow.entered()), ["lost 1"]);
}

#[tokio::test]
async fn what_is_in_the_queue_is_written_before_the_end_and_what_comes_later_is_counted() {
    let kept = AuditRecorder::new();
    let server = answering(json("{}"));
    for _ in 0..1000 {
        testing::call(&kept.chain(), &tool("t", None), "{}", &server).await;
    }
    assert_eq!(kept.records().len(), 1000);
    testing::call(&kept.chain(), &tool("t", None), "{}", &server).await;
    let counts = kept.sink.counts();
    assert_eq!((counts.written(), counts.lost()), (1000, 1));
}

#[tokio::test]
async fn a_sink_that_hangs_does_not_hold_the_end_up() {
    let slow = Slow::new(OnFull::Wait);
    slow.call().await;
    slow.entered();
    let log = CapturedLog::default();
    let _guard = log.start();
    slow.sink.close(Duration::ZERO);
    let lines = log.lines();
    assert!(lines.iter().any(|(_, line)| line.contains("did not finish in time")), "{lines:?}");
    slow.release.send(Ok(())).unwrap();
}
