//! `toolgate serve` as a program: how it starts and is refused, what it tells, how it ends, and what it never tells anybody.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{
    assert_gone,
    clients::{Legacy, Modern},
    fixture,
    gateway::{Gateway, Place, stdio, until},
    governed::code,
    text, toolgate,
    upstream::{Fault, Upstream},
};

/// `toolgate serve` in the folder of a place, with nothing said but these arguments.
fn serve(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(toolgate());
    command
        .arg("serve")
        .args(arguments)
        .env("XDG_STATE_HOME", place.path("state"))
        .env("TOOLGATE_LOG", "info");
    command.env_remove("TOOLGATE_CONFIG").current_dir(place.path(""));
    command
}

/// How such a command is refused.
fn refused(mut command: Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn it_ends_in_order_when_it_is_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Upstream::legacy("alpha");
        let mut gateway = Gateway::start(&format!(
            "{}{}",
            server.table(""),
            stdio("pipes", &["--full", "pipes"], "")
        ));
        gateway.settled(35);
        let family = gateway.descendants();
        assert!(!family.is_empty());
        let client = gateway.legacy();
        let mut listening = client.listen();
        let mut pending = client.open_call("slow", json!({"key": "last"}));
        server.wait_for_call("last");
        gateway.signal(signal);
        gateway.wait_for_stderr("shutting down: finishing requests in flight first");
        server.release("last");
        assert_eq!(text(&pending.answer()), "alpha:slow:last", "{signal:?}");
        assert_eq!(gateway.wait().code(), Some(0), "{signal:?}");
        family.into_iter().for_each(assert_gone);
        drop(listening.end());
        assert_eq!(gateway.audit().len(), 1, "the last call is in the audit");
        server.until("its session was ended", |server| server.sessions() == 0);
        assert!(
            Legacy::new(gateway.address, "/mcp").post("{}").is_err(),
            "nobody listens any more"
        );
    }
}

#[test]
fn a_server_that_will_not_end_does_not_keep_it() {
    let stubborn = ["--ignore-eof", "--ignore-term"];
    let mut gateway = Gateway::start(&stdio("stubborn", &stubborn, ""));
    gateway.settled(14);
    let family = gateway.descendants();
    assert_eq!(gateway.terminate().code(), Some(0));
    family.into_iter().for_each(assert_gone);
    // Killed, it cannot say anything to anybody: its servers are gone all the same, and what they started.
    let mut gateway = Gateway::start(&stdio("stubborn", &stubborn, ""));
    gateway.settled(14);
    let grandchild: u32 = text(&gateway.legacy().call("spawn", json!({}))).parse().unwrap();
    let family = gateway.kill();
    assert!(family.contains(&grandchild));
    family.into_iter().for_each(assert_gone);
}

#[test]
fn a_hangup_begins_a_new_audit_file_and_ends_nothing() {
    let server = Upstream::modern("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.legacy();
    client.call("echo", json!({"text": "before"}));
    until("it is written", || gateway.audit().len() == 1);
    std::fs::rename(gateway.path("audit.jsonl"), gateway.path("audit.1")).unwrap();
    gateway.signal(Signal::HUP);
    until("the new file", || {
        client.call("echo", json!({"text": "after"}));
        gateway.path("audit.jsonl").exists()
    });
    until("it is written", || !gateway.audit().is_empty());
    assert_eq!(client.tools().len(), 14, "the session goes on");
}

#[test]
fn an_address_that_is_taken_or_not_ours_is_told_of() {
    let place = Place::new(&stdio("pipes", &[], ""));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, told) = refused(serve(&place, &["--listen", &address]));
    assert_eq!(status, Some(2), "{told}");
    assert!(
        told.contains(&format!("`{address}` is in use")) && told.contains("--listen"),
        "{told}"
    );
    assert!(!told.contains("listening on"), "{told}");
    for (address, part) in [
        ("192.0.2.7:0", "serve.tokens"),
        ("0.0.0.0:0", "serve.tokens"),
        ("[::]:0", "serve.tokens"),
        ("nowhere", "`nowhere` is no address"),
        ("127.0.0.1:99999", "is no address"),
    ] {
        let (status, told) = refused(serve(&place, &["--listen", address]));
        assert!(status == Some(2) && told.contains(part), "{address}: {status:?} {told}");
    }
    place.configure("[serve]\ntokens = { ci = \"a-token-that-is-long\" }\n");
    let (status, told) = refused(serve(&place, &["--listen", "192.0.2.7:0"]));
    assert!(status == Some(2) && told.contains("no address of this machine"), "{told}");
    // Two addresses at once are two lines, and both answer.
    let place = Place::new(&stdio("pipes", &[], ""));
    let both = serve(&place, &["--listen", "127.0.0.1:0", "--listen", "[::1]:0"]);
    let gateway = place.start_as(both);
    let second = gateway.wait_for_stderr_times("listening on http://", 2);
    let address = second.split("http://").nth(1).unwrap().trim_end_matches("/mcp").parse().unwrap();
    until("its tools", || Modern::new(address, "/mcp").tools().len() == 14);
    gateway.settled(14);
}

#[test]
fn without_a_config_it_starts_and_says_what_to_do() {
    let place = Place::new("");
    std::fs::remove_file(place.path("toolgate.toml")).unwrap();
    let command = serve(&place, &["--listen", "127.0.0.1:0"]);
    let mut gateway = place.start_as(command);
    gateway.wait_for_stderr("There are no servers yet");
    gateway.wait_for_stderr("toolgate serve mcp.json");
    for client in gateway.both() {
        assert_eq!(client.tools(), Vec::<String>::new());
        assert_eq!(code(&client.call("echo", json!({}))), "UNKNOWN_TOOL");
        let (_, answer) = client.try_request("prompts/list", json!({}));
        assert_eq!(answer.unwrap()["error"]["code"], -32601);
    }
    assert_eq!(gateway.terminate().code(), Some(0));
    // A file that is named and not there is another matter.
    let place = gateway.into_place();
    let (status, told) = refused(serve(&place, &["nope.toml"]));
    assert!(status == Some(2) && told.contains("nope.toml"), "{told}");
}

#[test]
fn the_file_of_an_existing_client_is_served_as_it_is() {
    let (http, sse) =
        (Upstream::legacy("web"), Upstream::start("old", crate::harness::upstream::Era::OldSse));
    let file = json!({"mcpServers": {
        "pipes": {"command": fixture(), "args": ["--full", "pipes"], "type": "stdio", "autoApprove": ["echo"]},
        "web": {"type": "http", "url": http.url(), "headers": {"X-Key": "${WEB_KEY:-none}"}},
        "old": {"type": "sse", "url": sse.url()},
        "off": {"command": "false", "disabled": true}}, "theme": "dark"});
    for name in ["mcp.json", ".mcp.json", "claude.json"] {
        let place = Place::new("");
        std::fs::remove_file(place.path("toolgate.toml")).unwrap();
        place.write(name, &file.to_string());
        let named = if name == "claude.json" { vec![name] } else { vec![] };
        let mut command = serve(
            &place,
            &[&named[..], &["--listen", "127.0.0.1:0", "--audit", "audit.jsonl"]].concat(),
        );
        command.env("WEB_KEY", "key-of-the-web");
        let gateway = place.start_as(command);
        gateway.settled(49);
        for client in gateway.both() {
            for server in ["pipes", "web", "old"] {
                assert_eq!(
                    text(&client.call(&format!("{server}__echo"), json!({"text": server}))),
                    server
                );
            }
        }
        assert!(
            !gateway.stderr().iter().any(|line| line.contains(" off ")),
            "{:?}",
            gateway.stderr()
        );
        let key =
            http.seen().iter().any(|seen| seen.headers.get("x-key") == Some("key-of-the-web"));
        assert!(key, "variables are filled in");
    }
}

#[test]
fn what_a_server_is_reached_with_is_never_told() {
    let server = Upstream::legacy("alpha");
    let url = format!("{}?key=sekret-in-the-query", server.url());
    let config = format!(
        "[servers.alpha]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer sekret-token\", X-Api-Key = \"${{KEY}}\" }}\n\
         [servers.gone]\nurl = \"http://127.0.0.1:1/mcp?key=sekret-in-the-query\"\nheaders = {{ Authorization = \"Bearer sekret-token\" }}\n\
         [serve]\ntokens = {{ ci = \"sekret-of-a-client\" }}\n"
    );
    let place = Place::new(&config);
    let mut command = place.command();
    command.env("KEY", "sekret-key").env("TOOLGATE_LOG", "debug");
    let mut gateway = place.start_as(command);
    let client = Legacy::new(gateway.address, "/mcp").with_token("sekret-of-a-client").connected();
    until("its tools", || client.tools().len() == 14);
    let mut told = client.call("echo", json!({"text": "x"})).raw;
    let sent = server.seen().into_iter().find(|seen| seen.method == "tools/call").unwrap();
    assert_eq!(sent.headers.get("authorization"), Some("Bearer sekret-token"));
    assert_eq!(sent.headers.get("x-api-key"), Some("sekret-key"));
    for fault in [
        Fault::Status(401),
        Fault::Status(403),
        Fault::Status(500),
        Fault::CloseAfter,
        Fault::CloseBefore,
        Fault::CloseMid,
        Fault::Garbage,
        Fault::WrongId,
    ] {
        server.fail("tools/call", fault, 1);
        told.push_str(&client.call("write", json!({"key": "k"})).raw);
        server.heal();
    }
    server.stop();
    told.push_str(&client.call("echo", json!({"text": "x"})).raw);
    let stranger = Legacy::new(gateway.address, "/mcp").with_token("sekret-of-nobody-x");
    assert_eq!(stranger.exchange("POST", &[], "{}").status, 401);
    assert!(told.contains("SERVER_UNAVAILABLE"), "{told}");
    assert_eq!(gateway.terminate().code(), Some(0));
    let audit = std::fs::read_to_string(gateway.path("audit.jsonl")).unwrap();
    let manifests: String = std::fs::read_dir(gateway.state().join("toolgate/manifests"))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    for (place, text) in [
        ("answers", &told),
        ("the audit", &audit),
        ("manifests", &manifests),
        ("stderr", &gateway.stderr().join("\n")),
    ] {
        let found =
            text.find("sekret").map(|at| &text[at.saturating_sub(200)..(at + 40).min(text.len())]);
        assert_eq!(found, None, "in {place}");
    }
}

#[test]
fn the_terminal_that_comes_along_is_a_server_like_others() {
    let socket = format!("toolgate-serve-{}", std::process::id());
    let config = format!(
        "[servers.terminal]\nbuiltin = \"tmux\"\n[tmux]\nsocket_name = \"{socket}\"\n\
         [namespaces.default]\nsafety = \"readonly\"\n"
    );
    let gateway = Gateway::start(&config);
    let client = gateway.modern();
    let tools = client.tools();
    assert!(tools.iter().any(|tool| tool == "list_sessions"), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool == "send_keys"), "the namespace is readonly: {tools:?}");
    assert_eq!(text(&client.call("list_sessions", json!({}))), "[]");
}
