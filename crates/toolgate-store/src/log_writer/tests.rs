//! Tests of the log writer: it writes all records, and reports a store that fails.

use std::sync::{Mutex, mpsc};

use toolgate::{
    Answer as RequestAnswer, Boxed, Call, Chain, Context, Endpoint, Failure, Listing, Outcome,
    Principal, Request, Session, TierRules, Tool, ToolId, ToolList, ToolResult,
    middleware::{
        audit::{RedactConfig, Redactor},
        log::{Log, LogConfig, LogSink},
    },
};

use super::*;
use crate::{
    SqliteStore,
    store::{AuditRecord, Cursor, Filter, FirstList, Page, PruneResult, Size, StoreFuture, Tree},
    suite::sample,
};

/// The deadline of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

struct Echo;

impl Endpoint for Echo {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { ToolResult::text("done").into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Ok(ToolList::new(Vec::new())) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, RequestAnswer> {
        Box::pin(std::future::pending())
    }
}

fn channel() -> (LogSink, LogQueue) {
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    LogSink::channel(&LogConfig::default(), redactor)
}

async fn call(sink: &LogSink, times: usize) {
    let chain = Chain::builder().layer(Log::new(sink.clone())).build().unwrap();
    let tool = Arc::new(Tool::unlisted(ToolId::new("main", "t"), &TierRules::default()));
    let session = Arc::new(Session {
        id: "s".into(),
        namespace: "default".into(),
        principal: Principal::Anonymous,
    });
    for _ in 0..times {
        let mut cx = Context::new(Arc::clone(&session));
        chain.call(&mut cx, Call::new(Arc::clone(&tool), None), &Echo).await;
    }
}

/// A store whose append reports the number of records, and waits for the test to decide how it ends.
#[derive(Debug)]
struct ControlledStore {
    came: mpsc::Sender<usize>,
    end: Mutex<mpsc::Receiver<Result<(), StoreError>>>,
}

impl Store for ControlledStore {
    fn append<'a>(&'a self, records: &'a [CallRecord]) -> StoreFuture<'a, ()> {
        Box::pin(async {
            self.came.send(records.len()).unwrap();
            self.end.lock().unwrap().recv_timeout(TEST_TIMEOUT).unwrap_or(Ok(()))
        })
    }

    fn query<'a>(&'a self, _: &'a Filter, _: usize, _: Option<Cursor>) -> StoreFuture<'a, Page> {
        Box::pin(std::future::pending())
    }

    fn get<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<CallRecord>> {
        Box::pin(std::future::pending())
    }

    fn tree<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<Tree>> {
        Box::pin(std::future::pending())
    }

    fn prune<'a>(&'a self, _: &'a Retention) -> StoreFuture<'a, PruneResult> {
        Box::pin(async { Ok(PruneResult::default()) })
    }

    fn size(&self) -> StoreFuture<'_, Size> {
        Box::pin(std::future::pending())
    }

    fn known_tools<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Vec<ToolId>> {
        Box::pin(std::future::pending())
    }

    fn approve_first_list<'a>(&'a self, _: FirstList<'a>) -> StoreFuture<'a, Vec<ToolId>> {
        unimplemented!()
    }

    fn remember_tools<'a>(&'a self, _: &'a str, _: &'a [ToolId]) -> StoreFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn append_audit<'a>(&'a self, _: &'a [AuditRecord]) -> StoreFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn audit(&self, _: i64, _: usize) -> StoreFuture<'_, Vec<AuditRecord>> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

struct Watched {
    sink: LogSink,
    writer: LogWriter,
    came: mpsc::Receiver<usize>,
    end: mpsc::Sender<Result<(), StoreError>>,
}

fn watched() -> Watched {
    let (sink, queue) = channel();
    let ((came_in, came), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let store = Arc::new(ControlledStore { came: came_in, end: Mutex::new(ended) });
    let writer = LogWriter::start(queue, store, Retention::default()).unwrap();
    Watched { sink, writer, came, end }
}

fn busy() -> StoreError {
    StoreError::Busy { path: "x".into() }
}

fn full() -> StoreError {
    StoreError::Full { path: "x".into() }
}

#[tokio::test]
async fn what_calls_left_is_in_the_store_when_the_drain_has_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("toolgate.db")).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    // It removes old records when it starts.
    store.append(&[sample(1)]).await.unwrap();
    let (sink, queue) = channel();
    let retention = Retention::from(&LogConfig::default());
    let writer = LogWriter::start(queue, Arc::clone(&store), retention).unwrap();
    let gone = async { while store.get(&sample(1).id).await.unwrap().is_some() {} };
    tokio::time::timeout(TEST_TIMEOUT, gone).await.unwrap();
    call(&sink, 2500).await;
    sink.close();
    assert!(writer.finish(TEST_TIMEOUT));
    assert_eq!((sink.counts().written(), sink.counts().lost()), (2500, 0));
    assert_eq!(store.size().await.unwrap().records, 2500);
}

#[tokio::test]
async fn records_of_a_store_that_fails_are_counted_and_the_next_are_written() {
    let Watched { sink, writer, came, end } = watched();
    call(&sink, 1).await;
    assert_eq!(came.recv_timeout(TEST_TIMEOUT), Ok(1));
    call(&sink, 2).await;
    end.send(Err(full())).unwrap();
    assert_eq!(came.recv_timeout(TEST_TIMEOUT), Ok(2));
    end.send(Ok(())).unwrap();
    sink.close();
    assert!(writer.finish(TEST_TIMEOUT));
    assert_eq!((sink.counts().written(), sink.counts().lost()), (2, 1));
}

#[tokio::test]
async fn a_store_that_is_busy_is_asked_again_but_not_for_ever() {
    let Watched { sink, writer, came, end } = watched();
    call(&sink, 1).await;
    end.send(Err(busy())).unwrap();
    end.send(Ok(())).unwrap();
    assert_eq!((came.recv_timeout(TEST_TIMEOUT), came.recv_timeout(TEST_TIMEOUT)), (Ok(1), Ok(1)));
    call(&sink, 1).await;
    for _ in 0..MAX_TRIES {
        end.send(Err(busy())).unwrap();
    }
    sink.close();
    assert!(writer.finish(TEST_TIMEOUT));
    assert_eq!((sink.counts().written(), sink.counts().lost()), (1, 1));
}

#[tokio::test]
async fn a_store_that_hangs_holds_neither_calls_nor_the_end_up() {
    let Watched { sink, writer, came, end } = watched();
    call(&sink, 1).await;
    assert_eq!(came.recv_timeout(TEST_TIMEOUT), Ok(1));
    call(&sink, 1000).await;
    sink.close();
    assert!(!writer.finish(Duration::ZERO));
    end.send(Ok(())).unwrap();
}

#[test]
fn zero_is_without_end() {
    let mut config = LogConfig::with(|config| {
        config.keep_days = 0;
        config.keep_bytes = 0;
        config.keep_records = 0;
    });
    assert_eq!(Retention::from(&config), Retention::default());
    (config.keep_days, config.keep_records) = (2, 5);
    let two_days = Duration::from_hours(48);
    let expected = Retention { age: Some(two_days), records: Some(5), bytes: None };
    assert_eq!(Retention::from(&config), expected);
}
