//! The settings of a gateway: changed while it runs, refused with the right word, and told by the program itself.

use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    Session,
    clients::{Legacy, Modern, Pending, either::Either},
    gateway::{Gateway, Place, stdio, until, until_or},
    governed::code,
    text, toolgate,
    upstream::Upstream,
};

const CHANGED: &str = "the config has changed; calls from here on are governed by it";
const REFUSED: &str = "the changed config is refused, the old one stays in force";

/// Clients of both eras, each with a stream of what changes.
fn listening(gateway: &Gateway) -> Vec<(Either, Pending)> {
    let listens = |client: Either| {
        let stream = client.listen(&[]);
        (client, stream)
    };
    gateway.both().into_iter().map(listens).collect()
}

/// What is listed is what can be called, and the other way round.
fn agree(client: &Either, tool: &str, refusal: &str) {
    let listed = client.tools().contains(&tool.to_owned());
    let told = code(&client.call(tool, json!({"key": "agree"}))).to_owned();
    let expected = if listed { "" } else { refusal };
    assert_eq!(told, expected, "{tool} is listed: {listed}, {}", client.era());
}

#[test]
fn a_changed_chain_governs_from_then_on_and_clients_hear_of_it() {
    let server = Upstream::legacy("alpha");
    let config = |more: &str| format!("{}{more}", server.table(""));
    let gateway = Gateway::start(&config(""));
    gateway.settled(14);
    let mut clients = listening(&gateway);
    let steps = [
        ("[namespaces.default]\nsafety = \"readonly\"\n", 9, "TIER_DENIED"),
        ("[namespaces.default]\nsafety = \"destructive\"\n", 14, ""),
        (
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"alpha/e*\"]\n",
            2,
            "POLICY_DENIED",
        ),
        (
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"alpha/*\"]\ndeny = [\"alpha/write\"]\n",
            13,
            "POLICY_DENIED",
        ),
        (
            "[namespaces.default.tools.\"alpha/write\"]\nstatus = \"inactive\"\n",
            13,
            "TOOL_INACTIVE",
        ),
        ("[namespaces.default.tools.\"alpha/write\"]\nstatus = \"active\"\n", 14, ""),
    ];
    for (times, (more, count, refusal)) in steps.into_iter().enumerate() {
        gateway.place().configure(&config(more));
        gateway.reload();
        gateway.wait_for_stderr_times(CHANGED, times + 1);
        for (client, stream) in &mut clients {
            stream.method("notifications/tools/list_changed");
            assert_eq!(client.tools().len(), count, "{more}, {}", client.era());
            agree(client, "write", refusal);
            agree(client, "echo", "");
        }
    }
    // A new name is another tool for clients, and the old one is none.
    gateway
        .place()
        .configure(&config("[namespaces.default.tools.\"alpha/write\"]\nname = \"store\"\n"));
    gateway.reload();
    gateway.wait_for_stderr_times(CHANGED, 7);
    for (client, stream) in &mut clients {
        stream.method("notifications/tools/list_changed");
        assert!(client.tools().contains(&"store".to_owned()));
        assert_eq!(code(&client.call("store", json!({"key": "k"}))), "");
        agree(client, "write", "UNKNOWN_TOOL");
    }
    assert!(
        server.executions("write", "k") == 2 && server.sessions() == 1,
        "the server noticed nothing"
    );
}

#[test]
fn calls_under_way_end_as_they_began() {
    let server = Upstream::modern("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let mut pending: Vec<Pending> =
        gateway.both().iter().map(|c| c.open_call("slow", json!({"key": c.era()}))).collect();
    server.wait_for_call("legacy client");
    server.wait_for_call("modern client");
    let stricter = format!(
        "{}[namespaces.default.tools.\"alpha/slow\"]\nstatus = \"inactive\"\n",
        server.table("")
    );
    gateway.place().configure(&stricter);
    gateway.wait_for_stderr(CHANGED);
    for client in gateway.both() {
        assert_eq!(code(&client.call("slow", json!({}))), "TOOL_INACTIVE");
        server.release(client.era());
    }
    for call in &mut pending {
        assert!(text(&call.answer()).starts_with("alpha:slow:"));
    }
}

#[test]
fn each_namespace_changes_for_itself() {
    let server = Upstream::legacy("alpha");
    let config = |dev: &str| {
        format!("{}[namespaces.default]\n[namespaces.dev]\nsafety = {dev:?}\n", server.table(""))
    };
    let gateway = Gateway::start(&config("readonly"));
    gateway.settled(14);
    let dev = Legacy::new(gateway.address, "/mcp/dev").connected();
    assert_eq!(dev.tools().len(), 9);
    let mut stream = dev.listen();
    gateway.place().configure(&config("destructive"));
    gateway.reload();
    stream.method("notifications/tools/list_changed");
    assert_eq!(dev.tools().len(), 14);
    gateway.settled(14);
}

#[test]
fn a_change_that_is_wrong_is_refused_whole() {
    let server = Upstream::legacy("alpha");
    let good = format!(
        "{}[namespaces.default]\nsafety = \"readonly\"\n[namespaces.dev]\n",
        server.table("")
    );
    let gateway = Gateway::start(&good);
    gateway.settled(9);
    let wrong = [
        ("[namespaces.default]\nsafety = \"everything\"\n".to_owned(), "everything"),
        ("this is no toml".to_owned(), "line"),
        (
            good.replace("[namespaces.dev]", "[namespaces.dev]\nsafty = \"readonly\""),
            "did you mean `safety`?",
        ),
        // One namespace is right and stricter, the other is not: neither changes.
        (
            format!(
                "{}[namespaces.default]\nsafety = \"destructive\"\n[namespaces.dev]\npolicy = \"none\"\n",
                server.table("")
            ),
            "`none`",
        ),
        (good.replace("[namespaces.dev]", "[namespaces.dev]\nnew_tools = \"quarantine\""), "store"),
        (format!("{good}[servers.broken]\n"), "broken"),
    ];
    for (times, (config, part)) in wrong.into_iter().enumerate() {
        gateway.place().configure(&config);
        let told = gateway.wait_for_stderr_times(REFUSED, times + 1);
        // A message of several lines goes on after it.
        let rest = || {
            let all = gateway.stderr();
            let at = all.iter().rposition(|line| *line == told).unwrap();
            all[at..].join("\n")
        };
        until_or(|| rest().contains(part), || format!("{part}: {}", rest()));
        for client in gateway.both() {
            assert_eq!(client.tools().len(), 9, "{config}");
            agree(&client, "write", "TIER_DENIED");
        }
    }
    std::fs::remove_file(gateway.path("toolgate.toml")).unwrap();
    gateway.signal(Signal::HUP);
    gateway.wait_for_stderr_times(REFUSED, 7);
    gateway.settled(9);
    gateway.place().configure(&good.replace("readonly", "destructive"));
    gateway.reload();
    gateway.wait_for_stderr(CHANGED);
    gateway.settled(14);
}

#[test]
fn what_cannot_change_while_it_runs_is_told() {
    let server = Upstream::legacy("alpha");
    let config = |more: &str| format!("{}{more}", server.table(""));
    let gateway = Gateway::start(&config("[namespaces.default]\n[namespaces.dev]\n"));
    gateway.settled(14);
    for (config, part) in [
        (
            config(&format!("[namespaces.default]\n[namespaces.dev]\n{}", stdio("new", &[], ""))),
            "`[servers]`",
        ),
        (
            server.table("start_timeout = \"9s\"") + "[namespaces.default]\n[namespaces.dev]\n",
            "`[servers]`",
        ),
        (
            config(
                "[namespaces.default]\n[namespaces.dev]\n[serve]\ntokens = { ci = \"a-token-that-is-long\" }\n",
            ),
            "`[serve]`",
        ),
        (config(""), "namespace that was added or removed"),
        (config("[namespaces.default]\n[namespaces.dev]\nservers = []\n"), "list of servers"),
        (config("[namespaces.default]\n[namespaces.dev]\nprefix = \"always\"\n"), "`prefix`"),
        (config("[namespaces.default]\n[namespaces.dev]\npage_size = 3\n"), "`page_size`"),
    ] {
        let before = gateway
            .stderr()
            .iter()
            .filter(|line| line.contains("takes effect after a restart"))
            .count();
        gateway.place().configure(&config);
        let told = gateway.wait_for_stderr_times("takes effect after a restart", before + 1);
        assert!(told.contains(part), "{part}: {told}");
        assert_eq!(gateway.modern().tools().len(), 14, "{config}");
        assert_eq!(Modern::new(gateway.address, "/mcp/dev").tools().len(), 14);
    }
    // It is heeded then, and whatever can change has changed at once.
    gateway
        .place()
        .configure(&config("[namespaces.default]\nsafety = \"readonly\"\n[namespaces.late]\n"));
    gateway.wait_for_stderr(CHANGED);
    until_or(|| gateway.modern().tools().len() == 9, || format!("{:?}", gateway.modern().tools()));
    let gateway = gateway.into_place().start();
    until("the new namespace", || Modern::new(gateway.address, "/mcp/late").tools().len() == 14);
}

/// Settings that allow everything, and the same narrowed: applied without the operator.
const OPEN: &str = "[namespaces.default]\nsafety = \"destructive\"\n";
const NARROWED: &str = "[namespaces.default]\nsafety = \"readonly\"\n";

#[test]
fn a_change_in_the_instant_in_which_the_gateway_listens_is_not_missed() {
    for time in 0..15 {
        let gateway = Gateway::start(OPEN);
        gateway.place().configure(NARROWED);
        let line = gateway.wait_for_stderr(CHANGED);
        assert!(!line.is_empty(), "time {time}");
    }
}

/// `stdio` and `wrap` do not say when they are ready: the file changes at many instants of their start. Whether it was
/// read before or after the change, the call is judged by the new one in the end.
#[test]
fn a_change_while_a_gateway_for_one_client_starts_is_not_missed() {
    let server = stdio("alpha", &[], "");
    for command in ["wrap", "stdio"] {
        for time in 0..12 {
            let place = Place::new(&format!("{server}{OPEN}"));
            let mut start = Command::new(toolgate());
            start
                .args([command, "--config"])
                .arg(place.path("toolgate.toml"))
                .env("XDG_STATE_HOME", place.path("state"));
            let mut session = Session::spawn(start, tempfile::tempdir().unwrap());
            let narrow = || place.configure(&format!("{server}{NARROWED}"));
            match time % 3 {
                0 => narrow(),
                // The reading of the settings and the start of the server are under way.
                1 => {
                    until("the process watches", || inotify(session.child.id()));
                    narrow();
                }
                _ => {}
            }
            session.initialize();
            if time % 3 == 2 {
                narrow();
            }
            let mut call = || code(&session.call("spawn", json!({}))).to_owned();
            until(&format!("{command} narrows, time {time}"), || call() == "TIER_DENIED");
        }
    }
}

/// Runs a command of one client with the config of a place.
fn one_client(place: &Place, arguments: &[&str]) -> Session {
    let mut start = Command::new(toolgate());
    start
        .args(arguments)
        .arg("--config")
        .arg(place.path("toolgate.toml"))
        .env("XDG_STATE_HOME", place.path("state"));
    Session::spawn(start, tempfile::tempdir().unwrap())
}

/// [issue 13] `chain = "mcp-core"` with an audit file was refused by `serve`. What the file does not say of its audit is
/// as the preset has it, in every command, at the top of the file and in a namespace.
#[test]
fn every_preset_works_with_an_audit_file_in_every_command() {
    let server = stdio("alpha", &[], "");
    for chain in ["libtmux", "metamcp", "mcp-core"] {
        for table in ["", "[namespaces.default.audit]\nfile = \"own.jsonl\"\n"] {
            let config = format!("{server}[namespaces.default]\nchain = {chain:?}\n{table}");
            let place = Place::new(&config);
            for command in ["wrap", "stdio", "tmux"] {
                let mut session = one_client(&place, &[command]);
                let answer = session.initialize();
                assert!(answer["result"]["serverInfo"].is_object(), "{command} {chain}: {answer}");
                session.request("tools/list", json!({}));
                session.close_stdin();
                session.finish();
            }
            let checked = run(&[
                "check",
                "--offline",
                "--config",
                &place.path("toolgate.toml").display().to_string(),
            ]);
            assert_eq!(
                checked.status.code(),
                Some(0),
                "{chain}: {}",
                String::from_utf8_lossy(&checked.stderr)
            );
            let gateway = place.start();
            until("its tools", || !gateway.modern().tools().is_empty());
            gateway.modern().call("echo", json!({"text": "x"}));
            let file = if table.is_empty() { "audit.jsonl" } else { "own.jsonl" };
            assert!(gateway.path(file).exists(), "{chain} writes {file}");
        }
    }
    // The same by the command line.
    let place = Place::new(&server);
    let mut session = one_client(&place, &["wrap", "--chain", "mcp-core"]);
    assert!(session.initialize()["result"].is_object());
}

/// [review B8] The limit of the first namespace held for all of them.
#[test]
fn each_namespace_holds_its_own_limit_of_messages() {
    let server = Upstream::legacy("alpha");
    let place = Place::new(&format!(
        "{}[namespaces.a-small]\nlimits = {{ message_bytes = 4_000 }}\n\
         [namespaces.b-large]\nlimits = {{ message_bytes = 40_000 }}\n",
        server.table("")
    ));
    let long = "x".repeat(10_000);
    for (namespace, is_taken) in [("a-small", false), ("b-large", true)] {
        let mut session = one_client(&place, &["stdio", "--namespace", namespace]);
        session.initialize();
        let answer = session.call("echo", json!({"text": long}));
        assert_eq!(answer["error"].is_null(), is_taken, "stdio {namespace}: {answer}");
    }
    let gateway = place.start();
    for (namespace, is_taken) in [("a-small", false), ("b-large", true)] {
        let path = format!("/mcp/{namespace}");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"x": long},
            "clientInfo": {"name": "c", "version": "1"}}});
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let answer = gateway.exchange("POST", &path, &headers, &body.to_string());
        assert_eq!(answer.status == 200, is_taken, "{namespace}: {}", answer.status);
        assert!(is_taken || answer.status == 413, "{namespace}: {}", answer.status);
    }
}

/// Whether a process has begun to watch files.
fn inotify(pid: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("inotify"))
}

/// Ways in which editors, tools and mounts change a file.
#[test]
fn a_file_is_followed_however_it_is_replaced() {
    use std::os::unix::fs::symlink;
    let place = Place::new(OPEN);
    let at = |name: &str| place.path(name);
    let text = |safety: &str| {
        format!("audit = {{ file = \"off\" }}\n[namespaces.default]\nsafety = {safety:?}\n")
    };
    for version in ["v1", "v2"] {
        std::fs::create_dir(at(version)).unwrap();
    }
    std::fs::remove_file(at("toolgate.toml")).unwrap();
    std::fs::write(at("v1/toolgate.toml"), text("destructive")).unwrap();
    std::fs::write(at("v2/toolgate.toml"), text("mutating")).unwrap();
    symlink("v1", at("current")).unwrap();
    symlink("current/toolgate.toml", at("toolgate.toml")).unwrap();
    let gateway = place.start();
    let at = |name: &str| gateway.path(name);
    // As a mounted config map: a link on the way leads to another folder.
    symlink("v2", at("next")).unwrap();
    std::fs::rename(at("next"), at("current")).unwrap();
    gateway.wait_for_stderr_times(CHANGED, 1);
    // Written in that folder.
    std::fs::write(at("v2/toolgate.toml"), text("readonly")).unwrap();
    gateway.wait_for_stderr_times(CHANGED, 2);
    // Removed: what is in force stays.
    std::fs::remove_file(at("toolgate.toml")).unwrap();
    gateway.wait_for_stderr(REFUSED);
    // Back as a file, narrower than before.
    let narrower = text("readonly") + "policy = \"none\"\n[policies.none]\nallow = []\n";
    std::fs::write(at("toolgate.toml"), narrower).unwrap();
    gateway.wait_for_stderr_times(CHANGED, 3);
}

#[test]
fn unknown_keys_and_values_are_refused_with_the_nearest_word() {
    for (config, parts) in [
        ("[serve]\nlisen = \"127.0.0.1:1\"\n", &["line 3", "did you mean `listen`?"][..]),
        ("[serve]\ntoken = { a = \"b\" }\n", &["did you mean `tokens`?"]),
        ("[serve]\nsession_idel = \"1m\"\n", &["did you mean `session_idle`?"]),
        ("[serve]\nlisten = \"gateway\"\n", &["`gateway` is no address", "127.0.0.1:8642"]),
        ("[serve]\nlisten = []\n", &["`serve.listen` is empty"]),
        ("[serve]\nsessions = 0\n", &["at least 1"]),
        ("[serve]\nsession_idle = \"soon\"\n", &["`soon`"]),
        ("[serve]\ntokens = { ci = \"short\" }\n", &["`ci`", "16"]),
        ("[serve]\nhosts = [\"http://a b\"]\n", &["http://a b"]),
        ("[serve]\norigins = [\"not an origin\"]\n", &["not an origin"]),
        ("[servers.x]\ncommand = \"x\"\nstrat = \"on-demand\"\n", &["did you mean `start`?"]),
        ("[servers.x]\ncommand = \"x\"\nstart = \"on_demand\"\n", &["on-demand"]),
        ("[servers.x]\ncommand = \"x\"\nsharing = \"sessions\"\n", &["session"]),
        ("[servers.x]\ncommand = \"x\"\nidle_stopp = \"1m\"\n", &["did you mean `idle_stop`?"]),
        ("[servers.x]\ncommand = \"x\"\nprotocol = \"modrn\"\n", &["modern"]),
        ("[servers.x]\nurl = \"http://x\"\ntransport = \"stdio\"\n", &["sse"]),
        ("[servers.x]\nurl = \"http://x\"\nargs = [\"a\"]\n", &["server `x`", "`args`"]),
        ("[servers.x]\ncommand = \"x\"\nheaders = { A = \"b\" }\n", &["server `x`", "`headers`"]),
        ("[namespaces.default]\nprefix = \"on_collision\"\n", &["on-collision"]),
        ("[namespaces.default]\npagesize = 5\n", &["did you mean `page_size`?"]),
        ("[namespaces.default]\nservers = [\"nope\"]\n", &["unknown server `nope`"]),
    ] {
        let (status, told) = Place::new(config).refused();
        assert_eq!(status.code(), Some(2), "{config}: {told}");
        for part in parts {
            assert!(told.contains(part), "{config} gave {told}");
        }
        assert!(
            !told.contains("panicked") && !told.contains("listening on"),
            "{config} gave {told}"
        );
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(toolgate()).args(arguments).env("HOME", "/nowhere").output().unwrap()
}

fn told(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_key_stands_in_the_reference_and_in_the_schema() {
    let (reference, schema) = (told(&["config", "reference"]), told(&["config", "schema"]));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let properties = |name: &str| {
        let found = schema["$defs"][name]["properties"].as_object();
        found
            .unwrap_or_else(|| panic!("no {name} in the schema"))
            .keys()
            .cloned()
            .collect::<Vec<String>>()
    };
    let serve = [
        "listen",
        "hosts",
        "origins",
        "tokens",
        "connections",
        "sessions",
        "session_idle",
        "threads",
    ];
    let server =
        ["start", "sharing", "idle_stop", "start_timeout", "protocol", "transport", "prefix"];
    for (table, keys) in [
        ("ServeConfig", &serve[..]),
        ("ServerConfig", &server),
        ("Namespace", &["servers", "prefix", "page_size"]),
    ] {
        let known = properties(table);
        for key in keys {
            assert!(known.contains(&(*key).to_owned()), "{table}.{key}: {known:?}");
            assert!(reference.contains(&format!("`{key}`")), "{key} is missing in the reference");
        }
        // The tables of layers have sections of their own.
        for key in known.iter().filter(|_| table != "Namespace") {
            assert!(reference.contains(&format!("`{key}`")), "{key} is missing in the reference");
        }
    }
    for value in [
        "at-once",
        "on-demand",
        "shared",
        "session",
        "always",
        "on-collision",
        "never",
        "127.0.0.1:8642",
    ] {
        assert!(reference.contains(value), "{value} is missing in the reference");
    }
}

#[test]
fn help_says_how_to_serve_and_completions_know_it() {
    let help = told(&["serve", "--help"]);
    for part in [
        "--listen",
        "--config",
        "--safety",
        "--audit",
        "127.0.0.1:8642",
        "/mcp/NAMESPACE",
        "/sse",
        "mcpServers",
        "Examples:",
    ] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
    assert!(
        !help.contains("--server ") && !help.contains("--namespace"),
        "they mean nothing here:\n{help}"
    );
    // Examples stand on one line each.
    let after = help.split("Examples:").nth(1).unwrap();
    assert!(after.lines().all(|line| !line.trim_start().starts_with("http")), "{help}");
    let stdio = told(&["stdio", "--help"]);
    for part in ["--to", "--token-env", "--namespace", "--config", "mcpServers"] {
        assert!(stdio.contains(part), "{part} is missing:\n{stdio}");
    }
    let all = told(&["--help"]);
    assert!(all.contains("  serve ") && all.contains("  stdio "), "{all}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = told(&["completions", shell]);
        assert!(
            script.contains("serve") && script.contains("stdio") && script.contains("token-env"),
            "{shell}"
        );
    }
    for (arguments, part) in [
        (&["serve", "--listen", "nowhere"][..], "is no address"),
        (&["serve", "--server", "x"], "`--server`"),
        (&["serve", "a.toml", "--config", "b.toml"], "cannot be used with"),
        (&["stdio", "--token-env", "X"], "--to"),
        (&["serv"], "serve"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(part), "{arguments:?} gave {told}");
    }
}
