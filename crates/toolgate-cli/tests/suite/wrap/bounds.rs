//! Rates, quotas, request validation and the audit trail, through the program.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
};

use serde_json::{Value, json};

use crate::harness::{Session, TEST_TIMEOUT, fixture, text};

fn wrap(config: &str) -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.toml");
    std::fs::write(&path, format!("audit = {{ file = \"off\" }}\n{config}")).unwrap();
    let command = fixture().display().to_string();
    let mut session = Session::wrap(&["--config", path.to_str().unwrap()], &[&command]);
    session.initialize();
    (session, folder)
}

fn code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["code"]
}

#[test]
fn a_rate_lets_so_many_pass_and_says_when_to_come_back() {
    let (mut session, _folder) = wrap(
        "[limits]\nrate = [{ tools = \"main/echo\", per = \"principal\", limit = \"3/h\" }]\n",
    );
    for n in 0..3 {
        assert_eq!(text(&session.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    let refused = session.call("echo", json!({"text": "x"}));
    assert_eq!(code(&refused), "RATE_LIMITED");
    assert_eq!(refused["result"]["_meta"]["expected"], true);
    let wait = refused["result"]["_meta"]["retry_after"].as_f64().unwrap();
    assert!(wait > 0.0 && wait <= 1200.0, "{wait}");
    // Other tools are not covered, and listings are never counted.
    assert!(code(&session.call("pid", json!({}))).is_null());
    let listed = session.request("tools/list", json!({}));
    assert!(
        listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo")
    );
}

#[test]
fn a_call_that_is_refused_anyway_uses_nothing_up() {
    let (mut session, _folder) = wrap(
        "[namespaces.default]\nsafety = \"readonly\"\n\
         [limits]\nrate = [{ tools = \"main/*\", limit = \"1/h\" }]\n",
    );
    for _ in 0..5 {
        assert_eq!(code(&session.call("crash", json!({}))), "TIER_DENIED");
    }
    assert_eq!(text(&session.call("echo", json!({"text": "the one"}))), "the one");
    assert_eq!(code(&session.call("echo", json!({}))), "RATE_LIMITED");
}

#[test]
fn a_quota_ends_for_the_day() {
    let (mut session, _folder) =
        wrap("[limits]\nquota = [{ tools = \"main/*\", per = \"tool\", limit = \"2/day\" }]\n");
    for _ in 0..2 {
        assert!(code(&session.call("echo", json!({"text": "x"}))).is_null());
    }
    let refused = session.call("echo", json!({"text": "x"}));
    assert_eq!(code(&refused), "QUOTA_EXCEEDED");
    assert!(refused["result"]["_meta"]["retry_after"].as_f64().unwrap() <= 86_400.0);
    assert!(code(&session.call("pid", json!({}))).is_null(), "each tool has its own");
}

#[test]
fn arguments_are_checked_against_schemas_of_your_own() {
    let (mut session, _folder) = wrap(
        "[validate.tools.\"main/echo\"]\nschema = { type = \"object\", required = [\"text\"], properties = \
         { text = { type = \"string\", pattern = \"^/allowed/\" } }, additionalProperties = false }\n",
    );
    assert_eq!(text(&session.call("echo", json!({"text": "/allowed/x"}))), "/allowed/x");
    let refused =
        session.call("echo", json!({"text": "/etc/s3cret-path", "extra": "s3cret-value"}));
    assert_eq!(code(&refused), "INVALID_ARGUMENTS");
    assert_eq!(refused["result"]["_meta"]["error_type"], "ValidationError");
    assert!(text(&refused).contains("validation error"), "{refused}");
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
}

#[test]
fn arguments_are_checked_against_what_the_tool_publishes() {
    let (mut session, _folder) = wrap("[validate]\ninput_schema = true\n");
    let refused = session.call("reject", json!({"wait_for_previous": true}));
    assert_eq!(code(&refused), "INVALID_ARGUMENTS");
    assert!(
        refused["result"]["_meta"]["suggestion"]
            .as_str()
            .unwrap()
            .contains("your client (harness 7)"),
        "{refused}"
    );
    assert_eq!(text(&session.call("echo", json!({"text": "fits"}))), "fits");
}

#[test]
fn a_schema_that_does_not_compile_refuses_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.toml");
    std::fs::write(
        &path,
        "audit = { file = \"off\" }\n[validate.tools.\"main/echo\"]\nschema = { type = 5 }\n",
    )
    .unwrap();
    let mut session = Session::wrap(&["--config", path.to_str().unwrap()], &["true"]);
    assert_eq!(session.wait().code(), Some(2));
    session.wait_for_stderr("`validate` refuses its settings");
}

/// An endpoint that answers each post with the next status, and hands its body on.
fn endpoint(statuses: Vec<u16>) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut statuses = statuses.into_iter();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            // One connection may carry several posts.
            loop {
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                if head.is_empty() {
                    break;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let status = statuses.next().unwrap_or(200);
                let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                if sender.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                    return;
                }
            }
        }
    });
    (format!("http://{address}/log"), receiver)
}

#[test]
fn the_trail_is_posted_in_batches_redacted_and_tried_again() {
    let (url, posts) = endpoint(vec![503, 200]);
    let (mut session, _folder) = wrap(&format!(
        "[trail]\nurl = \"{url}\"\nheaders = {{ Authorization = \"Bearer t0ken\" }}\n"
    ));
    session.call("echo", json!({"text": "s3cret"}));
    let (head, first) = posts.recv_timeout(TEST_TIMEOUT).unwrap();
    assert!(head.to_lowercase().contains("authorization: bearer t0ken"), "{head}");
    let (_, again) = posts.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(first, again, "a post that met 503 comes again as it was");
    assert_eq!(first[0]["tool"], "echo");
    assert!(!first.to_string().contains("s3cret"), "{first}");
    for n in 0..50 {
        session.call("echo", json!({"text": n.to_string()}));
    }
    session.finish();
    let rest: usize = posts.try_iter().map(|(_, records)| records.as_array().unwrap().len()).sum();
    assert_eq!(rest, 50, "what is left is sent at the end");
    assert!(!session.stderr_so_far().join("\n").contains("t0ken"));
}

#[test]
fn an_endpoint_that_is_away_never_holds_up_a_call_and_is_told() {
    let (mut session, _folder) =
        wrap("[trail]\nurl = \"http://127.0.0.1:9/secret-path\"\ntries = 1\ntimeout = \"1s\"\n");
    for n in 0..20 {
        assert_eq!(text(&session.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    let told = session.wait_for_stderr("endpoint takes no records");
    assert!(!told.contains("secret-path"), "{told}");
    session.finish();
    session.wait_for_stderr("records of the audit trail were lost");
}
