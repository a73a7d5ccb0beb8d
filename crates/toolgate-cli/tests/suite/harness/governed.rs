//! A folder with a `toolgate.toml`, and the fixture governed by it.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{Session, fixture, outcomes, toolgate};

/// Every tool of the fixture. The last one ends it.
pub const TOOLS: [&str; 14] = [
    "echo",
    "see_line",
    "big",
    "hang",
    "pid",
    "cancelled",
    "wrong_id",
    "progress",
    "ask",
    "spawn",
    "fail",
    "structured",
    "reject",
    "crash",
];

/// A folder with a config, which is gone at the end.
pub struct Governed(tempfile::TempDir);

impl Governed {
    /// A folder with this config. The audit goes to `audit.jsonl` beside it.
    pub fn new(config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("toolgate.toml", &format!("audit = {{ file = \"audit.jsonl\" }}\n{config}"));
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// As editors do: a new file is moved over the old one.
    pub fn write(&self, name: &str, text: &str) {
        let new = self.path("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    /// Another config instead of the one that is there.
    pub fn change(&self, config: &str) {
        self.write("toolgate.toml", &format!("audit = {{ file = \"audit.jsonl\" }}\n{config}"));
    }

    fn config(&self) -> String {
        self.path("toolgate.toml").display().to_string()
    }

    /// Wraps the fixture and says hello.
    pub fn start(&self) -> Session {
        self.start_with(&[])
    }

    /// The same with options of the fixture.
    pub fn start_with(&self, fixture_options: &[&str]) -> Session {
        let mut session = self.start_silent(fixture_options);
        session.initialize();
        session
    }

    /// The same without a hello: clients of 2026-07-28 say none.
    pub fn start_silent(&self, fixture_options: &[&str]) -> Session {
        let (config, fixture) = (self.config(), fixture().display().to_string());
        let options = [&["--config", &config, "--", &fixture], fixture_options].concat();
        Session::wrap_bare(&options, |wrap| {
            wrap.env("TOOLGATE_LOG", "info").env("XDG_STATE_HOME", self.path("state"));
        })
    }

    /// The same on a disk on which no file may grow larger than so many kilobytes.
    pub fn start_on_small_disk(&self, kilobytes: u32) -> Session {
        let mut shell = Command::new("bash");
        // Without the signal that says so: the program reads the error, as on a disk that is full.
        shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$@\""), "wrap"]);
        shell.arg(toolgate()).args(["wrap", "--config", &self.config(), "--"]).arg(fixture());
        let mut session = Session::spawn(shell, tempfile::tempdir().unwrap());
        session.initialize();
        session
    }

    /// What is told about a config with which nothing starts.
    pub fn refused(&self) -> String {
        let mut session = self.start_silent(&[]);
        let status = session.wait();
        assert!(!status.success(), "it started");
        let told: Vec<String> = session.all_stderr();
        told.join("\n")
    }

    /// Runs another command with this config.
    pub fn run(&self, arguments: &[&str]) -> Output {
        Command::new(toolgate())
            .args(arguments)
            .env("TOOLGATE_CONFIG", self.config())
            .output()
            .unwrap()
    }

    /// What `toolgate why` says: whether the call would run, and the reasons.
    pub fn why(&self, tool: &str, options: &[&str]) -> (bool, String) {
        let fixture = fixture().display().to_string();
        let output = self.run(&[&["why", tool], options, &["--", &fixture]].concat());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.code() {
            Some(0) => (true, told),
            Some(1) => (false, told),
            _ => panic!("{told}{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// What `toolgate log` gives, oldest first.
    pub fn log(&self, options: &[&str]) -> Vec<Value> {
        let output = self.run(&[&["log", "--format", "jsonl"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The records of the audit.
    pub fn audit(&self) -> Vec<Value> {
        outcomes(&std::fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default())
    }

    /// The bytes of every file in the folder whose name begins so, one after the other.
    pub fn bytes(&self, beginning: &str) -> Vec<u8> {
        let files = std::fs::read_dir(self.0.path()).unwrap().map(Result::unwrap);
        let ours = files.filter(|file| file.file_name().to_string_lossy().starts_with(beginning));
        ours.flat_map(|file| std::fs::read(file.path()).unwrap()).collect()
    }
}

/// A call with `_meta`.
pub fn call_with(session: &mut Session, tool: &str, arguments: Value, meta: Value) -> Value {
    session.request("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}))
}

/// The names of the tools that are listed, all pages of them.
pub fn listed(session: &mut Session) -> Vec<String> {
    listed_with(session, json!({}))
}

/// The same with `_meta`.
pub fn listed_with(session: &mut Session, meta: Value) -> Vec<String> {
    definitions(session, meta)
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The definitions of the tools that are listed.
pub fn definitions(session: &mut Session, meta: Value) -> Vec<Value> {
    let mut tools = Vec::new();
    let mut params = json!({"_meta": meta});
    loop {
        let page = session.request("tools/list", params.clone());
        let more = page["result"]["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
        tools.extend(more.iter().cloned());
        match page["result"].get("nextCursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => return tools,
        }
    }
}

/// The definition of one listed tool.
pub fn definition(session: &mut Session, name: &str) -> Value {
    let tools = definitions(session, json!({}));
    let found = tools.iter().find(|tool| tool["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {tools:?}")).clone()
}

/// The code of a refusal; empty for a result of the tool.
pub fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["code"].as_str().unwrap_or_default()
}

/// The id that a call is logged under.
pub fn uuid(answer: &Value) -> String {
    let id = answer["result"]["_meta"]["toolgate/call_uuid"].as_str();
    id.unwrap_or_else(|| panic!("no id in {answer}")).to_owned()
}

/// `_meta` of a client of 2026-07-28, with more in it.
pub fn modern(more: Value) -> Value {
    let mut meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "9"}});
    meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    meta
}

/// What a call may end with that reached the tool.
const RAN: [&str; 4] = ["", "INVALID_ARGUMENTS", "SERVER_CRASHED", "SERVER_REJECTED"];

/// Calls the tool, and gives the code of the refusal, or nothing where the call reached the tool. Tools
/// that never answer, or ask first, are left alone then.
pub fn refusal(session: &mut Session, tool: &str, meta: Value) -> Option<String> {
    let id = session.post("tools/call", json!({"name": tool, "arguments": {}, "_meta": meta}));
    let answer = session.wait_for(|message| {
        message["params"]["data"]["hanging"] == json!(id)
            || message["method"] == "sampling/createMessage"
            || (message.get("method").is_none() && message["id"] == json!(id))
    });
    let code = code(&answer).to_owned();
    (!RAN.contains(&code.as_str())).then_some(code)
}

/// A refusal of either era: an error result that says why, and that no call was made.
pub fn assert_refused(answer: &Value, code: &str, is_modern: bool) {
    let result = &answer["result"];
    assert_eq!(result["_meta"]["code"], code, "{answer}");
    assert_eq!((&result["isError"], &result["_meta"]["expected"]), (&json!(true), &json!(true)));
    let kind = if is_modern { json!("complete") } else { Value::Null };
    assert_eq!(result["resultType"], kind, "{answer}");
}
