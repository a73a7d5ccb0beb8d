//! How many records a second the store takes, and what a call pays while it takes them.
//!
//! `cargo bench -p toolgate-store`. Figures and what they mean: this crate's README.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints what it measured, fails by panicking, and rounds"
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
        log::{Log, LogConfig, LogSink, Record},
    },
};
use toolgate_store::{Drain, Filter, Retention, SqliteStore, Store};
use toolgate_wire::{Json, Limits};

const RECORDS: u32 = 200_000;
const BATCH: usize = 1_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(append(&folder.path().join("append.db")));
    for size in [500, 10_000] {
        runtime.block_on(whole(&folder.path().join(format!("whole-{size}.db")), size));
    }
}

fn record(number: u32) -> Record {
    Record {
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
        ..Record::default()
    }
}

/// The store alone.
async fn append(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let batches: Vec<Vec<Record>> = (0..RECORDS)
        .collect::<Vec<_>>()
        .chunks(BATCH)
        .map(|numbers| numbers.iter().copied().map(record).collect())
        .collect();
    let start = Instant::now();
    for batch in &batches {
        store.append(batch).await.unwrap();
    }
    let took = start.elapsed();
    println!(
        "append       {:>9.0} records/s   batches of {BATCH}",
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

/// Calls through the layer, the queue and the drain, until all are in the store.
async fn whole(path: &Path, size: usize) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).await.unwrap());
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let (sink, queue) = LogSink::channel(&LogConfig::default(), redactor);
    let drain = Drain::start(queue, Arc::clone(&store), Retention::default()).unwrap();
    let chain = Chain::builder().layer(Log::new(sink.clone())).build().unwrap();
    let tool = Arc::new(Tool::unlisted(ToolId::new("files", "read"), &TierRules::default()));
    let arguments =
        r#"{"path":"a/long/path/to/some/file.txt","token":"hunter2hunter2","head":100}"#;
    let arguments = Json::parse(arguments.to_owned(), &Limits::default()).unwrap();
    let server = Server(ToolResult::text(&"word ".repeat(size / 5)));
    let session = Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    });
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    for _ in 0..RECORDS {
        let begin = Instant::now();
        let mut cx = Context::new(Arc::clone(&session));
        let call = Call::new(Arc::clone(&tool), Some(arguments.clone()));
        black_box(chain.call(&mut cx, call, &server).await);
        longest = longest.max(begin.elapsed());
    }
    sink.close();
    assert!(drain.finish(Duration::from_secs(600)));
    let took = start.elapsed();
    let counts = sink.counts();
    println!(
        "calls        {:>9.0} records/s   results of {size} bytes, layer to disk, as fast as they come; \
         written {}, lost {}, bare {}, longest wait {longest:.2?}",
        f64::from(RECORDS) / took.as_secs_f64(),
        counts.written(),
        counts.lost(),
        counts.bare(),
    );
    store.close().await;
}
