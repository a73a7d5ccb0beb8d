//! What a call pays for the chain: a layer that does nothing, each of ours, and all of them.
//!
//! `cargo bench -p toolgate`, or `chain calls COUNT` to run nothing but calls. Figures and what they mean: `benches/README.md` of the workspace.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark fails by panicking, also in the functions that its benchmarks share"
)]

use std::{
    hint::black_box,
    sync::{Arc, LazyLock},
    task::{Context as TaskContext, Poll, Waker},
};

use divan::{AllocProfiler, Bencher};
use toolgate::{
    Answer, Boxed, Call, Chain, Context, DynMiddleware, Endpoint, Failure, Listing, Middleware,
    Next, Outcome, Principal, Request, Session, Tier, TierRules, Tool, ToolId, ToolList,
    ToolResult, from_fn, from_fn_with, gate,
    middleware::{
        audit::{Audit, AuditConfig, AuditSink, RedactConfig, Redactor, Target},
        error_results::ErrorResults,
        response_limit::{ResponseLimit, ResponseLimitConfig},
        retry::{Retry, RetryConfig},
        safety::Safety,
        timeout::Timeout,
    },
    settings::Settings,
    stack,
};
use toolgate_wire::{Json, Limits};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    // Timers need a runtime to stand in; nothing here ever waits for one.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.unwrap();
    let _guard = runtime.enter();
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("calls") {
        return calls(arguments.next().unwrap().parse().unwrap());
    }
    divan::main();
}

/// Runs so many calls through the default chain, for a program that counts instructions (`scripts/instructions`). Without
/// an audit, whose writer takes records together as they come.
fn calls(count: usize) {
    let stack = stack::build(&Settings::default()).unwrap();
    let end = Echo::of(16);
    for _ in 0..count {
        let (mut cx, call) = asked();
        let mut future = stack.chain.call(&mut cx, call, &end);
        let polled = future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(black_box(polled).is_ready());
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), &Limits::default()).unwrap()
}

/// A readonly tool, so that every layer does all it can.
static TOOL: LazyLock<Arc<Tool>> = LazyLock::new(|| {
    let definition = json(r#"{"name":"echo","annotations":{"readOnlyHint":true}}"#);
    let id = ToolId::new("main", "echo");
    Arc::new(Tool::listed(id, definition, &TierRules::default()))
});

static SESSION: LazyLock<Arc<Session>> = LazyLock::new(|| {
    Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    })
});

/// Answers every call with the same result; a clone of it copies no text.
struct Echo(ToolResult);

impl Echo {
    fn of(bytes: usize) -> Self {
        Self(ToolResult::text(&"0123456789abcde\n".repeat(bytes / 16)))
    }
}

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

/// Passes calls on.
struct Noop(&'static str);

impl Middleware for Noop {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        next.call(cx, call).await
    }
}

fn asked() -> (Context, Call) {
    let arguments = json(r#"{"text":"0123456789abcdef"}"#);
    let cx = Context::new(Arc::clone(&SESSION));
    (cx, Call::new(Arc::clone(&TOOL), Some(arguments)))
}

/// Runs calls of a 16-byte echo through the chain. Context and call are made outside of the measure;
/// the outcome is read and dropped within.
fn measure(bencher: Bencher<'_, '_>, chain: &Chain, end: &Echo) {
    bencher.with_inputs(asked).bench_local_values(|(mut cx, call)| {
        let mut future = chain.call(&mut cx, call, end);
        match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => black_box(outcome.class()),
            Poll::Pending => panic!("nothing here waits"),
        }
    });
}

fn alone(bencher: Bencher<'_, '_>, layer: impl Middleware) {
    let chain = Chain::builder().layer(layer).build().unwrap();
    measure(bencher, &chain, &Echo::of(16));
}

/// The chain itself: so many layers that do nothing.
#[divan::bench(args = [0, 1, 10])]
fn noop_layers(bencher: Bencher<'_, '_>, count: usize) {
    let names = NAMES.iter().take(count);
    let chain = names.fold(Chain::builder(), |builder, name| builder.layer(Noop(name)));
    measure(bencher, &chain.build().unwrap(), &Echo::of(16));
}

const NAMES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// The same layers from functions.
#[divan::bench(args = [1, 10])]
fn from_fn_layers(bencher: Bencher<'_, '_>, count: usize) {
    let layer =
        |name: &&'static str| from_fn(name, async |cx, call, next| next.call(cx, call).await);
    let chain = Chain::builder().layers(NAMES.iter().take(count).map(layer)).build();
    measure(bencher, &chain.unwrap(), &Echo::of(16));
}

/// The same layers from functions with a state.
#[divan::bench(args = [1, 10])]
fn from_fn_with_layers(bencher: Bencher<'_, '_>, count: usize) {
    let layer = |name: &&'static str| {
        from_fn_with(name, 1_u64, async |_state: &u64, cx, call, next| next.call(cx, call).await)
    };
    let chain = Chain::builder().layers(NAMES.iter().take(count).map(layer)).build();
    measure(bencher, &chain.unwrap(), &Echo::of(16));
}

/// The same layers as objects.
#[divan::bench(args = [1, 10])]
fn boxed_layers(bencher: Bencher<'_, '_>, count: usize) {
    let layer = |name: &&'static str| -> Box<dyn DynMiddleware> { Box::new(Noop(name)) };
    let chain = Chain::builder().layers(NAMES.iter().take(count).map(layer)).build();
    measure(bencher, &chain.unwrap(), &Echo::of(16));
}

/// The same layers under other names, for all tools.
#[divan::bench(args = [1, 10])]
fn named_layers(bencher: Bencher<'_, '_>, count: usize) {
    let all = || "*/*".parse().unwrap();
    let layer = |name: &&'static str| Noop("noop").only(all()).named(name);
    let chain = Chain::builder().layers(NAMES.iter().take(count).map(layer)).build();
    measure(bencher, &chain.unwrap(), &Echo::of(16));
}

/// A gate that allows everything.
#[divan::bench]
fn layer_gate(bencher: Bencher<'_, '_>) {
    alone(bencher, gate("gate", |_, _| Ok(())));
}

/// What the door does before each call.
#[divan::bench]
fn context_and_call() -> (Context, Call) {
    asked()
}

#[divan::bench]
fn layer_response_limit(bencher: Bencher<'_, '_>) {
    alone(bencher, ResponseLimit::new(ResponseLimitConfig::default()));
}

#[divan::bench]
fn layer_errors_to_results(bencher: Bencher<'_, '_>) {
    alone(bencher, ErrorResults);
}

/// Handing the record over; the writer's thread does the rest beside it.
#[divan::bench(sample_count = 100, sample_size = 100)]
fn layer_audit(bencher: Bencher<'_, '_>) {
    let (_folder, sink) = audit_sink();
    alone(bencher, Audit::new(sink));
}

#[divan::bench]
fn layer_safety(bencher: Bencher<'_, '_>) {
    alone(bencher, Safety::new(Tier::Mutating));
}

#[divan::bench]
fn layer_retry(bencher: Bencher<'_, '_>) {
    alone(bencher, Retry::new(RetryConfig::default()));
}

#[divan::bench]
fn layer_timeout(bencher: Bencher<'_, '_>) {
    alone(bencher, Timeout::new(toolgate::middleware::timeout::DEFAULT));
}

/// A queue that takes all records of one benchmark, so that none waits and none is dropped.
fn audit_config(folder: &tempfile::TempDir) -> AuditConfig {
    AuditConfig::with(|config| {
        config.file = Target::File(folder.path().join("audit.jsonl"));
        config.queue = 1 << 16;
    })
}

fn audit_sink() -> (tempfile::TempDir, AuditSink) {
    let folder = tempfile::tempdir().unwrap();
    let sink = AuditSink::open(&audit_config(&folder), &RedactConfig::default());
    let sink = sink.unwrap().unwrap();
    (folder, sink)
}

/// All six layers, in the default order.
#[divan::bench(sample_count = 100, sample_size = 100)]
fn default_stack(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings::with(|settings| {
        settings.safety = Some(Tier::Mutating);
        settings.retry = Some(RetryConfig::default());
        settings.audit = audit_config(&folder);
    });
    let stack = stack::build(&settings).unwrap();
    measure(bencher, &stack.chain, &Echo::of(16));
}

fn limited(bencher: Bencher<'_, '_>, end: &Echo) {
    let layer = ResponseLimit::new(ResponseLimitConfig::default());
    let chain = Chain::builder().layer(layer).build().unwrap();
    measure(bencher, &chain, end);
}

#[divan::bench]
fn under_the_limit_100_kb(bencher: Bencher<'_, '_>) {
    limited(bencher, &Echo::of(100_000));
}

#[divan::bench]
fn over_the_limit_2_mb_of_text(bencher: Bencher<'_, '_>) {
    limited(bencher, &Echo::of(2_000_000));
}

#[divan::bench]
fn over_the_limit_2_mb_of_rows(bencher: Bencher<'_, '_>) {
    let row = r#"{"id":12345,"name":"a name of some length","at":[1.5,2.5],"ok":true}"#;
    let rows = vec![row; 2_000_000 / row.len()].join(",");
    let result = format!(r#"{{"content":[],"structuredContent":{{"rows":[{rows}]}}}}"#);
    limited(bencher, &Echo(ToolResult::new(json(&result))));
}

/// What the writer's thread does for one record.
#[divan::bench]
fn redaction(bencher: Bencher<'_, '_>) {
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let arguments = json(
        r#"{"pane_id":"%1","keys":"echo hello; ls -la","enter":true,"literal":false,
        "environment":{"PATH":"/usr/bin","HOME":"/root"}}"#,
    );
    bencher.bench_local(|| redactor.summary(black_box(&arguments)));
}
