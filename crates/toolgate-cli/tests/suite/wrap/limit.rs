//! The response limit from outside: bounded, tail first, and still valid.

use serde_json::{Value, json};

use crate::harness::{Session, text};

fn size(answer: &Value) -> usize {
    answer["result"].to_string().len()
}

#[test]
fn a_long_text_keeps_its_tail_behind_one_header_line() {
    let mut session = Session::fixture(&["--limit", "5000"], &[]);
    session.initialize();
    let answer = session.call("big", json!({"lines": 1000}));
    assert!(size(&answer) <= 5000, "{}", size(&answer));
    let (header, kept) = text(&answer).split_once('\n').unwrap();
    let dropped = 13_000 - kept.len();
    assert_eq!(header, format!("[... truncated {dropped} bytes ...]"));
    // Not cut in the middle of a line, as the original does.
    assert!(kept.starts_with("line of text\n") && kept.ends_with("line of text\n"));
    assert_eq!(answer["result"]["_meta"]["toolgate/truncated"]["bytes"], dropped);
    assert_ne!(answer["result"]["isError"], true);
}

#[test]
fn structured_content_stays_and_stays_valid() {
    let mut session = Session::fixture(&["--limit", "8000"], &[]);
    session.initialize();
    for arguments in [
        json!({"rows": 2, "log": 50_000}),
        json!({"rows": 5000, "log": 10}),
        json!({"rows": 2000, "log": 90_000}),
    ] {
        let answer = session.call("structured", arguments.clone());
        assert!(size(&answer) <= 8000, "{arguments}: {}", size(&answer));
        let content = &answer["result"]["structuredContent"];
        assert!(content["log"].is_string(), "{arguments}: {answer}");
        let rows = content["rows"].as_array().unwrap();
        assert!(
            !rows.is_empty() && rows.iter().all(|row| row["n"].is_u64() && row["name"].is_string())
        );
        assert!(answer["result"]["_meta"]["toolgate/truncated"]["bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn what_cannot_be_shortened_is_an_error_that_says_so() {
    let mut session = Session::fixture(&["--limit", "2000"], &[]);
    session.initialize();
    let answer = session.call("rigid", json!({"keys": 1000}));
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("over the limit of 2000 bytes"), "{answer}");
}

#[test]
fn an_oversized_error_stays_an_error_and_keeps_its_meta() {
    let mut session = Session::fixture(&["--limit", "2000"], &[]);
    session.initialize();
    let answer = session.call("reject", json!({"code": -32000, "message": "boom ".repeat(2000)}));
    assert!(size(&answer) <= 2000);
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["_meta"]["code"], "SERVER_REJECTED");
    assert!(text(&answer).starts_with("[... truncated "));
}

#[test]
fn one_tool_may_keep_its_head_and_have_its_own_limit() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("t.toml");
    std::fs::write(&config, "[audit]\nfile = \"off\"\n[namespaces.default.tools.\"main/big\"]\nkeep = \"head\"\nresponse_bytes = 3000\n").unwrap();
    let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
    session.initialize();
    let answer = session.call("big", json!({"lines": 1000}));
    assert!(size(&answer) <= 3000);
    assert!(text(&answer).starts_with("line of text\n"));
    assert!(text(&answer).ends_with(" bytes ...]"), "{answer}");
}

#[test]
fn resources_are_bounded_too() {
    let mut session = Session::fixture(&["--limit", "3000"], &[]);
    session.initialize();
    let small = session.request("resources/read", json!({"uri": "x://a/100"}));
    assert_eq!(small["result"]["contents"][0]["text"].as_str().unwrap().len(), 100);
    let big = session.request("resources/read", json!({"uri": "x://a/50000"}));
    assert!(size(&big) <= 3000);
    assert!(big["result"]["contents"][0]["text"].as_str().unwrap().starts_with("[... truncated "));
    assert_eq!(big["result"]["contents"][0]["uri"], "x://a/50000");
}

#[test]
fn a_giant_message_is_skipped_and_its_call_answered() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("t.toml");
    std::fs::write(&config, "[audit]\nfile = \"off\"\n[limits]\nmessage_bytes = 100_000\n")
        .unwrap();
    let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
    session.initialize();
    let answer = session.call("big", json!({"lines": 100_000}));
    assert_eq!(answer["result"]["_meta"]["code"], "SERVER_PROTOCOL");
    assert!(text(&answer).contains("over the limit of 100000 bytes"), "{answer}");
    // The other way round, the client is told at once.
    let id = session.post_call("echo", json!({"text": "x".repeat(200_000)}));
    let refused = session.answer(id);
    assert_eq!(refused["error"]["data"]["code"], "MESSAGE_TOO_LARGE");
    assert_eq!(text(&session.call("echo", json!({"text": "still here"}))), "still here");
}

#[test]
fn off_means_off() {
    let mut session = Session::fixture(&["--limit", "off"], &[]);
    session.initialize();
    let answer = session.call("big", json!({"lines": 200_000}));
    assert_eq!(text(&answer).len(), 2_600_000);
}
