//! The call log from outside: what is kept of each call, what is never kept, and what survives.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{
    Session, TEST_TIMEOUT,
    governed::{Governed, call_with, code, listed, modern, uuid},
    text,
};

const STORE: &str = "store = \"sqlite:x.db\"\n";

/// Secrets that a call may carry, none of which sounds like any other text of these tests.
const SECRETS: [&str; 10] = [
    "hunter2-correct-horse",
    "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
    "AKIAQX7EXAMPLEZZ9K2L",
    "sk-ant-api03-Zq8rT2vN5mK1xW9yB4cD7fG0hJ3lP6sQ",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ6ZWJyYSJ9.c2lnbmF0dXJlLXplYnJh",
    "-----BEGIN OPENSSH PRIVATE KEY-----zebra",
    "p\u{e4}ssw\u{f6}rt-\u{1f511}-zebra",
    "quote\"and\\backslash-zebra",
    "4111111111111111",
    "line one\nline two zebra",
];

/// Waits until the log has so many records.
fn wait_for_records(folder: &Governed, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let records = if folder.path("x.db").exists() { folder.log(&[]) } else { Vec::new() };
        if records.len() >= count {
            return records;
        }
        assert!(Instant::now() < deadline, "only {} of {count} records came", records.len());
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn every_call_leaves_a_record_with_all_that_is_promised() {
    let folder = Governed::new(&format!(
        "{STORE}[namespaces.default.tools.\"main/echo\"]\nname = \"say\"\n\
         [namespaces.default.tools.\"main/crash\"]\nstatus = \"inactive\"\n\
         [limits]\ntimeout = \"150ms\"\n"
    ));
    let mut session = folder.start();
    let answers = [
        session.call("say", json!({"text": "hello", "n": 7})),
        session.call("fail", json!({})),
        session.call("reject", json!({"code": -32000, "message": "Pane not found: %5"})),
        session.call("crash", json!({})),
        session.call("hang", json!({})),
        session.call("echo", json!({})),
    ];
    let ids: Vec<String> = answers.iter().map(uuid).collect();
    session.finish();
    let records = folder.log(&[]);
    let kept: Vec<&str> = records.iter().map(|r| r["call_id"].as_str().unwrap()).collect();
    assert_eq!(kept, ids, "the id that is told is the id that is kept, in errors too");
    let told = |key: &str| -> Vec<Value> { records.iter().map(|r| r[key].clone()).collect() };
    assert_eq!(
        told("outcome"),
        ["ok", "tool_error", "upstream_failed", "denied", "timed_out", "denied"].map(Value::from)
    );
    assert_eq!(told("ran"), ["yes", "yes", "maybe", "no", "maybe", "no"].map(Value::from));
    assert_eq!(told("tool"), ["echo", "fail", "reject", "crash", "hang", "echo"].map(Value::from));
    assert_eq!(records[0]["wire_name"], "say");
    assert_eq!(records[3]["code"], "TOOL_INACTIVE");
    assert_eq!(
        (&records[3]["decided_by"], &records[3]["rule"]),
        (&json!("filter"), &json!("inactive: main/crash"))
    );
    assert_eq!(records[2]["error"], "Pane not found: %5");
    for record in &records {
        assert_eq!(record["server"], "main");
        assert_eq!(record["namespace"], "default");
        assert_eq!(record["client"], "harness 7");
        assert!(record["principal"].as_str().unwrap().starts_with("local:"), "{record}");
        assert!(record["session"].as_str().is_some_and(|id| !id.is_empty()));
        assert!(record["duration_us"].as_u64().is_some() && record["ts"].is_string());
    }
    assert!(records[4]["duration_us"].as_u64().unwrap() >= 150_000, "{}", records[4]);
    let arguments = record_json(&records[0]["arguments"]);
    assert_eq!(arguments["n"], 7);
    assert!(!arguments.to_string().contains("hello"), "`text` is a payload: {arguments}");
    assert_eq!(records[0]["arguments_bytes"], json!(r#"{"n":7,"text":"hello"}"#.len()));
    assert_eq!(
        records[0]["result_bytes"],
        json!(r#"{"content":[{"text":"hello","type":"text"}]}"#.len())
    );
    assert!(records[1]["result"].to_string().contains("it failed"), "{}", records[1]);
}

/// A column that holds JSON, whether it is shown as JSON or as text.
fn record_json(value: &Value) -> Value {
    match value.as_str() {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => value.clone(),
    }
}

/// In `MetaMCP` `parent_call_uuid` is documented, but nothing reads it, and no call learns its own id.
#[test]
fn calls_that_name_their_parent_are_read_back_as_a_tree() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    let root = uuid(&session.call("echo", json!({"text": "root"})));
    let part_of = |parent: &str| json!({"parent_call_uuid": parent});
    let first = uuid(&call_with(&mut session, "pid", json!({}), part_of(&root)));
    let second = uuid(&call_with(&mut session, "fail", json!({}), modern(part_of(&root))));
    let leaf = uuid(&call_with(&mut session, "big", json!({}), part_of(&second)));
    let alone = uuid(&session.call("echo", json!({})));
    session.finish();
    for id in [&root, &first, &second, &leaf] {
        let tree: Vec<Value> = folder.log(&[id]).iter().map(|r| r["call_id"].clone()).collect();
        assert_eq!(tree, [&root, &first, &second, &leaf].map(|id| json!(id)), "from {id}");
    }
    let single = folder.log(&[&alone]);
    assert_eq!(single.len(), 1);
    let shown = folder.run(&["log", &second]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("4 calls") && shown.contains("└─ main/big"), "{shown}");
    let unknown = folder.run(&["log", "ffffffff-0000"]);
    assert!(!unknown.status.success());
}

#[test]
fn the_log_is_filtered_and_exported() {
    let folder = Governed::new(&format!("{STORE}[log]\nlistings = true\n"));
    let mut session = folder.start();
    listed(&mut session);
    session.call("echo", json!({"text": "x"}));
    session.call("fail", json!({}));
    session.finish();
    let events: Vec<Value> = folder.log(&[]).iter().map(|r| r["event"].clone()).collect();
    assert_eq!(events, ["listing", "call", "call"].map(Value::from));
    let tools = |options: &[&str]| -> Vec<Value> {
        folder.log(options).iter().map(|r| r["tool"].clone()).collect()
    };
    assert_eq!(tools(&["--failed"]), [json!("fail")]);
    assert_eq!(tools(&["--tool", "ec*"]), [json!("echo")]);
    assert_eq!(tools(&["--outcome", "ok", "--tool", "main/*"]), [json!("echo")]);
    assert_eq!(tools(&["--since", "1h", "-n", "1"]), [json!("fail")]);
    let csv = folder.run(&["log", "--format", "csv"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(csv.starts_with("ts,event,call_id,parent_call_uuid,"), "{csv}");
}

/// `MetaMCP`'s BUG 2: there a result with `isError` counts as a success, and so does a denied call.
#[test]
fn an_error_result_is_no_success() {
    let folder = Governed::new(&format!("{STORE}[flags]\ndisabled = [\"main/pid\"]\n"));
    let mut session = folder.start();
    session.call("fail", json!({}));
    session.call("pid", json!({}));
    session.finish();
    assert_eq!(folder.log(&["--failed"]).len(), 2);
    assert_eq!(folder.log(&["--outcome", "ok"]).len(), 0);
}

/// `MetaMCP`'s BUG 1: arguments and results are stored as they are, secrets and all.
#[test]
fn no_secret_reaches_the_database_or_the_audit() {
    let folder = Governed::new(&format!("{STORE}[redact]\nkeys = [\"card\", \"message\"]\n"));
    let mut session = folder.start();
    for secret in SECRETS {
        // The fixture repeats each of them, as text, in an error, and within a line of JSON.
        session.call("echo", json!({"text": secret}));
        session.call("echo", json!({"text": secret, "password": secret, "card": secret}));
        session.call("reject", json!({"code": -32000, "message": secret, "apiToken": secret}));
        session.call("reject", json!({"message": secret, "client_secret": secret}));
        session.call("see_line", json!({"deep": {"Authorization": [secret, {"a": secret}]}}));
        session.call("see_line", json!({"operations": [{"command": secret}], "cookie": secret}));
        let meta = modern(json!({"parent_call_uuid": "p"}));
        call_with(&mut session, "see_line", json!({"text": secret}), meta);
    }
    session.finish();
    let kept = folder.log(&[]);
    assert_eq!(kept.len(), SECRETS.len() * 7);
    let (database, audit) = (folder.bytes("x.db"), folder.bytes("audit.jsonl"));
    assert!(contains(&database, "see_line") && contains(&audit, "see_line"));
    for secret in SECRETS {
        let spelt = json!(secret).to_string();
        let in_json = spelt.trim_matches('"');
        let twice = json!(in_json).to_string();
        for form in [secret, in_json, twice.trim_matches('"')] {
            assert!(!contains(&database, form), "{form:?} is in the database");
            assert!(!contains(&audit, form), "{form:?} is in the audit");
        }
    }
}

#[test]
fn a_seeded_secret_is_gone_from_the_write_ahead_log_too() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    let secret = SECRETS[0];
    session.call("echo", json!({"text": secret}));
    wait_for_records(&folder, 1);
    // Killed in the middle: nobody had time to tidy up.
    session.child.kill().unwrap();
    session.wait();
    let bytes = folder.bytes("x.db");
    assert!(contains(&bytes, "harness 7"), "the record is there");
    assert!(!contains(&bytes, secret));
}

#[test]
fn a_store_is_readable_after_kill_and_goes_on() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    for n in 0..50 {
        session.post_call("echo", json!({"n": n}));
    }
    wait_for_records(&folder, 50);
    for n in 50..500 {
        session.post_call("echo", json!({"n": n}));
    }
    session.child.kill().unwrap();
    session.wait();
    let kept = folder.log(&[]).len();
    assert!(kept >= 50, "{kept}");
    let mut session = folder.start();
    session.call("pid", json!({}));
    session.finish();
    let records = folder.log(&[]);
    assert_eq!(records.len(), kept + 1);
    assert_eq!(records[kept]["tool"], "pid");
}

/// `MetaMCP`'s BUG 4: what is under way when the program ends is lost there.
#[test]
fn nothing_is_lost_at_the_end_and_calls_under_way_are_recorded_as_cancelled() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    let hanging = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    let ids: Vec<i64> = (0..500).map(|n| session.post_call("echo", json!({"n": n}))).collect();
    for id in ids {
        session.answer(id);
    }
    let pid = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    session.wait();
    let records = folder.log(&[]);
    assert_eq!(records.len(), 501);
    let cancelled: Vec<&Value> = records.iter().filter(|r| r["outcome"] == "cancelled").collect();
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0]["tool"], "hang");
}

/// `MetaMCP`'s BUG 3: there a log that cannot write replaces the tool's good result by its own error.
#[test]
fn a_log_that_cannot_write_does_not_touch_results() {
    let folder = Governed::new(&format!("{STORE}[log]\nqueue = 4\non_full = \"drop\"\n"));
    let mut session = folder.start();
    session.call("pid", json!({}));
    wait_for_records(&folder, 1);
    // Somebody else holds the database, for as long as they like.
    let lock = hold(&folder);
    for n in 0..200 {
        let answer = session.call("echo", json!({"text": n.to_string()}));
        assert_eq!(text(&answer), n.to_string());
    }
    drop(lock);
    session.finish();
    assert!(!folder.log(&[]).is_empty());
}

#[test]
fn a_disk_that_is_full_stops_the_log_and_not_the_calls() {
    let folder = Governed::new(&format!("{STORE}[log]\nqueue = 16\non_full = \"drop\"\n"));
    folder.start().finish();
    let mut session = folder.start_on_small_disk(400);
    let line = "zebra ".repeat(400);
    for n in 0..600 {
        let note = format!("{n} {line}");
        let answer = session.call("see_line", json!({"note": note}));
        assert!(text(&answer).contains(&format!("\"{n} zebra")), "{answer}");
    }
    session.finish();
    let told = session.all_stderr().join("\n");
    let kept = folder.log(&[]);
    assert!(!kept.is_empty() && kept.len() < 600, "{} are kept", kept.len());
    assert!(told.contains("lost"), "nobody says that records were lost: {told}");
}

/// A writer's lock on the database, by a program that knows SQLite: Python's, where there is one.
fn hold(folder: &Governed) -> Option<Holder> {
    let script = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n\
        c.execute('BEGIN EXCLUSIVE')\nprint('held',flush=True)\nsys.stdin.read()\n";
    let child = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(folder.path("x.db"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = child.ok()?; // Without Python the test only shows that a free log does no harm.
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    Some(Holder(child))
}

struct Holder(std::process::Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn results_may_be_left_out_and_are_cut() {
    let folder = Governed::new(&format!("{STORE}[log]\nresult_bytes = 200\n"));
    let mut session = folder.start();
    session.call("big", json!({"lines": 10_000}));
    session.finish();
    let record = &folder.log(&[])[0];
    assert_eq!(record["result_bytes"].as_u64().unwrap() / 10_000, 14, "the size is the whole");
    assert!(record["result"].to_string().len() < 600, "{record}");
    folder.change(&format!("{STORE}[log]\nresults = false\n"));
    let mut session = folder.start();
    session.call("big", json!({}));
    session.call("reject", json!({"code": -32000, "message": "zebra"}));
    session.finish();
    let records = folder.log(&[]);
    assert!(records[1].get("result").is_none() && records[1]["result_bytes"].is_u64());
    assert!(records[2].get("error").is_none() && records[2]["error_bytes"] == 5, "{}", records[2]);
}

#[test]
fn without_a_store_there_is_no_id_and_a_log_needs_one() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let answer = session.call("echo", json!({"text": "x"}));
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
    let told = Governed::new("[log]\n").refused();
    assert!(told.contains("`[log]` needs somewhere to write to"), "{told}");
}

#[test]
fn the_id_is_added_and_the_rest_of_a_result_keeps_its_bytes() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    let answer = call_with(&mut session, "structured", json!({}), modern(json!({})));
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(uuid(&answer).len(), 36);
    let line = |session: &mut Session| {
        session.send_line(
            r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"structured"}}"#,
        );
        session.line()
    };
    let with_id = line(&mut session);
    let mut plain = Session::fixture(&[], &[]);
    plain.initialize();
    let own = line(&mut plain);
    let parsed: Value = serde_json::from_str(&with_id).unwrap();
    let meta = format!(r#""_meta":{{"toolgate/call_uuid":"{}"}}"#, uuid(&parsed));
    let without = with_id.replace(&format!(",{meta}"), "").replace(&format!("{meta},"), "");
    assert_eq!(without.replace(' ', ""), own.replace(' ', ""));
    assert_eq!(code(&parsed), "");
}
