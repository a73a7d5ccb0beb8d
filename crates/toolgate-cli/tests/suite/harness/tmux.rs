//! A tmux server on a private socket, and `toolgate tmux` in front of it.

use std::{
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Session, TEST_TIMEOUT, toolgate};

/// A private tmux server, gone at the end, also after a panic.
pub struct Tmux {
    pub name: String,
}

impl Tmux {
    /// A name on which nobody listens yet.
    pub fn down() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Relaxed);
        Self { name: format!("tg-test-{}-{count}", std::process::id()) }
    }

    /// A server with one session `one`, one pane, a plain shell in it.
    pub fn start() -> Self {
        let tmux = Self::down();
        tmux.boot();
        tmux
    }

    /// Starts the server. One that is just ending may still be in the way.
    pub fn boot(&self) {
        let session = ["new-session", "-d", "-s", "one", "-x", "120", "-y", "40", "bash --norc"];
        self.until("started", |tmux| tmux.output(&session).status.success());
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &self.name, "-f", "/dev/null"]).args(arguments);
        tmux.env_remove("TMUX").env_remove("TMUX_PANE").env("PS1", "$ ").output().unwrap()
    }

    /// What a command prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn format(&self, format: &str) -> String {
        self.run(&["display-message", "-p", format])
    }

    pub fn pid(&self) -> i32 {
        self.format("#{pid}").parse().unwrap()
    }

    pub fn serve(&self, options: &[&str]) -> Session {
        self.serve_in(options, |_| {})
    }

    /// `toolgate tmux` for this server, with something done to the environment first.
    pub fn serve_in(&self, options: &[&str], prepare: impl FnOnce(&mut Command)) -> Session {
        let mut session = self.spawn(options, prepare);
        session.initialize();
        session
    }

    /// The same without a hello: clients of 2026-07-28 say none.
    pub fn serve_silently(&self, options: &[&str]) -> Session {
        self.spawn(options, |_| {})
    }

    /// The same, with something done to the environment first. All tools of the tier `mutating` are listed, unless the
    /// options or a config choose.
    pub fn spawn(&self, options: &[&str], prepare: impl FnOnce(&mut Command)) -> Session {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(toolgate());
        command.arg("tmux").args(options);
        command.arg("--audit").arg(folder.path().join("audit.jsonl"));
        command.env("XDG_STATE_HOME", folder.path().join("state"));
        command.env_remove("TMUX").env_remove("TMUX_PANE").env("LIBTMUX_SOCKET", &self.name);
        let choices = ["--config", "--safety", "--tools", "--toolsets"];
        if !options.iter().any(|option| choices.contains(option)) {
            command.env("LIBTMUX_SAFETY", "mutating");
        }
        prepare(&mut command);
        Session::spawn(command, folder)
    }

    /// Waits until something holds. tmux has no event for what a shell does.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !holds(self) {
            let screen = self.output(&["capture-pane", "-p"]);
            let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
            assert!(Instant::now() < deadline, "not {what}; the screen: {screen}");
        }
    }

    /// tmux stands still while this is held, and goes on also if the test fails meanwhile.
    pub fn hang(&self) -> Hanging {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Hanging(pid)
    }

    /// Whether the server runs.
    pub fn is_up(&self) -> bool {
        self.output(&["list-sessions"]).status.success()
    }

    /// How many control clients there are.
    pub fn clients(&self) -> usize {
        self.run(&["list-clients", "-F", "#{client_name}"]).lines().count()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // tmux 3.3a was seen to stay, now and then, when it is killed while a control client leaves.
        let deadline = Instant::now() + Duration::from_secs(2);
        let clients = || self.output(&["list-clients"]).stdout;
        while !clients().is_empty() && Instant::now() < deadline {}
        let _ = self.output(&["kill-server"]);
    }
}

/// A tmux server that stands still.
pub struct Hanging(rustix::process::Pid);

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

/// `structuredContent` of a call that went well.
pub fn structured(answer: &Value) -> &Value {
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    &answer["result"]["structuredContent"]
}
