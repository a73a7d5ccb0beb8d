//! What a client gets through the gateway is what a direct connection gives it: resources that no list has, methods that a
//! server does not announce, errors as they are written, and no empty list where a list failed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    bytes::member,
    clients::either::Either,
    gateway::{Gateway, stdio, until, until_or},
    upstream::{Era, Fault, Upstream},
};

/// An error that does not survive a parser that makes values of it.
const ODD_ERROR: &str = r#"{"code":-32055,"message":"n\u006f","data":{"n":[1e5,0.10,1.0],"é":"\u00e9"},"xVendor":{"b":1E2, "a":[ ]}}"#;

fn read(client: &Either, uri: &str) -> Value {
    let answer = client.request("resources/read", json!({"uri": uri}));
    match &answer["result"]["contents"][0]["text"] {
        Value::String(text) => json!(text),
        _ => answer["error"].clone(),
    }
}

/// Has a tool answer with a link to this address.
fn return_link(client: &Either, tool: &str, uri: &str) {
    let link = json!({"content": [{"type": "resource_link", "uri": uri, "name": "a link"}]});
    let answer = client.call(tool, json!({"result": link}));
    assert_eq!(answer["result"]["content"][0]["uri"], uri, "{}", answer.raw);
}

#[test]
fn the_only_server_is_asked_for_whatever_a_client_reads() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("srv", era);
        server.reply("resources/read", Ok(r#"{"contents":[{"uri":"any","text":"read"}]}"#));
        // Not even the capability is there.
        server.set_capabilities(json!({"tools": {}}));
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        for client in gateway.both() {
            assert_eq!(read(&client, "nobody-lists://this"), "read", "{}", client.era());
        }
        assert_eq!(server.count("resources/read"), 2);
    }
}

#[test]
fn a_link_that_a_tool_returned_is_read_from_the_server_that_returned_it() {
    for era in [Era::Legacy, Era::Modern] {
        let (one, two) = (Upstream::start("one", era), Upstream::start("two", era));
        for (server, text) in [(&one, "of one"), (&two, "of two")] {
            let result = json!({"contents": [{"uri": "any", "text": text}]}).to_string();
            server.reply("resources/read", Ok(&result));
        }
        let config = "[namespaces.default]\nservers = [\"one\", \"two\"]\n";
        let gateway = Gateway::start(&format!("{}{}{config}", one.table(""), two.table("")));
        gateway.settled(28);
        for (number, client) in gateway.both().iter().enumerate() {
            let uri = |name: &str| format!("elsewhere://{name}/{number}");
            let code = if client.is_modern() { -32602 } else { -32002 };
            let at = format!("{} before {era:?}", client.era());
            assert_eq!(read(client, &uri("a"))["code"], code, "nobody returned it: {at}");
            return_link(client, "answer", &uri("a"));
            return_link(client, "two__answer", &uri("b"));
            assert_eq!(read(client, &uri("a")), "of one", "{at}");
            assert_eq!(read(client, &uri("b")), "of two", "{at}");
            // Nobody answers in another's place.
            return_link(client, "two__answer", &uri("a"));
            let refused = read(client, &uri("a"));
            assert_eq!(refused["code"], code, "{at}");
            let message = refused["message"].as_str().unwrap();
            assert!(message.contains("`one`, `two`"), "{message}");
            return_link(client, "two__answer", "one://r/0");
            assert_eq!(read(client, "one://r/0"), "of one", "a listed one stays its owner's: {at}");
        }
    }
}

#[test]
fn embedded_resources_of_results_and_prompts_count_too_also_over_pipes() {
    let config = format!(
        "{}{}[namespaces.default]\nservers = [\"files\", \"docs\"]\n",
        stdio(
            "files",
            &[
                "--answering",
                "--reply",
                "prompts/get",
                r#""result":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"p://1","text":""}}}]}"#,
                "--capabilities",
                r#"{"tools":{},"prompts":{}}"#
            ],
            ""
        ),
        stdio("docs", &[], ""),
    );
    let gateway = Gateway::start(&config);
    until("both are up", || gateway.modern().tools().contains(&"docs__echo".to_owned()));
    for client in gateway.both() {
        let embedded =
            json!({"content": [{"type": "resource", "resource": {"uri": "e://1", "text": "x"}}]});
        client.call("answer", json!({"result": embedded}));
        assert_eq!(read(&client, "e://1"), "yyyyy".get(..1).unwrap(), "{}", client.era());
        client.request("prompts/get", json!({"name": "files__unlisted"}));
        assert_eq!(read(&client, "p://1"), "y", "{}", client.era());
    }
}

#[test]
fn a_method_that_is_not_announced_reaches_the_only_server_and_its_refusal_the_client() {
    let refusal = r#"{"code":-32601,"message":"I know nothing of that","xVendor":1.0}"#;
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("srv", era);
        server.set_capabilities(json!({"tools": {}}));
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        let prompt = json!({"type": "ref/prompt", "name": "nobody lists it"});
        let methods = [
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "greet"})),
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "srv://r/0"})),
            (
                "completion/complete",
                json!({"ref": prompt, "argument": {"name": "a", "value": "b"}}),
            ),
        ];
        for client in gateway.both() {
            let at = format!("{} before {era:?}", client.era());
            for (method, params) in &methods {
                server.reply_itself(method);
                let answer = client.request(method, params.clone());
                assert!(answer["result"].is_object(), "{method}, {at}: {}", answer.raw);
                server.reply(method, Err(refusal));
                // With status 404 for clients of 2026-07-28.
                let answer = client.try_request(method, params.clone()).1.unwrap();
                assert_eq!(member(&answer.raw, &["error"]).as_deref(), Some(refusal), "{at}");
            }
        }
    }
}

#[test]
fn an_unlisted_prompt_reaches_the_server_whose_prefix_it_has() {
    let (one, two) = (Upstream::legacy("one"), Upstream::modern("two"));
    for server in [&one, &two] {
        server.reply("prompts/list", Ok(r#"{"prompts":[]}"#));
    }
    let gateway = Gateway::start(&format!("{}{}", one.table(""), two.table("")));
    gateway.settled(28);
    for client in gateway.both() {
        let get = |name: &str| client.request("prompts/get", json!({"name": name}));
        let greeting = get("two__greet")["result"]["messages"][0]["content"]["text"].clone();
        assert_eq!(greeting, "two greets ?", "{}", client.era());
        assert_eq!(get("greet")["error"]["code"], -32602, "{}", client.era());
    }
}

#[test]
fn errors_of_calls_and_requests_pass_as_they_are_written() {
    let reply = format!("\"error\":{ODD_ERROR}");
    let replies = ["--reply", "tools/call", &reply, "--reply", "vendor/do", &reply];
    let legacy = [&replies[..], &["--legacy-only"]].concat();
    let modern = [&replies[..], &["--modern-only"]].concat();
    for options in [legacy, modern] {
        let config = "audit.file = \"off\"\n[namespaces.default]\nchain = [\"timeout\"]\nservers = [\"main\"]\n";
        let place = crate::harness::gateway::Place::new("");
        place.write("toolgate.toml", &format!("{config}{}", stdio("main", &options, "")));
        let gateway = place.start();
        until("it is up", || gateway.modern().tools().len() > 5);
        for client in gateway.both() {
            for answer in [client.call("echo", json!({})), client.request("vendor/do", json!({}))] {
                let error = member(&answer.raw, &["error"]);
                assert_eq!(error.as_deref(), Some(ODD_ERROR), "{}: {options:?}", client.era());
            }
        }
    }
}

#[test]
fn a_list_that_fails_is_an_error_until_it_is_there() {
    let error = r#"{"code":-32050,"message":"fetch failed","data":{"n":1e0}}"#;
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("srv", era);
        server.reply("tools/list", Err(error));
        let gateway = Gateway::start(&server.table(""));
        for client in gateway.both() {
            let answer = client.request("tools/list", json!({}));
            let error_text = member(&answer.raw, &["error"]);
            assert_eq!(error_text.as_deref(), Some(error), "{}: {}", client.era(), answer.raw);
        }
        gateway.wait_for_stderr("the server `srv` cannot list its tools");
        server.until("it is asked again", |server| server.count("tools/list") > 4);
        server.reply_itself("tools/list");
        gateway.settled(14);
        gateway.wait_for_stderr("the server `srv` lists its tools again");
        let is_warning = |line: &&String| line.contains("warning") && line.contains("cannot list");
        let told = gateway.stderr().iter().filter(is_warning).count();
        assert_eq!(told, 1, "{:#?}", gateway.stderr());
    }
}

#[test]
fn a_list_without_some_server_says_whose_entries_are_missing() {
    let (good, bad) = (Upstream::legacy("good"), Upstream::modern("bad"));
    bad.reply("tools/list", Err(r#"{"code":-32050,"message":"fetch failed"}"#));
    let gateway = Gateway::start(&format!("{}{}", good.table(""), bad.table("")));
    gateway.wait_for_stderr("cannot list its tools");
    for client in gateway.both() {
        let answer = client.request("tools/list", json!({}));
        assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 14, "{}", answer.raw);
        let missing = &answer["result"]["_meta"]["toolgate/missing"];
        assert_eq!(*missing, json!([{"server": "bad", "why": "fetch failed"}]), "{}", answer.raw);
    }
    bad.reply_itself("tools/list");
    gateway.settled(28);
    for client in gateway.both() {
        let answer = client.request("tools/list", json!({}));
        assert!(answer["result"]["_meta"].get("toolgate/missing").is_none(), "{}", answer.raw);
    }
}

#[test]
fn a_server_that_cannot_be_reached_gives_an_error_where_it_is_the_only_one() {
    let server = Upstream::legacy("srv");
    server.stop();
    let gateway = Gateway::start(&server.table(""));
    for client in gateway.both() {
        let answer = client.request("tools/list", json!({}));
        let message = answer["error"]["message"].as_str().unwrap_or(&answer.raw);
        assert!(message.contains("The server `srv` cannot be reached"), "{message}");
    }
    server.resume();
    gateway.settled(14);
}

#[test]
fn a_server_that_never_lists_is_waited_for_at_the_first_start_only() {
    let (good, mute) = (Upstream::legacy("good"), Upstream::legacy("mute"));
    mute.fail("tools/list", Fault::Hang, usize::MAX);
    let gateway = Gateway::start(&format!("{}{}", good.table(""), mute.table("")));
    assert_eq!(gateway.modern().tools().len(), 14);
    let place = {
        let mut gateway = gateway;
        gateway.terminate();
        gateway.into_place()
    };
    let gateway = place.start();
    let before = Instant::now();
    let client = gateway.legacy();
    assert_eq!(client.tools().len(), 14);
    // A gateway that waits for the lists of `mute` answers after 10 s.
    assert!(before.elapsed() < Duration::from_secs(9), "{:?}", before.elapsed());
    mute.heal();
    mute.restart();
    gateway.settled(28);
}

#[test]
fn lists_are_asked_for_again_after_cache_ttl_and_when_the_operator_says_so() {
    let (young, old) = (Upstream::legacy("young"), Upstream::modern("old"));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"young\"]\ncache_ttl = \"300ms\"\n[namespaces.other]\nservers = [\"old\"]\n",
        young.table(""),
        old.table("")
    ));
    gateway.settled(14);
    let other = crate::harness::clients::Modern::new(gateway.address, "/mcp/other");
    until("the other is up", || other.tools().len() == 14);
    // Neither says that anything changed.
    young.add_tool("later");
    old.add_tool("later");
    gateway.settled(15);
    assert_eq!(other.tools().len(), 14);
    let asked = old.count("tools/list");
    gateway.reload();
    old.until("it is asked again", |server| server.count("tools/list") > asked);
    until_or(|| other.tools().len() == 15, || format!("{:?}", other.tools()));
}

#[test]
fn servers_that_come_up_after_the_start_are_told_of_with_a_last_line() {
    let (good, late) = (Upstream::legacy("good"), Upstream::modern("late"));
    late.stop();
    let gateway = Gateway::start(&format!("{}{}", good.table(""), late.table("")));
    gateway.wait_for_stderr("/2 good: ready, 14 tools");
    gateway.wait_for_stderr("/2 late: failed, cannot be reached");
    gateway.wait_for_stderr("1 of 2 servers are ready; failed, and tried again: late");
    late.resume();
    gateway.wait_for_stderr("late: now ready, 14 tools");
    gateway.wait_for_stderr("all 2 servers are ready");
}

#[test]
fn addresses_that_two_servers_have_are_told_of_once_however_often_they_change() {
    let (one, two) = (Upstream::legacy("same"), Upstream::modern("same"));
    let gateway = Gateway::start(&format!(
        "[servers.one]\nurl = \"{}\"\n[servers.two]\nurl = \"{}\"\n",
        one.url(),
        two.url()
    ));
    gateway.settled(28);
    let line = "addresses of `two` are left out: they belong to `one`, such as `same://";
    gateway.wait_for_stderr(&format!("in namespace `default`: 4 {line}"));
    for server in [&one, &two] {
        server.until("the gateway listens", |server| server.streams() > 0);
        let asked = server.count("resources/list");
        server.announce("resources");
        server.until("it is asked again", |server| server.count("resources/list") > asked);
    }
    gateway.wait_for_stderr("all 2 servers are ready");
    let told = gateway.stderr();
    let told = told.iter().filter(|told| told.contains("warning") && told.contains(line)).count();
    assert_eq!(told, 1, "{:#?}", gateway.stderr());
}
