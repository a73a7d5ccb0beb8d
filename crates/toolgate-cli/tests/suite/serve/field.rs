//! Servers of others as they were found in the field: slow ones, silent ones, ones that do more than they announce, and what
//! their clients get directly they get through the gateway.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{
    assert_gone,
    clients::{LOG_LEVEL_KEY, Legacy, Modern, either::Either},
    fixture,
    gateway::{Gateway, Place, kill, stdio, until_or},
    text, toolgate,
    upstream::{Era, Fault, Upstream},
};

/// What each process of a server was asked, in its order.
fn seen(file: &Path) -> Vec<Vec<String>> {
    let mut processes: Vec<(String, Vec<String>)> = Vec::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let (pid, said) = line.split_once(' ').unwrap();
        match processes.iter_mut().find(|(known, _)| known == pid) {
            Some((_, all)) => all.push(said.trim().to_owned()),
            None => processes.push((pid.to_owned(), vec![said.trim().to_owned()])),
        }
    }
    processes.into_iter().map(|(_, said)| said).collect()
}

/// Starts a gateway before the fixture, and waits until it lists its tools.
fn started(place: Place, count: usize) -> Gateway {
    let gateway = place.start();
    let client = gateway.modern();
    let deadline = Instant::now() + Duration::from_secs(45);
    while client.tools().len() != count {
        assert!(Instant::now() < deadline, "no tools: {:#?}", gateway.stderr());
        std::thread::park_timeout(Duration::from_millis(20));
    }
    gateway
}

#[test]
fn a_server_that_takes_its_time_for_discover_comes_up_in_its_own_era() {
    for after in ["4000", "8000"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        let options =
            ["--modern-only", "--discover-after", after, "--seen", file.to_str().unwrap()];
        let gateway = started(Place::new(&stdio("slow", &options, "")), 14);
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "x"}))), "x");
        let all = seen(&file);
        assert!(all.iter().all(|one| !one.contains(&"initialize".to_owned())), "{all:?}");
        // The manifest says what it speaks: the same again.
        let gateway = gateway.into_place().start();
        assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "y"}))), "y");
        let all = seen(&file);
        assert!(all.iter().all(|one| !one.contains(&"initialize".to_owned())), "{all:?}");
        assert!(
            all.iter().all(|one| !one.contains(&"notifications/cancelled".to_owned())),
            "{all:?}"
        );
    }
}

#[test]
fn a_server_that_never_answers_discover_gets_initialize_on_a_pipe_of_its_own_and_that_is_remembered()
 {
    for option in ["--ignore-unknown", "--die-of-unknown"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        let options = ["--legacy-only", option, "--seen", file.to_str().unwrap()];
        let gateway = started(Place::new(&stdio("old", &options, "")), 14);
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "x"}))), "x");
        let all = seen(&file);
        assert_eq!(all.len(), 2, "{option}: {all:?}");
        assert_eq!(all.first().unwrap().first().unwrap(), "server/discover", "{option}: {all:?}");
        assert_eq!(all.get(1).unwrap().first().unwrap(), "initialize", "{option}: {all:?}");
        for one in &all {
            let both = ["server/discover", "initialize"].iter().all(|m| one.iter().any(|s| s == m));
            assert!(!both, "{option}: {all:?}");
        }
        let gateway = gateway.into_place().start();
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "y"}))), "y");
        let all = seen(&file);
        assert_eq!(all.get(2).unwrap().first().unwrap(), "initialize", "{option}: {all:?}");
    }
}

/// Waits until this is in what the gateway remembers of its server.
fn remembers(gateway: &Gateway, what: &str) {
    let folder = gateway.state().join("toolgate/manifests");
    until_or(
        || {
            let files = std::fs::read_dir(&folder).into_iter().flatten().map_while(Result::ok);
            let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains(what))
        },
        || format!("{what} is remembered in {}", folder.display()),
    );
}

/// The first thing that each process was asked.
fn first_of_each(file: &Path) -> Vec<String> {
    seen(file).into_iter().filter_map(|said| said.into_iter().next()).collect()
}

#[test]
fn a_server_of_old_is_asked_what_it_speaks_once_more_when_it_has_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let (file, options) = (folder.path().join("seen"), folder.path().join("options"));
    let install =
        |more: &str| std::fs::write(&options, format!("--seen {} {more}", file.display()));
    install("--legacy-only").unwrap();
    let script = format!("exec {} $(cat {})", fixture().display(), options.display());
    let config = format!("[servers.up]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n");
    let mut gateway = started(Place::new(&config), 14);
    remembers(&gateway, r#""version":"1""#);
    let mut asked = vec!["server/discover"];
    let (second, modern) = (r#""version":"2""#, r#""modern":true"#);
    for (more, then, known) in [
        ("--legacy-only", vec!["initialize"], r#""version":"1""#),
        ("--legacy-only --version 2", vec!["initialize", "server/discover"], second),
        ("--legacy-only --version 2", vec!["initialize"], second),
        ("--version 3", vec!["initialize", "server/discover"], modern),
        ("--version 3", vec!["server/discover"], modern),
    ] {
        install(more).unwrap();
        gateway = started(gateway.into_place(), 14);
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "x"}))), "x", "{more}");
        asked.extend(then);
        assert_eq!(first_of_each(&file), asked, "{more}");
        remembers(&gateway, known);
    }
    drop(gateway);
}

#[test]
fn a_url_of_old_is_asked_what_it_speaks_once_more_when_it_has_another_version() {
    let server = Upstream::start("srv", Era::Dual);
    server.reply("server/discover", Err(r#"{"code":-32601,"message":"no such method"}"#));
    let gateway = started(Place::new(&server.table("")), 14);
    let echo = |gateway: &Gateway| {
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "x"}))), "x");
    };
    echo(&gateway);
    remembers(&gateway, r#""modern":false"#);
    server.reply_itself("server/discover");
    let asked = server.count("server/discover");
    let gateway = started(gateway.into_place(), 14);
    echo(&gateway);
    assert_eq!(server.count("server/discover"), asked, "it is the same server");
    let version = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"srv","version":"2"}}"#;
    server.reply("initialize", Ok(version));
    let gateway = started(gateway.into_place(), 14);
    echo(&gateway);
    assert_eq!(server.count("server/discover"), asked + 1);
    let calls = server.seen().into_iter().filter(|seen| seen.method == "tools/call");
    let versions: Vec<_> =
        calls.map(|seen| seen.headers.get("mcp-protocol-version").map(str::to_owned)).collect();
    assert_eq!(versions.last().unwrap().as_deref(), Some("2026-07-28"), "{versions:?}");
    assert_eq!(server.sessions(), 0, "the session that was opened to ask is ended");
}

#[test]
fn a_server_that_takes_longer_than_the_probe_comes_up_once_it_has_refused_initialize() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen");
    // The probe has half of the start timeout here.
    let options = ["--modern-only", "--discover-after", "7000", "--seen", file.to_str().unwrap()];
    let gateway = started(Place::new(&stdio("slow", &options, "start_timeout = \"12s\"")), 14);
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "x"}))), "x");
    let all = seen(&file);
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(all.get(1).unwrap(), &["initialize"], "{all:?}");
}

/// A server that sends log messages and does not announce them, in each era and over each way.
fn unannounced() -> Vec<(&'static str, Gateway, Option<Upstream>)> {
    let http = |era| {
        let server = Upstream::start("srv", era).without_logging();
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        (gateway, Some(server))
    };
    let pipes = |era| {
        let gateway = Gateway::start(&stdio("srv", &["--full", "srv", era, "--no-logging"], ""));
        gateway.settled(21);
        (gateway, None)
    };
    let with = |kind, (gateway, server)| (kind, gateway, server);
    vec![
        with("legacy HTTP", http(Era::Legacy)),
        with("modern HTTP", http(Era::Modern)),
        with("dual HTTP", http(Era::Dual)),
        with("old SSE", http(Era::OldSse)),
        with("legacy pipes", pipes("--legacy-only")),
        with("modern pipes", pipes("--modern-only")),
    ]
}

#[test]
fn log_messages_of_servers_that_do_not_announce_them_reach_clients() {
    for (kind, gateway, server) in unannounced() {
        let legacy = gateway.legacy();
        let mut stream = legacy.listen();
        assert_eq!(text(&legacy.call("log", json!({"level": "info"}))), "logged", "{kind}");
        let mut levels: Vec<Value> =
            legacy.seen().iter().map(|m| m["params"]["level"].clone()).collect();
        if levels.is_empty() {
            levels.push(stream.method("notifications/message")["params"]["level"].clone());
        }
        assert_eq!(levels, [json!("info")], "{kind}");
        // A server that can be asked by legacy clients decides; one of 2026-07-28 has no such method.
        let (_, refused) = legacy.try_request("logging/setLevel", json!({"level": "info"}));
        let refused = refused.unwrap()["error"]["code"].clone();
        let code = if kind.starts_with("modern") { json!(-32601) } else { Value::Null };
        assert_eq!(refused, code, "{kind}");
        let modern = gateway.modern();
        let meta = json!({LOG_LEVEL_KEY: "info"});
        let call =
            |level: &str| json!({"name": "log", "arguments": {"level": level}, "_meta": meta});
        modern.request("tools/call", call("error"));
        let seen = modern.seen();
        assert_eq!(seen.len(), 1, "{kind}: {seen:?}");
        modern.request("tools/call", call("debug"));
        assert_eq!(modern.seen().len(), 0, "{kind}");
        if let Some(server) = server {
            assert_eq!(server.complaints(), Vec::<String>::new(), "{kind}");
        }
    }
}

#[test]
fn levels_of_two_clients_reach_a_server_in_their_order_and_before_they_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen");
    let options = ["--full", "srv", "--legacy-only", "--seen", file.to_str().unwrap()];
    let gateway = Gateway::start(&stdio("srv", &options, ""));
    gateway.settled(21);
    let clients = [gateway.legacy(), gateway.legacy()];
    let levels = ["error", "warning", "info", "debug"];
    for (at, level) in levels.iter().enumerate() {
        clients.get(at % 2).unwrap().request("logging/setLevel", json!({"level": level}));
        let all: Vec<String> = seen(&file).concat();
        let set: Vec<&str> =
            all.iter().filter_map(|said| said.strip_prefix("logging/setLevel ")).collect();
        assert_eq!(set, levels.get(..=at).unwrap());
    }
}

#[test]
fn a_server_that_accepts_initialize_without_listing_it_is_spoken_to_as_the_client_speaks() {
    let blue = json!({"action": "accept", "content": {"color": "blue"}});
    let able = json!({"elicitation": {"form": {}}});
    let asked = |gateway: &Gateway| {
        let answer = blue.clone();
        let client =
            Legacy::new(gateway.address, "/mcp").able(able.clone(), move |_| answer.clone());
        let answer = client.connected().call("elicit", json!({}));
        assert!(text(&answer).contains("blue"), "{}", answer.raw);
    };
    for more in ["", "sharing = \"session\""] {
        let server = Upstream::start("srv", Era::Dual).hiding_legacy();
        let gateway = Gateway::start(&server.table(more));
        gateway.settled(14);
        asked(&gateway);
        let answer = gateway.modern().call("echo", json!({"text": "x"}));
        assert_eq!(text(&answer), "x");
        assert_eq!(server.complaints(), Vec::<String>::new(), "{more}");
    }
    // A process of its own is spoken to as its client speaks.
    let options = ["--full", "srv", "--no-rounds"];
    let gateway = Gateway::start(&stdio("srv", &options, "sharing = \"session\""));
    gateway.settled(21);
    asked(&gateway);
}

#[test]
fn a_server_that_refuses_initialize_is_asked_once_and_that_is_remembered() {
    let server = Upstream::modern("srv");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    for _ in 0..2 {
        assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "x"}))), "x");
    }
    assert_eq!(server.count("initialize"), 1);
    remembers(&gateway, "\"initialize\":false");
    let gateway = gateway.into_place().start();
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "x"}))), "x");
    assert_eq!(server.count("initialize"), 1, "also after a new start");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seen");
    let options = ["--full", "srv", "--modern-only", "--seen", file.to_str().unwrap()];
    let gateway = Gateway::start(&stdio("srv", &options, "sharing = \"session\""));
    gateway.settled(21);
    for _ in 0..2 {
        assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "x"}))), "x");
    }
    let tried = seen(&file).concat().iter().filter(|said| *said == "initialize").count();
    assert_eq!(tried, 1);
}

#[test]
fn with_two_calls_of_one_session_a_question_reaches_its_client_and_with_two_sessions_nobody() {
    let blue = json!({"action": "accept", "content": {"color": "blue"}});
    let able = json!({"elicitation": {"form": {}}});
    let gateway = Gateway::start(&stdio("srv", &["--full", "srv", "--legacy-only"], ""));
    gateway.settled(21);
    let client = Legacy::new(gateway.address, "/mcp").able(able, move |_| blue.clone()).connected();
    let hanging = client.open_call("hang", json!({}));
    gateway.wait_for_stderr("hanging");
    let answer = client.call("elicit", json!({}));
    assert!(text(&answer).contains("blue"), "{}", answer.raw);
    let other = gateway.legacy();
    let other = other.open_call("hang", json!({}));
    gateway.wait_for_stderr_times("hanging", 2);
    let answer = client.call("elicit", json!({}));
    assert!(text(&answer).contains("calls of several clients"), "{}", answer.raw);
    drop((hanging, other));
}

/// Servers that ask and tell what is none of MCP's business.
fn vendors() -> Vec<(&'static str, Gateway)> {
    let http = |era| {
        let server = Upstream::start("srv", era);
        server.add_tool("vendor_ask");
        server.add_tool("vendor_tell");
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(16);
        // It is served for as long as the test runs.
        std::mem::forget(server);
        gateway
    };
    let pipes = |more| {
        let gateway = Gateway::start(&stdio("srv", &["--vendor", "--legacy-only"], more));
        gateway.settled(16);
        gateway
    };
    vec![
        ("legacy HTTP", http(Era::Legacy)),
        ("modern HTTP", http(Era::Modern)),
        ("old SSE", http(Era::OldSse)),
        ("legacy pipes", pipes("")),
        ("legacy pipes, a process each", pipes("sharing = \"session\"")),
    ]
}

#[test]
fn requests_and_notifications_of_a_vendor_reach_the_client_and_its_answer_comes_back() {
    for (kind, gateway) in vendors() {
        let client = Legacy::new(gateway.address, "/mcp").able(json!({}), |asked| {
            assert_eq!(asked["method"], "vendor/ask");
            assert_eq!(asked["params"]["q"][0].as_f64().map(|n| n > 0.0), Some(true));
            json!({"vendor": "answer"})
        });
        let client = client.connected();
        let answer = client.call("vendor_ask", json!({}));
        assert!(text(&answer).contains(r#""vendor":"answer""#), "{kind}: {}", answer.raw);
        let mut stream = client.listen();
        client.call("vendor_tell", json!({}));
        let told = client.seen().iter().any(|m| m["method"] == "notifications/vendor/said");
        if !told {
            stream.method("notifications/vendor/said");
        }
        let modern =
            Modern::new(gateway.address, "/mcp").able(json!({"extensions": {"vendor": {}}}));
        let (rounds, answer) = modern.call_answering("vendor_ask", json!({}), |asked| {
            assert_eq!(asked["method"], "vendor/ask", "{kind}: {asked}");
            json!({"vendor": "answer"})
        });
        assert_eq!(rounds, 1, "{kind}");
        assert!(text(&answer).contains(r#""vendor":"answer""#), "{kind}: {}", answer.raw);
    }
}

#[test]
fn stamps_of_2026_07_28_do_not_reach_clients_of_old() {
    let server = Upstream::modern("srv");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    for client in gateway.both() {
        let result = r#"{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"mine":1}}"#;
        let result: Value = serde_json::from_str(result).unwrap();
        for answer in [
            client.call("echo", json!({"text": "x"})),
            client.call("answer", json!({"result": result})),
            client.request("resources/read", json!({"uri": "srv://r/0"})),
            client.request("prompts/get", json!({"name": "greet", "arguments": {"who": "x"}})),
        ] {
            let has = answer.raw.contains("io.modelcontextprotocol/");
            assert_eq!(has, client.is_modern(), "{}: {}", client.era(), answer.raw);
        }
        if let Either::Legacy(client) = &client {
            let answer = client.call("answer", json!({"result": result}));
            assert_eq!(answer["result"]["_meta"], json!({"mine": 1}), "{}", answer.raw);
        }
    }
}

#[test]
fn one_keeper_serves_all_servers_and_ends_what_they_started_when_toolgate_is_killed() {
    let options = ["--ignore-eof", "--ignore-term"];
    let tables: String = ["a", "b", "c"].iter().map(|name| stdio(name, &options, "")).collect();
    let mut gateway = Gateway::start(&tables);
    gateway.settled(42);
    let spawned: u32 = text(&gateway.modern().call("spawn", json!({}))).parse().unwrap();
    let ours = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == toolgate())
    };
    let keepers: Vec<u32> = gateway.descendants().into_iter().filter(ours).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    let family = gateway.kill();
    assert!(family.contains(&spawned) && family.len() == 5, "{family:?}");
    family.into_iter().for_each(assert_gone);
}

#[test]
fn a_keeper_that_was_killed_is_replaced_with_the_next_server() {
    let tables: String = ["a", "b"].iter().map(|name| stdio(name, &["--ignore-eof"], "")).collect();
    let gateway = Gateway::start(&tables);
    gateway.settled(28);
    let ours = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == toolgate())
    };
    let keepers = || gateway.descendants().into_iter().filter(ours).collect::<Vec<u32>>();
    let before = keepers();
    for pid in before {
        kill(pid);
    }
    until_or(|| keepers().is_empty(), || format!("{:?}", keepers()));
    kill(*gateway.fixtures().first().unwrap());
    until_or(
        || keepers().len() == 1 && gateway.fixtures().len() == 2,
        || format!("{:?} {:?}", keepers(), gateway.fixtures()),
    );
    // Dropped here, which kills it and looks for what is left: the server of before among it.
}

#[test]
fn each_client_of_2026_07_28_has_a_process_of_its_own_where_sessions_have() {
    let gateway =
        Gateway::start(&stdio("own", &["--full", "own", "--legacy-only"], "sharing = \"session\""));
    gateway.settled(21);
    let client = |name: &str| {
        let info = json!({"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}});
        gateway.modern().with_meta(info)
    };
    let pid = |client: &Modern| {
        let told: Value = serde_json::from_str(text(&client.call("whoami", json!({})))).unwrap();
        told["pid"].as_u64().unwrap()
    };
    let (one, two) = (client("one"), client("two"));
    let pids = [pid(&one), pid(&two)];
    assert_ne!(pids[0], pids[1]);
    assert_eq!([pid(&one), pid(&two)], pids, "each keeps its own");
    // Also over another connection.
    assert_eq!(pid(&client("one")), pids[0]);
    let session: Value =
        serde_json::from_str(text(&gateway.legacy().call("whoami", json!({})))).unwrap();
    assert!(!pids.contains(&session["pid"].as_u64().unwrap()));
}

#[test]
fn a_server_behind_a_url_that_takes_its_time_for_discover_comes_up() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("srv", era);
        // The probe has half of the start timeout here.
        server.fail("server/discover", Fault::Hang, 1);
        let gateway = Gateway::start(&server.table("start_timeout = \"4s\""));
        gateway.settled(14);
        assert_eq!(text(&gateway.modern().call("echo", json!({"text": "x"}))), "x");
        assert_eq!(server.count("server/discover"), if era == Era::Modern { 2 } else { 1 });
        assert_eq!(server.count("initialize"), 1);
        assert_eq!(server.complaints(), Vec::<String>::new(), "{era:?}");
    }
}
