//! The gateway of `toolgate demo`: `toolgate stdio` in a process of its own, with its config and its state in a temporary
//! folder, and an MCP client that speaks to it.

use std::{
    fs::{DirBuilder, File},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use toolgate_store::{CallRecord, Filter, Store};
use toolgate_wire::mcp::{LEGACY, method};

use super::server::DemoServer;

/// How long the gateway may take to answer a request, and to write the record of a call.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the call log is read for a new record.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The policy of the agent, in Cedar.
const CEDAR: &str = "\
@id(\"support\")
permit (principal, action, resource);

@id(\"no payroll\")
forbid (principal, action, resource == Tool::\"files/read_file\")
  when { !(context.arguments has path) || context.arguments.path like \"*payroll*\" };
";

/// The rest of the config, without the servers.
const RULES: &str = "
[namespaces.default]
safety = \"mutating\"             # hides and refuses destructive tools
policy = \"support\"

[policies.support]
cedar = \"support.cedar\"         # no payroll files

[confirm]
when = [\"tickets/close\"]      # a person confirms each call

[limits]
rate = [{ tools = \"tickets/search\", limit = \"2/h\" }]

[sanitize]
secrets = true                  # tokens become [redacted: KIND]
";

/// A private folder that is removed at the end.
#[derive(Debug)]
pub(super) struct DemoFolder {
    path: PathBuf,
    keep: bool,
}

impl DemoFolder {
    /// Creates the folder, with the config in it.
    pub(super) fn new(keep: bool) -> anyhow::Result<Self> {
        let name = format!("toolgate-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let shown = path.display();
        // An earlier process with the same id may have left one behind. It is never reused.
        let created = DirBuilder::new().mode(0o700).create(&path).or_else(|_| {
            std::fs::remove_dir_all(&path)?;
            DirBuilder::new().mode(0o700).create(&path)
        });
        created
            .with_context(|| format!("cannot create `{shown}`: set TMPDIR to a writable folder"))?;
        let folder = Self { path, keep };
        folder.write("support.cedar", CEDAR)?;
        folder.write("toolgate.toml", &config()?)?;
        Ok(folder)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn config(&self) -> PathBuf {
        self.path.join("toolgate.toml")
    }

    /// A command of this program that keeps its state in the folder, and that no setting of the user changes.
    pub(super) fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b"TOOLGATE_") || bytes.starts_with(b"MCP_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(&self.path)
            .env("XDG_STATE_HOME", self.path.join("state"));
        Ok(command)
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn config() -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let program =
        program.to_str().context("the path of toolgate is not UTF-8: move the program")?;
    let mut text = "store = \"sqlite:toolgate.db\"\n".to_owned();
    for server in DemoServer::ALL {
        let name = server.name();
        let table = format!(
            "\n[servers.{name}]\ncommand = {program:?}\nargs = [\"demo\", \"--server\", \"{name}\"]\nprotocol = \"legacy\"\n"
        );
        text.push_str(&table);
    }
    text.push_str(RULES);
    Ok(text)
}

/// The agent's connection to the gateway.
#[derive(Debug)]
pub(super) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// Where the gateway writes its messages.
    messages: PathBuf,
}

impl Agent {
    /// Starts the gateway and opens a session.
    pub(super) fn connect(folder: &DemoFolder) -> anyhow::Result<Self> {
        let messages = folder.path().join("messages.txt");
        let mut command = folder.command(&["stdio", "--config", "toolgate.toml"])?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&messages)?);
        let mut child = command.spawn().context("cannot start the gateway of the demo")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the gateway has no standard output")?;
        let (sender, lines) = sync_channel(64);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut agent = Self { child, stdin, lines, next_id: 1, messages };
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": {"name": "demo-agent", "version": env!("CARGO_PKG_VERSION")},
        });
        agent.request(method::INITIALIZE, &params)?;
        agent.send(&json!({"jsonrpc": "2.0", "method": method::NOTIFICATIONS_INITIALIZED}))?;
        Ok(agent)
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let sent = match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{message}").and_then(|()| stdin.flush()),
            None => Ok(()),
        };
        sent.or_else(|_| self.fail())
    }

    /// Sends a request and returns its result.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { return self.fail() };
            let mut message: Value = serde_json::from_str(&line)?;
            if message.get("method").is_none()
                && message.get("id").and_then(Value::as_u64) == Some(id)
            {
                return match message.get_mut("result") {
                    Some(result) => Ok(result.take()),
                    None => {
                        bail!(
                            "the gateway of the demo refused `{method}`: {}",
                            message.get("error").unwrap_or(&Value::Null)
                        )
                    }
                };
            }
        }
    }

    fn fail<T>(&self) -> anyhow::Result<T> {
        let messages = std::fs::read_to_string(&self.messages).unwrap_or_default();
        bail!("the gateway of the demo gives no answer\n{}", messages.trim_end())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // The gateway ends with its client, and ends its servers.
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// The call log of the gateway.
#[derive(Debug)]
pub(super) struct CallLog {
    runtime: tokio::runtime::Runtime,
    store: std::sync::Arc<dyn Store>,
    read: usize,
}

impl CallLog {
    pub(super) fn open(folder: &DemoFolder) -> anyhow::Result<Self> {
        let runtime = super::super::runtime()?;
        let url = format!("sqlite:{}", folder.path().join("toolgate.db").display());
        let store = runtime.block_on(toolgate_store::open(&url))?;
        Ok(Self { runtime, store, read: 0 })
    }

    /// The records that were written since the last read, oldest first. Waits until there are `count` of them.
    pub(super) fn next(&mut self, count: usize) -> anyhow::Result<Vec<CallRecord>> {
        let Self { runtime, store, read } = self;
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        runtime.block_on(async {
            loop {
                let page = store.query(&Filter::default(), 100, None).await?;
                let mut records = page.records;
                records.reverse();
                if records.len() >= *read + count {
                    let new = records.split_off(*read);
                    *read += new.len();
                    return Ok(new);
                }
                if Instant::now() > deadline {
                    bail!("the gateway of the demo did not write its call log in time");
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        })
    }
}
