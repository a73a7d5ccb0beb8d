//! Audit: one record for each call, whatever becomes of it, and no secret in any of them.

mod chained;
mod files;
mod intents;
mod outputs;
mod queue;
mod redaction;
mod retention;
mod sharing;
mod verifying;
mod writer;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tracing::Level;

use super::*;
use crate::{
    Chain, Code, Failure, RpcError, Tier, TierRules, Tool, ToolId, ToolResult,
    middleware::{
        retry::{Retry, RetryConfig},
        safety::Safety,
    },
    settings::Settings,
    stack,
    testing::{
        self, CapturedLog, HangingServer, ScriptedServer, answering, client, context, failing,
        json, tool,
    },
};

/// Long enough for any machine, short enough for a test that fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A sink whose lines are kept.
struct AuditRecorder {
    sink: AuditSink,
    lines: Arc<Mutex<Vec<u8>>>,
}

impl AuditRecorder {
    fn new() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let sink = AuditSink::probe(&AuditConfig::default(), move |lines| {
            kept.lock().unwrap().extend_from_slice(lines);
            Ok(())
        });
        Self { sink, lines }
    }

    fn layer(&self) -> Audit {
        Audit::new(self.sink.clone())
    }

    fn chain(&self) -> Chain {
        testing::chain(self.layer())
    }

    /// The lines as they are, once all are written.
    fn text(&self) -> String {
        self.sink.close(TEST_TIMEOUT);
        String::from_utf8(self.lines.lock().unwrap().clone()).unwrap()
    }

    fn records(&self) -> Vec<Value> {
        parse(&self.text())
    }

    fn record(&self) -> Value {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }
}

/// All records but those that a chain begins with.
fn parse(text: &str) -> Vec<Value> {
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["event"] != "begin").collect()
}

#[tokio::test]
async fn a_call_leaves_one_record_with_all_that_is_known_of_it() {
    let kept = AuditRecorder::new();
    let mut cx = context()
        .with_client(client("refbench", "1.0"))
        .with_request_id(toolgate_wire::Id::from_json(json("1.0")))
        .with_parent(Some("parent-1".into()));
    let id = cx.call_id().to_string();
    let arguments = json(r#"{"pane_id":"%1","keys":"hello","enter":true}"#);
    let call = Call::new(tool("send_keys", Tier::Mutating), Some(arguments));
    let server = answering(json(r#"{"content":[]}"#));
    kept.chain().call(&mut cx, call, &server).await;

    let mut record = kept.record();
    let ts = record["ts"].take();
    let ts: jiff::Timestamp = ts.as_str().unwrap().parse().unwrap();
    assert!((jiff::Timestamp::now() - ts).get_hours() == 0);
    assert!(record["duration_ms"].take().as_f64().unwrap() >= 0.0);
    assert_eq!(record["hash"].take().as_str().unwrap().len(), 64);
    assert_eq!(
        record,
        serde_json::json!({
            "ts": null,
            "event": "call",
            "call_id": id,
            "parent_call_uuid": "parent-1",
            "session": "s-1",
            "namespace": "default",
            "principal": "local:me",
            "client": "refbench 1.0",
            "request_id": 1.0,
            "server": "main",
            "tool": "send_keys",
            "tier": "mutating",
            "kind": "execution",
            "outcome": "ok",
            "ran": "yes",
            "duration_ms": null,
            "result_bytes": 14,
            "args": {
                "pane_id": "%1",
                "keys": {"len": 5, "sha256_prefix": "2cf24dba5fb0"},
                "enter": true,
            },
            "schema": 1,
            "seq": 2,
            "hash": null,
        })
    );
}

#[tokio::test]
async fn a_record_says_how_the_call_ended() {
    let rejected = Failure::rejected(RpcError {
        code: -32601,
        message: "secret words of a server".to_owned(),
        data: None,
    });
    for (outcome, class, ran, code, error_type) in [
        (
            Failure::tool("PaneNotFound", "secret words: %5").into(),
            "tool_error",
            "yes",
            "TOOL_FAILED",
            "PaneNotFound",
        ),
        (Failure::new(Code::TimedOut, "").into(), "timed_out", "maybe", "TIMED_OUT", "TimedOut"),
        (rejected.into(), "upstream_failed", "maybe", "SERVER_REJECTED", "MethodNotFound"),
        (ToolResult::new(json(r#"{"isError":true}"#)).into(), "tool_error", "yes", "", ""),
        (
            ToolResult::new(json(r#"{"resultType":"input_required"}"#)).into(),
            "input_required",
            "yes",
            "",
            "",
        ),
    ] {
        let kept = AuditRecorder::new();
        let outcome: Outcome = outcome;
        let server = ScriptedServer::new(move |_| outcome.clone());
        testing::call(&kept.chain(), &tool("t", None), "{}", &server).await;
        let record = kept.record();
        assert_eq!(record["outcome"], class);
        assert_eq!(record["ran"], ran, "{class}");
        assert_eq!(record["code"].as_str().unwrap_or_default(), code);
        assert_eq!(record["error_type"].as_str().unwrap_or_default(), error_type);
        assert!(record.get("tier").is_none());
        // A message may quote anything, so none is recorded.
        assert!(!record.to_string().contains("secret words"));
    }
}

#[tokio::test]
async fn a_denied_call_is_recorded_with_its_rule() {
    let kept = AuditRecorder::new();
    let chain = Chain::builder().layer(kept.layer()).layer(Safety::new(Tier::Readonly));
    let chain = chain.build().unwrap();
    let server = answering(json("{}"));
    testing::call(&chain, &tool("kill_server", Tier::Destructive), "{}", &server).await;
    let record = kept.record();
    assert_eq!(record["outcome"], "denied");
    assert_eq!(record["kind"], "decision");
    assert_eq!(record["ran"], "no");
    assert_eq!(record["code"], "TIER_DENIED");
    assert_eq!(record["rule"], "destructive > readonly");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_retried_is_recorded_once() {
    let kept = AuditRecorder::new();
    let chain = Chain::builder().layer(kept.layer()).layer(Retry::new(RetryConfig::default()));
    let chain = chain.build().unwrap();
    let server = failing(Failure::new(Code::ServerUnavailable, "down"));
    testing::call(&chain, &tool("show", Tier::Readonly), "{}", &server).await;
    assert_eq!(server.calls(), 2);
    assert_eq!(kept.record()["code"], "SERVER_UNAVAILABLE");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_recorded_as_cancelled() {
    let kept = AuditRecorder::new();
    let (chain, server, tool) = (kept.chain(), HangingServer::default(), tool("t", None));
    tokio::select! {
        biased;
        _ = testing::call(&chain, &tool, r#"{"text":"x"}"#, &server) => panic!("it hangs"),
        () = server.called.notified() => {}
    }
    let record = kept.record();
    assert_eq!(record["outcome"], "cancelled");
    assert_eq!(record["ran"], "maybe");
    assert_eq!(record["args"]["text"]["len"], 1);
}

#[tokio::test]
async fn what_a_client_chose_is_cut_like_its_arguments() {
    let kept = AuditRecorder::new();
    let long = "n".repeat(10_000);
    let mut cx = context()
        .with_client(client(&long, &long))
        .with_request_id(toolgate_wire::Id::from_json(json(format!("{long:?}"))))
        .with_parent(Some(long.as_str().into()));
    let id = ToolId::new("main", long.as_str());
    let unlisted = Arc::new(Tool::unlisted(id, &TierRules::default()));
    let server = answering(json("{}"));
    kept.chain().call(&mut cx, Call::new(unlisted, None), &server).await;
    let text = kept.text();
    assert!(text.len() < 2000, "{}", text.len());
    let record = &parse(&text)[0];
    for field in ["client", "request_id", "parent_call_uuid", "tool"] {
        let told = record[field].as_str().unwrap();
        assert!(told.ends_with("...<truncated>"), "{field}: {told}");
    }
}

#[tokio::test]
async fn the_default_stack_writes_its_records_and_logs_no_argument_at_any_level() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/audit.jsonl");
    let settings = Settings {
        safety: Some(Tier::Mutating),
        retry: Some(RetryConfig::default()),
        audit: AuditConfig { file: Target::File(path.clone()), ..AuditConfig::default() },
        ..Settings::default()
    };
    let log = CapturedLog::default();
    let _guard = log.start();
    let stack = stack::build(&settings).unwrap();
    let (secret, arguments) = ("s3cret-payload", r#"{"keys":"s3cret-payload"}"#);
    for failure in [
        Failure::tool("Odd", "it failed"),
        Failure::new(Code::InvalidArguments, "not 's3cret-payload'"),
        Failure::new(Code::ServerCrashed, "gone"),
    ] {
        for tier in Tier::ALL {
            let server = failing(failure.clone());
            testing::call(&stack.chain, &tool("t", tier), arguments, &server).await;
        }
    }
    let sink = stack.audit.unwrap();
    sink.close(TEST_TIMEOUT);
    assert_eq!((sink.counts().written(), sink.counts().lost()), (12, 0));
    let text = std::fs::read_to_string(path).unwrap();
    let records = parse(&text);
    let count = |event| records.iter().filter(|record| record["event"] == event).count();
    assert_eq!((count("call"), count("intent")), (9, 3), "intents of what may change something");
    assert!(!text.contains(secret));
    let lines = log.lines();
    assert!(lines.iter().any(|(level, _)| *level == Level::ERROR));
    assert!(lines.iter().any(|(level, _)| *level == Level::DEBUG), "{lines:?}");
    assert!(lines.iter().all(|(_, line)| !line.contains(secret)), "{lines:?}");
    let call = Call::new(tool("t", None), Some(json(arguments)));
    assert!(!format!("{call:?} {sink:?}").contains(secret));
}

#[tokio::test]
async fn nested_calls_carry_their_parents_id() {
    let kept = AuditRecorder::new();
    let server = answering(json("{}"));
    let mut outer = context();
    let mut inner = outer.nested();
    for cx in [&mut inner, &mut outer] {
        let call = Call::new(tool("t", None), None);
        kept.chain().call(cx, call, &server).await;
    }
    let records = kept.records();
    assert_eq!(records[0]["parent_call_uuid"], records[1]["call_id"]);
    assert!(records[1].get("parent_call_uuid").is_none());
    assert!(records[1].get("args").is_none());
}
