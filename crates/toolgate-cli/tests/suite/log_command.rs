//! `toolgate log`, against stores that were filled for it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Output, Stdio},
    sync::{Arc, mpsc},
};

use serde_json::Value;
use tempfile::TempDir;
use toolgate_store::{CallRecord, RecordKind, Store};

use crate::harness::TEST_TIMEOUT;

/// A Saturday, at noon.
const NOON: i64 = 1_769_860_800_000_000;

struct CallLog {
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn Store>,
}

impl CallLog {
    fn new(records: &[CallRecord]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = format!("sqlite:{}", folder.path().join("calls.db").display());
        let store = runtime.block_on(toolgate_store::open(&url)).unwrap();
        let kept = Self { folder, runtime, store };
        kept.append(records);
        kept
    }

    fn append(&self, records: &[CallRecord]) {
        self.runtime.block_on(self.store.append(records)).unwrap();
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("calls.db").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("TOOLGATE_STORE", self.url());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The numbers of the calls that are listed.
    fn numbers(&self, options: &[&str]) -> Vec<u32> {
        let text = self.text(&[&["--format", "jsonl"], options].concat());
        let records = text.lines().map(|line| serde_json::from_str::<CallRecord>(line).unwrap());
        records.map(|record| number(&record)).collect()
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.arg("log").args(arguments).env_clear();
    command.env("HOME", "/nowhere").env("TZ", "UTC").env("TOOLGATE_LOG", "warn");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn record(number: u32, change: impl FnOnce(&mut CallRecord)) -> CallRecord {
    let mut record = CallRecord {
        id: format!("019c1429-7d00-7000-8000-{number:012x}"),
        at_us: NOON + i64::from(number) * 1_000_000,
        duration_us: 1_204,
        session: "s-1".to_owned(),
        principal: "local:me".to_owned(),
        namespace: "default".to_owned(),
        client: Some("claude-code 2.0".to_owned()),
        server: Some("files".to_owned()),
        tool: Some("read_file".to_owned()),
        outcome: "ok".to_owned(),
        ran: "yes".to_owned(),
        arguments_bytes: Some(16),
        result_bytes: Some(5_120),
        arguments: Some(r#"{"path":"a.txt"}"#.to_owned()),
        result: Some(r#"{"content":[{"text":"hello\nworld","type":"text"}]}"#.to_owned()),
        ..CallRecord::default()
    };
    change(&mut record);
    record
}

fn number(record: &CallRecord) -> u32 {
    u32::from_str_radix(&record.id[24..], 16).unwrap()
}

fn denied(record: &mut CallRecord) {
    "denied".clone_into(&mut record.outcome);
    "no".clone_into(&mut record.ran);
    record.tool = Some("move_file".to_owned());
    record.wire_name = Some("relocate".to_owned());
    record.code = Some("POLICY_DENIED".to_owned());
    record.decided_by = Some("policy".to_owned());
    record.rule = Some("team/deny/1".to_owned());
    record.error = Some("Access denied to tool `files/move_file`".to_owned());
    (record.result, record.result_bytes) = (None, None);
    record.duration_us = 31;
}

/// A call with two others on its behalf, a refusal, and one of somebody else the day after.
fn some() -> Vec<CallRecord> {
    let parent = || Some(record(1, |_| {}).id);
    vec![
        record(1, |record| record.tool = Some("plan".to_owned())),
        record(2, |record| record.parent = parent()),
        record(3, |record| {
            record.parent = parent();
            denied(record);
        }),
        record(4, |record| {
            "tool_error".clone_into(&mut record.outcome);
            record.duration_us = 2_340_000;
            let result = r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#;
            record.result = Some(result.to_owned());
        }),
        record(5, |record| {
            record.kind = RecordKind::Listing;
            (record.server, record.tool, record.arguments) = (None, None, None);
            record.result = Some(r#"{"tools":12}"#.to_owned());
        }),
        record(6, |record| {
            record.at_us += 24 * 3_600_000_000;
            "key:ci".clone_into(&mut record.principal);
            record.server = Some("search".to_owned());
            record.tool = Some("find".to_owned());
        }),
    ]
}

#[test]
fn the_table_shows_the_newest_last() {
    let kept = CallLog::new(&some());
    let output = kept.command(&[]).env("COLUMNS", "100").output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "\
time          outcome     tool                   took    result  principal  id
Saturday, 31 January 2026
12:00:01.000  ok          files/plan           1.2 ms    5.1 kB  local:me   00000001
12:00:02.000  ok          ↳ files/read_file    1.2 ms    5.1 kB  local:me   00000002
12:00:03.000  denied      ↳ files/move_file     31 µs         –  local:me   00000003
              POLICY_DENIED: Access denied to tool `files/move_file`
12:00:04.000  tool_error  files/read_file       2.3 s    5.1 kB  local:me   00000004
              no such file
12:00:05.000  ok          (tools/list)         1.2 ms    5.1 kB  local:me   00000005
Sunday, 1 February 2026
12:00:06.000  ok          search/find          1.2 ms    5.1 kB  key:ci     00000006

`toolgate log ID` shows one call, `toolgate explain CODE` an error code.
"
    );
    assert_eq!(stderr(&kept.run(&[])), "");
}

#[test]
fn a_narrow_terminal_cuts_and_a_pipe_does_not() {
    let long = "a_tool_with_a_name_that_nobody_would_want_to_type_twice";
    let kept = CallLog::new(&[record(1, |record| {
        record.tool = Some(long.to_owned());
        record.principal = format!("subject:{}", "x".repeat(60));
        record.error = Some("e".repeat(300));
        "internal".clone_into(&mut record.outcome);
    })]);
    for width in [100, 80] {
        let output = kept.command(&[]).env("COLUMNS", width.to_string()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{longest}:\n{text}");
        assert!(text.contains("files/a_tool_w") && text.contains('…'), "{text}");
    }
    let whole = kept.text(&[]);
    assert!(whole.contains(long) && whole.contains(&"x".repeat(60)), "{whole}");
    assert!(whole.contains(&"e".repeat(300)) && whole.lines().count() == 3, "{whole}");
}

#[test]
fn filters_narrow_what_is_listed() {
    let kept = CallLog::new(&some());
    assert_eq!(kept.numbers(&[]), [1, 2, 3, 4, 5, 6]);
    assert_eq!(kept.numbers(&["-n", "2"]), [5, 6]);
    assert_eq!(kept.numbers(&["--tool", "files/read_*"]), [2, 4]);
    assert_eq!(kept.numbers(&["--tool", "find"]), [6]);
    assert_eq!(kept.numbers(&["--outcome", "denied"]), [3]);
    assert_eq!(kept.numbers(&["--outcome", "denied,tool_error"]), [3, 4]);
    assert_eq!(kept.numbers(&["--failed"]), [3, 4]);
    assert_eq!(kept.numbers(&["--principal", "ci"]), [6]);
    assert_eq!(kept.numbers(&["--principal", "local:me", "--failed", "-n", "1"]), [4]);
    assert_eq!(kept.numbers(&["--since", "2026-02-01"]), [6]);
    assert_eq!(kept.numbers(&["--since", "2026-01-31T12:00:05Z"]), [5, 6]);
    assert_eq!(kept.numbers(&["--since", "1h"]), [0; 0]);
    let nothing = kept.run(&["--since", "1h"]);
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    assert_eq!(stderr(&nothing), "toolgate: warning: no matching calls\n");
}

#[test]
fn more_than_a_page_is_listed_in_order() {
    let records: Vec<CallRecord> = (0..1_234).map(|number| record(number, |_| {})).collect();
    let kept = CallLog::new(&records);
    assert_eq!(kept.numbers(&[]), (0..1_234).collect::<Vec<_>>());
    assert_eq!(kept.numbers(&["-n", "700"]), (534..1_234).collect::<Vec<_>>());
    let table = kept.text(&[]);
    assert_eq!(table.lines().count(), 1 + 1 + 50, "a table shows the newest 50:\n{table}");
}

#[test]
fn one_call_is_shown_with_its_tree() {
    let kept = CallLog::new(&some());
    let id = record(3, |_| {}).id;
    let whole = kept.text(&[&id]);
    for part in ["00000003", &id.to_uppercase()] {
        assert_eq!(kept.text(&[part]), whole);
    }
    let (facts, rest) = whole.split_once("\nbegan ").unwrap();
    assert_eq!(
        facts,
        "\
call       019c1429-7d00-7000-8000-000000000003
tool       files/move_file, called as `relocate`
outcome    denied in 31 µs, the tool did not run
reason     POLICY_DENIED by policy, rule `team/deny/1`
message    Access denied to tool `files/move_file`
           `toolgate explain POLICY_DENIED` describes the error and what to do"
    );
    assert!(rest.contains("Saturday, 31 January 2026 12:00:03.000 UTC"), "{rest}");
    let (_, rest) = rest.split_once("client ").unwrap();
    assert_eq!(
        rest,
        "    claude-code 2.0
session    s-1 in namespace default
part of    019c1429-7d00-7000-8000-000000000001

arguments  16 B
  {
    \"path\": \"a.txt\"
  }

tree       3 calls
  files/plan          ok                 1.2 ms  00000001
  ├─ files/read_file  ok                 1.2 ms  00000002
▸ └─ files/move_file  denied              31 µs  00000003
"
    );
    let plain = kept.text(&["00000006"]);
    assert!(plain.ends_with("result     5.1 kB\n  hello\n  world\n"), "no tree: {plain}");
    let tree = kept.text(&["00000003", "--format", "jsonl"]);
    assert_eq!(tree.lines().count(), 3);
}

#[test]
fn ids_that_name_no_call_or_several_are_refused() {
    let kept = CallLog::new(&some());
    let told = |part: &str| {
        let output = kept.run(&[part]);
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    assert_eq!(
        told("ffff"),
        "toolgate: error: the log has no call `ffff`: `toolgate log` lists its calls\n"
    );
    assert_eq!(
        told("019c1429"),
        "toolgate: error: several calls match `019c1429`: write more of the id, as \
         `019c1429-7d00-7000-8000-000000000006`\n"
    );
}

#[test]
fn exports_are_what_programs_read() {
    let awkward = record(7, |record| {
        record.error = Some("say \"hi\",\r\nthen go".to_owned());
        record.client = Some("évil, client".to_owned());
    });
    let kept = CallLog::new(&[some(), vec![awkward.clone()]].concat());
    let array: Vec<CallRecord> = serde_json::from_str(&kept.text(&["--format", "json"])).unwrap();
    assert_eq!(array.last(), Some(&awkward));
    assert_eq!(array.len(), 7);
    let first: Value =
        serde_json::from_str(kept.text(&["--format", "jsonl"]).lines().next().unwrap()).unwrap();
    assert_eq!(first["ts"], "2026-01-31T12:00:01.000000Z");
    assert_eq!(first["arguments"]["path"], "a.txt", "JSON within JSON is no text");

    let csv = kept.text(&["--format", "csv"]);
    let (head, rows) = csv.split_once("\r\n").unwrap();
    assert!(head.starts_with("ts,event,call_id,parent_call_uuid,"), "{head}");
    assert!(rows.ends_with("\r\n"));
    let last = rows.split("2026-01-31T12:00:07.000000Z").nth(1).unwrap();
    assert!(last.contains(",\"évil, client\","), "{last}");
    assert!(last.contains(",\"say \"\"hi\"\",\r\nthen go\","), "{last}");
    assert!(last.contains(r#","{""path"":""a.txt""}","#), "{last}");

    let none = ["--format", "json", "--since", "1h"];
    assert_eq!(kept.text(&none), "[]\n");
}

#[test]
fn what_clients_and_servers_say_cannot_steer_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}";
    let kept = CallLog::new(&[record(1, |record| {
        record.tool = Some(evil.to_owned());
        record.server = Some(evil.to_owned());
        record.principal = evil.to_owned();
        record.client = Some(evil.to_owned());
        record.error = Some(format!("{evil}\n{evil}"));
        record.code = Some(evil.to_owned());
        record.parent = Some(evil.to_owned());
        record.wire_name = Some(evil.to_owned());
        record.outcome = "internal".to_owned();
        record.result = Some(
            serde_json::json!({"content": [{"type": "text", "text": evil}], evil: evil})
                .to_string(),
        );
    })]);
    for options in [&[][..], &["00000001"]] {
        let text = kept.text(options);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        assert!(!text.contains('\u{202e}') && text.contains("\\u{1b}"), "{text:?}");
    }
}

#[test]
fn new_calls_are_shown_as_they_come() {
    let kept = CallLog::new(&some());
    let options = ["-f", "-n", "1", "--format", "jsonl", "--failed"];
    let mut child = kept.command(&options).stdout(Stdio::piped()).spawn().unwrap();
    let (send, lines) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = send.send(number(&serde_json::from_str(&line).unwrap()));
        }
    });
    let next = || lines.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(next(), 4);
    kept.append(&[record(10, denied), record(11, |_| {}), record(12, denied)]);
    assert_eq!((next(), next()), (10, 12));
    // One that began long ago and ended just now is new.
    let late = record(13, |record| {
        denied(record);
        record.at_us = NOON - 1;
    });
    kept.append(&[late]);
    assert_eq!(next(), 13);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines.recv_timeout(TEST_TIMEOUT).is_err(), "nothing is shown twice");
}

#[test]
fn a_reader_that_has_seen_enough_is_fine() {
    let records: Vec<CallRecord> = (0..3_000).map(|number| record(number, |_| {})).collect();
    let kept = CallLog::new(&records);
    let mut command = kept.command(&["--format", "jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_store_is_the_one_that_is_named() {
    let kept = CallLog::new(&some());
    let told = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(told(command(&["--format", "jsonl", "--store", &kept.url()]).env_remove("HOME")), 6);
    // In a config file, from where the file is.
    let config = kept.folder.path().join("toolgate.toml");
    std::fs::write(&config, "store = \"sqlite:calls.db\"\n").unwrap();
    assert_eq!(told(command(&["--format", "jsonl", "--config"]).arg(&config)), 6);
    // In the state folder.
    let state = kept.folder.path().join("state");
    std::fs::create_dir_all(state.join("toolgate")).unwrap();
    kept.runtime.block_on(kept.store.close());
    std::fs::copy(kept.folder.path().join("calls.db"), state.join("toolgate/toolgate.db")).unwrap();
    assert_eq!(told(command(&["--format", "jsonl"]).env("XDG_STATE_HOME", &state)), 6);
}

#[test]
fn a_store_that_cannot_be_read_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        stderr(&output).replace(&folder.path().display().to_string(), "FOLDER")
    };
    assert_eq!(
        refused(command(&[]).env("XDG_STATE_HOME", folder.path())),
        "toolgate: error: there is no call log at `FOLDER/toolgate/toolgate.db`: record calls with `toolgate wrap \
         --store sqlite:FOLDER/toolgate/toolgate.db -- CMD`, or name another one with `--store`\n"
    );
    assert!(refused(command(&[]).env_remove("HOME")).contains("name one with `--store`"));
    assert!(
        refused(&mut command(&["--store", "postgres://me:hunter2@x/y"]))
            .contains("Postgres is coming")
    );
    let config = folder.path().join("toolgate.toml");
    std::fs::write(&config, "").unwrap();
    assert!(refused(command(&["--config"]).arg(&config)).contains("names no store: add `store ="));
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "no database".repeat(100)).unwrap();
    let told = refused(&mut command(&["--store", &format!("sqlite:{}", notes.display())]));
    assert!(told.contains("is damaged, or is no SQLite database"), "{told}");
    assert!(!folder.path().join("toolgate").exists(), "reading makes nothing");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |arguments: &[&str]| {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        stderr(&output)
    };
    assert!(refused(&["-f", "--format", "json"]).contains("use `--format jsonl`"));
    assert!(refused(&["--since", "soon"]).contains("write how long ago"));
    assert!(refused(&["--outcome", "great"]).contains("timed_out"));
    assert!(refused(&["--tool", "/x"]).contains("write `server/tool`"));
    assert!(refused(&["-f", "00000001"]).contains("cannot be used with"));
}
