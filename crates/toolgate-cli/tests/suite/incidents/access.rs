//! Who reaches what: namespaces, tokens, rejected requests, loops, web pages, environments, and the config itself.

use std::{
    io::Write as _,
    net::TcpListener,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    harness::matrix::{ALL, Client, Setup, Via, refused},
    harness::{
        Session,
        clients::{Legacy, Modern},
        example,
        gateway::{Gateway, Place, until, until_or},
        http, toolgate,
    },
};

/// A spy behind the gateway.
fn spy(name: &str) -> String {
    let program = example("spy").display().to_string();
    format!("[servers.{name}]\ncommand = {program:?}\n")
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs toolgate to its end; gives whether it succeeded and what it wrote.
fn run(place: &Place, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(toolgate());
    command.args(arguments).current_dir(place.path("")).env_remove("TOOLGATE_CONFIG");
    command.env("XDG_STATE_HOME", place.path("state")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// A body that every address understands as far as it gets.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> http::Answer {
    let all = [
        &[("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")],
        headers,
    ]
    .concat();
    gateway.exchange("POST", path, &all, PING)
}

/// [review 3] `/mcp` served every tool without a rule when the config defined other namespaces only.
#[test]
fn a_namespace_that_the_config_does_not_define_does_not_exist() {
    let config = format!(
        "{}{}[namespaces.review]\nservers = [\"s\"]\nsafety = \"readonly\"\n",
        spy("s"),
        spy("lost")
    );
    let gateway = Gateway::start(&config);
    let client = Modern::new(gateway.address, "/mcp/review");
    until("its tools", || client.tools().contains(&"safe".to_owned()));
    assert!(!client.tools().contains(&"wipe".to_owned()));
    for path in ["/mcp", "/mcp/", "/mcp/default", "/sse", "/messages"] {
        let method = if path == "/sse" { "GET" } else { "POST" };
        let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
        let mut answer = gateway.exchange(method, path, &headers, PING);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (404, "there is no such namespace\n"),
            "{path}"
        );
    }
    gateway.wait_for_stderr("`lost` belongs to no namespace");
    gateway.wait_for_stderr("To use it, put this into");
    let told = gateway.stderr().join("\n");
    assert!(told.contains("unused") && told.contains("in place of the servers"), "{told}");
    assert!(
        told.contains("/mcp/review") && !told.contains("/mcp\"") && !told.contains("/mcp\n"),
        "{told}"
    );
}

/// [issue 12.2] `wrap` and `stdio` without `--namespace` ran ungoverned when the config defined other namespaces only.
#[test]
fn wrap_and_stdio_refuse_a_config_without_their_namespace() {
    let place = Place::new(&format!("{}[namespaces.review]\nsafety = \"readonly\"\n", spy("s")));
    let config = place.path("toolgate.toml").display().to_string();
    let program = example("spy").display().to_string();
    for arguments in [
        vec!["wrap", "--config", &config, "--server", "s"],
        vec!["wrap", "--config", &config, "--", &program],
        vec!["stdio", "--config", &config],
    ] {
        let (succeeded, told) = run(&place, &arguments);
        assert!(
            !succeeded && told.contains("`review`") && told.contains("--namespace"),
            "{arguments:?}: {told}"
        );
    }
    let mut command = Command::new(toolgate());
    command.args(["wrap", "--config", &config, "--server", "s", "--namespace", "review"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let mut session = Session::spawn(command, tempfile::tempdir().unwrap());
    session.initialize();
    assert!(refused(&session.call("wipe", json!({}))));
    assert!(!refused(&session.call("safe", json!({}))));
    // Those that look at the whole gateway say which namespace they mean.
    let (checked, told) = run(&place, &["check", "--config", &config]);
    assert!(checked && told.contains("namespace `review`"), "{told}");
    let (is_allowed, told) = run(&place, &["why", "--config", &config, "wipe"]);
    assert!(!is_allowed && told.contains("s/wipe for"), "{told}");
    assert!(told.contains("in namespace review") && told.contains("DENIES"), "{told}");
    let (_, told) = run(&place, &["chain", "--config", &config]);
    assert!(told.contains("up to readonly"), "{told}");
}

const ADMIN: (&str, &str) = ("Authorization", "Bearer token-of-the-admin-1");
const INTERN: (&str, &str) = ("Authorization", "Bearer token-of-the-intern");

/// [users 0.3] The intern's token reached the admin's namespace.
#[test]
fn a_token_opens_only_the_namespaces_it_is_bound_to() {
    let gateway = Gateway::start(&format!(
        "{}[serve.tokens.admin]\ntoken = \"token-of-the-admin-1\"\nnamespaces = [\"admin\", \"review\"]\n\
         [serve.tokens.intern]\ntoken = \"token-of-the-intern\"\nnamespaces = [\"review\"]\n\
         [namespaces.admin]\n[namespaces.review]\nsafety = \"readonly\"\n",
        spy("s")
    ));
    let admin = Modern::new(gateway.address, "/mcp/admin").with_token("token-of-the-admin-1");
    until("its tools", || admin.tools().contains(&"wipe".to_owned()));
    let intern = Modern::new(gateway.address, "/mcp/review").with_token("token-of-the-intern");
    assert!(intern.tools().contains(&"safe".to_owned()));
    // A session of the admin, for requests that name one.
    let session =
        Legacy::new(gateway.address, "/mcp/admin").with_token("token-of-the-admin-1").connected();
    for method in ["POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD"] {
        for start in ["/mcp", "/sse", "/messages"] {
            let ask = |name: &str, token: Option<(&str, &str)>| {
                let mut headers = vec![
                    ("Content-Type", "application/json"),
                    ("Accept", "text/event-stream, application/json"),
                ];
                headers.extend(token);
                let mut answer =
                    gateway.exchange(method, &format!("{start}/{name}?session=1"), &headers, PING);
                let text = if method == "HEAD" { String::new() } else { answer.text() };
                (answer.status, text, answer.header("allow").map(str::to_owned))
            };
            assert_eq!(
                ask("admin", Some(INTERN)),
                ask("nothing", Some(INTERN)),
                "{method} {start}"
            );
            assert_eq!(ask("admin", None), ask("nothing", None), "{method} {start}");
            assert!([401, 405].contains(&ask("admin", None).0), "{method} {start}");
        }
    }
    assert_eq!(post(&gateway, "/mcp/admin", &[INTERN]).status, 404);
    assert_ne!(post(&gateway, "/mcp/admin", &[ADMIN]).status, 404);
    drop(session);
}

/// [issue 12.2] Several tokens and several namespaces without a binding started, and every token opened every namespace.
#[test]
fn several_tokens_for_several_namespaces_must_be_bound() {
    let namespaces = "[namespaces.a]\n[namespaces.b]\n";
    let one = "[serve.tokens.one]\ntoken = \"token-of-number-one\"\nnamespaces = [\"a\"]\n";
    for (tokens, part) in [
        (
            "[serve]\ntokens = { one = \"token-of-number-one\", two = \"token-of-number-two\" }\n"
                .to_owned(),
            "[serve.tokens.one]",
        ),
        (
            format!("{one}[serve.tokens.two]\ntoken = \"token-of-number-two\"\n"),
            "[serve.tokens.two]",
        ),
        (
            format!(
                "{one}[serve.tokens.two]\ntoken = \"token-of-number-two\"\nnamespaces = [\"c\"]\n"
            ),
            "`c`",
        ),
        (
            format!("{one}[serve.tokens.two]\ntoken = \"token-of-number-two\"\nnamespaces = []\n"),
            "opens no namespace",
        ),
    ] {
        let (status, told) = Place::new(&format!("{tokens}{namespaces}")).refused();
        assert!(!status.success() && told.contains(part) && told.contains("namespace"), "{told}");
        assert!(!told.contains("token-of-number"), "{told}");
    }
    let both = format!(
        "{one}[serve.tokens.two]\ntoken = \"token-of-number-two\"\nnamespaces = [\"*\"]\n{namespaces}"
    );
    let gateway = Gateway::start(&both);
    assert_eq!(
        post(&gateway, "/mcp/b", &[("Authorization", "Bearer token-of-number-one")]).status,
        404
    );
    assert_ne!(
        post(&gateway, "/mcp/b", &[("Authorization", "Bearer token-of-number-two")]).status,
        404
    );
    // One token, or one namespace, needs no binding.
    let gateway = Gateway::start(&format!(
        "[serve]\ntokens = {{ one = \"token-of-number-one\" }}\n{namespaces}"
    ));
    assert_ne!(
        post(&gateway, "/mcp/b", &[("Authorization", "Bearer token-of-number-one")]).status,
        404
    );
    gateway.wait_for_stderr("Authorization");
}

/// The records of rejected requests.
fn rejections(gateway: &Gateway) -> Vec<Value> {
    let text = std::fs::read_to_string(gateway.path("audit.jsonl")).unwrap_or_default();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["event"] == "rejected").collect()
}

/// [users 0.7] Requests that were rejected with 401 and 403 left no log line, no audit record and no metric.
#[test]
fn rejected_requests_are_logged_audited_and_counted() {
    let metrics = free_port();
    let gateway = Gateway::start(&format!(
        "telemetry = {{ prometheus = \"127.0.0.1:{metrics}\" }}\nlimits = {{ message_bytes = 10000 }}\n\
         [serve]\ntokens = {{ ci = \"token-of-the-builder\" }}\n"
    ));
    let good = ("Authorization", "Bearer token-of-the-builder");
    let large = "x".repeat(20_000);
    let headers = [("Content-Type", "application/json"), good];
    for (status, answer) in [
        (401, post(&gateway, "/mcp", &[])),
        (401, post(&gateway, "/mcp", &[("Authorization", "Bearer a-guess-at-the-token")])),
        (403, post(&gateway, "/mcp", &[good, ("Host", "evil.example")])),
        (403, post(&gateway, "/mcp", &[good, ("Origin", "https://evil.example")])),
        (404, post(&gateway, "/mcp/secret", &[good])),
        (404, post(&gateway, "/elsewhere", &[good])),
        (405, gateway.exchange("PUT", "/mcp", &[good], "")),
        (413, gateway.exchange("POST", "/mcp", &headers, &large)),
        (
            404,
            gateway.exchange(
                "GET",
                "/mcp",
                &[good, ("Accept", "text/event-stream"), ("Mcp-Session-Id", "stolen")],
                "",
            ),
        ),
    ] {
        assert_eq!(answer.status, status);
    }
    until_or(|| rejections(&gateway).len() == 9, || format!("{:?}", rejections(&gateway)));
    let told = rejections(&gateway);
    for reason in [
        "no_token",
        "bad_token",
        "unknown_host",
        "unknown_origin",
        "no_namespace",
        "no_such_path",
        "method",
        "too_large",
        "not_found",
    ] {
        let found = told.iter().find(|record| record["reason"] == reason);
        assert!(
            found.is_some_and(|r| r["peer"].as_str().is_some_and(|p| p.starts_with("127.0.0.1:"))),
            "{reason}: {told:?}"
        );
        gateway.wait_for_stderr(reason);
    }
    let scraped =
        http::exchange(([127, 0, 0, 1], metrics).into(), "GET", "/metrics", &[], b"").text();
    for reason in ["no_token", "too_large"] {
        let line = scraped.lines().find(|line| line.contains("rejected") && line.contains(reason));
        assert!(line.is_some_and(|line| line.ends_with(" 1")), "{scraped}");
    }
    let audit = std::fs::read_to_string(gateway.path("audit.jsonl")).unwrap();
    let log = gateway.stderr().join("\n");
    for secret in ["a-guess-at-the-token", "token-of-the-builder", "stolen"] {
        assert!(!audit.contains(secret) && !log.contains(secret), "{secret}");
    }
    let file = gateway.path("audit.jsonl").display().to_string();
    let (verified, told) = run(gateway.place(), &["audit", "verify", &file]);
    assert!(verified, "{told}");
}

/// [issue 12.2] A flood of rejected requests could fill the disk with log lines and audit records.
#[test]
fn a_flood_of_rejected_requests_is_counted() {
    let gateway = Gateway::start("[serve]\ntokens = { ci = \"token-of-the-builder\" }\n");
    let path = format!("/mcp/{}", "x".repeat(5000));
    for _ in 0..500 {
        assert_eq!(post(&gateway, &path, &[]).status, 401);
    }
    until("they are told", || !rejections(&gateway).is_empty());
    let told = gateway.stderr().iter().filter(|line| line.contains("rejected with")).count();
    assert!(told < 500 && rejections(&gateway).len() < 500, "{told}");
    let audit = std::fs::metadata(gateway.path("audit.jsonl")).unwrap().len();
    assert!(audit < 500 * 500, "{audit} bytes");
}

/// [users 0.1] A gateway that followed its own advice called itself 9,961 times for one call.
#[test]
fn an_upstream_that_is_the_gateway_itself_is_refused() {
    let port = free_port();
    let toolgate = toolgate().display().to_string();
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let place = Place::new(&format!("[servers.me]\nurl = \"http://{host}:{port}/mcp\"\n"));
        let mut command = place.command();
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        refuses(command, "`me` is this gateway itself");
    }
    let url = format!("http://127.0.0.1:{port}/mcp/x");
    for words in [
        vec![toolgate.as_str(), "stdio", "--to", &url],
        vec![&toolgate, "wrap", "--", &toolgate, "stdio", &format!("--to={url}")],
        vec!["npx", "mcp-remote", &url],
        vec!["sh", "-c", &format!("exec toolgate stdio --to '{url}'")],
    ] {
        let place = Place::new(&format!(
            "[servers.me]\ncommand = {:?}\nargs = {:?}\n",
            words[0],
            &words[1..]
        ));
        let mut command = place.command();
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        refuses(command, "`me` leads back to this gateway");
    }
    // The file of a client that has toolgate in it.
    let place = Place::new("");
    place.write(
        "mcp.json",
        &json!({"mcpServers": {"me": {"type": "http", "url": url}}}).to_string(),
    );
    let mut command = Command::new(&toolgate);
    command.arg("serve").arg(place.path("mcp.json")).args(["--listen", &port.to_string()]);
    command.env("XDG_STATE_HOME", place.path("state"));
    refuses(command, "in place of the servers");
}

fn refuses(mut command: Command, part: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains(part), "{command:?}: {told}");
}

/// Starts a gateway on a port.
fn at(port: u16, place: Place) -> Gateway {
    let mut command = Command::new(toolgate());
    command.arg("serve").arg(place.path("toolgate.toml"));
    command.args(["--listen", &format!("127.0.0.1:{port}")]).current_dir(place.path(""));
    command.env("XDG_STATE_HOME", place.path("state")).env("TOOLGATE_LOG", "info");
    place.start_as(command)
}

/// Waits until a gateway lists a tool.
fn lists(gateway: &Gateway, tool: &str) {
    let client = gateway.legacy();
    let told = || format!("{tool} is listed: {:?} {:#?}", client.tools(), gateway.stderr());
    until_or(|| client.tools().contains(&tool.to_owned()), told);
}

/// The config of a gateway that leads to the gateway on this port.
type Way<'a> = &'a dyn Fn(u16) -> String;

/// [users 0.1] A loop over several gateways called itself without end.
#[test]
fn a_loop_over_two_gateways_is_rejected_and_named() {
    let toolgate = toolgate().display().to_string();
    let by_url = |port: u16| format!("[servers.next]\nurl = \"http://127.0.0.1:{port}/mcp\"\n");
    let by_old_url = |port: u16| {
        format!("[servers.next]\nurl = \"http://127.0.0.1:{port}/sse\"\ntransport = \"sse\"\n")
    };
    let by_bridge = |port: u16| {
        let words = ["stdio".to_owned(), "--to".to_owned(), format!("http://127.0.0.1:{port}/mcp")];
        format!("[servers.next]\ncommand = {toolgate:?}\nargs = {words:?}\n")
    };
    let by_wrap = |port: u16| {
        let words = [
            "wrap".to_owned(),
            "--audit=off".to_owned(),
            "--".to_owned(),
            toolgate.clone(),
            "stdio".to_owned(),
            "--to".to_owned(),
            format!("http://127.0.0.1:{port}/mcp"),
        ];
        format!("[servers.next]\ncommand = {toolgate:?}\nargs = {words:?}\n")
    };
    let ways: [(Way<'_>, Way<'_>); 4] = [
        (&by_url, &by_url),
        (&by_bridge, &by_bridge),
        (&by_wrap, &by_url),
        (&by_old_url, &by_bridge),
    ];
    for (there, back) in ways {
        let (one, two) = (free_port(), free_port());
        // A tool that both know is the spy's; in the loop it has a name of its own at each gateway.
        let always = "[namespaces.default]\nprefix = \"always\"\n";
        let second = at(two, Place::new(&format!("{}{}{always}", back(one), spy("s"))));
        let first = at(one, Place::new(&format!("{}{always}", there(two))));
        // Each is started once more when the other has something to list, so that both list what goes round.
        lists(&first, "next__s__safe");
        let second = at(two, second.into_place());
        lists(&second, "next__next__s__safe");
        let first = at(one, first.into_place());
        let looped = "next__next__next__s__safe";
        lists(&first, looped);
        for client in first.both() {
            let answer = client.call("next__s__safe", json!({}));
            assert!(!refused(&answer), "what does not go round is called as ever: {}", answer.raw);
            // The other gateway may still wait before it connects again.
            let mut said = String::new();
            let mut is_found = || {
                let answer = client.call(looped, json!({}));
                assert!(refused(&answer), "{}", answer.raw);
                said.clone_from(&answer.raw);
                said.contains("loop of gateways")
            };
            let mut is_named = false;
            until_or(
                || {
                    is_named = is_found();
                    is_named
                },
                || "the loop is found".to_owned(),
            );
            assert!(said.contains("did not run") && said.contains(" -> "), "{said}");
        }
        let calls = first.audit().len() + second.audit().len();
        assert!(calls < 500, "{calls} calls were recorded");
    }
}

/// [issue 12.2] A client could claim in a header that its request has passed any gateways.
#[test]
fn a_hop_list_of_a_client_only_rejects() {
    let gateway = Gateway::start(&spy("s"));
    let client = gateway.modern();
    until("its tools", || client.tools().contains(&"safe".to_owned()));
    for (hops, is_refused) in [
        (json!("0123456789abcdef"), false),
        (json!("x"), true),
        (json!(7), true),
        (json!([]), true),
    ] {
        let answer = gateway.modern().with_meta(json!({"toolgate/hops": hops}));
        let params = json!({"name": "safe", "arguments": {}});
        let (_, answer) = answer.try_request("tools/call", params);
        assert_eq!(refused(&answer), is_refused, "{hops}: {}", answer.raw);
    }
    let many: Vec<String> = (0..40).map(|n| format!("{n:016x}")).collect();
    let (status, _) =
        client.raw(&client.body("tools/list", json!({})).1, &[("Toolgate-Hops", &many.join(","))]);
    assert_eq!(status, 400);
}

/// [issue 12.2] A web page of an allowed origin could not use the gateway, because its browser was told nothing.
#[test]
fn pages_of_allowed_origins_and_no_others_get_cors() {
    let gateway = Gateway::start(
        "[serve]\norigins = [\"https://app.example\"]\ntokens = { ci = \"token-of-the-builder\" }\n",
    );
    let page = ("Origin", "https://app.example");
    let asks = [
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization, content-type, mcp-param-region, x-evil"),
        ("Access-Control-Request-Private-Network", "true"),
    ];
    let preflight = |path: &str, origin: (&str, &str)| {
        gateway.exchange("OPTIONS", path, &[&[origin][..], &asks].concat(), "")
    };
    let heads = |answer: &http::Answer| {
        let mut heads: Vec<_> = answer
            .headers
            .0
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("date"))
            .cloned()
            .collect();
        heads.sort();
        (answer.status, heads)
    };
    let answer = preflight("/mcp", page);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(answer.header("access-control-allow-private-network"), Some("true"));
    assert_eq!(answer.header("vary"), Some("Origin"));
    assert!(answer.header("access-control-max-age").is_some());
    let allowed = answer.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    for name in [
        "authorization",
        "content-type",
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "last-event-id",
        "mcp-param-region",
    ] {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}: {allowed}");
    }
    assert!(!allowed.contains("x-evil") && !allowed.contains('*'), "{allowed}");
    for method in ["GET", "POST", "DELETE"] {
        assert!(answer.header("access-control-allow-methods").unwrap().contains(method));
    }
    // It tells of no namespace.
    assert_eq!(heads(&answer), heads(&preflight("/mcp/no-such-namespace", page)));
    // The request itself, rejected or not.
    for (status, token) in [(401, "Bearer wrong"), (400, "Bearer token-of-the-builder")] {
        let answer = post(&gateway, "/mcp", &[page, ("Authorization", token)]);
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert!(
            exposed.contains("Mcp-Session-Id") && exposed.contains("WWW-Authenticate"),
            "{exposed}"
        );
    }
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
        "http://app.example",
        "https://app.example:444",
        "http://localhost:3000",
    ] {
        let answer = preflight("/mcp", ("Origin", origin));
        assert_eq!(answer.status, 403, "{origin}");
        let other = post(
            &gateway,
            "/mcp",
            &[("Origin", origin), ("Authorization", "Bearer token-of-the-builder")],
        );
        for answer in [answer, other] {
            assert!(
                !answer
                    .headers
                    .0
                    .iter()
                    .any(|(name, _)| name.to_ascii_lowercase().starts_with("access-control")),
                "{origin}"
            );
        }
    }
    let plain = post(&gateway, "/mcp", &[]);
    assert_eq!(plain.header("access-control-allow-origin"), None);
}

/// The environment that the spy says it has.
fn environment(answer: &Value) -> Value {
    let text =
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap()
}

/// [review 10] A child read the variable that held another client's token, and could call the gateway in its name.
#[test]
fn a_child_gets_the_small_environment_of_the_sdks() {
    let small = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
    let secrets = "[servers.web]\nurl = \"http://127.0.0.1:9/mcp\"\n\
        headers = { Authorization = \"Bearer ${CI_TOKEN}\" }\n[servers.other]\ncommand = \"true\"\n\
        env = { KEY = \"${OTHER_KEY}\" }\n[namespaces.default]\nservers = [\"main\"]\n";
    let with = |server: &str| {
        Setup::new(secrets)
            .server(server)
            .env("CI_TOKEN", "the-token-of-the-builder")
            .env("OTHER_KEY", "the-key-of-another")
            .env("MINE", "mine")
            .env("PLAIN", "plain")
            .env("SHELLSHOCK", "() { :; }")
    };
    let ways: Vec<Via> =
        ALL.into_iter().filter(|via| !matches!(via, Via::Bridge | Via::BridgeModern)).collect();
    with("env = { MY_KEY = \"${MINE}\" }").through(&ways, |client| {
        let got = environment(&client.call("env", json!({})));
        assert_eq!(got["MY_KEY"], "mine");
        for name in got.as_object().unwrap().keys() {
            assert!(small.contains(&name.as_str()) || name == "MY_KEY", "{name}: {got}");
        }
    });
    with("env = { MY_KEY = \"${MINE}\" }\ninherit_env = true").through(
        &[Via::Wrap, Via::Stdio, Via::Legacy],
        |client| {
            let got = environment(&client.call("env", json!({})));
            assert!(
                got["PLAIN"] == "plain" && got["MY_KEY"] == "mine" && got["MINE"] == "mine",
                "{got}"
            );
            for name in ["CI_TOKEN", "OTHER_KEY", "SHELLSHOCK"] {
                assert!(got.get(name).is_none(), "{name}: {got}");
            }
            assert!(
                !got.to_string().contains("the-token-of")
                    && !got.to_string().contains("the-key-of"),
                "{got}"
            );
        },
    );
    with("only_env = [\"PLAIN\", \"OTHER_KEY\"]").through(&[Via::Wrap, Via::Legacy], |client| {
        let got = environment(&client.call("env", json!({})));
        assert!(
            got["PLAIN"] == "plain" && got.get("MINE").is_none() && got.get("OTHER_KEY").is_none(),
            "{got}"
        );
    });
}

/// [issue 12.5] A command after `toolgate wrap --` missed the variables that its client set for it, or got the secrets that the config reads.
#[test]
fn a_wrapped_command_gets_what_its_client_set_and_no_secret_of_the_config() {
    let place = Place::new("[serve]\ntokens = { ci = \"${CI_TOKEN}\" }\n");
    let config = place.path("toolgate.toml").display().to_string();
    let program = example("spy").display().to_string();
    for more in [&[][..], &["--only-env", "API_KEY,CI_TOKEN"]] {
        let mut session = Session::wrap_in(
            &[&["--config", &config][..], more].concat(),
            &[&program],
            |command| {
                command
                    .env("CI_TOKEN", "the-token-of-the-builder")
                    .env("API_KEY", "for the server");
                command
                    .env("TOOLGATE_STORE", format!("sqlite:{}", place.path("calls.db").display()))
                    .env("XDG_STATE_HOME", place.path("state"));
            },
        );
        session.initialize();
        let got = environment(&session.call("env", json!({})));
        assert_eq!(got["API_KEY"], "for the server");
        assert!(got.get("CI_TOKEN").is_none() && got.get("TOOLGATE_STORE").is_none(), "{got}");
    }
}

/// [review 12] An agent wrote the config that governed it, and its next call was allowed.
#[test]
fn a_change_that_widens_waits_and_one_that_narrows_does_not() {
    let widenings = [
        ("safety = \"readonly\"", "safety = \"destructive\"", "safety"),
        ("safety = \"readonly\"", "", "safety"),
        (
            "safety = \"readonly\"\n[namespaces.default.tools.\"main/wipe\"]\nstatus = \"inactive\"",
            "safety = \"readonly\"\n[namespaces.default.tools.\"main/wipe\"]\ntier = \"readonly\"",
            "tools",
        ),
        (
            "policy = \"p\"\n[policies.p]\nallow = [\"main/safe\"]",
            "policy = \"p\"\n[policies.p]\nallow = [\"main/*\"]",
            "policies",
        ),
        ("policy = \"p\"\n[policies.p]\nallow = [\"main/safe\"]", "", "policy"),
        ("[flags]\ndisabled = [\"main/wipe\"]", "", "flags"),
        // Wider and narrower at once: neither is applied.
        (
            "safety = \"readonly\"",
            "safety = \"destructive\"\n[flags]\ndisabled = [\"main/safe\"]",
            "safety",
        ),
    ];
    for (number, (narrow, wide, key)) in widenings.into_iter().enumerate() {
        let via = [Via::Wrap, Via::Stdio, Via::Legacy][number % 3];
        let text = |rules: &str| format!("[namespaces.default]\n{rules}\n");
        let mut client = Setup::new(&text(narrow)).client(via);
        assert!(refused(&client.call("wipe", json!({}))), "{narrow}");
        let config = client.path("toolgate.toml");
        let written = std::fs::read_to_string(&config).unwrap().replace(narrow, wide);
        replace(&client.path(""), &written);
        let parts = ["the changed config waits", key, "toolgate reload"];
        StderrLines::default().wait(&mut client, &parts);
        assert!(refused(&client.call("wipe", json!({}))), "{wide}");
        assert!(!refused(&client.call("safe", json!({}))), "{wide}");
    }
}

/// [issue 12.5] A config change that narrows access could wait for the operator's `toolgate reload`, like one that widens access.
#[test]
fn narrowing_applies_at_once_and_reload_applies_the_rest() {
    for via in [Via::Wrap, Via::Stdio, Via::Modern] {
        let mut told = StderrLines::default();
        let mut client = Setup::new("[namespaces.default]\nsafety = \"destructive\"\n").client(via);
        assert!(!refused(&client.call("wipe", json!({}))));
        let wide = std::fs::read_to_string(client.path("toolgate.toml")).unwrap();
        let narrow = wide.replace("destructive", "readonly");
        replace(&client.path(""), &narrow);
        told.wait(&mut client, &["the config has changed"]);
        assert!(refused(&client.call("wipe", json!({}))), "{via:?}");
        replace(&client.path(""), &wide);
        told.wait(&mut client, &["the changed config waits"]);
        assert!(refused(&client.call("wipe", json!({}))), "{via:?}");
        let reload = |config: &str| {
            let mut command = Command::new(toolgate());
            command.args(["reload", "--config"]).arg(client.path(config));
            command.env("XDG_STATE_HOME", client.path("state"));
            command.output().unwrap()
        };
        std::fs::write(client.path("other.toml"), "").unwrap();
        assert!(!reload("other.toml").status.success());
        let output = reload("toolgate.toml");
        assert!(output.status.success(), "{output:?}");
        told.wait(&mut client, &["the config has changed"]);
        assert!(!refused(&client.call("wipe", json!({}))), "{via:?}");
    }
    let place = Place::new("");
    let (succeeded, told) = run(&place, &["reload"]);
    assert!(!succeeded && told.contains("no gateway of this user runs"), "{told}");
}

/// [users 0.6] A leaked token stayed valid until a restart.
#[test]
fn a_token_that_is_removed_is_invalid_at_once_and_a_new_one_waits() {
    let config = |tokens: &str| format!("[serve.tokens]\n{tokens}\n");
    let gateway =
        Gateway::start(&config("one = \"token-of-number-one\"\ntwo = \"token-of-number-two\""));
    let status = |token: &str| {
        post(&gateway, "/mcp", &[("Authorization", &format!("Bearer token-of-number-{token}"))])
            .status
    };
    assert!(status("one") == 400 && status("two") == 400 && status("six") == 401);
    gateway.place().configure(&config("one = \"token-of-number-one\""));
    until("the token is gone", || status("two") == 401);
    assert_eq!(status("one"), 400);
    gateway
        .place()
        .configure(&config("one = \"token-of-number-one\"\nsix = \"token-of-number-six\""));
    gateway.wait_for_stderr("`serve.tokens`");
    assert_eq!(status("six"), 401);
    gateway.reload();
    until("the token is there", || status("six") == 400);
}

fn replace(folder: &std::path::Path, text: &str) {
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.persist(folder.join("toolgate.toml")).unwrap();
}

/// What toolgate has written to stderr, and how much of it a test has looked at.
#[derive(Default)]
struct StderrLines {
    lines: Vec<String>,
    read: usize,
}

impl StderrLines {
    /// Waits for a further line with all of these parts.
    fn wait(&mut self, client: &mut Client, parts: &[&str]) {
        let mut found = false;
        until_or(
            || {
                let fresh = client.stderr();
                if client.gateway.is_some() {
                    self.lines = fresh;
                } else {
                    self.lines.extend(fresh);
                }
                let rest = self.lines.iter().enumerate().skip(self.read);
                let mut at = rest.filter(|(_, line)| parts.iter().all(|part| line.contains(part)));
                let at = at.next().map(|(at, _)| at);
                found = at.is_some();
                self.read = at.map_or(self.read, |at| at + 1);
                found
            },
            || format!("{parts:?} is on stderr"),
        );
    }
}

/// [review 12] The documented set-up put the config into the folder that an agent could write to.
#[test]
fn a_config_that_others_can_write_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("");
    let root = place.path("").display().to_string();
    for (keys, part) in [
        (format!("command = \"true\"\nargs = [{root:?}]\n"), "which the server `files` is given"),
        (
            "command = \"true\"\nargs = [\"-y\", \".\"]\n".to_owned(),
            "which the server `files` is given",
        ),
        (
            format!("command = \"true\"\nargs = [\"--root={root}\"]\n"),
            "which the server `files` is given",
        ),
        (format!("command = \"true\"\ncwd = {root:?}\n"), "which the server `files` is given"),
    ] {
        place.configure(&format!("[servers.files]\n{keys}"));
        let (_, told) = run(&place, &["check", "--offline", "--config", "toolgate.toml"]);
        assert!(told.contains(part), "{keys}: {told}");
    }
    place.configure("[servers.files]\ncommand = \"true\"\nargs = [\"/usr\"]\n");
    let (is_fine, told) = run(&place, &["check", "--offline", "--config", "toolgate.toml"]);
    assert!(is_fine, "{told}");
    for path in [place.path("toolgate.toml"), place.path("")] {
        let before = path.metadata().unwrap().permissions();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before.mode() | 0o022))
            .unwrap();
        let (is_fine, told) = run(&place, &["check", "--offline", "--config", "toolgate.toml"]);
        assert!(!is_fine && told.contains("writable by others"), "{told}");
        std::fs::set_permissions(&path, before).unwrap();
    }
}

/// [review 15] A config that was refused printed the line with the token, at the start and at each reload.
#[test]
fn a_refused_config_shows_no_value() {
    let secret = "SUPERSECRET12345";
    for broken in [
        format!("[serve]\ntokens = {{ ci = \"{secret}\", x }}\n"),
        format!("[serve]\ntokens = {{ ci = \"{secret}\" ]\n"),
        format!("[serve]\ntokens = {{ ci = {secret} }}\n"),
        format!("[serve]\ntokens = {{ ci = {secret}== }}\n"),
        format!("[serve]\ntokens = \"{secret}\"\n"),
        format!("[serve.tokens.ci]\ntoken = \"{secret}\"\nnamespace = \"{secret}\"\n"),
        format!("[serve.tokens.ci]\ntoken = [\"{secret}\"]\n"),
        format!(
            "[servers.s]\nurl = \"http://x\"\nheaders = {{ Authorization = \"{secret}\", }} junk\n"
        ),
        format!("[servers.s]\nurl = 'http://x'\nheaders = [ '{secret}' ]\n"),
        format!("[servers.s]\nenv = {{ A = \"\"\"\n{secret}\nx\n"),
        format!("[servers.s]\ncommand = \"a\" # {secret}\n x\n"),
        format!("[servers.s]\nstart = \"{secret}\"\ncommand = \"x\"\n"),
        format!("[servers.s]\nenv = {{ A = \"{secret}\nx\n"),
    ] {
        let place = Place::new(&broken);
        let (status, told) = place.refused();
        assert!(!status.success() && told.contains("is refused"), "{broken}: {told}");
        assert!(!told.contains("SUPERSECRET"), "{broken}: {told}");
        let gateway = Gateway::start("");
        gateway.wait_for_stderr("To use it");
        gateway.place().configure(&broken);
        gateway.wait_for_stderr("the changed config is refused");
        gateway.reload();
        gateway.wait_for_stderr_times("the changed config is refused", 2);
        assert!(!gateway.stderr().join("\n").contains("SUPERSECRET"), "{broken}");
    }
    let place = Place::new("");
    place.write(
        "mcp.json",
        &json!({"mcpServers": {"s": {"command": "x", "env": secret}}}).to_string(),
    );
    let (succeeded, told) = run(&place, &["serve", "mcp.json"]);
    assert!(!succeeded && !told.contains("SUPERSECRET"), "{told}");
}

/// [review 15] A variable whose value began with `file:` had toolgate read that file.
#[test]
fn only_the_config_itself_names_a_file() {
    let setup = Setup::new("")
        .server("env = { A = \"${LEAK}\", B = \"${NONE:-file:/etc/hostname}\", C = \"file:${SECRET}\" }")
        .env("LEAK", "file:/etc/hostname");
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "inside\n").unwrap();
    let setup = setup.env("SECRET", &secret.path().display().to_string());
    setup.through(&[Via::Wrap, Via::Stdio, Via::Legacy], |client| {
        let got = environment(&client.call("env", json!({})));
        assert!(got["A"] == "file:/etc/hostname" && got["B"] == "file:/etc/hostname", "{got}");
        assert_eq!(got["C"], "inside");
    });
}
