//! Telemetry beside the audit: records as logs, and previews that are no errors.

use serde_json::{Value, json};

use crate::collector::Collector;
use crate::harness::{Session, governed::Governed};

fn finish(mut session: Session) {
    let (status, rest) = session.finish();
    assert!(status.success(), "{status}");
    assert_eq!(rest, [""; 0], "nothing but protocol on stdout");
}

#[test]
fn records_of_the_audit_reach_the_collector_under_their_spans() {
    let collector = Collector::taking();
    let governed = Governed::new("");
    let config = collector.config("[audit]\nfile = \"a.jsonl\"\notlp = true\nstore = true");
    governed.write("toolgate.toml", &format!("store = \"sqlite:log.db\"\n{config}"));
    let mut session = governed.start();
    session.call("echo", json!({"text": "hello", "api_token": "hunter2"}));
    session.call("echo", json!(["hunter2"]));
    session.call("fail", json!({}));
    finish(session);
    let file = std::fs::read_to_string(governed.path("a.jsonl")).unwrap();
    let logs = collector.logs();
    // The very lines of the file, in its order.
    let bodies: Vec<&str> = logs.iter().map(|(_, _, body)| body.as_str()).collect();
    assert_eq!(bodies, file.lines().collect::<Vec<_>>());
    let events: Vec<&str> = logs.iter().map(|(event, ..)| event.as_str()).collect();
    assert!(events.contains(&"toolgate.audit.call"), "{events:?}");
    for (event, trace, body) in &logs {
        let record: Value = serde_json::from_str(body).unwrap();
        if event == "toolgate.audit.call" {
            assert_eq!(record["trace_id"], json!(trace));
            let spans = collector.spans();
            assert!(spans.iter().any(|span| span.trace_id == *trace), "{body}");
        }
        assert!(!body.contains("hunter2"), "{body}");
    }
}

#[test]
fn a_collector_that_is_not_there_is_asked_for_at_start() {
    let governed = Governed::new("");
    governed.write("toolgate.toml", "[audit]\nfile = \"a.jsonl\"\notlp = true\n");
    let refused = governed.refused();
    assert!(refused.contains("`audit.otlp` needs a collector: set `telemetry.otlp`"), "{refused}");
}

#[test]
fn a_preview_is_no_error_and_a_forged_confirmation_is() {
    let collector = Collector::taking();
    let config = "[confirm]\nwhen = [\"main/*\"]\nfallback = \"token\"\n";
    let governed = Governed::new(&collector.config(config));
    let mut session = governed.start();
    let shown = session.call("echo", json!({"text": "a"}));
    let token = shown["result"]["_meta"]["preview"]["confirm_token"].clone();
    session.call("echo", json!({"text": "a", "__confirm": token}));
    session.call("echo", json!({"text": "b", "__confirm": "nonsense"}));
    finish(session);
    let spans = collector.spans();
    let told = |outcome: &str| {
        let found = spans.iter().filter(|span| span.get("toolgate.outcome") == outcome);
        found.map(|span| (span.status, span.get("error.type").to_owned())).collect::<Vec<_>>()
    };
    // Status 2 is an error.
    assert!(told("preview").iter().all(|(status, _)| *status != 2), "{spans:?}");
    assert_eq!(told("preview").len(), 1, "{spans:?}");
    assert_eq!(told("denied"), [(2, "CONFIRM_TAMPERED".to_owned())]);
    assert_eq!(told("ok").len(), 1);
    let sum = |metric: &str, status: &str| -> u64 {
        let points = collector.points(metric).into_iter();
        points.filter(|point| point.labels["status"] == status).map(|point| point.count).sum()
    };
    assert_eq!(sum("mcp.tool.calls", "preview"), 1);
    assert_eq!(sum("mcp.tool.errors", "preview"), 0);
    assert_eq!(sum("mcp.tool.errors", "error"), 1);
    let records = governed.audit();
    let confirmed: Vec<&Value> = records
        .iter()
        .filter(|record| record["event"] == "call")
        .map(|r| &r["confirmed"])
        .collect();
    assert_eq!(confirmed, [&Value::Null, &json!("token"), &Value::Null]);
}
