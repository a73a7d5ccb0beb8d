//! How many records a second the store takes, and what a call pays while it takes them.
//!
//! `cargo bench -p toolgate-store`. Figures and what they mean: this crate's README.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints what it measured, and fails by panicking"
)]

use std::{
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use toolgate::{
    Answer, Boxed, Call, Chain, Context, Endpoint, Failure, Listing, Outcome, Principal, Request,
    Session, TierRules, Tool, ToolId, ToolList, ToolResult,
    middleware::{
        audit::{RedactConfig, Redactor},
        log::{CallRecord, Log, LogConfig, LogSink},
    },
};
use toolgate_store::{Filter, LogWriter, Retention, SqliteStore, Store};
use toolgate_wire::{Json, Limits};

const RECORDS: u32 = 200_000;
const MAX_BATCH: usize = 1_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(append(&folder.path().join("append.db")));
    runtime.block_on(path());
    for size in [500, 10_000] {
        runtime.block_on(whole(&folder.path().join(format!("whole-{size}.db")), size));
    }
}

fn record(number: u32) -> CallRecord {
    CallRecord {
        id: format!("019c1429-7d00-7{:03x}-8000-{number:012x}", number & 0xfff),
        parent: number.is_multiple_of(10).then(|| format!("parent-{}", number / 100)),
        at_us: 1_790_000_000_000_000 + i64::from(number) * 40,
        duration_us: 1200,
        session: "3f1c0d52".to_owned(),
        principal: "local:me".to_owned(),
        namespace: "default".to_owned(),
        client: Some("claude-code 2.0.31".to_owned()),
        server: Some("files".to_owned()),
        tool: Some("read_text_file".to_owned()),
        outcome: "ok".to_owned(),
        ran: "yes".to_owned(),
        arguments_bytes: Some(120),
        result_bytes: Some(600),
        arguments: Some(format!("{{\"path\":\"{}\"}}", "a/long/path/".repeat(9))),
        result: Some(format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}",
            "word ".repeat(100)
        )),
        ..CallRecord::default()
    }
}

/// The store alone.
async fn append(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let batches: Vec<Vec<CallRecord>> = (0..RECORDS)
        .collect::<Vec<_>>()
        .chunks(MAX_BATCH)
        .map(|numbers| numbers.iter().copied().map(record).collect())
        .collect();
    let start = Instant::now();
    for batch in &batches {
        store.append(batch).await.unwrap();
    }
    let took = start.elapsed();
    println!(
        "append       {:>9.0} records/s   batches of {MAX_BATCH}",
        f64::from(RECORDS) / took.as_secs_f64()
    );
    let start = Instant::now();
    let page = store.query(&Filter::default(), 50, None).await.unwrap();
    println!("newest 50    {:>9.2?}", start.elapsed());
    let filter = Filter { outcomes: vec!["denied".to_owned()], ..Filter::default() };
    let start = Instant::now();
    black_box(store.query(&filter, 50, None).await.unwrap());
    println!("all filtered {:>9.2?}   none of {RECORDS} passes", start.elapsed());
    let start = Instant::now();
    black_box(store.get(&page.records.first().unwrap().id).await.unwrap());
    println!("one by id    {:>9.2?}", start.elapsed());
    let start = Instant::now();
    let half = Retention { records: Some(u64::from(RECORDS) / 2), ..Retention::default() };
    store.prune(&half).await.unwrap();
    println!("prune half   {:>9.2?}", start.elapsed());
    store.close().await;
}

struct Server(ToolResult);

impl Endpoint for Server {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { self.0.clone().into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Ok(ToolList::new(Vec::new())) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

/// A call and what surrounds it.
struct Caller {
    chain: Chain,
    tool: Arc<Tool>,
    arguments: Json,
    server: Server,
    session: Arc<Session>,
}

impl Caller {
    fn new(sink: Option<&LogSink>, size: usize) -> Self {
        let chain = match sink {
            Some(sink) => Chain::builder().layer(Log::new(sink.clone())),
            None => Chain::builder(),
        };
        let arguments =
            r#"{"path":"a/long/path/to/some/file.txt","token":"hunter2hunter2","head":100}"#;
        let id = ToolId::new("files", "read");
        Self {
            chain: chain.build().unwrap(),
            tool: Arc::new(Tool::unlisted(id, &TierRules::default())),
            arguments: Json::parse(arguments.to_owned(), &Limits::default()).unwrap(),
            server: Server(ToolResult::text(&"word ".repeat(size / 5))),
            session: Arc::new(Session {
                id: "bench".into(),
                namespace: "default".into(),
                principal: Principal::Local("bench".into()),
            }),
        }
    }

    async fn call(&self) {
        let mut cx = Context::new(Arc::clone(&self.session));
        let call = Call::new(Arc::clone(&self.tool), Some(self.arguments.clone()));
        black_box(self.chain.call(&mut cx, call, &self.server).await);
    }
}

/// What a call costs on its own path: no writer takes the records out of the queue.
async fn path() {
    let config = LogConfig::with(|config| {
        config.queue = RECORDS as usize;
        config.queue_bytes = 1 << 32;
    });
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let (sink, _queue) = LogSink::channel(&config, redactor);
    for (what, sink) in [("no layer", None), ("the layer", Some(&sink))] {
        let caller = Caller::new(sink, 500);
        let start = Instant::now();
        for _ in 0..RECORDS {
            caller.call().await;
        }
        println!("on the path  {:>9.0?}   a call with {what}", start.elapsed() / RECORDS);
    }
}

/// Calls through the layer, the queue and the writer, until all are in the store.
async fn whole(path: &Path, size: usize) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).await.unwrap());
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let (sink, queue) = LogSink::channel(&LogConfig::default(), redactor);
    let writer = LogWriter::start(queue, Arc::clone(&store), Retention::default()).unwrap();
    let caller = Caller::new(Some(&sink), size);
    let start = Instant::now();
    for _ in 0..RECORDS {
        caller.call().await;
    }
    sink.close();
    assert!(writer.finish(Duration::from_mins(10)));
    let speed = f64::from(RECORDS) / start.elapsed().as_secs_f64();
    let counts = sink.counts();
    let (written, lost, bare) = (counts.written(), counts.lost(), counts.bare());
    println!(
        "calls        {speed:>9.0} records/s   results of {size} bytes, layer to disk: {written} written, \
         {lost} lost, {bare} without payload",
    );
    store.close().await;
}
