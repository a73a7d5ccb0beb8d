//! Speaks JSON-RPC to the real program over its pipes, message by message, with bounded waits.

pub mod bytes;
pub mod clients;
pub mod gateway;
pub mod governed;
pub mod http;
pub mod matrix;
pub mod peers;
pub mod tmux;
pub mod upstream;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A test that waits longer has failed. Shorter than the timeouts of the gateway whose effect a test would see as a wait.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(45);

pub fn toolgate() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_toolgate"))
}

pub fn fixture() -> PathBuf {
    example("fixture")
}

/// A program of `examples`.
pub fn example(name: &str) -> PathBuf {
    let built = toolgate().with_file_name("examples").join(name);
    assert!(
        built.exists(),
        "{} is missing: run `cargo test` so that examples are built",
        built.display()
    );
    built
}

/// A running `toolgate wrap` in front of the fixture, or of anything else.
pub struct Session {
    pub child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
    pub audit: PathBuf,
    folder: tempfile::TempDir,
    next_id: i64,
    pub seen: Vec<Value>,
}

impl Session {
    /// Wraps the fixture.
    pub fn fixture(options: &[&str], fixture_options: &[&str]) -> Self {
        let mut command = vec![fixture().display().to_string()];
        command.extend(fixture_options.iter().map(ToString::to_string));
        Self::wrap(options, &command.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Wraps any command.
    pub fn wrap(options: &[&str], command: &[&str]) -> Self {
        Self::wrap_in(options, command, |_| {})
    }

    /// Wraps any command, with something done to the environment first.
    pub fn wrap_in(options: &[&str], command: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let all = [options, &["--"], command].concat();
        Self::wrap_bare(&all, prepare)
    }

    /// Wraps whatever the options say, with something done to the environment first.
    pub fn wrap_bare(options: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        let mut wrap = Command::new(toolgate());
        wrap.arg("wrap");
        if !options.contains(&"--audit") && !options.contains(&"--config") {
            wrap.arg("--audit").arg(&audit);
        }
        wrap.args(options).env("XDG_STATE_HOME", folder.path().join("state"));
        prepare(&mut wrap);
        Self::spawn(wrap, folder)
    }

    /// Runs a command that becomes the program, and speaks to it.
    pub fn spawn(mut wrap: Command, folder: tempfile::TempDir) -> Self {
        let audit = folder.path().join("audit.jsonl");
        wrap.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = wrap.spawn().unwrap();
        let lines = reader(child.stdout.take().unwrap());
        let errors = reader(child.stderr.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, lines, errors, audit, folder, next_id: 1, seen: Vec::new() }
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Says initialize as a client of 2025-11-25, and gives the result.
    pub fn initialize(&mut self) -> Value {
        self.initialize_as("2025-11-25")
    }

    /// The same as a client of another version.
    pub fn initialize_as(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "harness", "version": "7"}});
        let answer = self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sends a line. If the program has ended, the wait for its answer says so, with what it wrote to stderr.
    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is closed");
        match stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            sent => sent.unwrap(),
        }
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and gives its id.
    pub fn post(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_line(&request.to_string());
        id
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params);
        self.answer(id)
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn post_call(&mut self, tool: &str, arguments: Value) -> i64 {
        self.post("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a request; everything else that comes is kept in `seen`.
    pub fn answer(&mut self, id: i64) -> Value {
        self.wait_for(|message| message.get("method").is_none() && message["id"] == json!(id))
    }

    /// What has come and was not asked for so far.
    pub fn seen_so_far(&mut self) -> &[Value] {
        let lines: Vec<String> = self.lines.try_iter().collect();
        self.seen.extend(lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        &self.seen
    }

    /// The answer to a request, if it is there already.
    pub fn answered(&mut self, id: i64) -> Option<Value> {
        self.seen_so_far();
        let answer =
            |message: &Value| message.get("method").is_none() && message["id"] == json!(id);
        let at = self.seen.iter().position(answer)?;
        Some(self.seen.remove(at))
    }

    /// The first message (kept or new) for which `wanted` holds.
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&wanted) {
            return self.seen.remove(at);
        }
        loop {
            let message = protocol(&self.line());
            if wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// The same, if it comes in time.
    pub fn find(&mut self, patience: Duration, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(at) = self.seen.iter().position(&wanted) {
                return Some(self.seen.remove(at));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            self.seen.push(protocol(&line));
        }
    }

    /// The first new line for which `wanted` holds, exactly, if it comes in time. Other lines are kept in `seen`.
    pub fn find_line(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            if wanted(&line) {
                return Some(line);
            }
            self.seen.push(protocol(&line));
        }
    }

    /// The next line on stdout, exactly.
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(TEST_TIMEOUT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no line within {TEST_TIMEOUT:?}; stderr: {:?}", self.stderr_so_far())
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("stdout ended; stderr: {:?}", self.stderr_so_far())
            }
        }
    }

    pub fn stderr_so_far(&self) -> Vec<String> {
        self.errors.try_iter().collect()
    }

    /// Everything on stderr; for a program that has ended.
    pub fn all_stderr(&self) -> Vec<String> {
        self.errors.iter().collect()
    }

    /// Waits for a line on stderr that contains the text.
    pub fn wait_for_stderr(&self, text: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut seen = Vec::new();
        while let Ok(line) =
            self.errors.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no {text:?} on stderr; there was {seen:?}");
    }

    /// As `toolgate reload` does: the config is applied also where it widens access.
    pub fn reload(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    }

    /// As log rotation does: the audit file is opened anew, and the config applied.
    pub fn hang_up(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin and waits for the end; gives the exit status and what was left on stdout.
    pub fn finish(&mut self) -> (ExitStatus, Vec<String>) {
        self.close_stdin();
        let status = self.wait();
        (status, self.lines.iter().collect())
    }

    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.child.try_wait().unwrap().is_none() {
            let is_late = Instant::now() > deadline;
            assert!(!is_late, "toolgate does not end; stderr: {:?}", self.stderr_so_far());
            std::thread::park_timeout(Duration::from_millis(2));
        }
        self.child.wait().unwrap()
    }

    /// Ends the session and gives the audit records.
    pub fn records(mut self) -> Vec<Value> {
        self.finish();
        self.audit_so_far()
    }

    pub fn audit_so_far(&self) -> Vec<Value> {
        outcomes(&std::fs::read_to_string(&self.audit).unwrap_or_default())
    }
}

/// The records of how calls ended, each with the arguments that its intent told.
pub fn outcomes(audit: &str) -> Vec<Value> {
    let mut intents = HashMap::new();
    let mut ended = Vec::new();
    for line in audit.lines() {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let call = record["call_id"].as_str().unwrap_or_default().to_owned();
        match record["event"].as_str() {
            Some("intent") => drop(intents.insert(call, record["args"].take())),
            Some("call") => {
                if let Some(args) = intents.remove(&call).filter(|args| !args.is_null()) {
                    record["args"] = args;
                }
                ended.push(record);
            }
            _ => {}
        }
    }
    ended
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line on stdout, which must be JSON-RPC.
fn protocol(line: &str) -> Value {
    let message: Value = serde_json::from_str(line)
        .unwrap_or_else(|e| panic!("not protocol on stdout ({e}): {line}"));
    assert!(message.is_array() || message["jsonrpc"] == "2.0", "not JSON-RPC on stdout: {line}");
    message
}

fn reader(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The text of a result.
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// Waits until a process is gone.
pub fn assert_gone(pid: u32) {
    gateway::until_or(|| !is_alive(pid), || format!("process {pid} ends"));
}

pub fn is_alive(pid: u32) -> bool {
    // A zombie is gone: it only waits for its parent to notice.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
