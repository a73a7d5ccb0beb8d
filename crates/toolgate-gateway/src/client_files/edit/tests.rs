//! Tests of the edits: what becomes of an entry in every notation, and that all other bytes stay.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{
    super::{UndoOutcome, UnsafeEdit, plan, plan_one, preview, rules_for, take_back},
    *,
};

fn file(path: &str, text: &str) -> ClientFile {
    ClientFile::parse(Path::new(path), text.to_owned())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn wrapping() -> Wrapping {
    Wrapping { program: "/opt/toolgate".to_owned(), options: Vec::new(), includes_doubtful: false }
}

/// The file with all entries wrapped that can be.
fn wrapped(path: &str, text: &str) -> String {
    let file = file(path, text);
    let edits: Vec<Edit> = file
        .servers
        .iter()
        .filter_map(|entry| wrapping().edits(&file, entry).ok())
        .flatten()
        .collect();
    apply_edits(text, &edits)
}

#[test]
fn toolgate_is_put_in_front_of_a_command() {
    for (path, before, after) in [
        (
            "mcp.json",
            r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"],"env":{"K":"${V}"},"odd":1}}}"#,
            r#"{"mcpServers":{"a":{"command":"/opt/toolgate","args":["wrap", "--name=a", "--", "npx", "-y","x"],"env":{"K":"${V}"},"odd":1}}}"#,
        ),
        (
            "mcp.json",
            "{\"mcpServers\": {\n\t\"a\": {\n\t\t\"command\": \"n\\u0070x\" // c\n\t}\n}}",
            "{\"mcpServers\": {\n\t\"a\": {\n\t\t\"command\": \"/opt/toolgate\",\n\t\t\"args\": [\"wrap\", \"--name=a\", \"--\", \"n\\u0070x\"] // c\n\t}\n}}",
        ),
        (
            "mcp.json",
            "{\"mcpServers\": {\"a\": {\"args\": [\r\n  \"-y\", // c\r\n  \"x\",\r\n ], \"command\": \"npx\", }}}\r\n",
            "{\"mcpServers\": {\"a\": {\"args\": [\r\n  \"wrap\",\r\n  \"--name=a\",\r\n  \"--\",\r\n  \"npx\",\r\n  \"-y\", // c\r\n  \"x\",\r\n ], \"command\": \"/opt/toolgate\", }}}\r\n",
        ),
        (
            "mcp.json",
            r#"{"mcpServers": {"a": {"command": "x", "args": []}}}"#,
            r#"{"mcpServers": {"a": {"command": "/opt/toolgate", "args": ["wrap", "--name=a", "--", "x"]}}}"#,
        ),
        (
            "opencode.json",
            r#"{"mcp": {"a": {"type": "local", "command": ["npx", "x"]}}}"#,
            r#"{"mcp": {"a": {"type": "local", "command": ["/opt/toolgate", "wrap", "--name=a", "--", "npx", "x"]}}}"#,
        ),
        (
            "cline.json",
            r#"{"mcpServers": {"a": {"transport": {"type": "stdio", "command": "x"}}}}"#,
            r#"{"mcpServers": {"a": {"transport": {"type": "stdio", "command": "/opt/toolgate", "args": ["wrap", "--name=a", "--", "x"]}}}}"#,
        ),
        (
            "config.toml",
            "# c\n[mcp_servers.\"a b\"] # d\ncommand = 'npx' # e\nargs = [ \"-y\" ]\nenv = { K = \"v\" }\n",
            "# c\n[mcp_servers.\"a b\"] # d\ncommand = \"/opt/toolgate\" # e\nargs = [ \"wrap\", \"--name=a b\", \"--\", 'npx', \"-y\" ]\nenv = { K = \"v\" }\n",
        ),
        (
            "config.toml",
            "[mcp_servers.a]\ncommand = \"x\" # e\nenabled = true\n",
            "[mcp_servers.a]\ncommand = \"/opt/toolgate\" # e\nargs = [\"wrap\", \"--name=a\", \"--\", \"x\"]\nenabled = true\n",
        ),
        (
            "config.toml",
            "[mcp_servers]\na = { command = \"x\" }\nb.command = \"y\"\n",
            "[mcp_servers]\na = { command = \"/opt/toolgate\", args = [\"wrap\", \"--name=a\", \"--\", \"x\"] }\nb.command = \"/opt/toolgate\"\nb.args = [\"wrap\", \"--name=b\", \"--\", \"y\"]\n",
        ),
        (
            "config.yaml",
            "mcpServers:\n  - name: a # c\n    command: npx\n    args:\n      # d\n      - -y\n      - x\n",
            "mcpServers:\n  - name: a # c\n    command: \"/opt/toolgate\"\n    args:\n      # d\n      - \"wrap\"\n      - \"--name=a\"\n      - \"--\"\n      - \"npx\"\n      - -y\n      - x\n",
        ),
        (
            "config.yaml",
            "extensions:\n  a:\n    cmd: uvx # c\n    args: [x]\n  b:\n    cmd: y # d\n    enabled: true\n",
            "extensions:\n  a:\n    cmd: \"/opt/toolgate\" # c\n    args: [\"wrap\", \"--name=a\", \"--\", \"uvx\", x]\n  b:\n    cmd: \"/opt/toolgate\" # d\n    args: [\"wrap\", \"--name=b\", \"--\", \"y\"]\n    enabled: true\n",
        ),
    ] {
        let text = wrapped(path, before);
        assert_eq!(text, after);
        let again = file(path, &text);
        assert!(
            again.servers.iter().all(|entry| entry.is_wrapped() && entry.problems.is_empty()),
            "{text}"
        );
        assert_eq!(wrapped(path, &text), text, "a second import changes nothing");
    }
}

#[test]
fn a_url_becomes_a_command_without_secrets_in_its_arguments() {
    for (path, before, after) in [
        (
            "/p/.vscode/mcp.json",
            r#"{"servers": {"a": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${input:t}"}}}}"#,
            r#"{"servers": {"a": {"type": "stdio", "command": "/opt/toolgate", "args": ["wrap", "--name=a", "--url=https://x/mcp", "--header-env=Authorization=MCP_HEADER_AUTHORIZATION"], "env": {"MCP_HEADER_AUTHORIZATION": "Bearer ${input:t}"}}}}"#,
        ),
        (
            "/p/opencode.json",
            r#"{"mcp": {"a": {"type": "remote", "url": "http://localhost:1/mcp"}}}"#,
            r#"{"mcp": {"a": {"type": "local", "command": ["/opt/toolgate", "wrap", "--name=a", "--url=http://localhost:1/mcp"]}}}"#,
        ),
        (
            "/p/.codex/config.toml",
            "[mcp_servers.a]\nurl = \"https://x\"\n[mcp_servers.a.http_headers]\nX-Key = \"k\"\n",
            "[mcp_servers.a]\ncommand = \"/opt/toolgate\"\nargs = [\"wrap\", \"--name=a\", \"--url=https://x\", \"--header-env=X-Key=MCP_HEADER_X_KEY\"]\n[mcp_servers.a.env]\nMCP_HEADER_X_KEY = \"k\"\n",
        ),
        (
            "/h/goose/config.yaml",
            "extensions:\n  a:\n    type: streamable_http\n    uri: http://localhost:1/mcp\n",
            "extensions:\n  a:\n    type: \"stdio\"\n    cmd: \"/opt/toolgate\"\n    args: [\"wrap\", \"--name=a\", \"--url=http://localhost:1/mcp\"]\n",
        ),
    ] {
        assert_eq!(wrapped(path, before), after);
    }
}

#[test]
fn what_toolgate_cannot_stand_in_front_of_is_left_alone() {
    for (entry, expected) in [
        (r#""command": "x", "disabled": true"#, LeftAlone::Off),
        (r#""command": "x", "args": "y""#, LeftAlone::Invalid),
        (r#""url": "https://x", "oauth": {}"#, LeftAlone::SignIn),
        (r#""url": "https://x""#, LeftAlone::MaySignIn),
        (r#""url": "https://x", "headersHelper": "x""#, LeftAlone::Headers),
        (r#""command": "docker", "args": ["run", "-d", "x"]"#, LeftAlone::Detached),
        (r#""command": "/usr/bin/toolgate", "args": ["wrap", "--", "x"]"#, LeftAlone::Wrapped),
        (r#""settings": {}"#, LeftAlone::BuiltIn),
    ] {
        let file = file("mcp.json", &format!("{{\"mcpServers\": {{\"a\": {{{entry}}}}}}}"));
        assert_eq!(wrapping().edits(&file, &file.servers[0]), Err(expected), "{entry}");
        let named = Wrapping { includes_doubtful: true, ..wrapping() };
        let is_doubtful = matches!(expected, LeftAlone::Off | LeftAlone::MaySignIn);
        assert_eq!(named.edits(&file, &file.servers[0]).is_ok(), is_doubtful, "{entry}");
    }
}

#[test]
fn an_entry_that_was_changed_since_is_unwrapped_in_place() {
    for (path, before) in [
        ("mcp.json", r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}"#),
        (
            "mcp.json",
            "{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\n  \"-y\" // c\n]}}}",
        ),
        ("mcp.json", r#"{"mcpServers": {"a": {"command": "x", "args": []}}}"#),
        ("opencode.json", r#"{"mcp": {"a": {"command": ["npx", "x"]}}}"#),
        ("config.toml", "[mcp_servers.a]\ncommand = 'npx'\nargs = [\"-y\"]\n"),
        ("config.yaml", "extensions:\n  a:\n    cmd: \"uvx\"\n    args:\n      - x\n      - y\n"),
    ] {
        let text = wrapped(path, before);
        let file = file(path, &text);
        let edits = unwrap_edits(&file, &file.servers[0]).unwrap();
        assert_eq!(apply_edits(&text, &edits), before);
    }
}

/// The corpus: every client's notation, in each of these spellings.
fn corpus() -> Vec<(PathBuf, String)> {
    let formats = [
        (
            ".mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": {\n      \"type\": \"stdio\",\n      \"command\": \"npx\",\n      \"args\": [\n        \"-y\",\n        \"ü ${V:-d}\"\n      ],\n      \"env\": { \"K\": \"s\" }\n    },\n    \"b\": { \"type\": \"http\", \"url\": \"http://127.0.0.1:1/mcp\", \"headers\": { \"X\": \"y\" } },\n    \"off\": { \"command\": \"x\", \"disabled\": true },\n    \"bad\": { \"comand\": \"x\" }\n  },\n  \"other\": [1, 2.50, null]\n}\n",
        ),
        (
            ".vscode/mcp.json",
            "{\n  \"inputs\": [{ \"id\": \"t\", \"type\": \"promptString\" }],\n  \"servers\": {\n    \"a\": { \"command\": \"x\", \"envFile\": \"${workspaceFolder}/.env\" },\n    \"b\": { \"type\": \"http\", \"url\": \"https://x\", \"headers\": { \"Authorization\": \"Bearer ${input:t}\" } }\n  }\n}\n",
        ),
        (
            ".zed/settings.json",
            "{\n  \"theme\": \"x\",\n  \"context_servers\": {\n    \"a\": { \"command\": \"x\", \"args\": [\"y\"], \"timeout\": 5 },\n    \"e\": { \"settings\": {} }\n  }\n}\n",
        ),
        (
            "opencode.jsonc",
            "{\n  \"mcp\": {\n    \"a\": { \"type\": \"local\", \"command\": [\"npx\", \"x\"], \"environment\": { \"K\": \"{env:V}\" } },\n    \"b\": { \"type\": \"remote\", \"url\": \"http://localhost:1\" }\n  }\n}\n",
        ),
        (
            "cline_mcp_settings.json",
            "{\n  \"mcpServers\": {\n    \"a\": { \"transport\": { \"type\": \"stdio\", \"command\": \"x\", \"args\": [] }, \"autoApprove\": [\"t\"] }\n  }\n}\n",
        ),
        (
            ".codex/config.toml",
            "model = \"m\"\n\n[mcp_servers.a]\ncommand = 'x' # why\nargs = [\n  \"y\",\n]\n\n[mcp_servers.a.env]\nK = \"s\"\n\n[mcp_servers.b]\ncommand = \"x\"\n\n[mcp_servers.c]\nurl = \"http://localhost:1\"\nhttp_headers = { X = \"y\" }\n",
        ),
        (
            ".continue/config.yaml",
            "name: n\nmcpServers:\n  - name: a\n    command: npx\n    args:\n      - -y\n      - \"x\"\n  - name: b\n    command: 'y' # c\n",
        ),
        (
            "goose/config.yaml",
            "extensions:\n  a:\n    type: stdio\n    cmd: uvx\n    args: [x, 'y']\n    envs: {}\n  dev:\n    type: builtin\n",
        ),
    ];
    let mut all = Vec::new();
    for (path, text) in formats {
        let is_json = Notation::of(Path::new(path)) == Notation::Json;
        let mut texts =
            vec![text.to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")];
        if is_json {
            texts.push(text.replace("\n  ", "\n  // c\n  ").replace("}\n}", "} /* d */,\n}"));
            texts.push(text.replace("  ", "\t"));
            texts.push(text.replace('\n', " "));
            texts.push(serde_json::from_str::<serde_json::Value>(text).unwrap().to_string());
        }
        all.extend(texts.into_iter().map(|text| (PathBuf::from("/p").join(path), text)));
    }
    let projects: Vec<String> = (0..50)
        .map(|n| format!("\"/p{n}\": {{\"history\": \"{}\", \"mcpServers\": {{\"s{n}\": {{\"command\": \"x\"}}}}}}", "h".repeat(2000)))
        .collect();
    let large = format!("{{\"numStartups\": 1, \"projects\": {{{}}}}}", projects.join(", "));
    assert!(large.len() > 100_000);
    all.push((PathBuf::from("/h/.claude.json"), large));
    for empty in [
        "",
        "{}",
        "{\"mcpServers\": {}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
    ] {
        all.push((PathBuf::from("/p/mcp.json"), empty.to_owned()));
    }
    all
}

#[test]
fn every_file_of_the_corpus_is_restored() {
    let mut changed = 0;
    for (path, text) in corpus() {
        let file = ClientFile::parse(&path, text.clone()).unwrap_or_else(|error| panic!("{error}"));
        let plan = plan(&file, &wrapping(), &|_| true).unwrap_or_else(|_| panic!("{text}"));
        changed += plan.changed.len();
        let (restored, outcomes) = take_back(&path, &plan.after, &plan.changed).unwrap();
        assert_eq!(restored, text, "{}", path.display());
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == UndoOutcome::Restored));
        let again = ClientFile::parse(&path, plan.after.clone()).unwrap();
        let again = super::super::plan(&again, &wrapping(), &|_| true).unwrap();
        assert_eq!(again.after, plan.after, "a second import changes nothing");
    }
    assert!(changed > 100, "{changed}");
}

#[test]
fn what_others_changed_since_stays() {
    let text = "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"y\"]}, \"b\": {\"command\": \"z\"}, \"c\": {\"command\": \"w\"}}}";
    let path = Path::new("mcp.json");
    let plan = plan(&file("mcp.json", text), &wrapping(), &|_| true).unwrap();
    // The client writes the file anew, adds a server, changes another, and removes the third.
    let mut tree: serde_json::Value = serde_json::from_str(&plan.after).unwrap();
    tree["mcpServers"]["new"] = serde_json::json!({"command": "n"});
    tree["mcpServers"]["a"]["args"].as_array_mut().unwrap().push("added".into());
    tree["mcpServers"].as_object_mut().unwrap().remove("c");
    let (restored, outcomes) = take_back(path, &tree.to_string(), &plan.changed).unwrap();
    let restored: serde_json::Value = serde_json::from_str(&restored).unwrap();
    let expected = serde_json::json!({"mcpServers": {"a": {"command": "x", "args": ["y", "added"]},
        "b": {"command": "z", "args": []}, "new": {"command": "n"}}});
    assert_eq!(restored, expected);
    let outcomes: Vec<_> = outcomes.iter().map(|(_, outcome)| *outcome).collect();
    assert_eq!(outcomes, [UndoOutcome::Unwrapped, UndoOutcome::Unwrapped, UndoOutcome::Left]);
}

#[test]
fn a_preview_shows_no_values() {
    let text = "{\n  // s3cret\n  \"mcpServers\": {\n    \"a\": { \"command\": \"npx\", \"args\": [\"s3cret\"], \"env\": { \"K\": \"s3cret\" } },\n    \"b\": {\n      \"url\": \"http://localhost:1/mcp?key=s3cret\",\n      \"headers\": { \"X\": \"s3cret\" }\n    }\n  }\n}\n";
    let file = file("mcp.json", text);
    let plan = plan(&file, &wrapping(), &|_| true).unwrap();
    let shown = preview(&file, &plan.edits);
    let all = format!("{shown:?}");
    assert!(!all.contains("s3cret"), "{all}");
    assert_eq!(shown.iter().map(|lines| lines.line).collect::<Vec<_>>(), [4, 6]);
    assert_eq!(
        shown[0].before,
        [
            "    \"a\": { \"command\": \"npx\", \"args\": [\"******\"], \"env\": { \"K\": \"******\" } },"
        ]
    );
    assert_eq!(
        shown[0].after,
        [
            "    \"a\": { \"command\": \"/opt/toolgate\", \"args\": [\"wrap\", \"--name=a\", \"--\", \"npx\", \"******\"], \"env\": { \"K\": \"******\" } },"
        ]
    );
    assert!(all.contains("--url=http://localhost:1/mcp?…"), "{all}");
}

#[test]
fn one_entry_takes_the_place_of_several() {
    let text = "{\n  \"mcpServers\": {\n    \"off\": {\"command\": \"x\", \"disabled\": true},\n    \"a\": {\"command\": \"x\"}, // c\n    \"in\": {\"command\": \"${workspaceFolder}/x\"},\n    \"b\": {\"url\": \"http://localhost:1\"}\n  },\n  \"other\": 1\n}\n";
    let path = Path::new("/p/.cursor/mcp.json");
    let before = file("/p/.cursor/mcp.json", text);
    let one = plan_one(&before, &wrapping(), "/state/servers.json", &|_| true).unwrap().unwrap();
    assert_eq!(one.names, ["a", "b"]);
    // Its members in the order of serde_json, which a feature of another crate may change.
    let entry = serde_json::json!({"command": "/opt/toolgate", "args": ["stdio", "--config=/state/servers.json"]});
    let after = "{\n  \"mcpServers\": {\n    \"off\": {\"command\": \"x\", \"disabled\": true},\n    \"toolgate\": ENTRY, // c\n    \"in\": {\"command\": \"${workspaceFolder}/x\"}\n  },\n  \"other\": 1\n}\n".replace("ENTRY", &entry.to_string());
    assert_eq!(one.plan.after, after);
    let served = file("servers.json", &one.servers);
    let names: Vec<_> = served.servers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    // The client adds a server: the others come back.
    let changed = after.replace("\"other\": 1", "\"other\": 2");
    let (restored, outcomes) = take_back(path, &changed, &one.plan.changed).unwrap();
    assert_eq!(outcomes, [("toolgate".to_owned(), UndoOutcome::Restored)]);
    let restored = file("/p/.cursor/mcp.json", &restored);
    let names: Vec<_> = restored.servers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["off", "a", "b", "in"]);
}

#[test]
fn one_entry_takes_the_place_of_several_in_toml_and_yaml() {
    for (path, text, after) in [
        (
            "/h/.codex/config.toml",
            "model = \"m\" # why\n\n# the first\n[mcp_servers.a] # c\ncommand = 'x'\n\n[mcp_servers.a.env]\nK = \"s\"\n\n[mcp_servers.off]\ncommand = \"y\"\nenabled = false\n\n[mcp_servers.b]\nurl = \"http://localhost:1\"\n\n[tui]\ntheme = [\n  1,\n]\n",
            "model = \"m\" # why\n\n# the first\n[mcp_servers.toolgate]\ncommand = \"/opt/toolgate\"\nargs = [\"stdio\", \"--config=/s\"]\n\n[mcp_servers.off]\ncommand = \"y\"\nenabled = false\n\n\n[tui]\ntheme = [\n  1,\n]\n",
        ),
        (
            "/h/.continue/config.yaml",
            "name: n\nmcpServers:\n  - name: a # c\n    command: npx\n    args:\n      - -y\n      - \"x\"\n  # of b\n  - name: b\n    command: 'y'\nother:\n  - 1\n",
            "name: n\nmcpServers:\n  - name: toolgate\n    command: \"/opt/toolgate\"\n    args: [\"stdio\", \"--config=/s\"]\n  # of b\nother:\n  - 1\n",
        ),
        (
            "/h/goose/config.yaml",
            "extensions:\n  dev:\n    type: builtin\n  a:\n    type: stdio\n    cmd: uvx\n    args: [x]\n    envs: {}\n  b:\n    cmd: y\nGOOSE: 1\n",
            "extensions:\n  dev:\n    type: builtin\n  toolgate:\n    name: toolgate\n    enabled: true\n    type: stdio\n    cmd: \"/opt/toolgate\"\n    args: [\"stdio\", \"--config=/s\"]\nGOOSE: 1\n",
        ),
    ] {
        for (text, after) in [
            (text.to_owned(), after.to_owned()),
            (text.replace('\n', "\r\n"), after.replace('\n', "\r\n")),
        ] {
            let before = file(path, &text);
            let one = plan_one(&before, &wrapping(), "/s", &|_| true).unwrap().unwrap();
            assert_eq!(one.plan.after, after);
            assert_eq!(one.names, ["a", "b"]);
            let served = file(path, &one.servers);
            assert!(
                served.servers.iter().all(|entry| entry.problems.is_empty()),
                "{}",
                one.servers
            );
            let names: Vec<_> = served.servers.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(names, ["a", "b"]);
        }
    }
    // An entry that shares its line with others is left for a person.
    let inline =
        file("config.toml", "mcp_servers = { a = { command = \"x\" }, b = { command = \"y\" } }\n");
    assert_eq!(plan_one(&inline, &wrapping(), "/s", &|_| true).unwrap_err(), UnsafeEdit);
}

#[test]
fn every_file_of_the_corpus_gets_its_servers_back_from_one_entry() {
    let mut changed = 0;
    for (path, text) in corpus() {
        let before = ClientFile::parse(&path, text.clone()).unwrap();
        let Ok(Some(one)) = plan_one(&before, &wrapping(), "/s", &|_| true) else { continue };
        if one.plan.changed.is_empty() {
            continue;
        }
        changed += 1;
        let (restored, outcomes) = take_back(&path, &one.plan.after, &one.plan.changed).unwrap();
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == UndoOutcome::Restored), "{text}");
        let after = ClientFile::parse(&path, restored.clone()).unwrap();
        let servers = |file: &ClientFile| {
            let mut names: Vec<_> =
                file.servers.iter().map(|entry| (entry.name.clone(), entry.form.clone())).collect();
            names.sort_by(|one, other| one.0.cmp(&other.0));
            names
        };
        assert_eq!(servers(&after), servers(&before), "{restored}");
        let untouched =
            before.servers.first().is_some_and(|entry| one.names == [entry.name.clone()]);
        assert!(!untouched || restored == text, "one entry comes back byte by byte\n{restored}");
    }
    assert!(changed > 15, "{changed}");
}

#[test]
fn rules_that_name_a_server_are_found() {
    let text = "{\n \"permissions\": {\n \"allow\": [\"mcp__a__read\", \"mcp__a\",\n \"mcp__ab__x\", \"Bash\"],\n \"mcp__b__y\": 1}}";
    let document = crate::document::Document::parse(text.to_owned(), Notation::Json).unwrap();
    let patterns = ["mcp__{server}__".to_owned(), "mcp__{server}".to_owned()];
    let rules = rules_for(&document, &patterns, &["a".to_owned(), "b".to_owned()]);
    let rules: Vec<_> = rules.iter().map(|rule| (rule.line, rule.rule.as_str())).collect();
    assert_eq!(rules, [(3, "mcp__a__read"), (3, "mcp__a"), (5, "mcp__b__y")]);
}

/// Any entry: command, arguments and environment with any characters.
fn any_entry() -> impl Strategy<Value = serde_json::Value> {
    let text = || ".{1,12}";
    let arguments = proptest::option::of(proptest::collection::vec(text(), 0..4));
    let environment = proptest::collection::btree_map("[A-Z]{1,4}", text(), 0..3);
    (text(), arguments, environment, any::<bool>()).prop_map(|(command, args, env, is_list)| {
        let mut words = args.clone().unwrap_or_default();
        words.insert(0, command.clone());
        let mut entry = if is_list {
            serde_json::json!({"type": "local", "command": words, "environment": env})
        } else {
            serde_json::json!({"command": command, "env": env, "odd": {"x": [null, 1.5]}})
        };
        if let (Some(args), false) = (args, is_list) {
            entry["args"] = args.into();
        }
        entry
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_file_is_restored(
        entries in proptest::collection::btree_map(".{1,8}", any_entry(), 0..4),
        is_pretty in any::<bool>(),
        has_carriage_returns in any::<bool>(),
        section in prop_oneof![Just("mcpServers"), Just("servers"), Just("mcp")],
    ) {
        let tree = serde_json::json!({"before": [1], section: entries, "after": "x"});
        let mut text = if is_pretty { format!("{tree:#}\n") } else { tree.to_string() };
        if has_carriage_returns {
            text = text.replace('\n', "\r\n");
        }
        let path = Path::new("/p/mcp.json");
        let file = ClientFile::parse(path, text.clone()).unwrap();
        let plan = plan(&file, &wrapping(), &|_| true).unwrap();
        let (restored, _) = take_back(path, &plan.after, &plan.changed).unwrap();
        prop_assert_eq!(&restored, &text);
        let new: serde_json::Value = serde_json::from_str(&plan.after).unwrap();
        for change in &plan.changed {
            let (old, new) = (&tree[section][&change.name], &new[section][&change.name]);
            prop_assert_eq!(old.get("env"), new.get("env"));
            prop_assert_eq!(old.get("odd"), new.get("odd"));
        }
    }
}
