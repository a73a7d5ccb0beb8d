//! A running `toolgate serve`: started on a free port, with all that it keeps in a folder of its own.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{
    TEST_TIMEOUT, assert_gone,
    clients::{Legacy, Modern, either::Either},
    fixture,
    http::{self, Answer},
    outcomes, toolgate,
};

/// The lines of stderr, and whether there will be more.
#[derive(Default)]
struct StderrLines {
    lines: Vec<String>,
    ended: bool,
}

/// A folder with a config, in which a gateway can be started, and started again.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// The audit goes to `audit.jsonl` beside the config.
    pub fn new(config: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.configure(config);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As editors do: a new file is moved over the old one.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("new"), text).unwrap();
        std::fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    pub fn configure(&self, config: &str) {
        self.write("toolgate.toml", &format!("audit = {{ file = \"audit.jsonl\" }}\n{config}"));
    }

    /// The command that serves it, not yet run.
    pub fn command(&self) -> Command {
        let mut command = Command::new(toolgate());
        command
            .arg("serve")
            .arg(self.path("toolgate.toml"))
            .args(["--listen", "127.0.0.1:0"])
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TOOLGATE_LOG", "info")
            .current_dir(self.folder.path());
        command
    }

    /// Runs it without waiting for anything: for configs that are refused.
    pub fn refused(&self) -> (ExitStatus, String) {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let told = collect(child.stderr.take().unwrap());
        let status = wait(&mut child, &told);
        (status, told.0.lock().unwrap().lines.join("\n"))
    }

    pub fn start(self) -> Gateway {
        let command = self.command();
        self.start_as(command)
    }

    /// Runs a command that becomes the gateway, and waits until it listens.
    pub fn start_as(self, mut command: Command) -> Gateway {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let told = collect(child.stderr.take().unwrap());
        let mut gateway = Gateway {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            place: Some(self),
            told,
        };
        let line = gateway.wait_for_stderr("listening on http://");
        let address = line.split("listening on http://").nth(1).and_then(|a| a.split('/').next());
        gateway.address = address.and_then(|a| a.parse().ok()).expect("an address");
        gateway
    }
}

type Listener = Arc<(Mutex<StderrLines>, Condvar)>;

fn collect(pipe: impl std::io::Read + Send + 'static) -> Listener {
    let told = Listener::default();
    let kept = Arc::clone(&told);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            kept.0.lock().unwrap().lines.push(line);
            kept.1.notify_all();
        }
        kept.0.lock().unwrap().ended = true;
        kept.1.notify_all();
    });
    told
}

fn wait(child: &mut Child, told: &Listener) -> ExitStatus {
    until_or(
        || child.try_wait().unwrap().is_some(),
        || format!("toolgate ends; stderr: {:#?}", told.0.lock().unwrap().lines),
    );
    // What it said last may still be in the pipe.
    let told = told.1.wait_timeout_while(told.0.lock().unwrap(), TEST_TIMEOUT, |t| !t.ended);
    drop(told.unwrap());
    child.wait().unwrap()
}

/// A gateway that listens.
pub struct Gateway {
    pub child: Child,
    pub address: SocketAddr,
    place: Option<Place>,
    told: Listener,
}

impl Gateway {
    /// Starts one with this config.
    pub fn start(config: &str) -> Self {
        Place::new(config).start()
    }

    pub fn place(&self) -> &Place {
        self.place.as_ref().expect("the folder was taken")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place().path(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A client of 2025-11-25 of the namespace `default`, after its hello.
    pub fn legacy(&self) -> Legacy {
        Legacy::new(self.address, "/mcp").connected()
    }

    /// A client of 2026-07-28 of the namespace `default`.
    pub fn modern(&self) -> Modern {
        Modern::new(self.address, "/mcp")
    }

    /// One client of each era.
    pub fn both(&self) -> [Either; 2] {
        [Either::Legacy(self.legacy()), Either::Modern(self.modern())]
    }

    /// Waits until these tools are listed, in any order: servers may still be starting.
    pub fn settled(&self, count: usize) {
        let client = self.modern();
        until_or(
            // A list that fails is an error: the server may still be coming up.
            || {
                let answer = client.request("tools/list", serde_json::json!({}));
                answer.get("error").is_none() && client.tools().len() == count
            },
            || format!("{count} tools are listed; there are {:?}", client.tools()),
        );
    }

    /// One exchange on a connection of its own.
    pub fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        http::exchange(self.address, method, path, headers, body.as_bytes())
    }

    pub fn stderr(&self) -> Vec<String> {
        self.told.0.lock().unwrap().lines.clone()
    }

    /// Waits for a line on stderr that contains the text, from the beginning of its life.
    pub fn wait_for_stderr(&self, text: &str) -> String {
        self.wait_for_stderr_times(text, 1)
    }

    /// Waits for the n-th such line.
    pub fn wait_for_stderr_times(&self, text: &str, times: usize) -> String {
        let found = |told: &StderrLines| {
            told.lines.iter().filter(|line| line.contains(text)).nth(times - 1).cloned()
        };
        let waited =
            self.told.1.wait_timeout_while(self.told.0.lock().unwrap(), TEST_TIMEOUT, |told| {
                found(told).is_none() && !told.ended
            });
        let line = found(&waited.unwrap().0);
        line.unwrap_or_else(|| panic!("no {text:?} on stderr; there was {:#?}", self.stderr()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// As `toolgate reload` does: the config is applied also where it widens access.
    pub fn reload(&self) {
        self.signal(Signal::USR1);
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Ends it without asking; gives what it had started.
    pub fn kill(&mut self) -> Vec<u32> {
        let family = self.descendants();
        self.child.kill().unwrap();
        self.wait();
        family
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child, &self.told)
    }

    /// Ends it, and gives the folder for the next one.
    pub fn into_place(mut self) -> Place {
        if self.child.try_wait().unwrap().is_none() {
            self.terminate();
        }
        self.place.take().expect("the folder was taken")
    }

    /// Every process that it started, and those that they started.
    pub fn descendants(&self) -> Vec<u32> {
        descendants(self.pid())
    }

    /// The processes among them that run the fixture.
    pub fn fixtures(&self) -> Vec<u32> {
        let fixture = fixture();
        let runs = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == fixture)
        };
        self.descendants().into_iter().filter(runs).collect()
    }

    /// Waits until it has so many processes of the fixture.
    pub fn wait_for_fixtures(&self, wanted: impl Fn(usize) -> bool, what: &str) {
        until(&format!("{what} ({} now)", self.fixtures().len()), || wanted(self.fixtures().len()));
    }

    /// The memory that it holds now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }

    /// How many files, sockets and pipes it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// The records of how calls ended.
    pub fn audit(&self) -> Vec<Value> {
        outcomes(&std::fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        if let (Ok(Some(status)), true) = (&ended, std::thread::panicking()) {
            eprintln!("the gateway had ended: {status}");
        }
        if ended.is_ok_and(|ended| ended.is_none()) {
            let family = self.descendants();
            let _ = self.child.kill();
            let _ = self.child.wait();
            if !std::thread::panicking() {
                family.into_iter().for_each(assert_gone);
            }
        }
        if std::thread::panicking() {
            let told = self.stderr();
            let last = told.len().saturating_sub(40);
            eprintln!("the gateway said at last: {:#?}", &told[last..]);
        }
    }
}

/// Ends a process without asking, if it is still there.
pub fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Every living process below this one.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = std::fs::read_dir(Path::new("/proc"))
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| stat(pid).filter(|(state, _)| *state != 'Z').map(|(_, p)| (pid, p)))
        .collect();
    let mut family = vec![ancestor];
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(processes.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family.remove(0);
    family
}

/// The memory that a process holds now, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// The table of a server that is the fixture, over its pipes.
pub fn stdio(name: &str, options: &[&str], more: &str) -> String {
    let program = fixture().display().to_string();
    format!("[servers.{name}]\ncommand = {program:?}\nargs = {options:?}\n{more}\n")
}

/// Waits, bounded, for something that no event tells of.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_or(holds, || what.to_owned());
}

/// The same, with the reason made when it fails.
pub fn until_or(mut holds: impl FnMut() -> bool, what: impl Fn() -> String) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {TEST_TIMEOUT:?}: {}", what());
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
