//! Tests of the engine with real tmux, on private sockets.

use std::{process::Command as Process, time::Instant};

use proptest::{
    prelude::{ProptestConfig, any},
    strategy::Strategy as _,
    test_runner::TestRunner,
};

use super::*;

/// A private tmux server, which is killed at the end.
struct Private {
    name: String,
    engine: Engine,
}

impl Private {
    fn start(name: &str) -> Self {
        let name = format!("tg-unit-{name}-{}", std::process::id());
        let private = Self { name, engine: Engine::new("tmux", ANSWER_TIMEOUT) };
        private.tmux(&["new-session", "-d", "-x", "120", "-y", "40", "-s", "one", "cat"]);
        private
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        self.output(arguments).trim_end().to_owned()
    }

    fn output(&self, arguments: &[&str]) -> String {
        let mut tmux = Process::new("tmux");
        tmux.args(["-u", "-L", &self.name, "-f", "/dev/null"]).args(arguments);
        let output = tmux.env_remove("TMUX").output().expect("tmux is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn server(&self) -> Arc<Server> {
        self.engine.server(Socket::Name(self.name.clone()))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // tmux 3.3a sometimes stays when it is killed while a control client disconnects.
        let tmux = |command| Process::new("tmux").args(["-L", &self.name, command]).output();
        let deadline = Instant::now() + Duration::from_secs(2);
        let has_clients = || tmux("list-clients").is_ok_and(|output| !output.stdout.is_empty());
        while has_clients() && Instant::now() < deadline {}
        let _ = tmux("kill-server");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn any_text_comes_back_as_it_went() {
    let (private, runtime) = (Private::start("quote"), runtime());
    let server = private.server();
    let fixed = [
        "-a",
        "--",
        "a;",
        "\\;",
        ";",
        "~",
        "$HOME",
        "#(x)",
        "\"'\\",
        "\n\n",
        "é\u{1b}[1m\t\r",
        "%end 1 2 1",
    ];
    let round_trip = |text: &str| {
        let option = Command::new("set-option").flag("-g").end().argument("@x").argument(text);
        let buffer = Command::new("set-buffer").option("-b", "x").end().argument(text);
        let show_option = Command::new("show-options").flag("-gv").argument("@x");
        let batch = Batch::write([option, buffer, show_option]);
        let printed = runtime.block_on(server.run(batch)).unwrap();
        assert_eq!(String::from_utf8_lossy(&printed[2]), text, "an option");
        // By a process: to a control client, `show-buffer` writes backslashes and control characters escaped.
        assert_eq!(private.output(&["show-buffer", "-b", "x"]), text, "a buffer");
    };
    for text in fixed {
        round_trip(text);
    }
    let texts = any::<String>()
        .prop_filter("none is no buffer", |text| !text.contains('\0') && !text.is_empty());
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() };
    let run = TestRunner::new(config).run(&texts, |text| {
        round_trip(&text);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_nul_is_refused() {
    let (private, runtime) = (Private::start("nul"), runtime());
    let command = Command::new("set-buffer").end().argument("a\0b");
    assert_eq!(runtime.block_on(private.server().run(command)), Err(TmuxError::Nul));
}

#[test]
fn a_list_that_fails_says_why_and_the_next_is_answered() {
    let (private, runtime) = (Private::start("fails"), runtime());
    let server = private.server();
    let rename = Command::new("rename-window").target("@0").end().argument("first");
    let wrong = Command::new("list-windows").target("$99");
    let failed = runtime.block_on(server.run(Batch::write([rename.clone(), wrong, rename])));
    assert!(failed.as_ref().is_err_and(|error| error.says("can't find session")), "{failed:?}");
    let windows =
        runtime.block_on(server.list(ListTarget::Windows(None), &["window_id", "window_name"]));
    assert_eq!(windows.unwrap()[0].get("window_name"), Some("first"));
}

#[test]
fn our_clients_are_not_counted_and_change_no_size() {
    let (private, runtime) = (Private::start("count"), runtime());
    let server = private.server();
    let fields = &["session_id", "session_attached", "window_width", "window_height"];
    runtime.block_on(async {
        let _watch = server.watch("$0", "%0").await.unwrap();
        let rows = server.list(ListTarget::Sessions, fields).await.unwrap();
        assert_eq!(rows[0].get("session_attached"), Some("0"));
        assert_eq!(rows[0].get("window_width"), Some("120"));
        assert_eq!(rows[0].get("window_height"), Some("40"));
        assert_eq!(private.tmux(&["list-clients", "-F", "#{client_control_mode}"]), "1\n1");
    });
}

#[test]
fn linked_windows_are_listed_once_whatever_their_names_hold() {
    let (private, runtime) = (Private::start("links"), runtime());
    private.tmux(&["new-session", "-d", "-s", "two", "cat"]);
    private.tmux(&["link-window", "-s", "one:0", "-t", "two:5"]);
    private.tmux(&["rename-window", "-t", "@0", "a | b ## %end 1 2 1"]);
    let fields = &["window_id", "window_name", "session_id"];
    let rows = runtime.block_on(private.server().list(ListTarget::Windows(None), fields)).unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.text("window_id")).collect();
    assert_eq!(ids, ["@0", "@1"]);
    assert_eq!(rows[0].get("window_name"), Some("a | b # %end 1 2 1"));
    let panes =
        runtime.block_on(private.server().list(ListTarget::Panes(None), &["pane_id"])).unwrap();
    assert_eq!(panes.len(), 2);
}

#[test]
fn a_watcher_wakes_with_the_bytes_and_hears_of_the_end() {
    let (private, runtime) = (Private::start("watch"), runtime());
    let server = private.server();
    runtime.block_on(async {
        let mut watch = server.watch("$0", "%0").await.unwrap();
        let keys = Command::new("send-keys").target("%0").flag("-l").end().argument("woken");
        server.run(keys).await.unwrap();
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).contains("woken") {
            match watch.next().await {
                Wake::Output(bytes) => heard.extend_from_slice(&bytes),
                other => assert_eq!(other, Wake::Changed),
            }
        }
        private.tmux(&["kill-server"]);
        while watch.next().await != Wake::Gone {}
    });
}

#[test]
fn without_a_server_there_is_an_error_and_a_new_one_is_found() {
    let (private, runtime) = (Private::start("again"), runtime());
    let server = private.server();
    let first = runtime.block_on(server.identity()).unwrap().unwrap();
    private.tmux(&["kill-server"]);
    let list = || runtime.block_on(server.list(ListTarget::Sessions, &["session_name"]));
    assert_eq!(list(), Err(TmuxError::NoServer));
    private.tmux(&["new-session", "-d", "-s", "second", "cat"]);
    assert_eq!(list().unwrap()[0].get("session_name"), Some("second"));
    let second = runtime.block_on(server.identity()).unwrap().unwrap();
    assert_ne!(first.pid, second.pid);
}

#[test]
fn clients_that_come_and_go_while_a_pane_floods_them_let_tmux_live_and_end() {
    let private = Private::start("crowd");
    private.tmux(&["respawn-pane", "-k", "-t", "%0", "yes"]);
    let pid: u32 = private.tmux(&["display-message", "-p", "#{pid}"]).parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for round in 0..50 {
            // Another engine each time, so that none uses a client that is open already.
            let engine = Engine::new("tmux", ANSWER_TIMEOUT);
            let server = engine.server(Socket::Name(private.name.clone()));
            let mut watch = server.watch("$0", "%0").await.unwrap();
            if round % 2 == 0 {
                assert_ne!(watch.next().await, Wake::Gone, "round {round}");
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    while !private.tmux(&["list-clients"]).is_empty() {
        assert!(Instant::now() < deadline, "clients stay");
    }
    let last = runtime.block_on(private.server().watch("$0", "%0"));
    private.tmux(&["kill-server"]);
    drop(last);
    let alive = || std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok();
    while alive() {
        assert!(Instant::now() < deadline, "tmux stays");
        std::thread::yield_now();
    }
    let left = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let lines =
            processes.filter_map(|one| std::fs::read_to_string(one.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(&private.name)).count()
    };
    while left() > 0 {
        assert!(Instant::now() < deadline, "{} clients stay", left());
        std::thread::yield_now();
    }
}
