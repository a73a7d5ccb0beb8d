//! The exporters from outside: the door for Prometheus, and collectors that are away, hang or come back.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::json;

use crate::collector::{Collector, Manner};
use crate::harness::{Session, governed::Governed};

/// The address of the metrics, which the program tells on stderr.
fn address(session: &Session) -> String {
    let line = session.wait_for_stderr("metrics are at");
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
}

/// Asks over TCP; gives status and body.
fn ask(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(crate::harness::TEST_TIMEOUT)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn line<'a>(text: &'a str, beginning: &str, parts: &[&str]) -> &'a str {
    let is_it = |line: &&str| line.starts_with(beginning) && parts.iter().all(|p| line.contains(p));
    text.lines().find(is_it).unwrap_or_else(|| panic!("no {beginning} {parts:?} in\n{text}"))
}

#[test]
fn prometheus_reads_names_labels_and_values() {
    let governed = Governed::new("[telemetry]\nprometheus = \"127.0.0.1:0\"\n");
    let mut session = governed.start_silent(&[]);
    let address = address(&session);
    session.initialize();
    for _ in 0..3 {
        session.call("echo", json!({"text": "x"}));
    }
    session.call("fail", json!({}));
    let (status, text) = ask(&address, "GET", "/metrics");
    assert_eq!(status, 200);
    let echo = [r#"mcp_tool_name="echo""#, r#"status="ok""#, r#"mcp_transport="stdio""#];
    assert!(line(&text, "mcp_tool_calls_total{", &echo).ends_with("} 3"));
    let failed = [r#"mcp_tool_name="fail""#, r#"status="tool_error""#];
    assert!(line(&text, "mcp_tool_errors_total{", &failed).ends_with("} 1"));
    assert!(line(&text, "mcp_tool_duration_ms_count{", &echo).ends_with("} 3"));
    let calls = [r#"mcp_method_name="tools/call""#, r#"gen_ai_tool_name="echo""#, r#"le="+Inf""#];
    assert!(line(&text, "mcp_server_operation_duration_seconds_bucket{", &calls).ends_with("} 3"));
    line(&text, "target_info{", &[r#"service_name="toolgate""#]);
    assert!(text.lines().all(|line| line.starts_with('#') || line.contains("} ")), "{text}");

    assert_eq!(ask(&address, "GET", "/").0, 404);
    assert_eq!(ask(&address, "GET", "/metrics/../etc").0, 404);
    assert_eq!(ask(&address, "POST", "/metrics").0, 405);
    let (status, rest) = session.finish();
    assert!(status.success());
    assert_eq!(rest, [""; 0], "nothing but protocol on stdout");
}

#[test]
fn without_a_collector_traces_pass_as_they_came() {
    let governed = Governed::new("[telemetry]\nprometheus = \"127.0.0.1:0\"\n");
    let mut session = governed.start();
    let line = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"see_line","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" ,"n":1e3}}}"#;
    session.send_line(line);
    let answer = session.wait_for(|message| message["id"] == "x");
    assert_eq!(crate::harness::text(&answer), line);
    session.finish();
    assert_eq!(governed.audit()[0].get("trace_id"), None);
}

#[test]
fn callers_that_say_nothing_block_nobody() {
    let governed = Governed::new("[telemetry]\nprometheus = \"127.0.0.1:0\"\n");
    let mut session = governed.start_silent(&[]);
    let address = address(&session);
    session.initialize();
    let slow: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").unwrap();
            stream
        })
        .collect();
    assert_eq!(ask(&address, "GET", "/metrics").0, 200);
    // The answer came while slow clients are still connected, so it did not wait for their end.
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let read = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(slow.iter().any(is_open), "it waited for the slow ones");
    session.call("echo", json!({}));
    // They are shown out.
    let mut rest = String::new();
    for mut stream in slow {
        stream.set_read_timeout(Some(crate::harness::TEST_TIMEOUT)).unwrap();
        let ended = stream.read_to_string(&mut rest);
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    }
}

#[test]
fn an_address_that_is_taken_refuses_to_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let told = Governed::new(&format!("[telemetry]\nprometheus = \"{address}\"\n")).refused();
    assert!(told.contains(&format!("cannot serve metrics at `{address}`")), "{told}");
}

fn warnings(told: &[String]) -> Vec<&String> {
    told.iter().filter(|line| line.contains("the collector takes no telemetry")).collect()
}

#[test]
fn a_collector_that_is_away_costs_one_warning_and_no_call() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let table = format!("[telemetry]\notlp = \"http://u:s3cret@{nobody}\"\ninterval = \"10ms\"\n");
    let governed = Governed::new(&table);
    let mut session = governed.start();
    for _ in 0..50 {
        let answer = session.call("echo", json!({"text": "x"}));
        assert_eq!(crate::harness::text(&answer), "x");
    }
    // Several exports have failed by now, or will at the end.
    session.wait_for_stderr("the collector takes no telemetry");
    let (status, rest) = session.finish();
    assert!(status.success());
    assert_eq!(rest, [""; 0], "nothing but protocol on stdout");
    let told = session.all_stderr();
    assert_eq!(warnings(&told).len(), 0, "told once already: {told:?}");
    assert!(told.iter().any(|line| line.contains("telemetry was lost (lost_spans 50")), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("s3cret")), "{told:?}");
}

#[test]
fn a_collector_that_hangs_delays_neither_calls_nor_the_end() {
    let collector = Collector::start(Manner::Hangs);
    let governed = Governed::new(&collector.config("interval = \"10ms\""));
    let mut session = governed.start();
    session.call("echo", json!({}));
    collector.wait_for(|post| post.path == "/v1/metrics");
    // More than may wait.
    let ids: Vec<_> = (0..5000).map(|_| session.post_call("echo", json!({}))).collect();
    for id in ids {
        session.answer(id);
    }
    let (status, rest) = session.finish();
    assert!(status.success());
    assert_eq!(rest, [""; 0]);
    let told = session.all_stderr();
    assert!(
        told.iter().any(|line| line.contains("did not take the last telemetry in time")),
        "{told:?}"
    );
    assert!(told.iter().any(|line| line.contains("lost_spans 5001")), "{told:?}");
}

#[test]
fn a_collector_that_refuses_is_told_once_with_its_answer() {
    let collector = Collector::start(Manner::Answers("HTTP/1.1 401 Unauthorized\r\n".to_owned()));
    let governed = Governed::new(&collector.config("interval = \"10ms\""));
    let mut session = governed.start();
    session.call("echo", json!({}));
    collector.wait_for_count(5);
    session.finish();
    let told = session.all_stderr();
    let warnings = warnings(&told);
    assert_eq!(warnings.len(), 1, "{told:?}");
    assert!(warnings[0].contains("401 Unauthorized"), "{told:?}");
}

#[test]
fn a_signal_does_not_lose_the_last_spans() {
    let collector = Collector::taking();
    let governed = Governed::new(&collector.config(""));
    let mut session = governed.start();
    session.call("echo", json!({}));
    let pid = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(session.wait().code(), Some(143));
    collector.span("tools/call echo");
    assert_eq!(collector.points("mcp.tool.calls")[0].count, 1);
}

#[test]
fn metrics_are_sent_while_it_runs_and_threads_are_there_only_if_asked_for() {
    let names = |session: &Session| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", session.child.id())).unwrap();
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
        };
        let ours = |name: &String| name.starts_with("OpenTelemetry") || name.starts_with("metrics");
        tasks.map(name).filter(ours).collect()
    };
    let collector = Collector::taking();
    let table = "interval = \"10ms\"\nprometheus = \"0\"";
    let mut session = Governed::new(&collector.config(table)).start();
    session.call("echo", json!({}));
    collector.wait_for(|post| {
        post.path == "/v1/metrics" && post.body.windows(4).any(|window| window == b"echo")
    });
    assert_eq!(names(&session).len(), 3, "{:?}", names(&session));
    let mut off = Governed::new("").start();
    off.call("echo", json!({}));
    assert_eq!(names(&off), [""; 0]);
}
