//! What a call pays for `validate`: reading its arguments, and checking them, apart and together.
//!
//! `cargo bench -p toolgate --features validate --bench validate`. Three schemas as servers publish them: a
//! file to read, a request with options, a list of edits.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark fails by panicking, also in the functions that its benchmarks share"
)]

use std::{
    hint::black_box,
    path::Path,
    sync::{Arc, LazyLock},
    task::{Context as TaskContext, Poll, Waker},
};

use divan::Bencher;
use toolgate::{
    Answer, Boxed, Call, Chain, Context, Endpoint, Failure, Listing, Outcome, Principal, Request,
    Session, TierRules, Tool, ToolId, ToolList, ToolResult,
    middleware::validate::{OutputMode, Unknown, Validate, ValidateConfig, ValidatePhases},
};
use toolgate_wire::{Json, Limits};

fn main() {
    divan::main();
}

const CASES: [&str; 3] = ["read_file", "http_request", "edit_file"];

fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), &Limits::default()).unwrap()
}

/// The schema and a typical call of each tool.
fn case(name: &str) -> (&'static str, &'static str) {
    match name {
        "read_file" => (
            r#"{"type":"object","properties":{"path":{"type":"string"},"tail":{"type":"number"},
                "head":{"type":"number"}},"required":["path"],"additionalProperties":false}"#,
            r#"{"path":"/srv/project/src/main.rs","head":100}"#,
        ),
        "http_request" => (
            r#"{"type":"object","properties":{"url":{"type":"string","minLength":1},
                "method":{"type":"string","enum":["GET","POST","PUT","DELETE"]},
                "headers":{"type":"object","additionalProperties":{"type":"string"}},
                "timeout_ms":{"type":"integer","minimum":1,"maximum":60000},
                "follow":{"type":"boolean","default":true}},"required":["url","method"],
                "additionalProperties":false}"#,
            r#"{"url":"https://example.com/api/v1/items?page=2","method":"GET","headers":{"accept":"application/json",
                "x-trace":"abc"},"timeout_ms":5000,"follow":false}"#,
        ),
        _ => (
            r##"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":
                {"$ref":"#/$defs/edit"}},"dry_run":{"type":"boolean"}},"required":["path","edits"],
                "additionalProperties":false,"$defs":{"edit":{"type":"object","properties":{"old":{"type":"string"},
                "new":{"type":"string"}},"required":["old","new"],"additionalProperties":false}}}"##,
            r#"{"path":"/srv/project/src/main.rs","edits":[{"old":"fn main() {","new":"fn main() -> Result<()> {"},
                {"old":"    run();","new":"    run()?;"},{"old":"}","new":"    Ok(())\n}"}],"dry_run":false}"#,
        ),
    }
}

fn tool(name: &str) -> Arc<Tool> {
    let (schema, _) = case(name);
    let output = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
    let definition =
        format!(r#"{{"name":"{name}","inputSchema":{schema},"outputSchema":{output}}}"#);
    let id = ToolId::new("main", name);
    Arc::new(Tool::listed(id, json(&definition), &TierRules::default()))
}

fn arguments(name: &str) -> Json {
    json(case(name).1)
}

/// JSON text into a value, strictly.
#[divan::bench(args = CASES)]
fn read(bencher: Bencher<'_, '_>, name: &str) {
    let arguments = arguments(name);
    bencher.bench(|| ValidatePhases::read(black_box(&arguments)));
}

/// Looking the schema up and checking a value: the goal is 1 us.
#[divan::bench(args = CASES)]
fn check(bencher: Bencher<'_, '_>, name: &str) {
    let (phases, tool) = (ValidatePhases::new(), tool(name));
    let read = ValidatePhases::read(&arguments(name)).unwrap();
    assert!(phases.fits(&tool, &read));
    bencher.bench(|| phases.fits(black_box(&tool), black_box(&read)));
}

struct Done(ToolResult);

impl Endpoint for Done {
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

static SESSION: LazyLock<Arc<Session>> = LazyLock::new(|| {
    Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    })
});

fn through(bencher: Bencher<'_, '_>, name: &str, config: &ValidateConfig) {
    let layer = Validate::new(config, Path::new("")).unwrap();
    let chain = Chain::builder().layer(layer).build().unwrap();
    let result = r#"{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}"#;
    let end = Done(ToolResult::new(json(result)));
    let call = Call::new(tool(name), Some(arguments(name)));
    bencher.with_inputs(|| (Context::new(Arc::clone(&SESSION)), call.clone())).bench_values(
        |(mut cx, call)| {
            let mut running = chain.call(&mut cx, call, &end);
            match running.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => assert!(outcome.failure().is_none()),
                Poll::Pending => panic!("nothing here waits"),
            }
        },
    );
}

/// The whole layer, dispatch included: arguments only.
#[divan::bench(args = CASES)]
fn layer(bencher: Bencher<'_, '_>, name: &str) {
    let config = ValidateConfig::with(|config| config.input_schema = true);
    through(bencher, name, &config);
}

/// The same with unknown names refused and the result checked.
#[divan::bench(args = CASES)]
fn layer_with_all(bencher: Bencher<'_, '_>, name: &str) {
    let config = ValidateConfig::with(|config| {
        config.input_schema = true;
        config.unknown = Unknown::Reject;
        config.output = OutputMode::Enforce;
    });
    through(bencher, name, &config);
}
