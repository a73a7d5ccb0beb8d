//! Data that used to bypass layers: results of tasks, notifications, other requests, arguments and records.

use serde_json::{Value, json};

use crate::harness::matrix::{ALL, Client, Setup, Via, refused};

/// A token in the shape that GitHub publishes.
const SECRET: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

const CLEANED: &str = "[sanitize]\nsecrets = true\n";

/// A text with the secret, which is longer than the lowest limit.
fn leak() -> String {
    format!("key {SECRET} {} and {SECRET} again", "x".repeat(5000))
}

fn leaking(config: &str) -> Setup {
    Setup::new(config).spy(&["--leak", &leak()])
}

/// Begins a task of a tool in the way of the client's protocol version.
fn begin(client: &mut Client, tool: &str) -> Value {
    if client.via.is_modern() {
        client.call(tool, json!({"task": true}))
    } else {
        let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 60000}});
        client.request("tools/call", params)
    }
}

fn task_of(answer: &Value) -> String {
    let result = &answer["result"];
    let id = result["taskId"].as_str().or_else(|| result["task"]["taskId"].as_str());
    id.unwrap_or_else(|| panic!("no task in {answer}")).to_owned()
}

fn is_clean(what: &str, answer: &Value) {
    let text = answer.to_string();
    assert!(!text.contains(SECRET), "{what}: the secret passed: {text}");
    assert!(text.contains("[redacted: github-token]"), "{what}: {text}");
}

/// [review 8] With `"task": {}` a caller got any tool's result past `sanitize`, the response limit and the audit.
#[test]
fn results_of_tasks_are_tool_results() {
    let config = format!("{CLEANED}[limits]\nresponse_bytes = 2000\n");
    leaking(&config).each(|client| {
        for method in ["tasks/result", "tasks/get"] {
            let task = task_of(&begin(client, "wipe"));
            let answer = client.request(method, json!({"taskId": task}));
            let label = format!("{:?} {method}", client.via);
            let result =
                if method == "tasks/get" { &answer["result"]["result"] } else { &answer["result"] };
            assert!(result["content"].is_array(), "{label}: {answer}");
            assert!(!answer.to_string().contains(SECRET), "{label}: {answer}");
            let size = result.to_string().len();
            assert!((100..2000).contains(&size), "{label}: {size} bytes");
            let record = client.recorded(|record| record["args"]["taskId"].is_string());
            assert_eq!(record["tool"], "wipe", "{record}");
            assert!(record["result_bytes"].as_u64().unwrap() > 500, "{record}");
        }
    });
}

/// [review 8] The result of a task that the gateway does not know passed no layer either.
#[test]
fn a_task_that_is_not_known_gets_the_strictest_settings() {
    let config = format!(
        "{CLEANED}tools = ['main/safe']\n[namespaces.default.tools.'main/safe']\nresponse_bytes = 2000\n\
         [limits]\nresponse_bytes = 100000\n"
    );
    leaking(&config).each(|client| {
        let answer = client.request("tasks/result", json!({"taskId": "t-nobody"}));
        assert!(!answer.to_string().contains(SECRET), "{:?}: {answer}", client.via);
        assert!(answer.to_string().len() < 2500, "{:?}: {answer}", client.via);
        // A tool that the settings leave alone keeps its own.
        let task = task_of(&begin(client, "wipe"));
        let answer = client.request("tasks/result", json!({"taskId": task}));
        assert!(answer.to_string().len() > 4000, "{:?}: {answer}", client.via);
        // One that they name does not.
        let task = task_of(&begin(client, "safe"));
        let answer = client.request("tasks/result", json!({"taskId": task}));
        assert!(!answer.to_string().contains(SECRET), "{:?}: {answer}", client.via);
        // Errors of tasks are cleaned too.
        let answer = client.request("tasks/result", json!({"taskId": "t-error"}));
        assert!(refused(&answer), "{answer}");
        assert!(!answer.to_string().contains(SECRET), "{:?}: {answer}", client.via);
    });
}

/// [review 8] `validate.output = "enforce"` never saw the result of a task.
#[test]
fn a_result_of_a_task_that_does_not_fit_is_withheld() {
    let schema = json!({"name": "typed", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["n"]}});
    let setup = leaking("[validate]\noutput = 'enforce'\n");
    setup.each(|client| {
        client.request("spy/tools", json!({"tools": [schema]}));
        let answer = client.request("tasks/result", json!({"taskId": "t-nobody"}));
        assert!(refused(&answer) && answer.to_string().contains("OUTPUT_INVALID"), "{answer}");
        assert!(!answer.to_string().contains(SECRET), "{answer}");
    });
}

/// [review 8] Completions, prompts, resources and errors of servers passed `sanitize` and the limit.
#[test]
fn whatever_a_server_answers_is_cleaned_and_bounded() {
    let config = format!("{CLEANED}tools = ['nobody/*']\n[limits]\nresponse_bytes = 2000\n");
    leaking(&config).each(|client| {
        for (method, params) in [
            ("prompts/get", json!({"name": "p"})),
            ("resources/read", json!({"uri": "spy://r"})),
            ("completion/complete",
                json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}})),
        ] {
            let answer = client.request(method, params);
            let label = format!("{:?} {method}: {answer}", client.via);
            assert!(!answer.to_string().contains(SECRET), "{label}");
            assert!(answer.to_string().len() < 2500, "{label}");
        }
    });
}

/// [review 8] Notifications of a server carried what `sanitize` removes from its results.
#[test]
fn what_a_server_tells_is_cleaned_and_bounded() {
    let config = format!("{CLEANED}[limits]\nresponse_bytes = 2000\n");
    leaking(&config).each(|client| {
        let level = json!({"progressToken": "p1", "io.modelcontextprotocol/logLevel": "debug"});
        if !client.via.is_modern() {
            client.request("logging/setLevel", json!({"level": "debug"}));
        }
        let answer = client.call_with("safe", json!({}), level);
        is_clean("result", &answer);
        client.fence();
        let seen: Vec<Value> =
            client.seen().into_iter().filter(|seen| seen["method"].is_string()).collect();
        assert!(!seen.is_empty(), "{:?}: nothing was told", client.via);
        for told in &seen {
            assert!(!told.to_string().contains(SECRET), "{:?}: {told}", client.via);
            assert!(told.to_string().len() < 2500, "{:?}: {told}", client.via);
        }
        let progress = seen.iter().find(|seen| seen["method"] == "notifications/progress");
        assert!(progress.is_some_and(|told| told["params"]["progressToken"] == "p1"), "{seen:?}");
    });
}

/// [issue 12.5] The question of a server put to the user what `sanitize` removes from its results.
#[test]
fn what_a_server_asks_is_cleaned() {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::<Value>::new()));
    let kept = std::sync::Arc::clone(&asked);
    let setup = Setup::new(CLEANED).spy(&["--legacy-only"]).able(
        json!({"elicitation": {}, "sampling": {}}),
        move |question| {
            kept.lock().unwrap().push(question.clone());
            json!({"action": "accept", "content": {}})
        },
    );
    // A client of 2024-11-05 cannot be asked; wrap does not translate between protocol versions.
    let ways: Vec<Via> =
        ALL.into_iter().filter(|via| !matches!(via, Via::Sse | Via::WrapModern)).collect();
    setup.through(&ways, |client| {
        let params = json!({"message": format!("Is {SECRET} yours?"), "requestedSchema": {"type": "object",
            "properties": {"a": {"type": "string", "description": format!("as {SECRET}")}}}});
        client.call("ask", json!({"params": params}));
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert!(!asked.is_empty(), "{:?}: nobody was asked", client.via);
        for question in asked {
            is_clean("question", &question);
        }
    });
}

/// [review 15] The audit kept `pw`, `pwd`, `PASS`, `auth`, `jwt`, `key`, `sessionid`, headers in lists and passwords in addresses in clear.
#[test]
fn the_audit_and_the_log_tell_no_secret() {
    let arguments = json!({
        "pw": "HIDDEN-01", "db_pwd": "HIDDEN-02", "PASS": "HIDDEN-03", "basicAuth": "HIDDEN-04",
        "jwt": "HIDDEN-05", "session": "HIDDEN-06", "sessionid": "HIDDEN-07", "Cookie": "HIDDEN-08",
        "key": "HIDDEN-09", "signing_key": "HIDDEN-10",
        "headers": [["Authorization", "HIDDEN-11"], ["Accept", "shown"]],
        "fields": [{"name": "Authorization", "value": "HIDDEN-12"}, {"key": "X-Auth", "content": "HIDDEN-13"}],
        "argv": ["curl", "--password", "HIDDEN-14", "--silent"],
        "url": "https://user:HIDDEN-15@host/path?x=1",
        "note": format!("the token is {SECRET}, keep it"),
        "text_of_json": "{\"auth\": \"HIDDEN-16\"}",
        "path": "/shown/path", "keyboard": "shown-keyboard", "author": "shown-author",
    });
    Setup::new("store = 'sqlite:log.db'\n").each(|client| {
        client.call("wipe", arguments.clone());
        let record = client.recorded(|record| record["tool"] == "wipe");
        let text = client.audit_text();
        assert!(!text.contains("HIDDEN"), "{:?}: {text}", client.via);
        assert!(!text.contains(SECRET), "{:?}: {text}", client.via);
        let intent = text.lines().find(|line| line.contains("shown-keyboard"));
        let shown = intent.unwrap_or_else(|| panic!("{:?}: {record} {text}", client.via));
        for told in ["/shown/path", "shown-author", "Accept", "the token is"] {
            assert!(shown.contains(told), "{:?}: `{told}` is missing in {shown}", client.via);
        }
        let folder = client.path("");
        crate::harness::gateway::until_or(
            || {
                let log = std::process::Command::new(crate::harness::toolgate())
                    .args(["log", "--format", "jsonl", "--store", "sqlite:log.db"])
                    .current_dir(&folder)
                    .output()
                    .unwrap();
                let log = String::from_utf8_lossy(&log.stdout).into_owned();
                assert!(
                    !log.lines()
                        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                        .any(|record| record["arguments"].to_string().contains("HIDDEN")),
                    "{log}"
                );
                log.contains("shown-keyboard")
            },
            || "the log has the call".to_owned(),
        );
    });
}

/// [review 15] Two arguments whose names look alike became one in the preview: the second value hid the first from the person who confirms.
#[test]
fn a_preview_shows_every_argument() {
    let long = "k".repeat(2500);
    let mut arguments = serde_json::Map::new();
    for (name, value) in [
        ("path".to_owned(), "VALUE-1"),
        ("path\u{200b}".to_owned(), "VALUE-2"),
        ("path\\u{200b}".to_owned(), "VALUE-3"),
        ("p\u{430}th".to_owned(), "VALUE-4"),
        (format!("{long}1"), "VALUE-5"),
        (format!("{long}2"), "VALUE-6"),
        ("turned".to_owned(), "\u{202e}VALUE-7\u{1b}[2J"),
    ] {
        arguments.insert(name, json!(value));
    }
    let arguments = Value::Object(arguments);
    Setup::new("").each(|client| {
        let meta = json!({"toolgate/dry_run": true});
        let answer = client.call_with("wipe", arguments.clone(), meta);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        for number in 1..=7 {
            assert!(
                text.contains(&format!("VALUE-{number}")),
                "{:?}: {number} in {text}",
                client.via
            );
        }
        assert!(text.contains("7 arguments"), "{:?}: {text}", client.via);
        assert!(text.contains("p\\\\u{430}th"), "{:?}: {text}", client.via);
        let harmful =
            |c: char| c.is_control() && c != '\n' || ('\u{200b}'..='\u{202e}').contains(&c);
        assert!(!text.chars().any(harmful), "{:?}: {text:?}", client.via);
        assert!(client.ran().is_empty(), "{:?}", client.via);
    });
}

/// [review 15] `__confirm` of a tool that needs no confirmation was written to the audit in clear.
#[test]
fn a_confirmation_is_in_no_record() {
    let token = format!("tgc1t-{}", "5f".repeat(48));
    let config = "store = 'sqlite:log.db'\n[log]\nresults = true\n\
                  [confirm]\nwhen = ['main/wipe']\n";
    Setup::new(config).each(|client| {
        client.call("safe", json!({"__confirm": token}));
        client.call("safe", json!({"note": format!("confirm with {token} please")}));
        client.call("safe", json!({"list": ["__confirm", token], "deep": {"__confirm": token}}));
        client.call_with("safe", json!({}), json!({"toolgate/confirm": token}));
        client.call("wipe", json!({"__confirm": token}));
        let lines = client.lines();
        assert!(
            !lines.iter().any(|line| line.contains("\"arguments\":{\"__confirm\"")),
            "{lines:?}"
        );
        client.recorded(|record| record["tool"] == "wipe");
        let secret = "5f".repeat(20);
        assert!(
            !client.audit_text().contains(&secret),
            "{:?}: {}",
            client.via,
            client.audit_text()
        );
        let log = std::fs::read(client.path("log.db-wal")).unwrap_or_default();
        let log = [log, std::fs::read(client.path("log.db")).unwrap_or_default()].concat();
        assert!(!String::from_utf8_lossy(&log).contains(&secret), "{:?}: the log", client.via);
        let stderr = client.stderr().join("\n");
        assert!(!stderr.contains(&secret), "{:?}: {stderr}", client.via);
    });
}

/// [review 6] With 1.2 million padding values arguments were not checked: `path` named any file.
#[test]
fn arguments_that_are_too_many_to_check_are_refused() {
    let tool = json!({"name": "read", "inputSchema": {"type": "object", "additionalProperties": false,
        "required": ["path"], "properties": {"path": {"type": "string", "pattern": "^/tmp/"},
        "list": {"type": "array", "items": {"allOf": vec![json!({"minimum": 0}); 200]}}}}});
    // More than a million looks, as 1.2 million values are for a plain schema.
    let padding: Vec<u8> = vec![0; 6000];
    for unknown in ["pass", "strip", "reject"] {
        let config = format!("[validate]\ninput_schema = true\nunknown = '{unknown}'\n");
        Setup::new(&config).each(|client| {
            client.request("spy/tools", json!({"tools": [tool]}));
            crate::harness::gateway::until_or(
                || client.tools().iter().any(|name| name == "read"),
                || "the tool is listed".to_owned(),
            );
            for name in ["list", "other"] {
                let answer = client.call("read", json!({"path": "/etc/shadow", name: padding}));
                assert!(refused(&answer), "{unknown} {name} {:?}", client.via);
            }
            let names: serde_json::Map<String, Value> =
                (0..5000).map(|at| (format!("x{at}"), json!(0))).collect();
            let mut arguments = json!({"path": "/etc/shadow"});
            arguments.as_object_mut().unwrap().extend(names);
            assert!(refused(&client.call("read", arguments)), "{unknown} names {:?}", client.via);
            assert!(client.ran().is_empty(), "{unknown} {:?}", client.via);
            let answer = client.call("read", json!({"path": "/tmp/x"}));
            assert!(!refused(&answer), "{answer}");
        });
    }
}

/// [review 6] `validate.output = "enforce"` let a result pass that was too large to check.
#[test]
fn results_that_are_too_many_to_check_are_withheld() {
    let tool = json!({"name": "typed", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties":
            {"list": {"items": {"allOf": vec![json!({"minimum": 0}); 200]}}}}});
    let setup = Setup::new("[validate]\noutput = 'enforce'\n[limits]\nresponse_bytes = 'off'\n");
    setup.each(|client| {
        client.request("spy/tools", json!({"tools": [tool]}));
        crate::harness::gateway::until_or(
            || client.tools().iter().any(|name| name == "typed"),
            || "the tool is listed".to_owned(),
        );
        assert!(!refused(&client.call("typed", json!({"structured": 5}))));
        let answer = client.call("typed", json!({"structured": 6000}));
        let text = answer.to_string();
        assert!(
            text.contains("OUTPUT_INVALID"),
            "{:?}: {}",
            client.via,
            &text[..500.min(text.len())]
        );
    });
}
