//! What a namespace shows besides its tools, page by page: resources, instructions, capabilities; and namespaces beside
//! each other.

use serde_json::{Value, json};

use crate::harness::{
    clients::{Legacy, Modern, either::Either},
    gateway::{Gateway, Place, stdio, until, until_or},
    governed::code,
    text,
    upstream::{Era, Upstream},
};

/// The table of a server under another name than its own.
fn table(name: &str, server: &Upstream) -> String {
    format!("[servers.{name}]\nurl = \"{}\"\n", server.url())
}

/// Clients of both eras for an address.
fn at(gateway: &Gateway, path: &str) -> [Either; 2] {
    [
        Either::Legacy(Legacy::new(gateway.address, path).connected()),
        Either::Modern(Modern::new(gateway.address, path)),
    ]
}

/// The cursor after the first page.
fn next(client: &Either, method: &str) -> String {
    let page = client.request(method, json!({}));
    page["result"]["nextCursor"]
        .as_str()
        .unwrap_or_else(|| panic!("no cursor: {}", page.raw))
        .to_owned()
}

fn refusal(client: &Either, method: &str, cursor: &str) -> String {
    let (_, answer) = client.try_request(method, json!({"cursor": cursor}));
    let answer = answer.unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{method} {cursor}: {}", answer.raw);
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn every_list_has_pages_of_the_size_that_was_set() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Legacy, 10), Upstream::numbered("beta", Era::Modern, 6));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\npage_size = 4\n[namespaces.whole]\n",
        alpha.table(""),
        beta.table("")
    ));
    gateway.settled(18);
    for (client, whole) in gateway.both().into_iter().zip(at(&gateway, "/mcp/whole")) {
        for (method, key, pages) in [
            ("tools/list", "tools", 5),
            ("resources/list", "resources", 2),
            ("prompts/list", "prompts", 1),
            ("resources/templates/list", "resourceTemplates", 1),
        ] {
            let mut sizes = Vec::new();
            let mut params = json!({});
            loop {
                let page = client.request(method, params);
                sizes.push(page["result"][key].as_array().unwrap().len());
                match page["result"].get("nextCursor") {
                    Some(cursor) => params = json!({"cursor": cursor}),
                    None => break,
                }
            }
            assert!(
                sizes.len() == pages && sizes[..pages - 1].iter().all(|size| *size == 4),
                "{method} {sizes:?}"
            );
            assert_eq!(client.list(method, key), whole.list(method, key), "{method}");
            assert!(whole.request(method, json!({}))["result"].get("nextCursor").is_none());
        }
    }
    let (status, told) =
        Place::new(&format!("{}[namespaces.default]\npage_size = 0\n", alpha.table(""))).refused();
    assert!(!status.success() && told.contains("`0`") && told.contains("page"), "{told}");
}

#[test]
fn a_cursor_leads_on_only_for_whom_and_for_what_it_was_given() {
    let alpha = Upstream::numbered("alpha", Era::Legacy, 3);
    let gateway = Gateway::start(&format!(
        "{}[serve]\ntokens.anna = {{ token = \"token-of-anna-0001\", namespaces = [\"*\"] }}\ntokens.ben = {{ token = \"token-of-ben-000022\", namespaces = [\"*\"] }}\n\
         [namespaces.default]\npage_size = 1\n[namespaces.other]\npage_size = 1\n",
        alpha.table("")
    ));
    let of = |path: &str, token: &str| {
        [
            Either::Legacy(Legacy::new(gateway.address, path).with_token(token).connected()),
            Either::Modern(Modern::new(gateway.address, path).with_token(token)),
        ]
    };
    let (anna, ben) = (of("/mcp", "token-of-anna-0001"), of("/mcp", "token-of-ben-000022"));
    let elsewhere = of("/mcp/other", "token-of-anna-0001");
    until_or(|| anna[1].tools().len() == 4, || format!("{:?}", anna[1].tools()));
    alpha.until("the gateway listens", |alpha| alpha.streams() > 0);
    for ((client, stranger), elsewhere) in anna.iter().zip(&ben).zip(&elsewhere) {
        let cursor = next(client, "tools/list");
        let page = client.request("tools/list", json!({"cursor": cursor}));
        assert_eq!(page["result"]["tools"][0]["name"], "alpha_1", "{}", page.raw);
        // It says nothing to whoever holds it.
        assert!(!cursor.contains("alpha") && !cursor.contains("anna"), "{cursor}");
        refusal(stranger, "tools/list", &cursor);
        for other in ["resources/list", "prompts/list", "resources/templates/list"] {
            refusal(client, other, &cursor);
        }
        for (n, _) in cursor.char_indices() {
            let mut changed = cursor.clone().into_bytes();
            changed[n] = if changed[n] == b'Q' { b'R' } else { b'Q' };
            refusal(client, "tools/list", std::str::from_utf8(&changed).unwrap());
        }
        for wrong in [&cursor[1..], &format!("{cursor}A"), &format!(" {cursor}"), ""] {
            refusal(client, "tools/list", wrong);
        }
        let (_, answer) = client.try_request("tools/list", json!({"cursor": 7}));
        assert_eq!(answer.unwrap()["error"]["code"], -32602);
        refusal(elsewhere, "tools/list", &cursor);
    }
    // A server that only says that something changed disturbs nobody who turns pages.
    let (client, mut stream) = (&anna[0], anna[0].listen(&[]));
    let cursor = next(client, "tools/list");
    alpha.announce("tools");
    stream.method("notifications/tools/list_changed");
    let page = client.request("tools/list", json!({"cursor": cursor}));
    assert_eq!(page["result"]["tools"][0]["name"], "alpha_1", "{}", page.raw);
    // A list that has changed has other pages.
    let cursors: Vec<String> = anna.iter().map(|client| next(client, "tools/list")).collect();
    alpha.add_tool("late");
    alpha.announce("tools");
    until("the list has changed", || {
        let (_, answer) = anna[1].try_request("tools/list", json!({"cursor": cursors[1]}));
        answer.is_some_and(|answer| answer["error"].is_object())
    });
    for (client, cursor) in anna.iter().zip(&cursors) {
        let told = refusal(client, "tools/list", cursor);
        assert!(told.contains("has changed") && told.contains("again without a cursor"), "{told}");
    }
}

fn read(client: &Either, uri: &str) -> Result<Value, i64> {
    let (_, answer) = client.try_request("resources/read", json!({"uri": uri}));
    let answer = answer.unwrap();
    match answer["error"]["code"].as_i64() {
        Some(code) => Err(code),
        None => Ok(answer["result"]["contents"][0]["text"].clone()),
    }
}

#[test]
fn resources_are_read_from_the_server_that_has_them() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
    gateway.settled(28);
    for client in gateway.both() {
        let listed = client.list("resources/list", "resources");
        let uris: Vec<&str> =
            listed.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
        assert_eq!(
            uris,
            ["alpha://r/0", "alpha://r/1", "alpha://r/2", "beta://r/0", "beta://r/1", "beta://r/2"]
        );
        let templates = client.list("resources/templates/list", "resourceTemplates");
        assert_eq!(
            (templates[0]["uriTemplate"].as_str(), templates.len()),
            (Some("alpha://t/{id}"), 2)
        );
        let asked = alpha.count("resources/read");
        assert_eq!(
            read(&client, "beta://r/1"),
            Ok(json!("beta read beta://r/1")),
            "as it is listed"
        );
        assert_eq!(
            read(&client, "beta://t/any%20thing"),
            Ok(json!("beta read beta://t/any%20thing")),
            "by a template"
        );
        assert_eq!(alpha.count("resources/read"), asked, "nobody else was asked");
        // No list has it: tools hand out such addresses.
        assert_eq!(read(&client, "beta://linked/x"), Ok(json!("beta read beta://linked/x")));
        assert_eq!(read(&client, "alpha://linked/x"), Ok(json!("alpha read alpha://linked/x")));
        let missing = if client.is_modern() { -32602 } else { -32002 };
        for unknown in ["gamma://r/0", "alpha://missing", "beta://r/0/missing", "no address at all"]
        {
            assert_eq!(read(&client, unknown), Err(missing), "{unknown}, {}", client.era());
        }
    }
    assert_eq!((alpha.complaints(), beta.complaints()), (Vec::new(), Vec::new()));
}

#[test]
fn of_two_resources_with_one_address_the_first_is_read() {
    let (first, second) = (Upstream::legacy("same"), Upstream::legacy("same"));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"zulu\", \"alpha\"]\n",
        table("alpha", &second),
        table("zulu", &first)
    ));
    gateway.settled(28);
    for client in gateway.both() {
        let uris = client.list("resources/list", "resources");
        assert_eq!(uris.len(), 3, "each address once: {uris:?}");
        assert!(read(&client, "same://r/1").is_ok() && read(&client, "same://t/1").is_ok());
    }
    assert_eq!((first.count("resources/read"), second.count("resources/read")), (4, 0));
}

/// What it says that it is and can do.
fn hello(gateway: &Gateway, path: &str) -> [Value; 2] {
    let modern = Modern::new(gateway.address, path).request("server/discover", json!({}));
    [Legacy::new(gateway.address, path).connected().hello, modern["result"].clone()]
}

#[test]
fn instructions_and_capabilities_are_those_of_all_servers() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    let gateway = Gateway::start(&format!(
        "{}{}{}[namespaces.default]\nservers = [\"beta\", \"plain\", \"alpha\"]\n[namespaces.one]\nservers = [\"alpha\"]\n\
         [namespaces.silent]\nservers = [\"plain\"]\n",
        alpha.table(""),
        beta.table(""),
        stdio("plain", &[], "")
    ));
    gateway.settled(42);
    for hello in hello(&gateway, "/mcp") {
        assert_eq!(hello["instructions"], "# beta\nThis is beta.\n\n# alpha\nThis is alpha.");
        let capabilities = &hello["capabilities"];
        for (capability, feature) in
            [("tools", "listChanged"), ("prompts", "listChanged"), ("resources", "subscribe")]
        {
            assert_eq!(capabilities[capability][feature], true, "{capabilities}");
        }
        assert!(
            capabilities["logging"].is_object() && capabilities["completions"].is_object(),
            "{capabilities}"
        );
    }
    for hello in hello(&gateway, "/mcp/one") {
        assert_eq!(hello["instructions"], "This is alpha.", "of one server as it said it");
    }
    for hello in hello(&gateway, "/mcp/silent") {
        assert!(hello.get("instructions").is_none(), "{hello}");
        let capabilities = &hello["capabilities"];
        assert!(
            capabilities["tools"].is_object() && capabilities["resources"]["subscribe"] == false,
            "{capabilities}"
        );
        for missing in ["prompts", "logging", "completions"] {
            assert!(capabilities.get(missing).is_none(), "{capabilities}");
        }
    }
    for client in at(&gateway, "/mcp/silent") {
        let (_, answer) = client.try_request("prompts/list", json!({}));
        assert_eq!(answer.unwrap()["error"]["code"], -32601, "what nobody said can be done");
    }
}

#[test]
fn each_namespace_is_governed_by_its_own_chain() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"alpha\"]\n[namespaces.review]\nservers = [\"alpha\", \"beta\"]\n\
         safety = \"readonly\"\nprefix = \"always\"\n[namespaces.narrow]\nservers = [\"beta\"]\npolicy = \"few\"\n\
         [namespaces.narrow.tools.\"beta/see\"]\nname = \"look\"\n[policies.few]\nallow = [\"beta/e*\", \"beta/see\"]\n",
        alpha.table(""),
        beta.table("")
    ));
    until("all are known", || Modern::new(gateway.address, "/mcp/review").tools().len() == 18);
    for [default, review, narrow] in [0, 1].map(|era| {
        ["/mcp", "/mcp/review", "/mcp/narrow"]
            .map(|path| at(&gateway, path).into_iter().nth(era).unwrap())
    }) {
        assert_eq!(default.tools().len(), 14);
        assert!(!review.tools().contains(&"alpha__write".to_owned()));
        assert_eq!(narrow.tools(), ["echo", "look", "elicit"]);
        assert_eq!(code(&default.call("write", json!({"key": "d"}))), "");
        assert_eq!(code(&review.call("alpha__write", json!({"key": "r"}))), "TIER_DENIED");
        assert_eq!(code(&review.call("write", json!({"key": "r"}))), "UNKNOWN_TOOL");
        assert_eq!(code(&narrow.call("write", json!({"key": "n"}))), "POLICY_DENIED");
        // Where there is a policy, it comes first: it does not tell what there is.
        assert_eq!(code(&narrow.call("alpha__echo", json!({}))), "POLICY_DENIED");
        assert_eq!(text(&review.call("beta__echo", json!({"text": "ok"}))), "ok");
    }
    assert_eq!(alpha.all_executions("write"), [("d".to_owned(), 2)].into());
    assert_eq!(beta.executions("write", "n"), 0);
    until("all is written", || gateway.audit().len() == 12);
    let mut told: Vec<_> = gateway
        .audit()
        .iter()
        .map(|record| {
            (
                record["namespace"].as_str().unwrap().to_owned(),
                record["tool"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    told.sort();
    told.dedup();
    let count = |namespace: &str| told.iter().filter(|(known, _)| known == namespace).count();
    assert_eq!((count("default"), count("review"), count("narrow")), (1, 2, 2), "{told:?}");
    for unknown in [
        "/mcp/nope",
        "/mcp/review/x",
        "/sse/nope",
        "/messages/nope",
        "/mcp/Review",
        "/mcp/%64efault",
    ] {
        let method = if unknown.starts_with("/sse") { "GET" } else { "POST" };
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        assert_eq!(gateway.exchange(method, unknown, &headers, "{}").status, 404, "{unknown}");
    }
}
