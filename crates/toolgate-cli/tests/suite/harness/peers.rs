//! Official MCP clients, as `scripts/peers` installs them, and the drivers that bind them to one set of steps.

use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::example;

/// Longer than any run takes: a driver that is still running then hangs.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// The drivers of `tests/peers`, each with the ways in which it can choose a protocol version.
pub const LEGACY: &[Client] = &[Client::Ts("legacy"), Client::TsV1, Client::Python("legacy")];
pub const AUTO: &[Client] = &[Client::Ts("auto"), Client::Python("auto")];
pub const MODERN: &[Client] = &[Client::Ts("modern"), Client::Python("modern")];

/// An official client, with its mode of version negotiation.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// `@modelcontextprotocol/client`
    Ts(&'static str),
    /// `@modelcontextprotocol/sdk`, the 1.x line
    TsV1,
    /// `mcp`
    Python(&'static str),
    /// `rmcp`
    Rust(&'static str),
}

/// Where the peers are installed, and where their drivers come from.
pub struct Peers {
    installed: PathBuf,
    sources: PathBuf,
}

/// Finds what `scripts/peers` installed.
pub fn peers() -> Peers {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let targets = [env::var_os("CARGO_TARGET_DIR").map(PathBuf::from), Some(root.join("target"))];
    let installed = targets
        .into_iter()
        .flatten()
        .map(|target| root.join(target).join("peers"))
        .find(|peers| peers.join("node.stamp").exists() && peers.join("python.stamp").exists())
        .expect("run scripts/peers first");
    let sources = root.join("tests/peers");
    for driver in ["client.mjs", "client-v1.mjs", "steps.mjs"] {
        let copied = fs::read(installed.join("node").join(driver)).unwrap_or_default();
        let source = fs::read(sources.join("node").join(driver)).unwrap();
        assert!(copied == source, "{driver} changed: run scripts/peers first");
    }
    Peers { installed, sources }
}

impl Peers {
    pub fn node_server(&self, name: &str, args: &[&str]) -> Vec<String> {
        server(&self.installed.join("node/node_modules/.bin").join(name), args)
    }

    pub fn python_server(&self, name: &str, args: &[&str]) -> Vec<String> {
        server(&self.installed.join("python/bin").join(name), args)
    }

    pub fn everything(&self) -> Vec<String> {
        self.node_server("mcp-server-everything", &["stdio"])
    }

    pub fn driver(&self, client: Client) -> Command {
        let (program, script, mode) = match client {
            Client::Rust(mode) => {
                let mut command = Command::new(example("client"));
                command.args(["--mode", mode]);
                return command;
            }
            Client::Ts(mode) => ("node".into(), self.installed.join("node/client.mjs"), mode),
            Client::TsV1 => ("node".into(), self.installed.join("node/client-v1.mjs"), "legacy"),
            Client::Python(mode) => (
                self.installed.join("python/bin/python"),
                self.sources.join("python/client.py"),
                mode,
            ),
        };
        let mut command = Command::new(program);
        command.arg(script).args(["--mode", mode]);
        command
    }
}

pub fn server(program: &Path, args: &[&str]) -> Vec<String> {
    let program = program.to_str().unwrap();
    assert!(Path::new(program).exists(), "{program} is missing: run scripts/peers first");
    [program].iter().chain(args).map(ToString::to_string).collect()
}

/// Runs a driver to its end and reads its report.
pub fn report(mut command: Command) -> Value {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (done, out) = mpsc::channel();
    let mut stdout = child.stdout.take().unwrap();
    thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        done.send(text)
    });
    let mut stderr = child.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let Ok(text) = out.recv_timeout(TEST_TIMEOUT) else {
        child.kill().unwrap();
        panic!("no report after {TEST_TIMEOUT:?}: {command:?}");
    };
    child.wait().unwrap();
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{command:?}\n{}", log.join().unwrap()))
}
