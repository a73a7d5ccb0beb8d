//! What the servers of a namespace are called together: prefixes, names of the operator, names that collide, and what a
//! request may narrow itself to.

use serde_json::{Value, json};

use crate::harness::{
    clients::either::Either,
    gateway::{Gateway, Place, stdio, until, until_or},
    governed::{TOOLS, code},
    text,
    upstream::{Era, Upstream},
};

/// The table of a server under another name than its own.
fn table(name: &str, server: &Upstream, more: &str) -> String {
    format!("[servers.{name}]\nurl = \"{}\"\n{more}\n", server.url())
}

/// A server with `beta_0`, `beta_1`, `beta_write` and `echo`.
fn beta(era: Era) -> Upstream {
    let server = Upstream::numbered("beta", era, 2);
    server.add_tool("echo");
    server
}

fn prompts(client: &Either) -> Vec<String> {
    let listed = client.list("prompts/list", "prompts");
    listed.iter().map(|prompt| prompt["name"].as_str().unwrap().to_owned()).collect()
}

/// What a prompt says.
fn greeting(client: &Either, prompt: &str) -> String {
    let params = json!({"name": prompt, "arguments": {"who": "you"}});
    let answer = client.request("prompts/get", params);
    answer["result"]["messages"][0]["content"]["text"].as_str().unwrap_or(&answer.raw).to_owned()
}

/// What completes an argument of it.
fn completion(client: &Either, reference: &Value) -> Value {
    let params = json!({"ref": reference, "argument": {"name": "who", "value": "x"}});
    client.request("completion/complete", params)["result"]["completion"]["values"][0].clone()
}

const ALPHA: [&str; 14] = [
    "echo", "slow", "progress", "log", "big", "whoami", "see", "answer", "link", "write", "elicit",
    "sample", "roots", "reject",
];

#[test]
fn of_names_that_several_have_the_first_stays_and_the_others_get_a_prefix() {
    let (alpha, beta) = (Upstream::legacy("alpha"), beta(Era::Modern));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"beta\", \"alpha\"]\n",
        alpha.table("prefix = \"al\""),
        beta.table("")
    ));
    gateway.settled(18);
    let mut expected = vec!["beta_0", "beta_1", "beta_write", "echo", "al__echo"];
    expected.extend(&ALPHA[1..]);
    for client in gateway.both() {
        assert_eq!(client.tools(), expected, "{}", client.era());
        for (tool, server) in [("echo", &beta), ("al__echo", &alpha)] {
            let before = server.executions("echo", tool);
            assert_eq!(text(&client.call(tool, json!({"text": tool}))), tool);
            assert_eq!(server.executions("echo", tool), before + 1, "{tool}");
        }
        assert_eq!(text(&client.call("beta_1", json!({"text": "x"}))), "beta:beta_1:x");
        for nobody in ["alpha__echo", "beta__beta_1", "al__slow", "beta__slow", "__echo"] {
            assert_eq!(code(&client.call(nobody, json!({}))), "UNKNOWN_TOOL", "{nobody}");
        }
        assert_eq!(prompts(&client), ["greet", "al__greet"]);
        assert_eq!(greeting(&client, "greet"), "beta greets you");
        assert_eq!(greeting(&client, "al__greet"), "alpha greets you");
        let (_, unknown) = client.try_request("prompts/get", json!({"name": "beta__greet"}));
        assert_eq!(unknown.unwrap()["error"]["code"], -32602);
        let of_prompt =
            |name: &str| completion(&client, &json!({"type": "ref/prompt", "name": name}));
        assert_eq!(
            (of_prompt("al__greet"), of_prompt("greet")),
            (json!("alpha-x"), json!("beta-x"))
        );
        let template = json!({"type": "ref/resource", "uri": "alpha://t/{id}"});
        assert_eq!(completion(&client, &template), "alpha-x");
    }
    assert_eq!(beta.complaints(), Vec::<String>::new());
    let complete = alpha.seen().into_iter().find(|seen| seen.method == "completion/complete");
    assert_eq!(complete.unwrap().message["params"]["ref"]["name"], "greet", "its own name");
}

#[test]
fn all_names_or_none_get_a_prefix_where_it_is_set_so() {
    let alpha = Upstream::numbered("alpha", Era::Legacy, 2);
    let tables = format!("{}{}", alpha.table(""), stdio("fix", &[], "prefix = \"f.x y\""));
    let gateway = Gateway::start(&format!("{tables}[namespaces.default]\nprefix = \"always\"\n"));
    gateway.settled(17);
    let mut expected: Vec<String> =
        ["alpha__alpha_0", "alpha__alpha_1", "alpha__alpha_write"].map(str::to_owned).into();
    // What some clients do not take in a name is not in a prefix.
    let listed = gateway.modern().tools();
    expected.extend(
        listed[3..].iter().map(|name| format!("f.x_y__{}", name.rsplit("__").next().unwrap())),
    );
    for client in gateway.both() {
        assert_eq!(client.tools(), expected);
        assert_eq!(prompts(&client), ["alpha__greet"]);
        assert_eq!(text(&client.call("f.x_y__echo", json!({"text": "to fix"}))), "to fix");
        assert_eq!(code(&client.call("echo", json!({}))), "UNKNOWN_TOOL");
    }
    let place = gateway.into_place();
    place.configure(&format!("{tables}[namespaces.default]\nprefix = \"never\"\n"));
    let gateway = place.start();
    gateway.settled(17);
    for client in gateway.both() {
        let tools = client.tools();
        assert_eq!(tools[..3], ["alpha_0", "alpha_1", "alpha_write"]);
        assert!(TOOLS.iter().all(|tool| tools.contains(&(*tool).to_owned())), "{tools:?}");
        assert_eq!(prompts(&client), ["greet"]);
        assert_eq!(text(&client.call("echo", json!({"text": "bare"}))), "bare");
    }
}

#[test]
fn long_names_are_cut_with_a_mark_that_stays_the_same() {
    let alpha = Upstream::numbered("alpha", Era::Legacy, 0);
    let long = |end: char| format!("{}{end}", "read_every_file_of_this_folder_".repeat(3));
    let fits = "b".repeat(57);
    for name in [&long('1'), &long('2'), &fits, &"ü".repeat(40)] {
        alpha.add_tool(name);
    }
    let config = format!("{}[namespaces.default]\nprefix = \"always\"\n", alpha.table(""));
    let gateway = Gateway::start(&config);
    gateway.settled(5);
    let names = gateway.modern().tools();
    assert_eq!(names[3], format!("alpha__{fits}"), "64 characters are not too many");
    for name in [&names[1], &names[2], &names[4]] {
        assert!(name.len() <= 64 && name.starts_with("alpha__"), "{name} {}", name.len());
        let (_, mark) = name.rsplit_once('_').unwrap();
        assert!(mark.len() == 8 && mark.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    }
    assert_ne!(names[1], names[2]);
    for client in gateway.both() {
        for (n, end) in [(1, '1'), (2, '2')] {
            let answer = client.call(&names[n], json!({"text": "x"}));
            assert_eq!(text(&answer), format!("alpha:{}:x", long(end)));
        }
        assert_eq!(
            text(&client.call(&names[4], json!({"text": "y"}))),
            format!("alpha:{}:y", "ü".repeat(40))
        );
    }
    // Neither a new start nor a forgotten manifest changes them.
    let place = gateway.into_place();
    let gateway = place.start();
    gateway.settled(5);
    assert_eq!(gateway.modern().tools(), names);
    assert_eq!(Gateway::start(&config).legacy().tools(), names);
}

#[test]
fn names_of_the_operator_are_used_as_they_are() {
    let (alpha, beta) = (Upstream::legacy("alpha"), beta(Era::Legacy));
    let tables = format!("{}{}", alpha.table(""), beta.table(""));
    for (prefix, original, own, echo_of_beta) in [
        ("always", "callable", Some("alpha__echo"), "beta__echo"),
        ("always", "retired", None, "beta__echo"),
        ("on-collision", "callable", None, "echo"),
        ("on-collision", "retired", None, "echo"),
    ] {
        let gateway = Gateway::start(&format!(
            "{tables}[namespaces.default]\nprefix = {prefix:?}\n\
             [namespaces.default.tools.\"alpha/echo\"]\nname = \"say\"\noriginal = {original:?}\n\
             description = \"Says it\"\n[namespaces.default.tools.\"alpha/big\"]\nname = \"large\"\n\
             original = {original:?}\n"
        ));
        gateway.settled(18);
        for client in gateway.both() {
            let tools = client.list("tools/list", "tools");
            assert_eq!(
                (&tools[0]["name"], &tools[0]["description"]),
                (&json!("say"), &json!("Says it"))
            );
            let names = client.tools();
            assert!(
                names.contains(&"large".to_owned()) && names.contains(&echo_of_beta.to_owned()),
                "{names:?}"
            );
            let before = alpha.executions("echo", "hello");
            assert_eq!(text(&client.call("say", json!({"text": "hello"}))), "hello");
            assert_eq!(alpha.executions("echo", "hello"), before + 1);
            assert_eq!(text(&client.call(echo_of_beta, json!({"text": "b"}))), "b");
            if let Some(own) = own {
                assert_eq!(text(&client.call(own, json!({"text": "own"}))), "own");
                assert!(!names.contains(&own.to_owned()), "callable, not listed");
            } else {
                assert_eq!(code(&client.call("alpha__echo", json!({}))), "UNKNOWN_TOOL");
            }
            let big = if prefix == "always" { "alpha__big" } else { "big" };
            let told = code(&client.call(big, json!({}))).to_owned();
            assert_eq!(told.is_empty(), original == "callable", "{prefix} {original}: {told}");
        }
        assert_eq!(beta.executions("echo", "hello"), 0);
    }
}

#[test]
fn names_that_collide_without_a_prefix_refuse_to_start() {
    let (alpha, beta) = (Upstream::legacy("alpha"), beta(Era::Legacy));
    let tables = format!("{}{}", alpha.table(""), beta.table(""));
    let never = format!("{tables}[namespaces.default]\nprefix = \"never\"\n");
    let told_both = |place: &Place| {
        let (status, told) = place.refused();
        assert_eq!(status.code(), Some(2), "{told}");
        for part in ["`echo`", "`alpha/echo`", "`beta/echo`", "`default`", "prefix = \"always\""] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("listening on"), "{told}");
    };
    // Nobody knows the servers yet: they are asked before anybody is let in.
    told_both(&Place::new(&never));
    let place = Place::new(&tables);
    let gateway = place.start();
    gateway.settled(18);
    let place = gateway.into_place();
    // It is known from last time: nobody has to be asked.
    alpha.stop();
    beta.stop();
    place.configure(&never);
    told_both(&place);
    // A name for one of them is what it takes.
    place
        .configure(&format!("{never}[namespaces.default.tools.\"beta/echo\"]\nname = \"echo2\"\n"));
    let (_, told) = place.refused();
    assert!(told.contains("`greet`") && !told.contains("`echo`"), "{told}");
}

#[test]
fn a_collision_that_comes_later_hides_the_later_one_and_is_logged() {
    let alpha = Upstream::numbered("alpha", Era::Legacy, 2);
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"fix\", \"alpha\"]\nprefix = \"never\"\n",
        alpha.table(""),
        stdio("fix", &[], "")
    ));
    gateway.settled(17);
    alpha.until("the gateway listens", |alpha| alpha.streams() > 0);
    let before = gateway.modern().tools();
    let mut streams: Vec<_> = gateway.both().map(|client| (client.listen(&[]), client)).into();
    alpha.add_tool("echo");
    alpha.add_tool("alpha_2");
    alpha.announce("tools");
    let line = gateway.wait_for_stderr("is left out");
    assert!(
        line.contains("`fix/echo`") && line.contains("`alpha/echo`") && line.contains("left out"),
        "{line}"
    );
    let expected: Vec<String> = before.into_iter().chain(["alpha_2".to_owned()]).collect();
    for (stream, client) in &mut streams {
        stream.method("notifications/tools/list_changed");
        until_or(|| client.tools() == expected, || format!("{:?}", client.tools()));
        assert_eq!(text(&client.call("echo", json!({"text": "mine"}))), "mine");
    }
    assert_eq!(alpha.calls("echo"), 0);
    // With a prefix for it, both are there; what nobody else has keeps its name.
    let place = gateway.into_place();
    let config = std::fs::read_to_string(place.path("toolgate.toml")).unwrap();
    place.write("toolgate.toml", &config.replace("\"never\"", "\"on-collision\""));
    let gateway = place.start();
    gateway.settled(19);
    let tools = gateway.modern().tools();
    assert!(
        ["echo", "alpha__echo", "alpha_2", "pid"].iter().all(|t| tools.contains(&(*t).to_owned())),
        "{tools:?}"
    );
}

#[test]
fn a_name_that_another_server_has_gets_a_prefix_while_it_runs() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Modern, 1), Upstream::numbered("beta", Era::Legacy, 1));
    let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
    gateway.settled(4);
    for server in [&alpha, &beta] {
        server.until("the gateway listens", |server| server.streams() > 0);
        server.add_tool("echo");
        server.announce("tools");
        let count = if server.name() == "alpha" { 5 } else { 6 };
        gateway.settled(count);
    }
    let expected = ["alpha_0", "alpha_write", "echo", "beta_0", "beta_write", "beta__echo"];
    for client in gateway.both() {
        assert_eq!(client.tools(), expected);
        assert_eq!(text(&client.call("beta__echo", json!({"text": "b"}))), "b");
    }
    assert_eq!((alpha.executions("echo", "b"), beta.executions("echo", "b")), (0, 2));
}

#[test]
fn a_server_that_lists_something_twice_keeps_nobody_from_starting() {
    let alpha = Upstream::numbered("alpha", Era::Legacy, 1);
    let twice = r#"{"name":"alpha_0","description":"the first","inputSchema":{"type":"object"}}"#;
    alpha.add_raw_tool(twice);
    for prefix in ["always", "on-collision", "never"] {
        let config = format!(
            "{}{}[namespaces.default]\nprefix = {prefix:?}\n",
            alpha.table(""),
            stdio("fix", &[], "")
        );
        let gateway = Gateway::start(&config);
        gateway.settled(16);
        let place = gateway.into_place();
        let mut is_doubled = false;
        for file in std::fs::read_dir(place.path("state/toolgate/manifests")).unwrap() {
            let path = file.unwrap().path();
            let mut manifest: Value =
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let prompts = manifest["prompts"]["entries"].as_array_mut().unwrap();
            is_doubled |= !prompts.is_empty();
            prompts.extend(prompts.clone());
            std::fs::write(&path, manifest.to_string()).unwrap();
        }
        assert!(is_doubled);
        let gateway = place.start();
        gateway.settled(16);
        let tools = gateway.modern().list("tools/list", "tools");
        assert_eq!(tools[0]["description"], "the first", "{prefix}");
    }
}

#[test]
fn a_request_narrows_itself_to_tools_by_the_names_that_it_sees() {
    let (alpha, beta) = (Upstream::legacy("alpha"), beta(Era::Legacy));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default.tools.\"beta/beta_write\"]\nname = \"store\"\n",
        alpha.table(""),
        beta.table("")
    ));
    gateway.settled(18);
    let only = json!({"allowedTools": ["beta__echo", "store", "slow"]});
    for client in gateway.both() {
        let allowed = |tool: &str| {
            code(&client.call_with(tool, json!({"text": "n"}), only.clone())).to_owned()
        };
        assert_eq!((allowed("beta__echo"), allowed("store")), (String::new(), String::new()));
        // Another server's tool of the same own name is another tool.
        for other in ["alpha__echo", "beta_0", "big"] {
            assert_eq!(allowed(other), "TOOL_NOT_ALLOWED", "{other}, {}", client.era());
        }
        let list = client.request("tools/list", json!({"_meta": only}));
        let listed = list["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["slow", "store", "beta__echo"], "{}", client.era());
        let own = json!({"allowedTools": ["alpha/echo", "beta_write"]});
        assert_eq!(code(&client.call_with("alpha__echo", json!({}), own.clone())), "");
        assert_eq!(
            code(&client.call_with("store", json!({}), own)),
            "TOOL_NOT_ALLOWED",
            "nobody sees that name"
        );
    }
    assert_eq!(alpha.executions("echo", "n"), 0);
    let seen = beta.seen().into_iter().filter(|seen| seen.method == "tools/call");
    assert!(
        seen.clone().count() > 0 && seen.into_iter().all(|seen| !seen.raw.contains("allowedTools"))
    );
}

#[test]
fn new_tools_of_any_server_are_quarantined_under_the_names_that_clients_see() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Legacy, 1), Upstream::numbered("beta", Era::Modern, 1));
    let config = format!(
        "store = \"sqlite:x.db\"\n{}{}[namespaces.default]\nprefix = \"always\"\nnew_tools = \"quarantine\"\n",
        table("one", &alpha, ""),
        table("two", &beta, "")
    );
    let gateway = Gateway::start(&config);
    let met = ["one__alpha_0", "one__alpha_write", "two__beta_0", "two__beta_write"];
    gateway.settled(4);
    until("those that came first are trusted", || {
        gateway.both().iter().all(|client| code(&client.call("two__beta_0", json!({}))).is_empty())
    });
    for server in [&alpha, &beta] {
        server.until("the gateway listens", |server| server.streams() > 0);
        server.add_tool("fresh");
        let listed = server.count("tools/list");
        server.announce("tools");
        server.until("it is listed again", |server| server.count("tools/list") > listed);
    }
    let quarantined = |gateway: &Gateway| {
        for client in gateway.both() {
            for fresh in ["one__fresh", "two__fresh"] {
                let told = || {
                    let answer = client.call(fresh, json!({}));
                    assert_eq!(code(&answer), "TOOL_QUARANTINED", "listed or not: {}", answer.raw);
                    text(&answer).to_owned()
                };
                let known = fresh.replace("__", "/");
                until_or(|| told().contains(&format!("{known}\"] status = \"active\"")), told);
            }
            assert_eq!(client.tools(), met, "{}", client.era());
        }
    };
    quarantined(&gateway);
    let place = gateway.into_place();
    let gateway = place.start();
    gateway.settled(4);
    quarantined(&gateway);
    let place = gateway.into_place();
    place.configure(&format!(
        "{config}[namespaces.default.tools.\"two/fresh\"]\nstatus = \"active\"\n"
    ));
    let gateway = place.start();
    gateway.settled(5);
    assert_eq!(
        text(&gateway.legacy().call("two__fresh", json!({"text": "now"}))),
        "beta:fresh:now"
    );
    assert_eq!((alpha.calls("fresh"), beta.calls("fresh")), (0, 1));
}
