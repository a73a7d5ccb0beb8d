//! `toolgate import` and its undo, and what it writes: `toolgate wrap` with a name, and with a URL.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{
    Session, fixture, text,
    tmux::Tmux,
    toolgate,
    upstream::{Era, Upstream},
};

/// A home folder with the configs of clients, and a project in it.
struct Home(tempfile::TempDir);

/// What a run of the program gave.
struct Run {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.path("project")).unwrap();
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, |_| {})
    }

    fn run_with(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Run {
        let mut command = Command::new(toolgate());
        command.args(arguments).current_dir(self.path("project")).stdin(Stdio::null());
        for variable in [
            "XDG_CONFIG_HOME",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "OPENCODE_CONFIG",
            "TOOLGATE_CONFIG",
        ] {
            command.env_remove(variable);
        }
        command.env("HOME", self.0.path()).env("XDG_STATE_HOME", self.path("state"));
        change(&mut command);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run { code: output.status.code(), out: text(&output.stdout), errors: text(&output.stderr) }
    }

    /// Starts a server as its client would, from an entry of the client's file.
    fn start(&self, entry: &Value) -> Session {
        let mut command = Command::new(entry["command"].as_str().unwrap());
        command.args(entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()));
        for (name, value) in entry["env"].as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap());
        }
        command.env("XDG_STATE_HOME", self.path("state"));
        Session::spawn(command, tempfile::tempdir().unwrap())
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Files of several clients, with the fixture as `fix` and a secret in each.
fn configs() -> Vec<(&'static str, String)> {
    let command = Value::from(fixture().display().to_string());
    vec![
        (
            ".cursor/mcp.json",
            format!(
                "{{\n\t\"mcpServers\": {{\n\t\t\"fix\": {{ \"command\": {command}, \"args\": [], \"env\": {{ \"K\": \"s3cret\" }} }},\n\t\t\"off\": {{ \"command\": \"x\", \"disabled\": true }}\n\t}},\n\t\"other\": 1.50\n}}\n"
            ),
        ),
        (
            "project/.vscode/mcp.json",
            format!(
                "\u{feff}{{\r\n  // s3cret\r\n  \"servers\": {{ \"fix\": {{ \"command\": {command}, }}, }},\r\n}}\r\n"
            ),
        ),
        (
            ".codex/config.toml",
            format!(
                "model = \"m\" # why\n\n[mcp_servers.fix]\ncommand = {command}\nenv = {{ K = \"s3cret\" }}\n"
            ),
        ),
        (
            ".config/goose/config.yaml",
            format!(
                "extensions:\n  fix:\n    type: stdio\n    cmd: {command} # c\n    args:\n      - --full\n"
            ),
        ),
        (".config/zed/settings.json", "{ \"theme\": \"x\", }\n".to_owned()),
    ]
}

#[test]
fn files_are_changed_in_place_and_restored() {
    let home = Home::new();
    let configs = configs();
    for (path, content) in &configs {
        home.write(path, content);
    }
    let unchanged = || configs.iter().all(|(path, content)| home.read(path) == *content);

    let shown = home.run(&["import"]);
    assert_eq!(shown.code, Some(0), "{}", shown.errors);
    for part in [
        "Zed: ",
        "no servers",
        "Cursor: ",
        "VS Code: ",
        "Codex: ",
        "Goose: ",
        "fix: toolgate goes in front",
        "off: left as it is",
        "wrap",
        "Nothing is written",
    ] {
        assert!(shown.out.contains(part), "{part}\n{}", shown.out);
    }
    assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    assert!(unchanged(), "without a terminal and without `--yes` nothing is written");

    let written = home.run(&["import", "--yes"]);
    assert_eq!(written.code, Some(0), "{}{}", written.out, written.errors);
    let cursor = json_of(&home.read(".cursor/mcp.json"));
    assert_eq!(cursor["other"], 1.5);
    assert_eq!(cursor["mcpServers"]["off"], json!({"command": "x", "disabled": true}));
    let entry = &cursor["mcpServers"]["fix"];
    let own = [
        Value::from("wrap"),
        "--name=fix".into(),
        "--".into(),
        fixture().display().to_string().into(),
    ];
    assert_eq!(entry["args"], json!(own));
    assert_eq!(entry["env"], json!({"K": "s3cret"}));
    let mut session = home.start(entry);
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "behind toolgate"}))), "behind toolgate");
    drop(session);
    let audit = home.read("state/toolgate/audit.jsonl");
    assert!(audit.contains("fix/echo") || audit.contains("\"fix\""), "{audit}");
    for (path, _) in configs.iter().take(4) {
        assert!(home.read(path).contains("--name=fix"), "{path}");
    }

    let again = home.run(&["import", "--yes"]);
    assert!(
        again.out.contains("already behind toolgate") && again.out.contains("Nothing to change"),
        "{}",
        again.out
    );

    let undone = home.run(&["import", "--undo"]);
    assert_eq!(undone.code, Some(0), "{}{}", undone.out, undone.errors);
    assert!(unchanged(), "{}", undone.out);
    assert!(home.run(&["import", "--undo"]).out.contains("Nothing to undo"));
}

#[test]
fn a_person_at_the_terminal_is_asked_first() {
    let home = Home::new();
    let content = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    let path = home.write("mcp.json", content);
    let tmux = Tmux::start();
    let screen = |tmux: &Tmux| tmux.run(&["capture-pane", "-p", "-J", "-S", "-"]);
    for (round, answer, told) in [(1, "n", "Nothing is written"), (2, "y", "1 changed")] {
        let line = format!(
            "XDG_STATE_HOME={} {} import {}",
            home.path("state").display(),
            toolgate().display(),
            path.display()
        );
        tmux.run(&["send-keys", "-l", &line]);
        tmux.run(&["send-keys", "Enter"]);
        let is_asked =
            |tmux: &Tmux| screen(tmux).matches("Write this change? [y/N]").count() == round;
        tmux.until("asked", is_asked);
        tmux.run(&["send-keys", "-l", answer]);
        tmux.run(&["send-keys", "Enter"]);
        tmux.until("told", |tmux| screen(tmux).contains(told));
        assert_eq!(home.read("mcp.json") == content, answer == "n");
    }
}

#[test]
fn mode_and_symlink_stay_and_backups_are_private() {
    let home = Home::new();
    let content = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    let real = home.write("dotfiles/mcp.json", content);
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir(home.path(".cursor")).unwrap();
    std::os::unix::fs::symlink(&real, home.path(".cursor/mcp.json")).unwrap();
    assert_eq!(home.run(&["import", "--yes"]).code, Some(0));
    assert!(home.read("dotfiles/mcp.json").contains("--name=a"));
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&real), 0o640);
    assert!(std::fs::symlink_metadata(home.path(".cursor/mcp.json")).unwrap().is_symlink());
    let backups = home.path("state/toolgate/import");
    assert_eq!(mode(&backups), 0o700);
    let kept = std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.filter(|path| path.is_dir()).collect::<Vec<_>>();
    assert!(kept.len() == 1 && mode(&kept[0].join("before")) == 0o600, "{kept:?}");
    assert_eq!(
        std::fs::read_dir(home.path("dotfiles")).unwrap().count(),
        1,
        "no file is left behind"
    );
    assert_eq!(home.run(&["import", "--undo"]).code, Some(0));
    assert_eq!(home.read("dotfiles/mcp.json"), content);
    assert_eq!(mode(&real), 0o640);
}

#[test]
fn a_client_that_writes_its_file_meanwhile_loses_nothing() {
    let home = Home::new();
    let content =
        |count: usize| json!({"count": count, "mcpServers": {"a": {"command": "x"}}}).to_string();
    let path = home.write(".claude.json", &content(0));
    let ends = std::sync::atomic::AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut count = 0;
            while !ends.load(std::sync::atomic::Ordering::SeqCst) {
                count += 1;
                let new = path.with_extension("new");
                std::fs::write(&new, content(count)).unwrap();
                std::fs::rename(new, &path).unwrap();
                std::thread::yield_now();
            }
            count
        });
        let run = home.run(&["import", "--yes"]);
        ends.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(client.join().unwrap() > 0);
        run
    });
    // The import may have stopped, and the client may have written its own content last.
    assert!(matches!(run.code, Some(0 | 1)), "{}{}", run.out, run.errors);
    let file = json_of(&home.read(".claude.json"));
    assert!(file["count"].is_u64() && file["mcpServers"]["a"].is_object(), "{file}");
    let names = std::fs::read_dir(home.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.display().to_string().contains(".toolgate-")));
}

#[test]
fn undo_keeps_what_the_client_wrote_since() {
    let home = Home::new();
    home.write(
        ".claude.json",
        r#"{"numStartups": 1, "mcpServers": {"a": {"command": "x", "args": ["y"]}}}"#,
    );
    assert_eq!(home.run(&["import", "--yes"]).code, Some(0));
    let mut file = json_of(&home.read(".claude.json"));
    file["numStartups"] = json!(2);
    file["mcpServers"]["new"] = json!({"command": "z"});
    home.write(".claude.json", &format!("{file:#}"));
    let undone = home.run(&["import", "--undo"]);
    assert!(undone.code == Some(0) && undone.out.contains("changed since"), "{}", undone.out);
    let expected = json!({"numStartups": 2, "mcpServers": {"a": {"command": "x", "args": ["y"]}, "new": {"command": "z"}}});
    assert_eq!(json_of(&home.read(".claude.json")), expected);
}

#[test]
fn a_file_that_cannot_be_changed_is_named_and_stops_no_other() {
    let home = Home::new();
    let broken = "{\"mcpServers\": {\"a\": {\"command\": \"s3cret\"";
    home.write(".cursor/mcp.json", broken);
    home.write(
        ".kiro/settings/mcp.json",
        r#"{"mcpServers": {"a": {"command": "x"}, "bad": {"comand": "y"}}}"#,
    );
    let read_only = home.write(".junie/mcp/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    std::fs::set_permissions(&read_only, std::fs::Permissions::from_mode(0o444)).unwrap();
    let run = home.run(&["import", "--yes"]);
    assert_eq!(run.code, Some(1), "{}", run.out);
    for part in
        ["is missing", "bad: left as it is: not valid", "it is read-only: make it writable first"]
    {
        assert!(run.out.contains(part), "{part}\n{}", run.out);
    }
    assert!(!run.out.contains("s3cret"));
    assert_eq!(home.read(".cursor/mcp.json"), broken);
    assert!(home.read(".kiro/settings/mcp.json").contains("--name=a"));
    assert!(!home.read(".junie/mcp/mcp.json").contains("wrap"));
}

#[test]
fn files_servers_and_clients_can_be_chosen() {
    let home = Home::new();
    let config =
        home.write("toolgate.toml", "[limits]\ntimeout = \"60s\"\n").canonicalize().unwrap();
    let content =
        r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "disabled": true}}}"#;
    home.write(".cursor/mcp.json", content);
    home.write(".kiro/settings/mcp.json", content);
    let file = home.write("own.json", content);
    let options = [
        "import",
        "--json",
        "--yes",
        "--server",
        "b",
        "--client",
        "kiro",
        "--config",
        &config.display().to_string(),
    ];
    let run = home.run(&options);
    let told = json_of(&run.out);
    assert_eq!(told["files"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(
        (&told["files"][0]["client"], &told["files"][0]["written"]),
        (&json!("kiro"), &json!(true))
    );
    let servers = &json_of(&home.read(".kiro/settings/mcp.json"))["mcpServers"];
    assert_eq!(servers["a"], json!({"command": "x"}));
    assert_eq!(
        servers["b"]["args"],
        json!(["wrap", "--name=b", format!("--config={}", config.display()), "--", "y"])
    );
    assert_eq!(servers["b"]["disabled"], true);
    assert_eq!(home.read(".cursor/mcp.json"), content);
    assert_eq!(home.run(&["import", "--yes", &file.display().to_string()]).code, Some(0));
    assert!(home.read("own.json").contains("--name=a") && home.read(".cursor/mcp.json") == content);
    let wrong = home.run(&["import", "--client", "nope"]);
    assert!(
        wrong.code == Some(2) && wrong.errors.contains("there is no client `nope`"),
        "{}",
        wrong.errors
    );
}

#[test]
fn one_entry_serves_what_it_replaces_in_toml_and_yaml() {
    let home = Home::new();
    let command = fixture().display().to_string();
    let codex = format!(
        "model = \"m\" # why\n\n[mcp_servers.fix]\ncommand = {command:?}\n\n[mcp_servers.fix.env]\nGREETING = \"kept\"\n\n[tui]\nx = 1\n"
    );
    let goose = format!(
        "extensions:\n  fix:\n    type: stdio\n    cmd: {command:?} # c\n    args:\n      - --full\nx: 1\n"
    );
    home.write(".codex/config.toml", &codex);
    home.write(".config/goose/config.yaml", &goose);
    let run = home.run(&["import", "--one", "--yes"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.errors);
    let written = home.read(".codex/config.toml");
    assert!(written.starts_with("model = \"m\" # why\n\n[mcp_servers.toolgate]\n"), "{written}");
    assert!(written.ends_with("\n[tui]\nx = 1\n"), "{written}");
    // Strings and lists of TOML are those of JSON here.
    let value =
        |key: &str| json_of(written.lines().find_map(|line| line.strip_prefix(key)).unwrap());
    let entry = json!({"command": value("command = "), "args": value("args = ")});
    let mut session = home.start(&entry);
    session.initialize();
    let answer = session.call("echo", json!({"text": "of codex"}));
    assert_eq!(text(&answer), "of codex");
    drop(session);
    let written = home.read(".config/goose/config.yaml");
    assert!(
        written.contains("extensions:\n  toolgate:\n") && written.ends_with("x: 1\n"),
        "{written}"
    );
    assert_eq!(home.run(&["import", "--undo"]).code, Some(0));
    assert_eq!(home.read(".codex/config.toml"), codex);
    assert_eq!(home.read(".config/goose/config.yaml"), goose);
}

#[test]
fn an_entry_names_the_link_on_the_path_that_leads_to_this_program() {
    let home = Home::new();
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let link = home.path("bin/toolgate");
    std::fs::create_dir(home.path("bin")).unwrap();
    std::os::unix::fs::symlink(toolgate(), &link).unwrap();
    let run = home.run_with(&["import", "--yes"], |command| {
        command.env("PATH", home.path("bin"));
    });
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.errors);
    let entry = json_of(&home.read(".cursor/mcp.json"))["mcpServers"]["a"].clone();
    assert_eq!(entry["command"], json!(link));
}

#[test]
fn one_entry_serves_what_it_replaces() {
    let home = Home::new();
    let command = fixture().display().to_string();
    let content = json!({"mcpServers": {"fix": {"command": command}, "in": {"command": "${workspaceFolder}/x"}}}).to_string();
    home.write("project/.mcp.json", &content);
    let rules = "{\n\"permissions\": {\"allow\": [\n\"mcp__fix__echo\", \"Bash\"]}}";
    home.write(".claude/settings.json", rules);
    let run = home.run(&["import", "--one", "--yes"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.errors);
    for part in [
        "fix: toolgate serves it",
        "in: left as it is",
        "no longer matches: `mcp__fix__echo`",
        "settings.json:3",
    ] {
        assert!(run.out.contains(part), "{part}\n{}", run.out);
    }
    let servers = json_of(&home.read("project/.mcp.json"))["mcpServers"].clone();
    assert_eq!(servers["in"], json!({"command": "${workspaceFolder}/x"}));
    assert_eq!(servers.as_object().unwrap().len(), 2);
    let mut session = home.start(&servers["toolgate"]);
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "k"}))), "k");
    drop(session);
    assert_eq!(home.run(&["import", "--undo"]).code, Some(0));
    assert_eq!(home.read("project/.mcp.json"), content);
}

/// What `tools/list` names, and what `echo` answers.
fn reached(session: &mut Session) -> (Vec<String>, String) {
    session.initialize();
    let tools = session.request("tools/list", json!({}))["result"]["tools"].clone();
    let names =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    (names.collect(), text(&session.call("echo", json!({"text": "k"}))).to_owned())
}

#[test]
fn a_url_entry_becomes_a_command_that_reaches_the_same_server() {
    for server in
        [Upstream::legacy("web"), Upstream::modern("web"), Upstream::start("web", Era::OldSse)]
    {
        let home = Home::new();
        let entry = json!({"url": server.url(), "headers": {"X-Key": "s3cret"}});
        home.write(".cursor/mcp.json", &json!({"mcpServers": {"web": entry}}).to_string());
        let run = home.run(&["import", "--yes"]);
        assert!(run.code == Some(0) && !run.out.contains("s3cret"), "{}{}", run.out, run.errors);
        assert!(
            run.out.contains("`toolgate wrap --url` takes the place of its URL"),
            "{}",
            run.out
        );
        let entry = json_of(&home.read(".cursor/mcp.json"))["mcpServers"]["web"].clone();
        assert_eq!(entry["env"], json!({"MCP_HEADER_X_KEY": "s3cret"}));
        assert!(!entry["args"].to_string().contains("s3cret"), "{entry}");
        let mut session = home.start(&entry);
        let (names, answer) = reached(&mut session);
        assert!(names.contains(&"echo".to_owned()), "{names:?}");
        assert_eq!(answer, "k");
        assert!(server.seen().iter().any(|seen| seen.headers.get("x-key") == Some("s3cret")));
    }
}

#[test]
fn wrap_takes_a_url_from_the_command_line_or_the_config() {
    let server = Upstream::legacy("web");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mcp.json");
    let file = json!({"mcpServers": {"web": {"url": server.url()}, "other": {"command": "x"}}});
    std::fs::write(&config, file.to_string()).unwrap();
    let config = config.display().to_string();
    let by_config = ["--config", config.as_str(), "--server", "web", "--safety", "readonly"];
    let url = format!("--url={}", server.url());
    let mut lists = Vec::new();
    for options in [&["--name", "web", url.as_str(), "--safety", "readonly"][..], &by_config] {
        let mut session = Session::wrap_bare(&[options, &["--audit", "off"]].concat(), |_| {});
        session.initialize();
        lists.push(session.request("tools/list", json!({}))["result"]["tools"].clone());
    }
    assert_eq!(lists[0], lists[1]);
    let refused = |options: &[&str]| {
        let mut command = Command::new(toolgate());
        let output = command.arg("wrap").args(options).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = refused(&[&url, "--header-env", "X=NO_SUCH_VARIABLE"]);
    assert!(told.contains("the variable `NO_SUCH_VARIABLE` is not set"), "{told}");
    assert!(refused(&[&url, "--", "npx"]).contains("cannot be used with"));
    assert!(refused(&["--name", "a/b", "--", "npx"]).contains("has no `/`"));
}
