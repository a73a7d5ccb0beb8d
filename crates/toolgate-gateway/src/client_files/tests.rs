//! Tests of the files of all clients: what an entry means, and what is said about one that is not valid.

use super::*;
use crate::document::NodeValue;

fn file(path: &str, text: &str) -> ClientFile {
    ClientFile::parse(Path::new(path), text.to_owned()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(path: &str, text: &str) -> String {
    ClientFile::parse(Path::new(path), text.to_owned()).unwrap_err().to_string()
}

/// The resolved entry as text, or its problems.
fn resolved(file: &ClientFile, name: &str, folder: &Path) -> String {
    let entry = file.servers.iter().find(|entry| entry.name == name).unwrap();
    if entry.is_off {
        return "off".to_owned();
    }
    let server = match resolve(file, entry, folder) {
        Ok(server) => server,
        Err(problems) => {
            let told: Vec<_> = problems.iter().map(|one| one.one_line("f")).collect();
            return format!("! {}", told.join("; "));
        }
    };
    let mut out: Vec<String> = Vec::new();
    out.extend(server.command.iter().chain(&server.args).map(|text| text.value.clone()));
    out.extend(server.url.iter().map(|url| url.value.clone()));
    let pairs = |mark: &str, pairs: &[(String, ResolvedText)]| {
        let one = |(name, text): &(String, ResolvedText)| format!("{mark}{name}={}", text.value);
        pairs.iter().map(one).collect::<Vec<_>>()
    };
    out.extend(pairs("", &server.env));
    out.extend(pairs("@", &server.headers));
    out.extend(server.passed.iter().flatten().map(|name| format!("+{name}")));
    out.extend(server.cwd.iter().map(|cwd| format!("in {}", cwd.file_name().unwrap().display())));
    if server.is_sse {
        out.push("sse".to_owned());
    }
    out.join(" ")
}

/// Checks entries: path and text of a file, the name of an entry, and its meaning. `<D>` stands for the folder of the
/// project, `<B>` for its name, and `<P>` for the variable `PATH`, which is set wherever tests run.
fn check(cases: &[(&str, &str, &str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path();
    std::fs::create_dir(project.join("sub")).unwrap();
    std::fs::write(project.join("secrets.env"), "# c\nA=from-file\nB=\"b\"\n").unwrap();
    let base = project.file_name().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    for (name, text, entry, expected) in cases {
        let file = file(&project.join(name).display().to_string(), text);
        let expected = expected.replace("<D>", &project.display().to_string());
        let expected = expected.replace("<B>", &base).replace("<P>", &path);
        assert_eq!(resolved(&file, entry, project), expected, "{name}: {text}");
    }
}

#[test]
fn files_with_the_key_mcp_servers_are_read() {
    check(&[
        (
            ".mcp.json",
            r#"{"mcpServers": {"a": {"type": "stdio", "command": "npx", "args": ["-y", "${PATH}", "${NO_SUCH:-d}"],
            "env": {"N": 1, "T": true, "Z": null}}}}"#,
            "a",
            "npx -y <P> d N=1 T=true",
        ),
        (
            ".mcp.json",
            r#"{"mcpServers": {"a": {"type": "sse", "url": "https://x/sse", "headers": {"Authorization": "Bearer ${PATH}"}}}}"#,
            "a",
            "https://x/sse @Authorization=Bearer <P> sse",
        ),
        (
            ".cursor/mcp.json",
            "\u{feff}// c\r\n{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"${workspaceFolder}/y\", \"${env:PATH}\",], /* c */ \"envFile\": \"${workspaceFolder}/secrets.env\", \"env\": {\"A\": \"own\"},},}}",
            "a",
            "x <D>/y <P> B=b A=own",
        ),
        (
            "mcp_config.json",
            r#"{"mcpServers": {"a": {"serverUrl": "https://x/mcp", "disabledTools": ["t"]}}}"#,
            "a",
            "https://x/mcp",
        ),
        (
            "mcp_config.json",
            r#"{"mcpServers": {"b": {"command": "x", "disabled": true}}}"#,
            "b",
            "off",
        ),
        (
            ".gemini/settings.json",
            r#"{"mcpServers": {"b": {"command": "x", "env": {"A": "p:$PATH"}}}}"#,
            "b",
            "x A=p:<P>",
        ),
        (
            ".gemini/settings.json",
            r#"{"mcpServers": {"a": {"httpUrl": "https://x/mcp", "trust": true}}}"#,
            "a",
            "https://x/mcp",
        ),
        (
            "mcp.json",
            r#"{"mcpServers": {"a": {"command": "x", "args": ["a$b"], "env": {"A": "$PATH", "B": "pa$word"}}}}"#,
            "a",
            "x a$b A=<P> B=pa$word",
        ),
        // Only toolgate.toml reads files of secrets: here it is the notation of a database.
        (
            "mcp.json",
            r#"{"mcpServers": {"a": {"command": "x", "args": ["file:./db"]}}}"#,
            "a",
            "x file:./db",
        ),
        (
            "cline_mcp_settings.json",
            r#"{"mcpServers": {"a": {"transport": {"type": "stdio", "command": "x", "args": ["y"]}, "autoApprove": []}}}"#,
            "a",
            "x y",
        ),
        (
            "cline_mcp_settings.json",
            r#"{"mcpServers": {"b": {"type": "streamableHttp", "url": "https://x"}}}"#,
            "b",
            "https://x",
        ),
        ("warp.json", r#"{"a": {"command": "x", "working_directory": "sub"}}"#, "a", "x in sub"),
    ]);
}

#[test]
fn files_of_editors_are_read() {
    check(&[
        (
            ".vscode/mcp.json",
            r#"{"inputs": [], "servers": {"a": {"command": "x", "cwd": "${workspaceFolder}/sub", "args": ["${workspaceFolderBasename}"]}}}"#,
            "a",
            "x <B> in sub",
        ),
        (
            "settings.json",
            r#"{"mcp": {"servers": {"a": {"type": "http", "url": "http://x/mcp"}}}, "editor.x": 1}"#,
            "a",
            "http://x/mcp",
        ),
        (
            "devcontainer.json",
            r#"{"customizations": {"vscode": {"mcp": {"servers": {"a": {"command": "x"}}}}}}"#,
            "a",
            "x",
        ),
        (
            ".zed/settings.json",
            "{\n  // c\n  \"theme\": \"x\",\n  \"context_servers\": {\"a\": {\"command\": \"x\", \"args\": [\"${PATH}\"], \"enabled\": true}, \"ext\": {\"settings\": {}}},\n}",
            "a",
            "x ${PATH}",
        ),
        (
            ".zed/settings.json",
            r#"{"context_servers": {"old": {"command": {"path": "p", "args": ["q"], "env": {"A": "1"}}}}}"#,
            "old",
            "p q A=1",
        ),
        (
            ".zed/settings.json",
            r#"{"context_servers": {"off": {"command": "x", "enabled": false}}}"#,
            "off",
            "off",
        ),
        (
            "opencode.jsonc",
            "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\", \"{env:PATH}\", \"${V}\", \"{file:secrets.env}\"], \"environment\": {\"A\": \"1\"}}, }}",
            "a",
            "x <P> ${V} # c\nA=from-file\nB=\"b\" A=1",
        ),
        (
            "opencode.json",
            r#"{"mcp": {"a": {"type": "remote", "url": "https://x", "enabled": false}}}"#,
            "a",
            "off",
        ),
    ]);
}

#[test]
fn files_in_toml_and_yaml_are_read() {
    check(&[
        (
            ".codex/config.toml",
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"x\"\nargs = [\"-y\", '${PATH}']\nenv_vars = [\"TOKEN\"]\nstartup_timeout_sec = 20.0\n[mcp_servers.a.env]\nA = \"1\"\n",
            "a",
            "x -y ${PATH} A=1 +TOKEN",
        ),
        (
            ".codex/config.toml",
            "[mcp_servers.a]\nurl = \"https://x/mcp\"\nbearer_token_env_var = \"PATH\"\nhttp_headers = { X = \"y\" }\n",
            "a",
            "https://x/mcp @X=y @Authorization=Bearer <P>",
        ),
        (
            "config.yaml",
            "# c\nname: n\nmcpServers:\n  - name: a\n    command: npx\n    args:\n      - -y\n      - \"${{ secrets.PATH }}\"\n    env:\n      A: 1\n",
            "a",
            "npx -y <P> A=1",
        ),
        (
            "goose/config.yaml",
            "extensions:\n  a:\n    type: stdio\n    cmd: uvx\n    args: [x]\n    envs: {A: b}\n    env_keys: [K]\n    enabled: true\n  dev:\n    type: builtin\n",
            "a",
            "uvx x A=b +K",
        ),
        (
            "goose/config.yaml",
            "extensions:\n  a:\n    type: streamable_http\n    uri: https://x\n",
            "a",
            "https://x",
        ),
    ]);
}

/// One problem each: a message that names the line, what is wrong, and the next step.
#[test]
fn an_entry_that_is_not_valid_says_why_and_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for (entry, expected) in [
        (r#""comand": "x""#, "unknown key `comand`; did you mean `command`?"),
        (r#""command": "x", "arg": []"#, "unknown key `arg`; did you mean `args`?"),
        (r#""command": "x", "evn": {}"#, "unknown key `evn`; did you mean `env`?"),
        (r#""command": "x", "envfile": "a""#, "unknown key `envfile`; did you mean `envFile`?"),
        (r#""server_url": "https://x""#, "unknown key `server_url`; did you mean `serverUrl`?"),
        (r#""url": "https://x", "header": {}"#, "unknown key `header`; did you mean `headers`?"),
        (r#""command": "x", "disable": true"#, "unknown key `disable`; did you mean `disabled`?"),
        (
            r#""command": "x", "args": "-y""#,
            "`args` is a string: write a list, one item for each argument",
        ),
        (r#""command": "x", "args": [["y"]]"#, "an item of `args` is a list: write a string"),
        (r#""command": 5"#, "`command` is a number: write a string"),
        (r#""command": "x", "env": ["A=1"]"#, "`env` is a list: write a table of names and values"),
        (r#""command": "x", "env": {"A": {}}"#, "`env.A` is a table: write a string"),
        (r#""command": "x", "disabled": "no""#, "`disabled` is a string: write true or false"),
        (
            r#""command": "npx -y foo""#,
            "the command contains spaces and is no file: put the arguments into `args`, one item each",
        ),
        (r#""command": """#, "the command is empty: write the program to start"),
        (
            r#""command": "x", "cwd": "/nonexistent""#,
            "the folder `/nonexistent` does not exist: create it, or correct `cwd`",
        ),
        (
            r#""command": "x", "envFile": "/nonexistent/.env""#,
            "cannot read the `envFile` `/nonexistent/.env`",
        ),
        (
            r#""command": "x", "url": "https://x""#,
            "the entry has a command and `url`: remove one of them",
        ),
        (
            r#""description": "x""#,
            "the entry has neither a command nor a URL: write `command` or `url`",
        ),
        (
            r#""url": "127.0.0.1:9000/mcp""#,
            "the URL has no scheme: write `http://` or `https://` before it",
        ),
        (r#""url": "unix:///x.sock""#, "toolgate reaches no server over a Unix socket"),
        (r#""type": "ws", "url": "wss://x""#, "toolgate does not speak WebSocket"),
        (
            r#""command": "${NO_SUCH_VARIABLE}""#,
            "the environment variable `NO_SUCH_VARIABLE` is not set: set it before toolgate starts",
        ),
        (
            r#""command": "x", "env": {"A": "$NO_SUCH_VARIABLE"}"#,
            "the environment variable `NO_SUCH_VARIABLE` is not set",
        ),
        (r#""command": "${NO""#, "a `${` has no `}`: write `${NAME}`"),
        (r#""command": "${}""#, "`` names no variable"),
        (
            r#""command": "x", "args": ["${input:tok}"]"#,
            "`inputs` declares no `tok`: declare it, or set the variable `INPUT_TOK`",
        ),
        (r#""command": "x", "args": ["${config:a}"]"#, "only the editor knows `${config:a}`"),
        (
            r#""command": "x", "command": "y""#,
            "`command` occurs twice, first in line 3: remove one of them",
        ),
    ] {
        let text = format!(
            "{{\"mcpServers\": {{\n  \"good\": {{\"command\": \"x\"}},\n  \"bad\": {{{entry}}}\n}}}}"
        );
        let file = file(&folder.path().join("mcp.json").display().to_string(), &text);
        let told = resolved(&file, "bad", folder.path());
        assert!(told.starts_with("! f:3: ") && told.contains(expected), "{entry}: {told}");
        assert_eq!(resolved(&file, "good", folder.path()), "x");
    }
    let text = "{\"mcpServers\": {\"bad\": 5, \"a/b\": {\"command\": \"x\"}, \"good\": {\"command\": \"x\"}}}";
    let file = file(&folder.path().join("mcp.json").display().to_string(), text);
    assert!(resolved(&file, "bad", folder.path()).contains("the entry is a number"));
    assert!(resolved(&file, "a/b", folder.path()).contains("write one without `/`"));
    assert_eq!(resolved(&file, "good", folder.path()), "x");
}

#[test]
fn a_file_without_servers_says_what_it_has() {
    for (text, expected) in [
        (r#"{"mcpservers": {}}"#, "did you mean `mcpServers` instead of `mcpservers`?"),
        (r#"{"mcp_server": {}}"#, "did you mean `mcp_servers` instead of `mcp_server`?"),
        (r#"{"theme": "x", "font": 1}"#, "it has `theme`, `font`"),
        ("[]", "the file holds a list: write a table with `mcpServers`"),
        (r#"{"mcpServers": "x"}"#, "`mcpServers` is a string: write a table of servers by name"),
        ("{\"mcpServers\": {\"a\": {\"command\": \"x\"}}", "`}` is missing"),
    ] {
        let told = refused("mcp.json", text);
        assert!(told.contains(expected) && told.contains("`mcp.json`, line 1"), "{text}: {told}");
    }
    for text in ["", "{}", r#"{"mcpServers": {}}"#, r#"{"projects": {}, "x": 1}"#] {
        assert!(file("mcp.json", text).servers.is_empty(), "{text}");
    }
}

#[test]
fn a_project_of_claude_code_has_servers_of_its_own() {
    let text = r#"{"mcpServers": {"a": {"command": "user"}}, "projects": {
        "/p": {"mcpServers": {"a": {"command": "own"}, "b": {"command": "x"}}}, "/q": {"mcpServers": {"c": {"command": "x"}}}}}"#;
    let file = file(".claude.json", text);
    let names = |folder: &str| {
        let servers = file.servers_in(Path::new(folder)).into_iter();
        servers.map(|entry| format!("{}:{}", entry.name, entry.words()[0])).collect::<Vec<_>>()
    };
    assert_eq!(names("/p"), ["a:own", "b:x"]);
    assert_eq!(names("/elsewhere"), ["a:user"]);
}

#[test]
fn inputs_come_from_variables_or_from_the_person() {
    let text = r#"{"inputs": [
        {"id": "a-b", "type": "promptString", "description": "the key", "password": true},
        {"id": "region", "type": "pickString", "options": ["eu", "us"], "default": "eu"},
        {"id": "cmd", "type": "command", "command": "x"},
        {"id": "unused", "type": "promptString"}],
      "servers": {"s": {"command": "x", "args": ["${input:a-b}", "${input:region}"]}, "c": {"command": "x", "args": ["${input:cmd}"]}}}"#;
    let file = file(".vscode/mcp.json", text);
    let missing: Vec<_> = file.missing_inputs().iter().map(|input| input.variable()).collect();
    assert_eq!(missing, ["INPUT_A_B", "INPUT_REGION"]);
    let folder = Path::new("/");
    let told = resolved(&file, "s", folder);
    assert!(told.contains("the input `a-b` has no value: set the variable `INPUT_A_B`"), "{told}");
    assert!(resolved(&file, "c", folder).contains("runs a command of the editor"));
    answer("a-b", "s3cret".to_owned());
    answer("region", "eu".to_owned());
    assert_eq!(resolved(&file, "s", folder), "x s3cret eu");
    assert!(file.missing_inputs().is_empty());
}

#[test]
fn toolgate_recognises_its_own_entries() {
    for (entry, expected) in [
        (r#"{"command": "/usr/bin/toolgate", "args": ["wrap", "--", "npx"]}"#, true),
        (r#"{"command": ["toolgate", "wrap"]}"#, true),
        (r#"{"command": "npx", "args": ["-y", "toolgate", "wrap"]}"#, true),
        (r#"{"command": "npx", "args": ["-y", "other"]}"#, false),
        (r#"{"url": "http://127.0.0.1:8642/mcp"}"#, false),
    ] {
        let file = file("mcp.json", &format!("{{\"mcpServers\": {{\"a\": {entry}}}}}"));
        assert_eq!(file.servers[0].is_wrapped(), expected, "{entry}");
    }
}

#[test]
fn lists_of_tools_that_are_not_applied_are_mentioned() {
    let file =
        file("mcp.json", r#"{"mcpServers": {"a": {"command": "x", "excludeTools": ["rm"]}}}"#);
    let hints: Vec<_> = file.servers[0].hints.iter().map(|hint| hint.message.clone()).collect();
    assert!(hints.len() == 1 && hints[0].contains("does not apply `excludeTools`"), "{hints:?}");
    assert!(matches!(file.document.root.value, NodeValue::Map(_)));
}
