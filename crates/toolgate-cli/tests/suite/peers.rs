//! Official MCP clients in front of official MCP servers, once directly and once through
//! `toolgate wrap`: what a client sees is the same, except where toolgate promises more.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::peers::{AUTO, Client, LEGACY, MODERN, Peers, peers, report, server};

/// Runs both ways, with and without toolgate.
impl Peers {
    /// What the client reports after it ran the steps against the server. Steps are the driver's
    /// options, so their JSON has no spaces.
    fn direct(&self, client: Client, steps: &str, server: &[String]) -> Value {
        let mut command = self.driver(client);
        command.args(steps.split_whitespace()).arg("--").args(server);
        report(command)
    }

    /// The same through `toolgate wrap`, and the audit records of it.
    fn wrapped(&self, client: Client, steps: &str, server: &[String]) -> (Value, Vec<Value>) {
        let state = TempDir::new().unwrap();
        let audit = state.path().join("audit.jsonl");
        let mut command = self.driver(client);
        command.args(steps.split_whitespace()).args([
            "--",
            env!("CARGO_BIN_EXE_toolgate"),
            "wrap",
            "--audit",
        ]);
        command.arg(&audit).arg("--").args(server);
        let report = report(command);
        let lines = fs::read_to_string(&audit).unwrap_or_default();
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        (report, records.filter(|record| record["event"] == "call").collect())
    }

    /// Runs the steps both ways, for each client; the reports must be equal, and there must be one
    /// record per call. Returns the reports.
    fn same(&self, clients: &[&[Client]], steps: &str, server: &[String]) -> Vec<Value> {
        let run = |client: &Client| {
            let direct = self.direct(*client, steps, server);
            assert_eq!(direct.get("error"), None, "{client:?} fails without toolgate");
            let (wrapped, audit) = self.wrapped(*client, steps, server);
            if let Some(difference) = difference("", &direct, &wrapped) {
                panic!("{client:?} {steps}: through wrap, {difference}");
            }
            assert_eq!(tools(&audit), called(steps), "{client:?}: one record per call");
            wrapped
        };
        clients.iter().copied().flatten().map(run).collect()
    }
}

/// The first place where two documents differ, in words.
fn difference(at: &str, direct: &Value, wrapped: &Value) -> Option<String> {
    match (direct, wrapped) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<_> = left.keys().chain(right.keys()).collect();
            keys.sort();
            keys.into_iter().find_map(|key| {
                let (left, right) = (left.get(key), right.get(key));
                match (left, right) {
                    (Some(left), Some(right)) => difference(&format!("{at}/{key}"), left, right),
                    _ => Some(format!("{at}/{key} is {right:?}, directly {left:?}")),
                }
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).enumerate().find_map(|(index, (left, right))| {
                difference(&format!("{at}/{index}"), left, right)
            })
        }
        _ if direct == wrapped => None,
        _ => Some(format!("{at} is {wrapped}, directly {direct}")),
    }
}

/// The tools that audit records name.
fn tools(audit: &[Value]) -> Vec<String> {
    audit.iter().map(|line| line["tool"].as_str().unwrap_or("(no tool)").to_owned()).collect()
}

/// The tools that steps call.
fn called(steps: &str) -> Vec<String> {
    let words = steps.split_whitespace();
    let after = words.clone().skip(1);
    let calls = words.zip(after).filter(|(word, _)| *word == "--call");
    calls.map(|(_, name)| name.to_owned()).collect()
}

/// Whether the client was sent this notification.
fn notified(report: &Value, method: &str) -> bool {
    let notifications = report["notifications"].as_array().unwrap();
    notifications.iter().any(|notification| notification == method)
}

/// A folder with a file, and a git repository in it.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("hello.txt"), "hello\n").unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let mut command = Command::new("git");
        command.arg("-C").arg(folder.path()).args(identity).args(args);
        assert!(command.stdout(Stdio::null()).status().unwrap().success(), "git {args:?}");
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message=first"]);
    folder
}

#[test]
fn calls_lists_and_structured_content_of_the_everything_server() {
    let steps = r#"
        --call echo {"message":"héllo\u0000\u2028✅"}
        --call get-sum {"a":1,"b":2.5}
        --call get-structured-content {"location":"Chicago"}
        --call get-annotated-message {"messageType":"debug","includeImage":true}
        --call get-resource-links {"count":3}
        --call get-tiny-image {}"#;
    let peers = peers();
    for report in peers.same(&[LEGACY, AUTO], steps, &peers.everything()) {
        assert_eq!(report["protocolVersion"], "2025-11-25");
        assert_eq!(report["serverInfo"]["name"], "mcp-servers/everything");
        let sum = &report["calls"][1]["result"]["content"][0]["text"];
        assert_eq!(sum, "The sum of 1 and 2.5 is 3.5.");
        let weather = &report["calls"][2]["result"]["structuredContent"];
        assert_eq!(weather["temperature"], 36);
        assert!(report["tools"].as_array().unwrap().len() > 10);
        assert!(notified(&report, "notifications/tools/list_changed"));
    }
}

#[test]
fn the_filesystem_server() {
    let folder = folder();
    let root = folder.path().canonicalize().unwrap();
    let file = json!({ "path": root.join("hello.txt") });
    let list = json!({ "path": root });
    let steps = format!("--call read_text_file {file} --call list_directory_with_sizes {list}");
    let peers = peers();
    let server = peers.node_server("mcp-server-filesystem", &[root.to_str().unwrap()]);
    for report in peers.same(&[LEGACY, AUTO], &steps, &server) {
        let text = &report["calls"][0]["result"]["content"][0]["text"];
        assert_eq!(text, "hello\n");
    }
}

#[test]
fn the_git_server_in_both_eras() {
    let folder = folder();
    let root = folder.path().to_str().unwrap();
    let repository = json!({ "repo_path": root });
    let steps = format!("--call git_status {repository} --call git_log {repository}");
    let peers = peers();
    let server = peers.python_server("mcp-server-git", &["--repository", root]);
    for report in peers.same(&[LEGACY], &steps, &server) {
        assert_eq!(report["protocolVersion"], "2025-11-25");
        assert!(report["calls"][1].to_string().contains("first"));
    }
    for report in peers.same(&[AUTO, MODERN], &steps, &server) {
        assert_eq!(report["protocolVersion"], "2026-07-28");
        assert!(report["calls"][1].to_string().contains("first"));
    }
}

#[test]
fn the_time_server_in_both_eras() {
    let steps = r#"--call convert_time
        {"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}"#;
    let peers = peers();
    let server = peers.python_server("mcp-server-time", &["--local-timezone", "UTC"]);
    for client in [LEGACY, AUTO].into_iter().flatten() {
        // Its answers carry today's date: at midnight, only one of the two direct runs agrees.
        let before = peers.direct(*client, steps, &server);
        let (wrapped, audit) = peers.wrapped(*client, steps, &server);
        let found = difference("", &before, &wrapped)
            .and_then(|_| difference("", &peers.direct(*client, steps, &server), &wrapped));
        assert_eq!(found, None, "{client:?}");
        let answer = &wrapped["calls"][0]["result"]["structuredContent"];
        assert_eq!(answer["time_difference"], "+9.0h");
        assert_eq!(tools(&audit), ["convert_time"]);
    }
}

#[test]
fn a_json_rpc_error_of_a_call_becomes_a_result() {
    let folder = folder();
    let root = folder.path().to_str().unwrap();
    let steps = "--call no_such_tool {}";
    let peers = peers();
    let server = peers.python_server("mcp-server-git", &["--repository", root]);
    for client in [LEGACY, AUTO].into_iter().flatten() {
        let direct = peers.direct(*client, steps, &server);
        assert_eq!(direct["calls"][0]["error"]["code"], -32602, "{client:?}");
        let (wrapped, audit) = peers.wrapped(*client, steps, &server);
        let call = &wrapped["calls"][0];
        let (result, meta) = (&call["result"], &call["result"]["_meta"]);
        assert_eq!(result["isError"], true, "{client:?}: {call}");
        assert!(meta["error_type"].is_string(), "{client:?}: {call}");
        assert!(meta["expected"].is_boolean(), "{client:?}: {call}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let told = text.starts_with("Unknown tool: no_such_tool");
        assert!(told, "{client:?}: {text}");
        assert_eq!(tools(&audit), ["no_such_tool"], "{client:?}");
    }
}

/// A rename, a policy about arguments, a hidden tool and a call log, read by every official client in the
/// era that it chooses for itself.
#[test]
fn a_governed_server_is_the_same_for_every_client() {
    let state = TempDir::new().unwrap();
    let config = state.path().join("toolgate.toml");
    fs::write(
        &config,
        "store = \"sqlite:log.db\"\naudit = { file = \"off\" }\n\
         [namespaces.default]\npolicy = \"team\"\n\
         [namespaces.default.tools.\"main/convert_time\"]\nname = \"convert\"\n\
         [namespaces.default.tools.\"main/get_current_time\"]\nstatus = \"inactive\"\n\
         [policies.team]\ncedar = \"team.cedar\"\n",
    )
    .unwrap();
    fs::write(
        state.path().join("team.cedar"),
        "permit(principal, action, resource);\n\
         @id(\"not-tokyo\") forbid(principal, action, resource) when { context.arguments has \
         target_timezone && context.arguments.target_timezone == \"Asia/Tokyo\" };\n",
    )
    .unwrap();
    let steps = r#"--call convert {"source_timezone":"UTC","time":"12:00","target_timezone":"UTC"}
        --call convert {"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}
        --call convert_time {} --call get_current_time {"timezone":"UTC"}"#;
    let peers = peers();
    let server = peers.python_server("mcp-server-time", &["--local-timezone", "UTC"]);
    for client in [LEGACY, AUTO].into_iter().flatten() {
        let mut command = peers.driver(*client);
        command.args(steps.split_whitespace()).args(["--", env!("CARGO_BIN_EXE_toolgate"), "wrap"]);
        command.arg("--config").arg(&config).arg("--").args(&server);
        let report = report(command);
        assert_eq!(report["tools"], json!(["convert"]), "{client:?}: {report}");
        let call = |index: usize| &report["calls"][index]["result"];
        assert_eq!(
            call(0)["structuredContent"]["time_difference"],
            "+0.0h",
            "{client:?}: {report}"
        );
        assert!(call(0)["_meta"]["toolgate/call_uuid"].is_string(), "{client:?}: {report}");
        let codes =
            [1, 2, 3].map(|index| call(index)["_meta"]["code"].as_str().unwrap_or_default());
        assert_eq!(
            codes,
            ["POLICY_DENIED", "UNKNOWN_TOOL", "TOOL_INACTIVE"],
            "{client:?}: {report}"
        );
        assert_eq!(call(1)["_meta"]["rule"], "team: not-tokyo", "{client:?}");
    }
}

/// A call that has to be confirmed: every client asks its user in the way of its era, and the tool runs; one
/// that cannot ask gets a token.
#[test]
fn every_client_can_confirm() {
    let state = TempDir::new().unwrap();
    let config = state.path().join("toolgate.toml");
    let text = "[audit]\nfile = \"off\"\n[confirm]\nwhen = [\"main/*\"]\nfallback = \"agent-may-confirm-itself\"\n";
    fs::write(&config, text).unwrap();
    let peers = peers();
    let time = peers.python_server("mcp-server-time", &["--local-timezone", "UTC"]);
    let fixture = Path::new(env!("CARGO_BIN_EXE_toolgate")).with_file_name("examples/fixture");
    let modern = server(&fixture, &["--modern-only"]);
    let run = |client: Client, steps: &str, server: &[String]| {
        let mut command = peers.driver(client);
        command.args(steps.split_whitespace()).args(["--", env!("CARGO_BIN_EXE_toolgate"), "wrap"]);
        command.arg("--config").arg(&config).arg("--").args(server);
        report(command)
    };
    let by_time = [LEGACY, AUTO].into_iter().flatten().map(|client| (client, &time));
    let by_fixture = MODERN.iter().map(|client| (client, &modern));
    for (client, server) in by_time.chain(by_fixture) {
        let tool =
            if server == &time { r#"get_current_time {"timezone":"UTC"}"# } else { "pid {}" };
        let asked = run(*client, &format!("--elicitation --call {tool}"), server);
        let result = &asked["calls"][0]["result"];
        assert!(result["content"][0]["text"].is_string(), "{client:?}: {asked}");
        assert_ne!(result["isError"], true, "{client:?}: {asked}");
        let questions = asked["requests"].as_array().unwrap();
        assert_eq!(questions.len(), 1, "{client:?}: {asked}");
        assert!(
            questions[0]["params"]["message"]
                .as_str()
                .unwrap()
                .starts_with("[toolgate] Run this call?")
        );
        let shown = run(*client, &format!("--call {tool}"), server);
        let meta = &shown["calls"][0]["result"]["_meta"];
        assert_eq!(meta["code"], "CONFIRM_REQUIRED", "{client:?}: {shown}");
        assert!(meta["preview"]["confirm_token"].is_string(), "{client:?}: {shown}");
    }
}

#[test]
fn failures_that_the_server_reports_itself_keep_their_words() {
    let steps = r#"--call no-such-tool {} --call get-sum {"a":1,"b":"x"}"#;
    let peers = peers();
    let server = peers.everything();
    for client in LEGACY {
        let direct = peers.direct(*client, steps, &server);
        let (wrapped, audit) = peers.wrapped(*client, steps, &server);
        for index in 0..2 {
            let (direct, wrapped) = (&direct["calls"][index], &wrapped["calls"][index]);
            let (direct, wrapped) = (&direct["result"], &wrapped["result"]);
            assert_eq!(wrapped["isError"], true, "{client:?}: {wrapped}");
            assert_eq!(wrapped["content"], direct["content"], "{client:?}");
        }
        assert_eq!(tools(&audit), ["no-such-tool", "get-sum"], "{client:?}");
    }
}

#[test]
fn progress_arrives() {
    let steps = r#"--progress --call trigger-long-running-operation {"duration":0.4,"steps":4}"#;
    let peers = peers();
    for client in LEGACY {
        let (report, _) = peers.wrapped(*client, steps, &peers.everything());
        let call = &report["calls"][0];
        assert!(call["result"].to_string().contains("Steps: 4"), "{call}");
        // The last step comes together with the result, and then a client may drop it.
        for (index, step) in [1.0, 2.0, 3.0].into_iter().enumerate() {
            let progress = &call["progress"][index];
            let numbers = (progress["progress"].as_f64(), progress["total"].as_f64());
            let expected = (Some(step), Some(4.0));
            assert_eq!(numbers, expected, "{client:?}");
        }
    }
}

#[test]
fn a_cancelled_call_ends_and_the_next_one_works() {
    let steps = r#"--cancel-after-progress
        --call trigger-long-running-operation {"duration":2,"steps":20}
        --call echo {"message":"after"}"#;
    let peers = peers();
    let server = peers.everything();
    for report in peers.same(&[LEGACY], steps, &server) {
        assert_eq!(report["calls"][0]["progress"].as_array().unwrap().len(), 1);
        let text = &report["calls"][1]["result"]["content"][0]["text"];
        assert_eq!(text, "Echo: after");
    }
    let (_, audit) = peers.wrapped(Client::TsV1, steps, &server);
    assert_eq!(audit[0]["outcome"], "cancelled");
    assert_eq!(audit[1]["outcome"], "ok");
}

#[test]
fn a_slow_call_does_not_hold_up_a_fast_one() {
    let steps = r#"--parallel
        --call trigger-long-running-operation {"duration":1,"steps":1}
        --call echo {"message":"fast"}"#;
    let peers = peers();
    let server = peers.everything();
    for client in LEGACY {
        let direct = peers.direct(*client, steps, &server);
        let (wrapped, audit) = peers.wrapped(*client, steps, &server);
        assert_eq!(difference("", &direct, &wrapped), None, "{client:?}");
        assert_eq!(wrapped["finished"], json!([1, 0]), "{client:?}");
        let mut recorded = tools(&audit);
        recorded.sort();
        let both = ["echo", "trigger-long-running-operation"];
        assert_eq!(recorded, both, "{client:?}");
    }
}

#[test]
fn the_server_asks_the_client() {
    let steps = r#"--sampling --elicitation --roots
        --call trigger-sampling-request {"prompt":"p","maxTokens":7}
        --call trigger-elicitation-request {}
        --call get-roots-list {}"#;
    let peers = peers();
    for report in peers.same(&[LEGACY], steps, &peers.everything()) {
        let requests = report["requests"].as_array().unwrap();
        for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
            let asked = requests.iter().any(|request| request["method"] == method);
            assert!(asked, "{method} is not in {requests:?}");
        }
        assert!(report["calls"][0].to_string().contains("a fixed answer"));
        assert!(report["calls"][1].to_string().contains("Name: Ada"));
        assert!(report["calls"][2].to_string().contains("file:///tmp"));
    }
}

#[test]
fn resources_prompts_and_completion_pass_with_their_errors() {
    let steps = r#"--resources
        --read demo://resource/static/document/features.md
        --read demo://no-such-resource
        --prompts
        --prompt args-prompt {"city":"Rome"}
        --prompt no-such-prompt {}
        --complete completable-prompt department E"#;
    let peers = peers();
    for report in peers.same(&[LEGACY], steps, &peers.everything()) {
        assert_eq!(report["resources"].as_array().unwrap().len(), 7);
        assert_eq!(report["prompts"].as_array().unwrap().len(), 4);
        assert!(report["reads"][0]["result"].is_object());
        assert_eq!(report["reads"][1]["error"]["code"], -32602);
        assert!(report["got"][0].to_string().contains("Rome"));
        assert_eq!(report["got"][1]["error"]["code"], -32602);
        let values = &report["completions"][0]["result"]["completion"]["values"];
        assert_eq!(*values, json!(["Engineering"]));
    }
}

#[test]
fn log_messages_pass_and_the_environment_is_the_same() {
    // The first toggle sends one log message at once, the second stops the rest.
    let steps = "--call toggle-simulated-logging {}
        --call toggle-simulated-logging {}
        --call get-env {}";
    let peers = peers();
    for report in peers.same(&[LEGACY], steps, &peers.everything()) {
        assert!(notified(&report, "notifications/message"));
    }
}
