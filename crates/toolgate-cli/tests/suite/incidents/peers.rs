//! Incidents of other gateways, proxies, SDKs and servers, repeated against toolgate.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{ALL, Setup, Via, refused},
    harness::{
        clients::{Legacy, Modern},
        gateway::{Gateway, Place, descendants, stdio},
        http,
        upstream::Upstream,
    },
};

/// A server inside the test that answers every request with these bytes.
fn answering(response: String) -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address
}

/// [mcp-remote CVE-2025-6514] A server's `authorization_endpoint` was passed to the operating system's opener, which ran it as a command.
#[test]
fn an_authorization_url_of_a_server_is_never_opened() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let payload = format!("$(touch {0});file:///bin/sh -c touch {0}", proof.display());
    let body = json!({"authorization_endpoint": payload, "error": "invalid_token"}).to_string();
    let address = answering(format!(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer resource_metadata=\"{payload}\", \
         authorization_uri=\"{payload}\"\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let gateway = Gateway::start(&format!(
        "{}[servers.evil]\nurl = \"http://{address}/mcp\"\n",
        stdio("good", &["--full", "good"], "")
    ));
    gateway.wait_for_stderr("401");
    let good = gateway.legacy().tools().len();
    assert!(good > 0, "the other server's tools are there");
    let program = std::fs::read_link(format!("/proc/{}/exe", gateway.pid())).unwrap();
    let foreign: Vec<_> = descendants(gateway.pid())
        .into_iter()
        .filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok())
        .filter(|exe| *exe != program && *exe != crate::harness::fixture())
        .collect();
    assert!(foreign.is_empty(), "programs that no config names: {foreign:?}");
    assert!(!proof.exists(), "the server's text was run");
}

/// [MCP Inspector CVE-2025-49596, `MCPJam` CVE-2026-23744, `LiteLLM` CVE-2026-42271] An HTTP endpoint started the command that a request named, for any page in a browser.
#[test]
fn no_request_starts_a_command() {
    let gateway = Gateway::start(&stdio("good", &["--full", "good"], ""));
    gateway.settled(gateway.modern().tools().len());
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let (touch, path) = ("touch", proof.display().to_string());
    let spec = json!({"command": touch, "args": [path], "transport": "stdio", "type": "stdio",
        "name": "x", "mcpServers": {"x": {"command": touch, "args": [path]}}});
    let paths = [
        format!("/sse?transportType=stdio&command={touch}&args={path}"),
        format!("/stdio?command={touch}&args={path}"),
        format!("/mcp?transportType=stdio&command={touch}&args={path}"),
        "/mcp-rest/test/connection".to_owned(),
        "/mcp-rest/test/tools/list".to_owned(),
        "/api/mcp/connect".to_owned(),
        "/v1/mcp/server".to_owned(),
        "/servers".to_owned(),
        "/config".to_owned(),
        "/admin/servers".to_owned(),
    ];
    for path in &paths {
        for method in ["POST", "PUT", "PATCH"] {
            let answer = gateway.exchange(
                method,
                path,
                &[("Content-Type", "application/json"), ("Accept", "application/json")],
                &spec.to_string(),
            );
            assert!(answer.status >= 400, "{method} {path}: {}", answer.status);
        }
    }
    // Nor does anything in a message of the protocol.
    for client in gateway.both() {
        for (method, params) in [
            ("servers/add", spec.clone()),
            ("config/set", spec.clone()),
            ("tools/list", json!({"_meta": {"servers": spec["mcpServers"]}})),
        ] {
            client.try_request(method, params);
        }
    }
    let mut hello = Legacy::new(gateway.address, "/mcp").connected();
    hello.capabilities = json!({"experimental": {"toolgate/servers": spec["mcpServers"]}});
    assert!(!hello.connected().tools().is_empty());
    assert!(!proof.exists(), "a request started a command");
}

/// [DNS rebinding: Docker CVE-2025-64443, rmcp CVE-2026-42559, TypeScript SDK CVE-2025-66414, Java CVE-2026-35568, Python CVE-2026-59950] A web page reached a local server through a name that resolved to 127.0.0.1.
#[test]
fn a_rebound_name_does_not_reach_the_gateway() {
    let gateway = Gateway::start(&stdio("good", &["--full", "good"], ""));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
    .to_string();
    let ask = |host: &str, origin: Option<&str>| {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        head.extend(origin.map(|origin| {
            format!(
                "Origin: {origin}
"
            )
        }));
        let bytes = format!("{head}\r\n{body}");
        let mut answer =
            http::Connection::open(gateway.address).exchange(bytes.as_bytes()).unwrap();
        let headers = answer.headers.clone();
        (answer.status, headers, answer.text())
    };
    let port = gateway.address.port();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.nip.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("169.254.169.254:{port}"),
        "0.0.0.0.evil".to_owned(),
    ] {
        for origin in [None, Some(format!("http://{host}"))] {
            let (status, headers, text) = ask(&host, origin.as_deref());
            assert!([403, 421].contains(&status), "{host} {origin:?}: {status} {text}");
            assert!(headers.get("mcp-session-id").is_none(), "{host}");
            assert!(headers.get("access-control-allow-origin").is_none(), "{host}");
        }
    }
    let (status, ..) = ask(&format!("127.0.0.1:{port}"), Some("http://evil.example"));
    assert_eq!(status, 403, "a foreign origin");
    let (status, ..) = ask(&format!("127.0.0.1:{port}"), None);
    assert_eq!(status, 200, "this machine's own name");
}

const TOKENS: &str =
    "[serve]\ntokens = { anna = \"token-of-anna-0001\", ben = \"token-of-ben-000022\" }\n";

/// [`LiteLLM` CVE-2026-12773] A failed authentication was swallowed, and the request went on under a default identity.
#[test]
fn a_bad_token_has_no_identity() {
    let gateway = Gateway::start(&format!("{TOKENS}{}", stdio("good", &["--full", "good"], "")));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let ask = |authorization: &[(&str, &str)]| {
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        headers.extend(authorization);
        gateway.exchange("POST", "/mcp", &headers, &body).status
    };
    let right = "Bearer token-of-anna-0001";
    assert_eq!(ask(&[("Authorization", right)]), 200);
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer null",
        "Bearer undefined",
        "Bearer token-of-anna-0001x",
        "Bearer token-of-anna-000",
        "Bearer TOKEN-OF-ANNA-0001",
        "Basic YW5uYTp0b2tlbi1vZi1hbm5hLTAwMDE=",
        "token-of-anna-0001",
        "Bearer token-of-anna-0001, Bearer token-of-ben-000022",
        "Bearer key:anna",
    ] {
        assert_eq!(ask(&[("Authorization", wrong)]), 401, "{wrong:?}");
    }
    assert_eq!(ask(&[]), 401, "no header");
    let twice = ask(&[("Authorization", "Bearer wrong-token-000000"), ("Authorization", right)]);
    assert!([400, 401].contains(&twice), "two headers: {twice}");
    assert_eq!(ask(&[("Cookie", "token=token-of-anna-0001")]), 401, "a cookie");
    for path in ["/mcp?access_token=token-of-anna-0001", "/mcp?token=token-of-anna-0001"] {
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        assert_eq!(gateway.exchange("POST", path, &headers, &body).status, 401, "{path}");
    }
}

/// [Kuadrant GHSA-g53w-w6mj-hrpp] A header that anybody could send made the gateway skip authentication.
#[test]
fn no_header_or_meta_stands_in_for_a_token() {
    let gateway = Gateway::start(&format!("{TOKENS}{}", stdio("good", &["--full", "good"], "")));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "principal": "key:anna", "toolgate/principal": "key:anna", "user": "anna"}}})
    .to_string();
    for (name, value) in [
        ("X-Forwarded-User", "anna"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Remote-User", "anna"),
        ("X-Auth-Request-User", "anna"),
        ("Router-Key", "secret-api-key"),
        ("Mcp-Init-Host", "localhost"),
        ("X-Mcp-Authorized", "true"),
        ("Forwarded", "for=127.0.0.1"),
        ("Mcp-Session-Id", "00000000000000000000000000000000"),
    ] {
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
            (name, value),
        ];
        assert_eq!(gateway.exchange("POST", "/mcp", &headers, &body).status, 401, "{name}");
    }
}

/// [oatpp-mcp CVE-2025-6515, Ruby CVE-2026-33946, Python CVE-2026-52869] Session ids were predictable or worked for anybody, so that clients took over the sessions of others.
#[test]
fn a_session_belongs_to_its_principal_and_cannot_be_guessed() {
    let gateway = Gateway::start(&format!("{TOKENS}{}", stdio("good", &["--full", "good"], "")));
    let anna =
        |_| Legacy::new(gateway.address, "/mcp").with_token("token-of-anna-0001").connected();
    let sessions: Vec<Legacy> = (0..20).map(anna).collect();
    let mut ids: Vec<&str> = sessions.iter().map(|s| s.session.as_deref().unwrap()).collect();
    let total: usize = ids.iter().map(|id| id.len()).sum();
    assert!(total / ids.len() >= 22, "at least 128 bits in any usual alphabet: {ids:?}");
    ids.sort_unstable();
    for pair in ids.windows(2) {
        let shared = pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        assert!(shared < pair[0].len() / 2, "ids share their beginning: {pair:?}");
    }
    let ben = Legacy::new(gateway.address, "/mcp").with_token("token-of-ben-000022");
    for method in ["POST", "GET", "DELETE"] {
        let body = if method == "POST" {
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string()
        } else {
            String::new()
        };
        let answer = ben.exchange(method, &[("Mcp-Session-Id", ids[0])], &body);
        assert_eq!(answer.status, 404, "{method}");
    }
    assert!(!sessions[0].tools().is_empty(), "the owner's session goes on");
}

/// [TypeScript SDK CVE-2026-25536, Python CVE-2026-52870, Asana June 2025] Responses reached another client that used the same request id.
#[test]
fn responses_reach_the_client_that_asked() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!(
        "{TOKENS}{}{}",
        server.table(""),
        stdio("pipes", &["--full", "pipes"], "")
    ));
    let tokens = ["token-of-anna-0001", "token-of-ben-000022"];
    let tools = Modern::new(gateway.address, "/mcp").with_token(tokens[0]).tools();
    let echo: Vec<String> = tools.into_iter().filter(|tool| tool.ends_with("echo")).collect();
    assert_eq!(echo.len(), 2, "{echo:?}");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (echo, gateway) = (&echo, &gateway);
            scope.spawn(move || {
                let token = tokens[number % 2];
                let legacy = Legacy::new(gateway.address, "/mcp").with_token(token).connected();
                let modern = Modern::new(gateway.address, "/mcp").with_token(token);
                // Every client counts its ids from one.
                for round in 0..20 {
                    let mark = format!("client {number} round {round}");
                    let tool = &echo[round % 2];
                    let answers = [
                        legacy.call(tool, json!({"text": mark})),
                        modern.call(tool, json!({"text": mark})),
                    ];
                    for answer in answers {
                        assert!(answer.raw.contains(&mark), "{mark}: {}", answer.raw);
                    }
                }
            });
        }
    });
}

/// [Envoy AI Gateway GHSA-4gph-2hhr-5mwg] A member in another case (`Name`) replaced the one that the policy had read.
#[test]
fn a_case_variant_does_not_replace_the_checked_name() {
    let setup = Setup::new("[namespaces.default]\nsafety = \"readonly\"\n");
    setup.each(|client| {
        let meta = if client.via.is_modern() {
            r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#
        } else {
            ""
        };
        for (at, params) in [
            r#""name":"safe","Name":"wipe","arguments":{}"#,
            r#""name":"safe","NAME":"wipe","arguments":{}"#,
            r#""name":"safe","name":"wipe","arguments":{}"#,
            r#""name":"safe","n\u0061me":"wipe","arguments":{}"#,
            r#""name":"safe","arguments":{},"Arguments":{"x":1}"#,
        ]
        .iter()
        .enumerate()
        {
            let id = 9000 + at;
            client.raw(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{params}{meta}}}}}"#
            ));
        }
        for envelope in [
            format!(r#"{{"jsonrpc":"2.0","id":9100,"method":"tools/list","Method":"tools/call","params":{{"name":"wipe"{meta}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":9101,"method":"tools/call","params":{{"name":"safe"{meta}}},"Params":{{"name":"wipe"}}}}"#),
        ] {
            client.raw(&envelope);
        }
        assert_eq!(client.ran(), Vec::<String>::new());
    });
}

/// [mcpproxy-go #218 and #877, Kong 3.13.0.1] Tools that a list hid were visible and callable on a second path.
#[test]
fn a_hidden_tool_is_hidden_on_every_path() {
    let setup = Setup::new(
        "[namespaces.default]\nsafety = \"readonly\"\npolicy = \"team\"\n\
         [policies.team]\nallow = [\"main/*\"]\ndeny = [\"*/wipe\", \"*/emit\"]\n",
    );
    setup.each(|client| {
        assert_eq!(client.tools(), ["safe", "ask", "env"], "{:?}", client.via);
        for name in [
            "wipe", "emit", "Wipe", "WIPE", " wipe", "wipe ", "wipe\u{0}", "main/wipe", "main__wipe",
            "main.wipe", "default/wipe", "./wipe", "w\u{200b}ipe", "ｗipe",
        ] {
            let answer = client.call(name, json!({}));
            assert!(refused(&answer), "{name:?} through {:?}: {answer}", client.via);
        }
        // Neither completions nor a task are another way.
        client.request(
            "completion/complete",
            json!({"ref": {"type": "ref/tool", "name": "wipe"}, "argument": {"name": "x", "value": ""}}),
        );
        client.request("tools/call", json!({"name": "wipe", "arguments": {}, "task": {"ttl": 1000}}));
        assert_eq!(client.ran(), Vec::<String>::new(), "{:?}", client.via);
    });
}

const TOKEN: &str = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5";

/// [`PocketOS` April 2026] An agent found a token in a file and deleted the production volume with its backups in nine seconds.
#[test]
fn a_found_token_is_masked_and_a_destructive_call_waits_for_a_person() {
    let setup = Setup::new(
        "[sanitize]\nsecrets = true\n[confirm]\nwhen = [{ tier = \"destructive\" }]\ndry_run = false\n",
    );
    setup.each(|client| {
        let answer = client.call("safe", json!({"file": format!("export GH={TOKEN}")}));
        assert!(!answer.to_string().contains(TOKEN), "{:?}: {answer}", client.via);
        assert!(answer.to_string().contains("redacted"), "{:?}: {answer}", client.via);
        for _ in 0..3 {
            client.call("wipe", json!({"volume": "production"}));
        }
        let ran = client.ran();
        let wiped = ran.iter().filter(|ran| ran.starts_with("wipe")).count();
        assert_eq!(wiped, 0, "{:?}: {ran:?}", client.via);
    });
}

/// [GitHub MCP May 2025, Supabase July 2025, `WhatsApp` April 2025] Text in untrusted data made an agent read private data and publish it.
#[test]
fn publishing_waits_for_a_person_whatever_the_text_says() {
    // The flow ends at its sink: the person sees exactly what would be published, and says no.
    let setup = Setup::new("[confirm]\nwhen = [\"main/wipe\"]\ndry_run = false\n").able(
        json!({"elicitation": {"form": {}}}),
        |asked: &Value| {
            let shown = asked["params"]["message"].as_str().unwrap_or_default();
            assert!(shown.contains("private ledger"), "the question shows what leaves: {asked}");
            json!({"action": "decline"})
        },
    );
    // A client of 2024-11-05 cannot be asked; the test above covers it.
    let ways: Vec<Via> = ALL.into_iter().filter(|via| *via != Via::Sse).collect();
    setup.through(&ways, |client| {
        let answer = client.call("wipe", json!({"to": "public", "body": "private ledger"}));
        assert!(refused(&answer), "{:?}: {answer}", client.via);
        assert_eq!(client.ran(), Vec::<String>::new(), "{:?}", client.via);
    });
}

const CEDAR: &str = r#"
permit (principal, action, resource)
when {
    !(context.arguments has path) || (
        context.arguments.path like "/srv/*" && !(context.arguments.path like "*..*")
    )
};
forbid (principal, action, resource)
when { context.arguments has target && context.arguments.target like "-*" };
"#;

/// [Anthropic git server CVE-2025-68143 to -68145, filesystem server CVE-2025-53109 and -53110, Figma CVE-2025-53967] Servers passed paths and options from arguments on without a check.
#[test]
fn a_policy_on_arguments_stops_paths_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("paths.cedar");
    std::fs::write(&policy, CEDAR).unwrap();
    let setup = Setup::new(&format!(
        "[namespaces.default]\npolicy = \"paths\"\n[policies.paths]\ncedar = {:?}\n",
        policy.display().to_string()
    ));
    setup.each(|client| {
        for arguments in [
            json!({"path": "/srv/../etc/shadow"}),
            json!({"path": "/etc/shadow"}),
            json!({"path": "/srv-other"}),
            json!({"path": ["/srv/x"]}),
            json!({"path": 7}),
            json!({"target": "--output=/etc/cron.d/x"}),
        ] {
            let answer = client.call("safe", arguments.clone());
            assert!(refused(&answer), "{:?} {arguments}: {answer}", client.via);
        }
        client.call("safe", json!({"path": "/srv/data.txt"}));
        assert_eq!(client.ran(), [r#"safe {"path":"/srv/data.txt"}"#], "{:?}", client.via);
    });
}

/// [`MCPoison` CVE-2025-54136, `CurXecute` CVE-2025-54135] A config that had been approved was changed, and the changed command ran.
#[test]
fn a_changed_command_does_not_run_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("ran");
    let good = stdio("good", &["--full", "good"], "");
    let gateway = Place::new(&good).start();
    let tools = gateway.modern().tools().len();
    let evil =
        format!("{good}[servers.evil]\ncommand = \"touch\"\nargs = [{:?}]\n", proof.display());
    gateway.place().configure(&evil);
    gateway.wait_for_stderr("servers");
    gateway.settled(tools);
    assert!(!proof.exists(), "the new command ran");
}
