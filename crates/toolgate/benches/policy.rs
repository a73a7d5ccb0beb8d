//! What a call pays for its policies: the simple form, and files of 50 Cedar rules.
//!
//! `cargo bench -p toolgate --features cedar --bench policy`. A layer that does nothing costs what
//! `noop_layers` in `benches/chain.rs` says; that much is in each figure here.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark fails by panicking, also in the functions that its benchmarks share"
)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    hint::black_box,
    path::Path,
    sync::{Arc, LazyLock},
    task::{Context as TaskContext, Poll, Waker},
};

use divan::{AllocProfiler, Bencher};
use toolgate::{
    Answer, Boxed, Call, Chain, Context, Endpoint, Failure, Listing, Outcome, Principal, Request,
    Session, TierRules, Tool, ToolId, ToolList, ToolResult,
    middleware::policy::{Bindings, Policies, Policy, PolicyConfig},
};
use toolgate_wire::{Json, Limits};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), &Limits::default()).unwrap()
}

fn tool(name: &str) -> Arc<Tool> {
    let definition = format!(r#"{{"name":"{name}","annotations":{{"readOnlyHint":true}}}}"#);
    let id = ToolId::new("files", name);
    Arc::new(Tool::listed(id, json(&definition), &TierRules::default()))
}

static SESSION: LazyLock<Arc<Session>> = LazyLock::new(|| {
    Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    })
});

/// Answers every call alike, and lists these tools.
struct Files(Vec<Arc<Tool>>);

impl Endpoint for Files {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        static RESULT: LazyLock<ToolResult> = LazyLock::new(|| ToolResult::text("done"));
        Box::pin(async { RESULT.clone().into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Ok(ToolList::new(self.0.clone())) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

fn bound(config: PolicyConfig, base: &Path) -> Chain {
    let policies = Policies::load(&BTreeMap::from([("team".to_owned(), config)]), base).unwrap();
    let bindings = Bindings { namespace: Some("team".to_owned()), ..Bindings::default() };
    Chain::builder().layer(Policy::new(&policies, &bindings).unwrap()).build().unwrap()
}

fn cedar(rules: &str) -> Chain {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("team.cedar"), rules).unwrap();
    let config = PolicyConfig::with(|config| config.cedar = Some("team.cedar".into()));
    bound(config, folder.path())
}

/// Calls `files/t8`. Context and call are made outside of the measure.
fn calls(bencher: Bencher<'_, '_>, chain: &Chain, arguments: &str) {
    let (tool, end, arguments) = (tool("t8"), Files(Vec::new()), json(arguments));
    let asked = || {
        let call = Call::new(Arc::clone(&tool), Some(arguments.clone()));
        (Context::new(Arc::clone(&SESSION)), call)
    };
    bencher.with_inputs(asked).bench_local_values(|(mut cx, call)| {
        let mut future = chain.call(&mut cx, call, &end);
        match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => assert!(black_box(outcome.failure()).is_none()),
            Poll::Pending => panic!("nothing here waits"),
        }
    });
}

/// 50 rules as people write them: permits for single tools, on what a path begins with, and forbids for
/// servers, tiers and principals. Two of them depend on the arguments of `files/t8`.
fn fifty_rules(about_arguments: bool) -> String {
    let mut rules = String::new();
    for at in (0..50).step_by(2) {
        let when = if about_arguments {
            r#"when { context.arguments has path && context.arguments.path like "/tmp/*" }"#
        } else {
            "when { resource.readOnlyHint }"
        };
        let resource = format!(r#"resource == Tool::"files/t{at}""#);
        writeln!(rules, r#"permit (principal, action == Action::"call", {resource}) {when};"#)
            .unwrap();
        let when = match at {
            0 if about_arguments => {
                r#"context.arguments has path && context.arguments.path like "*..*""#
            }
            0..16 => r#"resource.server == "mail""#,
            16..32 => r#"resource has tier && resource.tier == "destructive""#,
            _ => r#"principal == Principal::"key:ci" && context.namespace == "prod""#,
        };
        writeln!(rules, "forbid (principal, action, resource) when {{ {when} }};").unwrap();
    }
    rules
}

const PATH: &str = r#"{"path":"/tmp/notes.txt","limit":100}"#;

#[divan::bench]
fn globs_of_50_selectors(bencher: Bencher<'_, '_>) {
    let selectors =
        |from: usize| (from..from + 25).map(|at| format!("files/t{at}*").parse().unwrap());
    let (allow, deny) = (selectors(0).rev().collect(), selectors(25).collect());
    let config = PolicyConfig::with(|config| (config.allow, config.deny) = (allow, deny));
    calls(bencher, &bound(config, Path::new("")), PATH);
}

#[divan::bench]
fn cedar_50_rules_none_about_arguments(bencher: Bencher<'_, '_>) {
    calls(bencher, &cedar(&fifty_rules(false)), PATH);
}

#[divan::bench]
fn cedar_50_rules_two_about_arguments(bencher: Bencher<'_, '_>) {
    calls(bencher, &cedar(&fifty_rules(true)), PATH);
}

/// The rules do not name the large argument: it is scanned over, and neither read nor copied.
#[divan::bench]
fn cedar_50_rules_and_1_mb_of_arguments(bencher: Bencher<'_, '_>) {
    let arguments = format!(r#"{{"content":"{}","path":"/tmp/a"}}"#, "x".repeat(1_000_000));
    calls(bencher, &cedar(&fifty_rules(true)), &arguments);
}

/// The worst: every rule looks at the arguments of every tool.
#[divan::bench]
fn cedar_50_rules_all_about_arguments(bencher: Bencher<'_, '_>) {
    let mut rules = "permit (principal, action, resource);".to_owned();
    for at in 1..50 {
        let when = format!(r#"context.arguments.path like "/secret{at}/*""#);
        writeln!(rules, "forbid (principal, action, resource) when {{ {when} }};").unwrap();
    }
    calls(bencher, &cedar(&rules), PATH);
}

/// The first question about a tool, which settles what does not depend on arguments.
#[divan::bench]
fn cedar_50_rules_first_question(bencher: Bencher<'_, '_>) {
    let rules = fifty_rules(true);
    let end = Files(vec![tool("t8")]);
    bencher.with_inputs(|| cedar(&rules)).bench_local_values(|chain| list(&chain, &end));
}

#[divan::bench(args = [100])]
fn listing(bencher: Bencher<'_, '_>, tools: usize) {
    let chain = cedar(&fifty_rules(true));
    let end = Files((0..tools).map(|at| tool(&format!("t{at}"))).collect());
    bencher.bench_local(|| list(&chain, &end));
}

fn list(chain: &Chain, end: &Files) {
    let mut cx = Context::new(Arc::clone(&SESSION));
    let mut future = chain.list(&mut cx, Listing::default(), end);
    match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(list) => assert!(!black_box(list).unwrap().tools().is_empty()),
        Poll::Pending => panic!("nothing here waits"),
    }
}
