//! How many records a second the audit writes, and what a call pays, for concurrent callers that wait for their intents.
//!
//! `cargo bench -p toolgate --bench audit -- [FOLDER]`; the folder decides on which disk the files are. Figures and what
//! they mean: `benches/README.md` of the workspace.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints what it measured, and fails by panicking"
)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use toolgate::{
    Answer, Boxed, Call, Chain, Context, Endpoint, Failure, Listing, Outcome, Principal, Request,
    Session, Tier, Tool, ToolId, ToolList, ToolResult,
    middleware::audit::{
        Audit, AuditConfig, AuditIntent, AuditSink, AuditSync, RedactConfig, Target,
        verify::{Verify, verify},
    },
};
use toolgate_wire::{Json, Limits};

const CALLERS: [usize; 3] = [1, 16, 64];
const TIME: Duration = Duration::from_secs(2);
/// As many as the workers of a gateway on two cores.
const THREADS: usize = 2;

fn main() {
    let folder = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let folder = match &folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.unwrap();
    for sync in [AuditSync::Os, AuditSync::Disk] {
        for callers in CALLERS {
            measure(folder.path(), sync, callers);
        }
    }
}

struct Echo(ToolResult);

impl Endpoint for Echo {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move { self.0.clone().into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::pending())
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

fn measure(folder: &Path, sync: AuditSync, callers: usize) {
    let path = folder.join(format!("{sync:?}-{callers}.jsonl"));
    let config = AuditConfig::with(|config| {
        config.file = Target::File(path.clone());
        config.sync = sync;
        config.rotate_bytes = u64::MAX;
    });
    let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS.min(callers) {
            let count = callers / THREADS.min(callers) + usize::from(thread < callers % THREADS);
            let sink = &sink;
            scope.spawn(move || call_in_tasks(sink, count, start));
        }
    });
    let took = start.elapsed();
    sink.close(Duration::from_secs(60));
    let (written, lost) = (sink.counts().written(), sink.counts().lost());
    let report = verify(&path, &Verify::default()).unwrap();
    assert!(report.is_whole() && lost == 0, "{report:?}");
    let calls = u32::try_from(written / 2).unwrap();
    println!(
        "sync {sync:?}, {callers:>2} callers: {:>9.0} records/s, {:>8.1?} a call of one caller",
        f64::from(calls) * 2.0 / took.as_secs_f64(),
        took * u32::try_from(callers).unwrap() / calls,
    );
    std::fs::remove_file(path).unwrap();
}

fn call_in_tasks(sink: &AuditSink, count: usize, start: Instant) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    for _ in 0..count {
        let chain = Chain::builder().layer(Audit::new(sink.clone()));
        let chain = chain.layer(AuditIntent::new(sink.clone())).build().unwrap();
        tasks.spawn_local(call_until_over(chain, start));
    }
    runtime.block_on(tasks);
}

async fn call_until_over(chain: Chain, start: Instant) {
    let id = ToolId::new("main", "write");
    let definition = Json::parse(r#"{"name":"write"}"#, &Limits::default()).unwrap();
    let tool = Arc::new(Tool::listed(id, definition, &toolgate::TierRules::default()));
    assert_ne!(tool.tier(), Some(Tier::Readonly));
    let arguments = r#"{"path":"notes/today.md","text":"sixteen bytes..","append":true}"#;
    let arguments = Json::parse(arguments, &Limits::default()).unwrap();
    let session = Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    });
    let server = Echo(ToolResult::text("done"));
    while start.elapsed() < TIME {
        let mut cx = Context::new(Arc::clone(&session));
        let call = Call::new(Arc::clone(&tool), Some(arguments.clone()));
        let outcome = chain.call(&mut cx, call, &server).await;
        assert!(outcome.failure().is_none());
        // As between two calls of one client.
        tokio::task::yield_now().await;
    }
}
