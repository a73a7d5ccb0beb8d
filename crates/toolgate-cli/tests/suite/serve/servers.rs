//! The servers behind the gateway: when they start and stop, for whom, under which names, and what they get to see.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{
    Session,
    clients::{Legacy, Modern},
    fixture,
    gateway::{Gateway, Place, stdio, until, until_or},
    governed::code,
    text, toolgate,
    upstream::{Era, Upstream},
};

#[test]
fn a_server_on_demand_starts_with_its_first_call_and_an_idle_one_stops() {
    for era in ["--legacy-only", "--modern-only"] {
        starts_and_stops(era);
    }
}

fn starts_and_stops(era: &str) {
    let table = |more: &str| stdio("alpha", &["--full", "alpha", era], more);
    // Once, so that it is known what it offers.
    let gateway = Gateway::start(&table(""));
    gateway.settled(21);
    let place = gateway.into_place();
    place.configure(&table("start = \"on-demand\"\nidle_stop = \"1s\""));
    let gateway = place.start();
    let client = gateway.modern();
    assert_eq!(client.tools().len(), 21, "a list needs no server");
    assert_eq!(gateway.fixtures().len(), 0);
    for _ in 0..2 {
        assert_eq!(text(&client.call("echo", json!({"text": "x"}))), "x");
        assert_eq!(gateway.fixtures().len(), 1);
        gateway
            .wait_for_fixtures(|count| count == 0, &format!("{era}: it stops when nobody uses it"));
        assert_eq!(client.tools().len(), 21);
    }
    // Its keeper is gone, too.
    until_or(|| gateway.descendants().is_empty(), || format!("{:?}", gateway.descendants()));
}

#[test]
fn an_idle_server_does_not_stop_under_a_call() {
    let gateway = Gateway::start(&format!(
        "[limits]\ntimeout = \"4s\"\n{}",
        stdio("alpha", &[], "idle_stop = \"1s\"")
    ));
    gateway.settled(14);
    let client = gateway.modern();
    let answer = client.call("hang", json!({}));
    assert_eq!(code(&answer), "TIMED_OUT", "not SERVER_CRASHED: {}", answer.raw);
}

#[test]
fn a_server_for_each_session_is_for_that_session_alone() {
    let folder = tempfile::tempdir().unwrap();
    let writes = folder.path().join("writes");
    let options = ["--full", "own", "--writes", writes.to_str().unwrap()];
    let gateway = Gateway::start(&stdio("own", &options, "sharing = \"session\""));
    let pid = |client: &Legacy| {
        let answer = client.call("whoami", json!({}));
        serde_json::from_str::<Value>(text(&answer)).unwrap()["pid"].as_u64().unwrap()
    };
    let clients: Vec<Legacy> = (0..5).map(|_| gateway.legacy()).collect();
    let mut pids: Vec<u64> = clients.iter().map(pid).collect();
    assert_eq!(clients.iter().map(pid).collect::<Vec<_>>(), pids, "each keeps its own");
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 5);
    let before = gateway.fixtures().len();
    clients[0].delete();
    gateway.wait_for_fixtures(|count| count == before - 1, "the server ends with its session");
    assert_eq!(pid(&clients[1]), pid(&clients[1]));
}

#[test]
fn names_that_collide_get_prefixes_and_lead_back() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    beta.add_tool("only_here");
    let tables = format!("{}{}", alpha.table(""), beta.table("prefix = \"b\""));
    let gateway =
        Gateway::start(&format!("{tables}[namespaces.default]\nservers = [\"beta\", \"alpha\"]\n"));
    gateway.settled(29);
    for client in gateway.both() {
        let tools = client.tools();
        assert_eq!((tools[0].as_str(), tools[14].as_str()), ("echo", "only_here"), "{tools:?}");
        assert_eq!(tools[15], "alpha__echo");
        for (name, server) in
            [("whoami", "beta"), ("b__whoami", "beta"), ("alpha__whoami", "alpha")]
        {
            let told: Value = serde_json::from_str(text(&client.call(name, json!({})))).unwrap();
            assert_eq!(told["server"], server);
        }
        assert_eq!(text(&client.call("only_here", json!({"key": "k"}))), "beta:only_here:k");
        assert_eq!(code(&client.call("beta__whoami", json!({}))), "UNKNOWN_TOOL");
        let prompts = client.list("prompts/list", "prompts");
        let names: Vec<&str> =
            prompts.iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["greet", "alpha__greet"]);
        for (name, server) in [("greet", "beta"), ("alpha__greet", "alpha")] {
            let params = json!({"name": name, "arguments": {"who": "you"}});
            let prompt = client.request("prompts/get", params);
            let told = &prompt["result"]["messages"][0]["content"]["text"];
            assert_eq!(told, &format!("{server} greets you"), "{}", prompt.raw);
            let params = json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": "v"}});
            let complete = client.request("completion/complete", params);
            assert_eq!(
                complete["result"]["completion"]["values"][0],
                format!("{server}-v"),
                "{}",
                complete.raw
            );
        }
        let resources = client.list("resources/list", "resources");
        assert_eq!(resources.len(), 6);
        for server in ["alpha", "beta"] {
            // Listed, from a template, and one that only a tool told of.
            for uri in [
                format!("{server}://r/1"),
                format!("{server}://t/x"),
                format!("{server}://linked/l"),
            ] {
                let read = client.request("resources/read", json!({"uri": uri}));
                let told = &read["result"]["contents"][0]["text"];
                assert_eq!(told, &format!("{server} read {uri}"), "{}", read.raw);
            }
        }
    }
    assert_eq!((alpha.complaints(), beta.complaints()), (vec![], vec![]));
}

#[test]
fn a_collision_without_prefixes_is_not_decided_by_chance() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::legacy("beta"));
    let tables = format!("{}{}", alpha.table(""), beta.table(""));
    let place = Place::new(&format!("{tables}[namespaces.default]\nprefix = \"never\"\n"));
    // It is only known once both have told what they have; then it is refused, or never wrong.
    let (status, told) = place.refused();
    assert!(!status.success(), "{told}");
    assert!(told.contains("alpha") && told.contains("beta") && told.contains("echo"), "{told}");
}

#[test]
fn long_names_are_cut_the_same_way_each_time() {
    let server = Upstream::numbered("alpha", Era::Legacy, 0);
    let long = |n: usize| format!("{}_{n}", "a_very_long_name_of_a_tool".repeat(4));
    (0..3).for_each(|n| server.add_tool(&long(n)));
    let config = format!("{}[namespaces.default]\nprefix = \"always\"\n", server.table(""));
    let gateway = Gateway::start(&config);
    gateway.settled(4);
    let names = gateway.modern().tools();
    for (n, name) in names.iter().skip(1).enumerate() {
        assert!(name.len() <= 64 && name.starts_with("alpha__a_very_long"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{name}");
        let answer = gateway.modern().call(name, json!({"key": "k"}));
        assert_eq!(text(&answer), format!("alpha:{}:k", long(n)));
    }
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), 4);
    let again = gateway.into_place().start();
    assert_eq!(again.modern().tools(), names, "after a new start, too");
}

#[test]
fn names_of_any_letters_reach_a_modern_server_and_bring_no_headers_along() {
    let server = Upstream::modern("alpha");
    let names =
        ["sp\u{e4}ce tool", " edges ", "=?base64?eA==?=", "evil\r\nX-Injected: 1", "\u{1f600}"];
    for name in names {
        server.add_tool(name);
    }
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14 + names.len());
    let client = gateway.legacy();
    for name in names {
        let answer = client.call(name, json!({"key": "k"}));
        assert_eq!(text(&answer), format!("alpha:{name}:k"), "{}", answer.raw);
    }
    let injected = server.seen().iter().any(|seen| seen.headers.get("x-injected").is_some());
    assert!(!injected);
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn a_server_gets_the_operators_headers_and_none_of_the_clients() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let more = "headers = { Authorization = \"Bearer ${UPSTREAM_TOKEN}\", X-Team = \"blue\" }";
        let place = Place::new(&format!(
            "{}[serve.tokens]\nme = \"my-own-token-0001\"\n",
            server.table(more)
        ));
        let mut command = place.command();
        command.env("UPSTREAM_TOKEN", "upstream-secret");
        let gateway = place.start_as(command);
        let client = Legacy::new(gateway.address, "/mcp")
            .with_token("my-own-token-0001")
            .with_header("Cookie", "session=client-secret")
            .with_header("X-Forwarded-For", "10.0.0.1")
            .with_header("Proxy-Authorization", "Basic client-secret")
            .connected();
        let answer = client.call("whoami", json!({}));
        let told: Value = serde_json::from_str(text(&answer)).unwrap();
        assert_eq!(told["headers"]["authorization"], "Bearer upstream-secret");
        assert_eq!(told["headers"]["x-team"], "blue");
        let all = told.to_string();
        for secret in ["client-secret", "my-own-token", "10.0.0.1"] {
            assert!(!all.contains(secret), "{secret} in {all}");
        }
        assert!(!gateway.stderr().join("\n").contains("upstream-secret"));
    }
}

#[test]
fn a_manifest_that_is_broken_is_learnt_again() {
    let server = Upstream::numbered("alpha", Era::Legacy, 3);
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(4);
    for broken in ["", "{", "null", "{\"tools\":[{}]}", "\u{0}\u{1}"] {
        let manifests = gateway_state_files(&gateway);
        assert!(!manifests.is_empty());
        let place = Place::new(&server.table(""));
        for file in &manifests {
            let target = place.path("state/toolgate/manifests");
            std::fs::create_dir_all(&target).unwrap();
            std::fs::write(target.join(file.file_name().unwrap()), broken).unwrap();
        }
        let another = place.start();
        another.settled(4);
        assert_eq!(text(&another.modern().call("alpha_0", json!({"key": "k"}))), "alpha:alpha_0:k");
    }
}

fn gateway_state_files(gateway: &Gateway) -> Vec<std::path::PathBuf> {
    let folder = gateway.state().join("toolgate/manifests");
    until("a manifest", || {
        std::fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some())
    });
    std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

#[test]
fn what_a_client_has_in_its_mcp_json_is_served_as_it_is() {
    let server = Upstream::numbered("alpha", Era::Legacy, 3);
    let place = Place::new("");
    let json = json!({"mcpServers": {
        "alpha": {"type": "http", "url": server.url()},
        "pipes": {"command": fixture(), "args": ["--page-size", "3"]}}});
    place.write("mcp.json", &json.to_string());
    let mut command = Command::new(toolgate());
    command.arg("serve").arg(place.path("mcp.json")).args(["--listen", "127.0.0.1:0"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let gateway = place.start_as(command);
    gateway.settled(18);
    assert_eq!(text(&gateway.legacy().call("alpha_2", json!({"key": "k"}))), "alpha:alpha_2:k");
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "k"}))), "k");
}

#[test]
fn an_address_that_is_taken_is_said_to_be() {
    let gateway = Gateway::start(&stdio("alpha", &[], ""));
    let place = Place::new(&stdio("alpha", &[], ""));
    let mut command = Command::new(toolgate());
    command
        .arg("serve")
        .arg(place.path("toolgate.toml"))
        .args(["--listen", &gateway.address.to_string()]);
    command.env("XDG_STATE_HOME", place.path("state")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(&gateway.address.to_string()), "{told}");
}

/// A client over stdio in front of whatever these options say.
fn over_stdio(place: &Place, options: &[&str]) -> Session {
    let mut command = Command::new(toolgate());
    command
        .arg("stdio")
        .args(options)
        .env("XDG_STATE_HOME", place.path("state"))
        .env("TOOLGATE_LOG", "info");
    Session::spawn(command, tempfile::tempdir().unwrap())
}

#[test]
fn the_whole_gateway_or_a_thin_client_of_it_over_stdio() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Legacy, 3), Upstream::numbered("beta", Era::Modern, 3));
    let config = format!("{}{}", alpha.table(""), beta.table(""));
    let place = Place::new(&config);
    let path = place.path("toolgate.toml").display().to_string();
    let gateway = Gateway::start(&config);
    gateway.settled(8);
    let to = format!("http://{}/mcp/default", gateway.address);
    for options in [&["--config", path.as_str()][..], &["--to", &to]] {
        let mut session = over_stdio(&place, options);
        let hello = session.initialize();
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{options:?}: {hello}");
        let list = session.request("tools/list", json!({}));
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 8, "{options:?}: {list}");
        assert_eq!(text(&session.call("alpha_1", json!({"key": "k"}))), "alpha:alpha_1:k");
        assert_eq!(text(&session.call("beta_1", json!({"key": "k"}))), "beta:beta_1:k");
        let (status, _) = session.finish();
        assert!(status.success(), "{options:?}: {status}");
        // A client of the newer era says no hello.
        let mut session = over_stdio(&place, options);
        let meta = crate::harness::governed::modern(json!({}));
        let params = json!({"name": "beta_2", "arguments": {"key": "m"}, "_meta": meta});
        let answer = session.request("tools/call", params);
        assert_eq!(text(&answer), "beta:beta_2:m", "{options:?}");
        assert_eq!(answer["result"]["resultType"], "complete", "{options:?}: {answer}");
    }
    drop(Modern::new(gateway.address, "/mcp"));
}
