//! `toolgate init`: a config for what was found, which `toolgate check` accepts.

use serde_json::json;

use super::{Machine, stderr, stdout};
use crate::harness::fixture;

#[test]
fn the_servers_of_clients_become_a_config_that_passes_check() {
    let machine = Machine::new();
    let fixture = fixture();
    let cursor = json!({"mcpServers": {
        "notes": {"command": fixture, "args": [], "env": {"MODE": "plain $HOME ${env:HOME}"}},
        "off": {"command": fixture, "disabled": true},
        "secret": {"command": fixture, "env": {"KEY": "${NOT_SET_HERE}"}},
    }});
    machine.write("home/.cursor/mcp.json", &cursor.to_string());
    let project =
        json!({"mcpServers": {"notes": {"command": fixture, "args": ["--full", "notes"]}}});
    machine.write("project/.mcp.json", &project.to_string());
    let output = machine.run(&["init"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = stdout(&output);
    assert!(told.contains("wrote `toolgate.toml` with 2 servers"), "{told}");
    assert!(told.contains("off of Cursor is a comment: it is switched off there"), "{told}");
    assert!(
        told.contains("secret of Cursor is a comment") && told.contains("NOT_SET_HERE"),
        "{told}"
    );
    let text = std::fs::read_to_string(machine.path("project/toolgate.toml")).unwrap();
    assert!(text.starts_with("#:schema ./toolgate.schema.json\n"), "{text}");
    assert!(
        text.contains("plain $HOME ${HOME}"),
        "values of variables stay out of the file: {text}"
    );
    assert!(text.contains("# [servers.off]") && text.contains("[servers.notes-2]"), "{text}");
    let checked = machine.run(&["check", "--config", "toolgate.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}{}\n{text}", stdout(&checked), stderr(&checked));
    // The commands find it in this folder, as `serve` does.
    assert_eq!(stdout(&machine.run(&["check"])), stdout(&checked));
    let why = machine.run(&["why", "notes/echo"]);
    assert_eq!(why.status.code(), Some(0), "{}{}", stdout(&why), stderr(&why));
    let log = stderr(&machine.run(&["log"]));
    assert!(log.contains("no call log at `toolgate.db`"), "{log}");
    assert!(stdout(&machine.run(&["chain"])).contains("sanitize"));
    let schema = std::fs::read_to_string(machine.path("project/toolgate.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["title"], "toolgate.toml");
    // The next time it refuses.
    let again = machine.run(&["init"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("`toolgate.toml` exists"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(machine.path("project/toolgate.toml")).unwrap(), text);
}

/// Everything below a folder, with the paths of files.
fn files_below(folder: &std::path::Path) -> Vec<(std::path::PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![(path.clone(), std::fs::read_to_string(&path).unwrap())]
            }
        })
        .collect()
}

#[test]
fn literal_secrets_of_clients_stay_out_of_the_config() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new();
    let fixture = fixture();
    let github = format!("ghp_{}", "a1B2".repeat(9));
    let file = json!({"mcpServers": {
        "fix": {"command": fixture, "args": ["--api-key", "s3cret-1", "--token=s3cret-2", "--plain", "x", github],
            "env": {"GREETING": "hello", "API_KEY": "s3cret-3 $literal"}},
        "web": {"url": "http://127.0.0.1:9/mcp?token=s3cret-4", "headers": {"Authorization": "Bearer s3cret-5", "X-A": "b"}},
        "bad": {"command": fixture, "args": ["--password", "s3cret-6"], "env": {"A": "${NOT_SET_HERE}"}},
    }});
    machine.write("project/vscode.json", &file.to_string());
    let output = machine.run(&["init", "--from", "vscode.json"]);
    let told = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{told}{}", stderr(&output));
    assert!(told.contains("`toolgate.secrets/` has 6 secrets"), "{told}");
    let text = std::fs::read_to_string(machine.path("project/toolgate.toml")).unwrap();
    assert!(
        !text.contains("s3cret") && !text.contains(&github) && !told.contains("s3cret"),
        "{text}{told}"
    );
    for part in [
        "\"GREETING\" = \"hello\"",
        "\"X-A\" = \"b\"",
        "\"--plain\", \"x\"",
        "toolgate.secrets/fix.API_KEY",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let folder = machine.path("project/toolgate.secrets");
    let kept = files_below(&folder);
    assert_eq!(kept.len(), 7, "{kept:?}");
    assert!(kept.iter().any(|(path, text)| path.ends_with(".gitignore") && text == "*\n"));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert!(kept.iter().all(|(path, _)| mode(path) == 0o600));
    // The server gets its secrets, as from the client.
    let checked = machine.run(&["check", "--offline"]);
    assert!(checked.status.code() != Some(2), "{}\n{text}", stderr(&checked));
    // Without the rules, `wrap` passes calls of tools that the fixture does not list.
    machine.write("project/servers.toml", text.split("# What clients connect to").next().unwrap());
    let config = machine.path("project/servers.toml").display().to_string();
    let options = ["--config", &config, "--server", "fix", "--audit", "off"];
    let mut session = crate::harness::Session::wrap_bare(&options, |_| {});
    session.initialize();
    let answer = session.call("env", json!({"name": "API_KEY"}));
    assert_eq!(crate::harness::text(&answer), "s3cret-3 $literal");
}

#[test]
fn a_secret_of_an_earlier_config_is_not_replaced() {
    let machine = Machine::new();
    let init = |key: &str, to: &str| {
        let file = json!({"mcpServers": {"fix": {"command": fixture(), "env": {"API_KEY": key}}}});
        machine.write("project/vscode.json", &file.to_string());
        machine.run(&["init", "--from", "vscode.json", to])
    };
    let secret = machine.path("project/toolgate.secrets/fix.API_KEY");
    assert_eq!(init("s3cret-1", "one.toml").status.code(), Some(0));
    assert_eq!(init("s3cret-1", "two.toml").status.code(), Some(0), "the same secret");
    let refused = init("s3cret-2", "three.toml");
    let told = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("exists with another content: move it away first"), "{told}");
    assert!(!told.contains("s3cret") && !machine.path("project/three.toml").exists());
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "s3cret-1");
}

#[test]
fn without_clients_it_is_an_example_that_passes_check() {
    let machine = Machine::new();
    let output = machine.run(&["init", "other.toml"]);
    assert!(stdout(&output).contains("wrote `other.toml` with 0 servers"), "{}", stdout(&output));
    assert!(stdout(&output).contains("toolgate check --config other.toml"), "{}", stdout(&output));
    let checked = machine.run(&["check", "--config", "other.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}{}", stdout(&checked), stderr(&checked));
    // Each line that is a comment is one of the config, once the mark is gone.
    let text = std::fs::read_to_string(machine.path("project/other.toml")).unwrap();
    let is_setting =
        |line: &&str| line.starts_with('[') || line.starts_with("# [") || line.contains(" = ");
    let settings: Vec<&str> = text.lines().filter(is_setting).collect();
    let whole: Vec<&str> = settings.iter().map(|line| line.trim_start_matches("# ")).collect();
    let whole = whole.join("\n").replace("SERVER/TOOL", "*/x");
    machine.write("project/whole.toml", &whole);
    let mut command = machine.command(&["check", "--offline", "--config", "whole.toml"]);
    let checked = command.env("GATEWAY_TOKEN", "a-token-that-is-long").output().unwrap();
    assert!(checked.status.code() != Some(2), "{}{}\n{whole}", stdout(&checked), stderr(&checked));
}

#[test]
fn one_file_can_be_chosen_and_a_foreign_schema_stays() {
    let machine = Machine::new();
    let file = json!({"servers": {"web": {"type": "sse", "url": "http://127.0.0.1:9/sse", "headers": {"X-A": "b"}}}});
    machine.write("project/vscode.json", &file.to_string());
    machine.write("project/toolgate.schema.json", "{}");
    let output = machine.run(&["init", "--from", "vscode.json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("another file than the schema"), "{}", stderr(&output));
    assert!(!machine.path("project/toolgate.toml").exists(), "nothing is written by halves");
    std::fs::remove_file(machine.path("project/toolgate.schema.json")).unwrap();
    let output = machine.run(&["init", "--from", "vscode.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(machine.path("project/toolgate.toml")).unwrap();
    for part in [
        "[servers.web]",
        "url = \"http://127.0.0.1:9/sse\"",
        "transport = \"sse\"",
        "headers = { \"X-A\" = \"b\" }",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}
