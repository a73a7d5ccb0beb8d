//! Telemetry from outside: what a collector is sent, for every way in which a call can end.

use serde_json::{Value, json};

use crate::collector::{Collector, Manner, Span};
use crate::harness::{
    Session, fixture,
    governed::{Governed, call_with},
    text,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The kind of a span that serves, and the status of one that failed, as OTLP numbers them.
const SERVER: i32 = 2;
const ERROR: i32 = 2;

fn finish(mut session: Session) {
    let (status, rest) = session.finish();
    assert!(status.success(), "{status}");
    assert_eq!(rest, [""; 0], "nothing but protocol on stdout");
}

/// Outcome, code, `error.type`, JSON-RPC code, and whether it is an error.
fn told(span: &Span) -> (&str, &str, &str, bool) {
    assert_eq!(span.kind, SERVER);
    let is_error = span.status == ERROR;
    assert_eq!(span.message, if is_error { span.get("error.type") } else { "" });
    let rpc = span.get("rpc.response.status_code");
    (span.get("toolgate.outcome"), span.get("error.type"), rpc, is_error)
}

/// A session with a call for every way to end.
fn every_end() -> (Collector, Governed) {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(
        "[validate]\ninput_schema = true\n[namespaces.default]\nsafety = \"mutating\"\n\
         [namespaces.default.tools.\"main/fail\"]\ntier = \"mutating\"",
    ));
    let mut session = governed.start();
    session.call("echo", json!({"text": "hello"}));
    session.call("fail", json!({}));
    session.call("crash", json!({}));
    session.call("nobody_has_this", json!({}));
    session.call("reject", json!({"bogus": 1}));
    session.call("reject", json!({"code": -7}));
    session.request("tools/list", json!({}));
    session.request("ping", json!({}));
    session.request("vendor/echo", json!({"a": 1}));
    let id = session.post_call("hang", json!({}));
    session.wait_for(|message| message["params"]["data"]["hanging"] == json!(id));
    session.notify("notifications/cancelled", json!({"requestId": id}));
    finish(session);
    (collector, governed)
}

#[test]
fn every_way_to_end_has_a_span() {
    let (collector, governed) = every_end();
    let echo = collector.span("tools/call echo");
    assert_eq!(told(&echo), ("ok", "-", "-", false));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "echo"),
        ("mcp.tool.name", "echo"),
        ("mcp.tool.category", "main"),
        ("mcp.tool.idempotent", "true"),
        ("mcp.transport", "stdio"),
        ("network.transport", "pipe"),
        ("mcp.protocol.version", "2025-11-25"),
        ("jsonrpc.request.id", "2"),
        ("toolgate.namespace", "default"),
        ("gen_ai.tool.call.arguments", "-"),
    ] {
        assert_eq!(echo.get(key), value, "{key}");
    }
    for (key, value) in [("service.name", "toolgate"), ("mcp.transport", "stdio")] {
        assert_eq!(echo.resource[key], value);
    }
    assert!(echo.resource.contains_key("service.instance.id"), "{:?}", echo.resource);
    assert_eq!(echo.resource["service.version"], env!("CARGO_PKG_VERSION"));
    let record = &governed.audit()[0];
    assert_eq!(record["call_id"], echo.get("toolgate.call_uuid"));
    assert_eq!((&record["trace_id"], &record["span_id"]), (&json!(echo.trace_id), &json!(echo.id)));

    assert_eq!(told(&collector.span("tools/call fail")), ("tool_error", "tool_error", "-", true));
    let denied = collector.span("tools/call crash");
    assert_eq!(told(&denied), ("denied", "TIER_DENIED", "-", true));
    assert_eq!(denied.get("mcp.tool.idempotent"), "false");
    assert_ne!(denied.get("toolgate.rule"), "-");
    let unknown = collector.span("tools/call _other");
    assert_eq!(told(&unknown), ("denied", "UNKNOWN_TOOL", "-", true));
    assert_eq!(unknown.get("toolgate.tool.asked"), "nobody_has_this");
    let mut rejects = collector.spans();
    rejects.retain(|span| span.name == "tools/call reject");
    assert_eq!(told(&rejects[0]), ("denied", "INVALID_ARGUMENTS", "-", true));
    assert_eq!(told(&rejects[1]), ("upstream_failed", "SERVER_REJECTED", "-", true));
    assert_eq!(told(&collector.span("tools/list")), ("ok", "-", "-", false));
    // The fixture knows no ping.
    let ping = collector.span("ping");
    assert_eq!(told(&ping), ("upstream_failed", "SERVER_REJECTED", "-32601", true));
    let vendor = collector.span("_other");
    assert_eq!(told(&vendor), ("ok", "-", "-", false));
    assert_eq!(vendor.get("toolgate.method.asked"), "vendor/echo");
    assert_eq!(told(&collector.span("tools/call hang")), ("cancelled", "CANCELLED", "-", false));
}

#[test]
fn every_way_to_end_is_counted_under_labels_that_no_caller_chooses() {
    let (collector, _governed) = every_end();
    let mut calls: Vec<_> = collector.points("mcp.tool.calls");
    calls
        .sort_by_key(|point| (point.get("mcp.tool.name").to_owned(), point.get("code").to_owned()));
    let rows: Vec<_> = calls
        .iter()
        .map(|p| {
            (p.get("mcp.tool.name"), p.get("status"), p.get("outcome"), p.get("code"), p.count)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("_other", "error", "denied", "UNKNOWN_TOOL", 1),
            ("crash", "error", "denied", "TIER_DENIED", 1),
            ("echo", "ok", "ok", "-", 1),
            ("fail", "tool_error", "tool_error", "-", 1),
            ("hang", "cancelled", "cancelled", "CANCELLED", 1),
            ("reject", "error", "denied", "INVALID_ARGUMENTS", 1),
            ("reject", "error", "upstream_failed", "SERVER_REJECTED", 1),
        ]
    );
    let errors: u64 = collector.points("mcp.tool.errors").iter().map(|point| point.count).sum();
    assert_eq!(errors, 5);
    let millis = collector.points("mcp.tool.duration_ms");
    assert_eq!((millis.len(), millis[0].unit.as_str()), (7, "ms"));
    let seconds = collector.points("mcp.server.operation.duration");
    assert_eq!(seconds.iter().map(|point| point.count).sum::<u64>(), 10);
    assert_eq!(
        (seconds[0].unit.as_str(), seconds[0].bounds[0], seconds[0].bounds[13]),
        ("s", 0.01, 300.0)
    );
    let listing =
        seconds.iter().find(|point| point.get("mcp.method.name") == "tools/list").unwrap();
    assert_eq!((listing.get("network.transport"), listing.get("error.type")), ("pipe", "-"));
    // Who called and under which id is no label.
    for point in calls.iter().chain(&millis).chain(&seconds) {
        let odd = ["id", "session", "client", "uuid"];
        let is_odd = |key: &String| odd.iter().any(|odd| key.split(['.', '_']).any(|w| w == *odd));
        assert!(!point.labels.keys().any(is_odd), "{point:?}");
    }
}

#[test]
fn a_server_that_dies_under_a_call_is_told_as_such() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    session.call("crash", json!({}));
    // The end of the server is the end of the program, which still sends what it has.
    session.wait();
    let span = collector.span("tools/call crash");
    assert_eq!(told(&span), ("upstream_failed", "SERVER_CRASHED", "-", true));
    assert_eq!(collector.points("mcp.tool.errors")[0].get("code"), "SERVER_CRASHED");
}

/// The `_meta` that the server was sent.
fn meta_sent(answer: &Value) -> Value {
    let line: Value = serde_json::from_str(text(answer)).unwrap();
    line["params"]["_meta"].clone()
}

#[test]
fn the_parent_comes_from_meta_and_the_server_gets_ours() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    let meta = json!({"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=alice",
        "progressToken": 1e3});
    let sent = meta_sent(&call_with(&mut session, "see_line", json!({}), meta));
    finish(session);
    let span = collector.span("tools/call see_line");
    assert_eq!(span.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((span.parent.as_str(), span.state.as_str()), ("b7ad6b7169203331", "vendor=1"));
    let ours = format!("00-{}-{}-01", span.trace_id, span.id);
    assert_eq!(
        sent,
        json!({"traceparent": ours, "tracestate": "vendor=1", "baggage": "user=alice", "progressToken": 1e3})
    );
    assert_eq!(governed.audit()[0]["span_id"], span.id);
}

#[test]
fn what_is_no_parent_is_ignored_and_a_trace_begins_here() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    let odd = [
        json!({"traceparent": "00-zz-1-01", "tracestate": "old=1"}),
        json!({"traceparent": 5}),
        json!({"traceparent": PARENT.to_uppercase()}),
        json!({}),
        Value::Null,
    ];
    let mut sent: Vec<Value> = Vec::new();
    for meta in &odd {
        let mut params = json!({"name": "see_line", "arguments": {}});
        if !meta.is_null() {
            params["_meta"] = meta.clone();
        }
        sent.push(meta_sent(&session.request("tools/call", params)));
    }
    finish(session);
    let spans = collector.spans();
    assert_eq!(spans.len(), odd.len());
    for (span, sent) in spans.iter().zip(&sent) {
        assert_eq!(span.parent, "");
        assert_ne!(span.trace_id, "0af7651916cd43dd8448eb211c80319c");
        let ours = format!("00-{}-{}-01", span.trace_id, span.id);
        assert_eq!(*sent, json!({"traceparent": ours}), "and no state of a trace that is not ours");
    }
}

#[test]
fn other_requests_are_followed_too_also_those_without_params() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    let answer = session.request("vendor/echo", json!({"_meta": {"traceparent": PARENT}, "a": 1}));
    session.send_line(r#"{"jsonrpc":"2.0","id":"bare","method":"vendor/echo"}"#);
    let bare = session.wait_for(|message| message["id"] == "bare");
    finish(session);
    let spans = collector.spans();
    let ours = |at: usize| format!("00-{}-{}-01", spans[at].trace_id, spans[at].id);
    assert_eq!(spans[0].parent, "b7ad6b7169203331");
    assert_eq!(answer["result"], json!({"_meta": {"traceparent": ours(0)}, "a": 1}));
    assert_eq!(bare["result"], json!({"_meta": {"traceparent": ours(1)}}));
}

#[test]
fn without_telemetry_every_byte_passes_as_it_came() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{{"name":"see_line","_meta":{{"traceparent":"{PARENT}" ,"n":1e3}}}}}}"#
    );
    session.send_line(&line);
    let answer = session.wait_for(|message| message["id"] == "x");
    assert_eq!(text(&answer), line);
    let records = session.records();
    assert!(records[0].get("trace_id").is_none() && records[0].get("span_id").is_none());
}

#[test]
fn names_that_somebody_makes_up_are_one_label() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    for n in 0..200 {
        session.call(&format!("invented_{n}"), json!({}));
        session.request(&format!("invented/{n}"), json!({}));
    }
    finish(session);
    let calls = collector.points("mcp.tool.calls");
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!((calls[0].get("mcp.tool.name"), calls[0].count), ("_other", 200));
    let operations = collector.points("mcp.server.operation.duration");
    assert_eq!(operations.len(), 2, "{operations:?}");
    let names: std::collections::BTreeSet<_> =
        collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["_other", "tools/call _other"]);
}

#[test]
fn arguments_are_sent_only_if_asked_for_and_no_secret_ever() {
    for is_asked in [false, true] {
        let collector = Collector::taking();
        let governed = Governed::new(&collector.config(&format!("arguments = {is_asked}")));
        let mut session = governed.start();
        let deep = format!("{}\"s3cret\"{}", "[".repeat(60), "]".repeat(60));
        let deep: Value = serde_json::from_str(&deep).unwrap();
        let arguments = json!({"path": "/tmp/p4th", "password": "s3cret", "deep": {"token": deep},
            "nested": {"apiKey": "s3cret", "json": "{\"password\":\"s3cret\"}"}});
        session.call("echo", arguments.clone());
        session.call("fail", arguments.clone());
        if !is_asked {
            // What the server says, and what is no secret by its name.
            session.call("reject", json!({"message": "no s3cret"}));
        }
        finish(session);
        let bytes = collector.bytes();
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!has("s3cret"), "asked: {is_asked}");
        assert_eq!(has("p4th"), is_asked);
        let told = collector.span("tools/call echo").get("gen_ai.tool.call.arguments").to_owned();
        assert_eq!(told != "-", is_asked, "{told}");
    }
}

#[test]
fn arguments_are_left_out_as_soon_as_the_file_says_so() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config("arguments = true"));
    let mut session = governed.start();
    session.call("echo", json!({"path": "first"}));
    governed.change(&collector.config("arguments = false"));
    session.reload();
    session.wait_for_stderr("the config has changed");
    session.call("echo", json!({"path": "second"}));
    finish(session);
    let told = |at: usize| collector.spans()[at].get("gen_ai.tool.call.arguments").to_owned();
    assert!(told(0).contains("first"), "{}", told(0));
    assert_eq!(told(1), "-");
}

#[test]
fn the_share_that_is_kept_is_ours_unless_the_caller_has_decided() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config("sample = 0.0"));
    let mut session = governed.start();
    let sent = meta_sent(&session.call("see_line", json!({})));
    let parent = sent["traceparent"].as_str().unwrap();
    assert!(parent.ends_with("-00"), "{parent}");
    call_with(&mut session, "echo", json!({}), json!({"traceparent": PARENT}));
    finish(session);
    let names: Vec<_> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["tools/call echo"]);
    let calls: u64 = collector.points("mcp.tool.calls").iter().map(|point| point.count).sum();
    assert_eq!(calls, 2, "metrics count all");
}

#[test]
fn headers_of_the_file_win_and_go_nowhere_else() {
    let collector = Collector::taking();
    let other = Collector::taking();
    let table = "headers = { authorization = \"Bearer ${T0KEN}\" }\nservice_name = \"mine\"";
    let governed = Governed::new(&collector.config(table));
    let config = governed.path("toolgate.toml").display().to_string();
    let mut session = Session::wrap_bare(
        &["--config", &config, "--", &fixture().display().to_string()],
        |wrap| {
            wrap.env("T0KEN", "fr0mfile")
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", other.url())
                .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", other.url())
                .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=fr0menv,x-more=1")
                .env("OTEL_SERVICE_NAME", "other")
                .env("OTEL_RESOURCE_ATTRIBUTES", "team=blue");
        },
    );
    session.initialize();
    session.call("echo", json!({}));
    finish(session);
    assert_eq!(other.posted().len(), 0);
    let posted = collector.posted();
    assert!(posted.iter().any(|post| post.path == "/v1/traces"));
    for post in posted {
        let head = post.head.to_lowercase();
        assert!(
            head.contains("authorization: bearer fr0mfile") && head.contains("x-more: 1"),
            "{head}"
        );
        assert!(!head.contains("fr0menv"), "{head}");
    }
    let span = collector.span("tools/call echo");
    assert_eq!((&*span.resource["service.name"], &*span.resource["team"]), ("mine", "blue"));

    // A collector that sends us elsewhere gets nothing there.
    let moved =
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/v1/traces\r\n", other.url());
    let sending_away = Collector::start(Manner::Answers(moved));
    let governed = Governed::new(&sending_away.config("headers = { authorization = \"s3cret\" }"));
    let mut session = governed.start();
    session.call("echo", json!({}));
    finish(session);
    assert!(!sending_away.posted().is_empty());
    assert_eq!(other.posted().len(), 0);
}

#[test]
fn variables_of_opentelemetry_alone_switch_nothing_on() {
    let collector = Collector::taking();
    let fixture = fixture().display().to_string();
    let run = |options: &[&str], variables: &[(&str, &str)]| {
        let options = [options, &["--", &fixture]].concat();
        let mut session = Session::wrap_bare(&options, |wrap| {
            wrap.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
            wrap.envs(variables.iter().copied());
        });
        session.initialize();
        session.call("echo", json!({}));
        finish(session);
        collector.posted().len()
    };
    assert_eq!(run(&[], &[]), 0);
    let url = collector.url();
    assert_eq!(run(&["--otlp", &url], &[("OTEL_SDK_DISABLED", "true")]), 0);
    let by_flag = run(&["--otlp", &url], &[("OTEL_TRACES_SAMPLER", "always_off")]);
    assert_eq!((by_flag > 0, collector.spans().len()), (true, 0));
    assert!(run(&[], &[("TOOLGATE_OTLP", &url)]) > by_flag);
    assert_eq!(collector.spans().len(), 1);
}

#[test]
fn what_cannot_work_refuses_to_start_and_repeats_no_secret() {
    for (config, sentence) in [
        ("[telemetry]\n", "`[telemetry]` has nowhere to go"),
        ("[telemetry]\notlp = \"s3cret\"\n", "`telemetry.otlp` is no URL: write `http://`"),
        ("[telemetry]\notlp = \"grpc://s3cret\"\n", "`telemetry.otlp` is no URL: write `http://`"),
        ("[telemetry]\notlp = \"http://x\"\nsample = 2.0\n", "`2` is no share"),
        ("[telemetry]\nprometheus = \"nowhere\"\n", "`nowhere` is no address"),
        (
            "[telemetry]\notlp = \"http://x\"\nheaders = { \"a b\" = \"s3cret\" }\n",
            "`a b` is no header",
        ),
        (
            "[telemetry]\notlp = \"http://x\"\n[namespaces.default]\nchain = [\"errors-to-results\", \"telemetry\", \"audit\"]\n",
            "`telemetry` must stand outside `errors-to-results`",
        ),
        (
            "[namespaces.default]\nchain = [\"telemetry\", \"errors-to-results\", \"audit\"]\n",
            "the chain names `telemetry`, but there is no `[telemetry]`",
        ),
    ] {
        let told = Governed::new(config).refused();
        assert!(told.contains(sentence), "{config}\n{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn the_chain_is_shown_with_it_and_checked() {
    let governed = Governed::new("[telemetry]\notlp = \"http://127.0.0.1:1\"\narguments = true\n");
    let shown = String::from_utf8(governed.run(&["chain"]).stdout).unwrap();
    let first = shown.lines().nth(1).unwrap();
    assert!(first.contains("telemetry") && first.contains("redacted arguments"), "{shown}");
    let odd = Governed::new("[telemetry]\n").run(&["check", "--offline"]);
    assert!(String::from_utf8_lossy(&odd.stderr).contains("has nowhere to go"));
}
