//! The configs of MCP clients, through the program: every notation is served, and one entry that is not valid stops no
//! other.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{
    Session, fixture,
    gateway::{Gateway, Place},
    text,
    tmux::Tmux,
    toolgate,
};

/// A file of a client, with the fixture as the server `fix`: the path inside a project, and the text.
fn files() -> Vec<(&'static str, String)> {
    let fixture = fixture().display().to_string();
    let command = Value::from(fixture.clone()).to_string();
    vec![
        (
            ".mcp.json",
            format!(
                "\u{feff}{{\"mcpServers\": {{\"fix\": {{\"type\": \"stdio\", \"command\": {command},}}}}}}"
            ),
        ),
        (
            ".vscode/mcp.json",
            format!(
                "{{\n  // the inputs\n  \"inputs\": [{{\"id\": \"word\", \"type\": \"promptString\"}}],\n  \"servers\": {{\n    \"fix\": {{\"command\": {command}, \"args\": [], \"env\": {{\"WORD\": \"${{input:word}}\"}}, \"envFile\": \"${{workspaceFolder}}/.env\"}},\n  }},\n}}"
            ),
        ),
        (
            ".zed/settings.json",
            format!(
                "{{\"context_servers\": {{\"fix\": {{\"command\": {command}, \"args\": []}}, /* c */ \"ext\": {{\"command\": \"x\", \"enabled\": false}}}}}}"
            ),
        ),
        (
            "opencode.jsonc",
            format!("{{\"mcp\": {{\"fix\": {{\"type\": \"local\", \"command\": [{command}]}}}}}}"),
        ),
        (".codex/config.toml", format!("model = \"m\"\n[mcp_servers.fix]\ncommand = {command}\n")),
        (".continue/config.yaml", format!("mcpServers:\n  - name: fix\n    command: {command}\n")),
        (
            "goose/config.yaml",
            format!("extensions:\n  fix:\n    type: stdio\n    cmd: {command}\n    args: []\n"),
        ),
    ]
}

fn write(folder: &Path, path: &str, text: &str) -> String {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_config_of_every_client_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".env"), "GREETING=from the file\n").unwrap();
    for (path, content) in files() {
        let path = write(folder.path(), path, &content);
        let mut session =
            Session::wrap_bare(&["--audit", "off", "--config", &path, "--server", "fix"], |wrap| {
                wrap.env("INPUT_WORD", "from the input");
            });
        session.initialize();
        assert_eq!(text(&session.call("echo", json!({"text": "as it is"}))), "as it is", "{path}");
        if path.contains(".vscode") {
            assert_eq!(text(&session.call("env", json!({"name": "GREETING"}))), "from the file");
            assert_eq!(text(&session.call("env", json!({"name": "WORD"}))), "from the input");
        }
    }
}

fn broken() -> String {
    let fixture = Value::from(fixture().display().to_string());
    format!(
        "{{\n  \"servers\": {{\n    \"good\": {{ \"command\": {fixture} }},\n    \"typo\": {{ \"comand\": \"s3cret\" }},\n    \
         \"unset\": {{ \"command\": \"x\", \"env\": {{ \"A\": \"${{NO_SUCH_VARIABLE}}\" }} }},\n    \
         \"off\": {{ \"command\": \"x\", \"disabled\": true }}\n  }}\n}}\n"
    )
}

#[test]
fn an_entry_that_is_not_valid_stops_no_other() {
    let place = Place::new("");
    place.write("mcp.json", &broken());
    let mut command = Command::new(toolgate());
    command.arg("serve").arg(place.path("mcp.json")).args(["--listen", "127.0.0.1:0"]);
    command.env("XDG_STATE_HOME", place.path("state"));
    let gateway: Gateway = place.start_as(command);
    gateway.wait_for_stderr("To use it");
    let told = gateway.stderr().join("\n");
    for part in [
        "the server `typo` cannot be started: line 4, column 15",
        "4 |     \"typo\": { \"comand\": \"******\" },",
        "unknown key `comand`; did you mean `command`?",
        "the server `unset` cannot be started: line 5",
        "the environment variable `NO_SUCH_VARIABLE` is not set",
        "mcp.json:4:",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "k"}))), "k");
}

/// Runs the program until it ends: its code, and what it wrote to stderr.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(toolgate())
        .args(arguments)
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_server_that_cannot_be_wrapped_says_why() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mcp.json", &broken());
    for (server, expected) in [
        ("typo", "mcp.json:4: unknown key `comand`; did you mean `command`?"),
        ("unset", "mcp.json:5: the environment variable `NO_SUCH_VARIABLE` is not set"),
        ("off", "the server `off` is switched off in mcp.json:6"),
        ("none", "the config has no server `none`: it has `good`"),
    ] {
        let (code, told) =
            run(folder.path(), &["wrap", "--config", "mcp.json", "--server", server]);
        assert!(code == Some(2) && told.contains(expected), "{server}: {told}");
    }
    let mut session = Session::wrap_bare(
        &[
            "--audit",
            "off",
            "--config",
            &folder.path().join("mcp.json").display().to_string(),
            "--server",
            "good",
        ],
        |_| {},
    );
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "k"}))), "k");
}

#[test]
fn check_reports_entries_that_are_not_valid() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mcp.json", &broken());
    let (code, told) = run(folder.path(), &["check", "--offline", "--config", "mcp.json"]);
    assert!(code == Some(1) && told.contains("unknown key `comand`"), "{told}");
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_every_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, expected) in [
        (
            "mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"s3cret\" }\n    \"b\": {}\n  }\n}",
            &["line 3, column 33", "a comma is missing here"][..],
        ),
        (
            "mcp.json",
            "{\n \"mcpserver\": {}\n}",
            &["line 2, column 2", "did you mean `mcpServers` instead of `mcpserver`?"][..],
        ),
        (
            "mcp.json",
            "{\"mcpServers\": {\n \"a\": {\"url\": \"x\"},\n \"b\": {\"args\": \"s3cret\"}}}",
            &["server `a`", "line 2", "no scheme", "server `b`", "line 3", "write a list"][..],
        ),
        ("x.yaml", "a: [1\nb: s3cret\n", &["x.yaml", "invalid YAML"][..]),
        ("x.yaml", "servers_: 1\n", &["did you mean `servers`"][..]),
        (
            "codex.toml",
            "[mcp_servers.a]\ncomand = \"s3cret\"\n",
            &["line 2, column 1", "did you mean `command`?"][..],
        ),
    ] {
        write(folder.path(), name, content);
        let (code, told) = run(folder.path(), &["serve", name, "--listen", "127.0.0.1:0"]);
        assert_eq!(code, Some(2), "{content}: {told}");
        for part in expected {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn a_person_at_the_terminal_is_asked_for_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let command = Value::from(fixture().display().to_string());
    let file = format!(
        "{{\"inputs\": [{{\"id\": \"word\", \"type\": \"promptString\", \"description\": \"The word\", \"password\": true}}],
          \"servers\": {{\"fix\": {{\"command\": {command}, \"env\": {{\"WORD\": \"${{input:word}}\"}}}}}}}}"
    );
    let path = write(folder.path(), ".vscode/mcp.json", &file);
    let tmux = Tmux::start();
    let line = format!(
        "XDG_STATE_HOME={} {} serve --listen 127.0.0.1:0 --audit off {path}",
        folder.path().join("state").display(),
        toolgate().display()
    );
    tmux.run(&["send-keys", "-l", &line]);
    tmux.run(&["send-keys", "Enter"]);
    let shows = |text: &'static str| {
        move |tmux: &Tmux| tmux.run(&["capture-pane", "-p", "-J", "-S", "-"]).contains(text)
    };
    tmux.until("asked", shows("The word [or set INPUT_WORD]:"));
    tmux.run(&["send-keys", "-l", "s3cret"]);
    tmux.run(&["send-keys", "Enter"]);
    tmux.until("ready", shows("To use it"));
    assert!(!shows("s3cret")(&tmux), "what is typed is not shown");
    assert!(!shows("has no value")(&tmux));
    tmux.run(&["send-keys", "C-c"]);
}

#[test]
fn the_pages_of_clients_are_up_to_date() {
    let page = |client: &[&str]| {
        let output = Command::new(toolgate()).args(["config", "clients"]).args(client).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages = vec![("clients.md".to_owned(), page(&[]))];
    for client in toolgate_gateway::client_files::clients() {
        pages.push((format!("clients/{}.md", client.id), page(&[&client.id])));
    }
    let folder = std::fs::read_dir(docs.join("clients")).map_or(0, Iterator::count);
    for (path, text) in &pages {
        let path = docs.join(path);
        if std::env::var_os("TOOLGATE_UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let how = "run `TOOLGATE_UPDATE=1 cargo test -p toolgate-cli --test suite client_files::the_pages`";
        assert_eq!(written, *text, "{}: {how}", path.display());
    }
    assert!(folder < pages.len(), "a page of a client that is not known");
}
