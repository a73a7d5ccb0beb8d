//! The audit that can be proved, from outside: verified, killed at any point, shared, on a full disk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::harness::{Session, gateway::until, governed::Governed, outcomes, text, toolgate};

/// What `toolgate audit verify --json` says of the file of a folder, and its exit code.
fn verify(folder: &Governed, options: &[&str]) -> (i32, Value) {
    let file = folder.path("audit.jsonl").display().to_string();
    let output = Command::new(toolgate())
        .args(["audit", "verify", "--json", &file])
        .args(options)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told} {said}"));
    (output.status.code().unwrap(), told)
}

#[track_caller]
fn assert_whole(folder: &Governed) -> Value {
    let (code, told) = verify(folder, &[]);
    assert_eq!((code, &told["verified"]), (0, &json!(true)), "{told}");
    told
}

/// The tools of the calls that have no end.
fn under_way(told: &Value) -> Vec<&str> {
    let calls = told["under_way"].as_array().unwrap().iter();
    calls.map(|call| call["tool"].as_str().unwrap()).collect()
}

/// All records in the file, as they stand there; the last one may be half written.
fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The config with more in its `[audit]`.
fn with(audit: &str, rest: &str) -> Governed {
    let folder = Governed::new("");
    let config = format!("[audit]\nfile = \"audit.jsonl\"\n{audit}\n{rest}");
    folder.write("toolgate.toml", &config);
    folder
}

/// The number of the last record, as the head says.
fn marked(folder: &Governed) -> u64 {
    let head = fs::read_to_string(folder.path("audit.jsonl.head")).unwrap_or_default();
    head.split(' ').next().and_then(|seq| seq.parse().ok()).unwrap_or(0)
}

fn kill(session: &mut Session) {
    session.child.kill().unwrap();
    session.child.wait().unwrap();
}

#[test]
fn a_real_run_verifies_and_tells_people_so() {
    let folder = with("", "[namespaces.default]\nsafety = \"mutating\"\n");
    let mut session = folder.start();
    session.call("echo", json!({"text": "x"}));
    session.call("crash", json!({}));
    session.call("spawn", json!({"path": "/tmp"}));
    session.finish();
    let told = assert_whole(&folder);
    assert_eq!(told["records"], 5, "{told}");
    let all = records(&folder.path("audit.jsonl"));
    let told: Vec<String> = all
        .iter()
        .map(|record| {
            let word = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", word("event"), word("tool"), word("kind"))
        })
        .collect();
    let expected = [
        "begin - -",
        "call echo execution",
        "call crash decision",
        "intent spawn -",
        "call spawn execution",
    ];
    assert_eq!(told, expected);
    assert_eq!((&all[3]["args"], all[4].get("args")), (&json!({"path": "/tmp"}), None));
    assert_eq!((&all[3]["call_id"], &all[4]["intent"]), (&all[4]["call_id"], &json!(true)));

    let output = folder.run(&["audit", "verify"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let file = folder.path("audit.jsonl").display().to_string();
    assert_eq!(said, format!("verified: 5 records in `{file}`\n"));

    // Somebody makes a denial look like a success.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"denied\"", "\"ok\"")).unwrap();
    let output = folder.run(&["audit", "verify"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let wrong = "3: record 3: altered: not what was written";
    assert_eq!(said, format!("{file}:{wrong}\nnot whole: 5 records in `{file}`, 1 found wrong\n"));
    let output = folder.run(&["audit", "verify", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read the audit file"));
}

/// The chain, followed with nothing but what every system has.
#[test]
fn anybody_can_check_it_without_toolgate() {
    let folder = with("", "");
    let mut session = folder.start();
    for n in 0..3 {
        session.call("spawn", json!({"n": n}));
    }
    session.finish();
    let script = r#"
        previous=$(printf '0%.0s' $(seq 64))
        while IFS= read -r line; do
            body="${line%,\"hash\":*}}"
            hash="${line##*\"hash\":\"}"; hash="${hash%\"\}}"
            made=$(printf '%s\n%s' "$previous" "$body" | sha256sum | cut -d' ' -f1)
            [ "$made" = "$hash" ] || { echo "wrong: $line"; exit 1; }
            previous=$hash
        done < "$1"
        echo fine
    "#;
    let check = || {
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "check"]).arg(folder.path("audit.jsonl"));
        String::from_utf8(bash.output().unwrap().stdout).unwrap()
    };
    assert_eq!(check(), "fine\n");
    let text = fs::read_to_string(folder.path("audit.jsonl")).unwrap();
    fs::write(folder.path("audit.jsonl"), text.replacen("spawn", "spawm", 1)).unwrap();
    assert!(check().starts_with("wrong: "));
}

#[test]
fn every_change_of_a_real_file_is_found() {
    let folder = with("", "");
    let mut session = folder.start();
    for n in 0..10 {
        session.call("spawn", json!({"n": n}));
        session.call("echo", json!({"text": "x"}));
    }
    session.finish();
    assert_whole(&folder);
    let file = folder.path("audit.jsonl");
    let good = fs::read(&file).unwrap();
    let lines: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(lines.len() > 30, "{}", lines.len());
    let found = |what: &str, bytes: Vec<u8>, line: usize| {
        fs::write(&file, bytes).unwrap();
        let (code, told) = verify(&folder, &[]);
        assert_eq!(code, 1, "{what}: {told}");
        let at = told["findings"][0]["line"].as_u64().unwrap();
        assert!(at.abs_diff(line as u64) <= 1, "{what} is not at {line}: {told}");
    };
    for n in 0..lines.len() {
        let without: Vec<&[u8]> = [&lines[..n], &lines[n + 1..]].concat();
        found("dropped", without.concat(), n + 1);
        let again: Vec<&[u8]> = [&lines[..=n], &lines[n..]].concat();
        found("again", again.concat(), n + 2);
        found("cut off", lines[..n].concat(), n);
        let mut flipped = good.clone();
        let start: usize = lines[..n].iter().map(|line| line.len()).sum();
        flipped[start + (n * 37) % (lines[n].len() - 1)] ^= 1;
        found("flipped", flipped, n + 1);
        if n > 0 {
            let mut swapped = lines.clone();
            swapped.swap(n - 1, n);
            found("swapped", swapped.concat(), n);
        }
    }
    fs::write(&file, &good).unwrap();
    assert_whole(&folder);
}

#[test]
fn a_call_that_is_under_way_when_toolgate_is_killed_is_listed() {
    let folder = with("intents = \"all\"", "");
    for round in 1..=5 {
        let mut session = folder.start();
        session.call("echo", json!({"text": "done"}));
        session.post_call("hang", json!({"round": round}));
        session.wait_for(|m| m["params"]["data"]["hanging"].is_number());
        kill(&mut session);
        let told = assert_whole(&folder);
        assert_eq!(under_way(&told), vec!["hang"; round], "{told}");
        let call = &told["under_way"][round - 1];
        assert!(call["ts"].is_string() && call["call_id"].as_str().unwrap().len() == 36);
    }
    let output = folder.run(&["audit", "verify"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("5 calls under way when the record ends:\n  20"), "{said}");
    assert!(said.contains("  main/hang  0"), "{said}");
}

#[test]
fn killed_at_any_point_it_verifies_and_goes_on() {
    // The second one moves its file aside with nearly every batch.
    for audit in ["", "rotate_bytes = 2000\nkeep_files = 10000"] {
        let folder = with(audit, "");
        let mut last = 0;
        for round in 0..10 {
            let mut session = folder.start();
            for n in 0..400 {
                session.post_call("spawn_nothing", json!({"n": n, "round": round}));
            }
            // In the middle of the flood, later each time.
            until("a record comes", || marked(&folder) > last + round * 13);
            kill(&mut session);
            let now = assert_whole(&folder)["last_seq"].as_u64().unwrap();
            assert!(now > last + round * 13, "the chain goes on from {last}: {now}");
            last = now;
        }
        let mut session = folder.start();
        session.call("echo", json!({"text": "x"}));
        session.finish();
        let told = assert_whole(&folder);
        assert!(told["last_seq"].as_u64().unwrap() > last);
        assert_eq!(told["earlier"], 0);
        if !audit.is_empty() {
            assert!(folder.path("audit.jsonl.5").exists());
        }
    }
}

/// The words in the records of one event.
fn noted(folder: &Governed, event: &str) -> Vec<String> {
    let text = String::from_utf8(folder.bytes("audit.jsonl")).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let events = lines.filter(|record| record["event"] == event);
    events.map(|record| record["args"]["note"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn processes_killed_in_a_loop_while_they_share_a_file_lose_no_call_that_was_answered() {
    // With and without moving the file aside.
    for audit in ["", "rotate_bytes = 20000\nkeep_files = 10000"] {
        let folder = with(audit, "");
        let mut survivor = folder.start();
        let mut answered: Vec<String> = Vec::new();
        for round in 0..6_i64 {
            let mut victims: Vec<Session> = (0..2).map(|_| folder.start()).collect();
            let mut posted = Vec::new();
            for n in 0..150 {
                for (at, session) in victims.iter_mut().enumerate() {
                    let note = format!("{round}-{at}-{n}");
                    posted.push((
                        at,
                        session.post_call("spawn_nothing", json!({"note": &note})),
                        note,
                    ));
                }
            }
            survivor.call("spawn_nothing", json!({"note": format!("survivor-{round}")}));
            answered.push(format!("survivor-{round}"));
            // In the middle of the flood, later each time.
            let wanted = usize::try_from(round * 20).unwrap();
            until("calls are answered", || victims[0].seen_so_far().len() > wanted);
            for victim in &mut victims {
                kill(victim);
            }
            for (at, id, note) in posted {
                if victims[at].answered(id).is_some() {
                    answered.push(note);
                }
            }
            assert_whole(&folder);
        }
        survivor.finish();
        assert_whole(&folder);
        let intents = noted(&folder, "intent");
        for note in &answered {
            let count = intents.iter().filter(|intent| *intent == note).count();
            assert_eq!(count, 1, "{note} was answered");
        }
        assert!(answered.len() > 200, "{}", answered.len());
    }
}

#[test]
fn killed_while_the_file_is_moved_aside_it_goes_on_in_the_next() {
    let folder = with("", "");
    let mut last = 0;
    for _ in 0..3 {
        let mut session = folder.start();
        session.call("echo", json!({"text": "x"}));
        session.finish();
        // Moved, and killed before the next one was made.
        for n in (1..3).rev() {
            let name = |n: u32| folder.path(&format!("audit.jsonl.{n}"));
            let _ = fs::rename(name(n), name(n + 1));
        }
        fs::rename(folder.path("audit.jsonl"), folder.path("audit.jsonl.1")).unwrap();
        let told = assert_whole(&folder);
        assert!(told["last_seq"].as_u64().unwrap() > last, "{told}");
        last = told["last_seq"].as_u64().unwrap();
    }
    let told = assert_whole(&folder);
    assert_eq!((&told["records"], &told["earlier"]), (&json!(last), &json!(0)), "{told}");
    // Without the newest of them the end is missing.
    fs::remove_file(folder.path("audit.jsonl.1")).unwrap();
    let (code, told) = verify(&folder, &[]);
    assert_eq!((code, &told["findings"][0]["what"]), (1, &json!("cut_off")), "{told}");
}

#[test]
fn several_processes_share_one_chain_over_rotation() {
    let folder = with("rotate_bytes = 4000\nkeep_files = 10000", "");
    let mut sessions: Vec<Session> = (0..3).map(|_| folder.start()).collect();
    for n in 0..40 {
        for session in &mut sessions {
            session.post_call("nothing", json!({"n": n}));
            session.post_call("echo", json!({"text": "x"}));
        }
        // Whoever looks meanwhile sees one moment of it.
        if n % 4 == 3 {
            assert_whole(&folder);
        }
    }
    for session in &mut sessions {
        for id in 2..=81 {
            session.answer(id);
        }
        session.finish();
    }
    let told = assert_whole(&folder);
    assert_eq!((&told["under_way"], &told["torn"]), (&json!([]), &json!(0)));
    assert!(folder.path("audit.jsonl.5").exists());
    let all = String::from_utf8(folder.bytes("audit.jsonl")).unwrap();
    let calls = all.lines().filter(|line| line.contains("\"event\":\"call\"")).count();
    assert_eq!(calls, 3 * 80);
    let records = all.lines().filter(|line| line.starts_with('{')).count();
    assert_eq!(told["records"], records);
}

#[test]
fn a_process_that_writes_all_the_time_lets_others_write_and_read() {
    let folder = with("sync = \"os\"", "");
    let (mut busy, mut other) = (folder.start(), folder.start());
    for round in 0..10 {
        let ids: Vec<i64> = (0..200).map(|n| busy.post_call("nothing", json!({"n": n}))).collect();
        // While those are under way.
        other.call("nothing", json!({"round": round}));
        assert_whole(&folder);
        for id in ids {
            busy.answer(id);
        }
    }
    busy.finish();
    other.finish();
    let told = assert_whole(&folder);
    assert_eq!(told["under_way"], json!([]));
    assert_eq!(records(&folder.path("audit.jsonl")).len(), 1 + 2 * (2000 + 10));
}

#[test]
fn records_that_a_power_cut_must_not_take_are_synced_and_required_ones_are_all_kept() {
    let folder = with("sync = \"disk\"\nrequired = true\nrotate_bytes = 1000", "");
    let mut session = folder.start();
    for n in 0..20 {
        assert_eq!(text(&session.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    kill(&mut session);
    let told = assert_whole(&folder);
    assert_eq!((&told["earlier"], &told["lost"]), (&json!(0), &json!(0)), "{told}");
    assert!(folder.path("audit.jsonl.6").exists(), "more than five are kept");
    let intents = String::from_utf8(folder.bytes("audit.jsonl")).unwrap();
    assert_eq!(intents.matches("\"event\":\"intent\"").count(), 20);
    folder.write("toolgate.toml", "[audit]\nfile = \"stderr\"\nsync = \"disk\"\n");
    assert!(folder.refused().contains("`audit.sync = \"disk\"` needs a regular file"));
}

/// A disk of so many kilobytes on which the audit file has no room left.
fn full_disk(audit: &str) -> (Governed, Session) {
    let folder = with(audit, "");
    // Old records take all of the room.
    let line = format!("{{\"say\":\"{}\"}}\n", "x".repeat(1000));
    fs::write(folder.path("audit.jsonl"), line.repeat(101)).unwrap();
    let mut session = folder.start_on_small_disk(100);
    session.request("tools/list", json!({}));
    (folder, session)
}

#[test]
fn without_room_for_a_record_a_required_one_stops_the_call() {
    let (folder, mut session) = full_disk("required = true");
    for (tool, text) in [("pid", "x"), ("structured", "x")] {
        let answer = session.call(tool, json!({"text": text}));
        assert_eq!(answer["result"]["_meta"]["code"], "AUDIT_UNAVAILABLE", "{answer}");
        assert_eq!(answer["result"]["isError"], true);
    }
    // Nothing ran: this one would have ended the server.
    session.call("crash", json!({}));
    // Somebody makes room.
    fs::remove_file(folder.path("audit.jsonl")).unwrap();
    assert_eq!(text(&session.call("echo", json!({"text": "again"}))), "again");
    session.finish();
    let told = assert_whole(&folder);
    assert!(told["lost"].as_u64().unwrap() >= 3, "{told}");
    assert_eq!(under_way(&told), [""; 0]);
}

#[test]
fn without_room_for_a_record_a_call_runs_where_none_is_required() {
    let (folder, mut session) = full_disk("");
    for n in 0..3 {
        // Mutating: there is an intent, which cannot be written.
        let answer = session.call("spawn", json!({}));
        assert!(text(&answer).parse::<u32>().is_ok(), "{answer}");
        assert_eq!(text(&session.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    session.wait_for_stderr("cannot write audit records");
    session.finish();
    session.wait_for_stderr("audit records were lost");
    let (code, told) = verify(&folder, &[]);
    assert_eq!((code, &told["unchained"]), (0, &json!(101)), "{told}");
}

#[test]
fn a_file_that_fails_after_the_tool_ran_changes_no_result() {
    let folder = with("required = true", "");
    let mut session = folder.start();
    let asking = session.post_call("ask", json!({}));
    let question = session.wait_for(|m| m["method"] == "sampling/createMessage");
    // The tool is at it. Its intent is written; from here on nothing can be.
    fs::remove_file(folder.path("audit.jsonl")).unwrap();
    fs::create_dir(folder.path("audit.jsonl")).unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"said": "yes"}});
    session.send_line(&answer.to_string());
    let answer = session.answer(asking);
    assert!(text(&answer).contains("said"), "{answer}");
    session.wait_for_stderr("cannot write audit records");
    let refused = session.call("echo", json!({"text": "x"}));
    assert_eq!(refused["result"]["_meta"]["code"], "AUDIT_UNAVAILABLE");
    fs::remove_dir(folder.path("audit.jsonl")).unwrap();
    assert_eq!(text(&session.call("echo", json!({"text": "x"}))), "x");
    session.finish();
    let told = assert_whole(&folder);
    assert!(told["earlier"].as_u64().unwrap() >= 2, "what was removed is counted: {told}");
}

#[test]
fn cancelled_timed_out_and_crashed_calls_have_one_intent_and_one_outcome() {
    let folder = with("intents = \"all\"", "[limits]\ntimeout = \"500ms\"\n");
    let mut session = folder.start();
    let hanging = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    session.notify("notifications/cancelled", json!({"requestId": hanging}));
    session.call("hang", json!({}));
    session.call("crash", json!({}));
    session.finish();
    let told = assert_whole(&folder);
    assert_eq!(told["under_way"], json!([]));
    let all = records(&folder.path("audit.jsonl"));
    let calls = outcomes(&fs::read_to_string(folder.path("audit.jsonl")).unwrap());
    let mut ended: Vec<&str> = calls.iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["cancelled", "timed_out", "upstream_failed"]);
    for call in &calls {
        let of_call = |event: &str| {
            all.iter().filter(|r| r["event"] == event && r["call_id"] == call["call_id"]).count()
        };
        assert_eq!((of_call("intent"), of_call("call")), (1, 1), "{call}");
    }
}

#[test]
fn only_what_is_asked_for_is_recorded() {
    for (record, tools) in [("executions", ["echo"]), ("decisions", ["crash"])] {
        let audit = format!("record = [\"{record}\"]");
        let folder = with(&audit, "[namespaces.default]\nsafety = \"readonly\"\n");
        let mut session = folder.start();
        session.call("echo", json!({"text": "x"}));
        session.call("crash", json!({}));
        session.finish();
        let calls = folder.audit();
        let told: Vec<&str> = calls.iter().map(|r| r["tool"].as_str().unwrap()).collect();
        assert_eq!(told, tools);
        assert_eq!(calls[0]["kind"], record.trim_end_matches('s'));
    }
    for (audit, why) in [
        ("record = []", "nothing would be recorded"),
        ("record = [\"denials\"]", "unknown variant `denials`"),
        ("required = true\nrecord = [\"decisions\"]", "needs `executions`"),
        ("store = true", "`audit.store` needs somewhere to write to"),
    ] {
        let told = with(audit, "").refused();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn what_is_refused_at_the_door_is_not_announced() {
    let folder = with("intents = \"all\"", "[limits]\nin_flight = 1\n");
    let mut session = folder.start();
    let hanging = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    let answer = session.call("echo", json!({"text": "x"}));
    assert_eq!(answer["result"]["_meta"]["code"], "OVERLOADED");
    session.finish();
    let all = records(&folder.path("audit.jsonl"));
    let of_echo: Vec<&Value> = all.iter().filter(|record| record["tool"] == "echo").collect();
    assert_eq!(of_echo.len(), 1, "{all:?}");
    assert_eq!((&of_echo[0]["kind"], of_echo[0].get("intent")), (&json!("decision"), None));
}

/// What the original's redactor let through.
#[test]
fn nested_secrets_are_in_no_record() {
    let folder = with("intents = \"all\"", "");
    let mut session = folder.start();
    let secret = "hunter2-correct-horse";
    session.call(
        "echo",
        json!({
            "steps": [{"tool": "webhook", "args": {"token": secret, "webhook_token": secret}}],
            "interaction_token": secret,
            "access_token": secret,
            "api_key": secret,
            "authorization": format!("Bearer {secret}"),
            "headers": {"X-Auth": {"Authorization": secret}},
            "audit_reason": format!("because of {secret}"),
            "plain": "told",
        }),
    );
    session.finish();
    let text = fs::read_to_string(folder.path("audit.jsonl")).unwrap();
    assert!(text.contains("\"plain\":\"told\"") && text.contains("interaction_token"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn with_a_key_a_chain_cannot_be_made_up() {
    let folder = with("key_file = \"key\"", "");
    folder.write("key", "a key of at least sixteen bytes");
    let mut session = folder.start();
    session.call("spawn", json!({}));
    session.finish();
    let key = folder.path("key").display().to_string();
    let (code, told) = verify(&folder, &["--key-file", &key]);
    assert_eq!(code, 0, "{told}");
    let output = folder.run(&["audit", "verify"]);
    assert!(output.status.success(), "the config names the key");
    let (code, told) = verify(&folder, &[]);
    assert_eq!((code, &told["findings"][0]["what"]), (1, &json!("needs_key")));
    // Without the key the same file is chained anew, as well as it can be.
    fs::remove_file(folder.path("audit.jsonl.head")).unwrap();
    folder.write("toolgate.toml", "[audit]\nfile = \"audit.jsonl\"\n");
    let mut session = folder.start();
    session.call("spawn", json!({}));
    session.finish();
    let (code, told) = verify(&folder, &["--key-file", &key]);
    assert_eq!(code, 1, "{told}");
    folder.write("toolgate.toml", "[audit]\nfile = \"audit.jsonl\"\nkey_file = \"key\"\n");
    folder.write("key", "short");
    assert!(folder.refused().contains("a key has at least 16 bytes"));
}

#[test]
fn records_reach_the_store_too() {
    let store = "store = \"sqlite:x.db\"\n";
    let folder = Governed::new("");
    let config = format!("{store}[audit]\nfile = \"audit.jsonl\"\nstore = true\n");
    folder.write("toolgate.toml", &config);
    let mut session = folder.start();
    session.request("tools/list", json!({}));
    session.call("spawn", json!({"path": "/tmp"}));
    session.call("echo", json!({"text": "x"}));
    session.finish();
    let lines = fs::read_to_string(folder.path("audit.jsonl")).unwrap();
    let url: PathBuf = folder.path("x.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kept = runtime.block_on(async {
        let store = toolgate_store::open(&format!("sqlite:{}", url.display())).await.unwrap();
        let kept = store.audit(0, 100).await.unwrap();
        store.close().await;
        kept
    });
    let kept_lines: Vec<&str> = kept.iter().map(|record| record.line.as_str()).collect();
    assert_eq!(kept_lines, lines.lines().collect::<Vec<_>>());
    let events: Vec<&str> = kept.iter().map(|record| record.event.as_str()).collect();
    assert_eq!(events, ["begin", "intent", "call", "call"]);
    assert!(kept[2].call_id.is_some() && kept[2].outcome.as_deref() == Some("ok"));
}
