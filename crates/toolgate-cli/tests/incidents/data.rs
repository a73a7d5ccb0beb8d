//! Data that used to bypass layers: results of tasks, notifications, other requests, arguments and records.

use serde_json::{Value, json};

use super::matrix::{ALL, Client, Setup, Via, refused};

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
            let said = format!("{:?} {method}", client.via);
            let result =
                if method == "tasks/get" { &answer["result"]["result"] } else { &answer["result"] };
            assert!(result["content"].is_array(), "{said}: {answer}");
            assert!(!answer.to_string().contains(SECRET), "{said}: {answer}");
            let size = result.to_string().len();
            assert!((100..2000).contains(&size), "{said}: {size} bytes");
            let record = client.recorded(|record| record["args"]["taskId"].is_string());
            assert_eq!(record["tool"], "wipe", "{record}");
            assert!(record["result_bytes"].as_u64().unwrap() > 500, "{record}");
        }
    });
}

/// [review 8] The result of a task that nobody remembers passed unseen as well.
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
            let said = format!("{:?} {method}: {answer}", client.via);
            assert!(!answer.to_string().contains(SECRET), "{said}");
            assert!(answer.to_string().len() < 2500, "{said}");
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
