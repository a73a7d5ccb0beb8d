//! The first screens in a real terminal of 80 columns and 24 lines.

use crate::harness::{fixture, tmux::Tmux, toolgate};

/// A shell of 80 columns, and an empty folder.
fn shell() -> (Tmux, tempfile::TempDir) {
    let tmux = Tmux::start();
    tmux.run(&["resize-window", "-x", "80", "-y", "24"]);
    (tmux, tempfile::tempdir().unwrap())
}

/// Types a command of toolgate, which finds nothing but this folder.
fn run(tmux: &Tmux, folder: &tempfile::TempDir, command: &str) {
    let (program, home) = (toolgate(), folder.path().display().to_string());
    let line = format!(
        "cd {home}; clear; HOME={home} TMPDIR={home} XDG_STATE_HOME={home}/state {} {command}",
        program.display()
    );
    tmux.run(&["send-keys", &line, "Enter"]);
}

fn screen(tmux: &Tmux) -> String {
    tmux.run(&["capture-pane", "-p", "-J", "-S", "-"])
}

#[test]
fn serve_offers_the_demo_and_serves_what_appears() {
    let (tmux, folder) = shell();
    run(&tmux, &folder, "serve --listen 127.0.0.1:0");
    tmux.until("a question", |tmux| screen(tmux).contains("[Enter] wait:"));
    tmux.run(&["send-keys", "d", "Enter"]);
    tmux.until("the end of the demo", |tmux| {
        let screen = screen(tmux);
        screen.contains("the call would be denied by `policy`")
            && screen.matches("[Enter] wait:").count() == 2
    });
    tmux.run(&["send-keys", "7", "Enter"]);
    tmux.until("a refusal", |tmux| screen(tmux).contains("`7` is not in the list"));
    tmux.run(&["send-keys", "", "Enter"]);
    tmux.until("an answer", |tmux| screen(tmux).contains("Waiting for a config"));
    std::fs::write(folder.path().join("toolgate.toml"), "").unwrap();
    tmux.until("the config", |tmux| screen(tmux).contains("The config has no servers"));
    tmux.run(&["send-keys", "C-c"]);
}

#[test]
fn wrap_in_a_terminal_prints_an_entry_that_works_in_every_folder() {
    let (tmux, folder) = shell();
    let config = folder.path().canonicalize().unwrap().join("mcp.json");
    let file = serde_json::json!({"mcpServers": {"a": {"command": fixture(), "args": []}}});
    std::fs::write(&config, file.to_string()).unwrap();
    run(&tmux, &folder, "wrap --config mcp.json --server a");
    tmux.until("the entry", |tmux| {
        screen(tmux).contains("Not into `mcp.json`, which toolgate reads")
    });
    let screen = screen(&tmux);
    let words = format!(
        "\"args\": [\"wrap\", \"--config\", \"{}\", \"--server\", \"a\"]",
        config.display()
    );
    assert!(screen.contains(&words), "{words} is missing: {screen}");
    assert!(screen.contains(&format!("\"command\": \"{}\"", toolgate().display())), "{screen}");
    tmux.run(&["send-keys", "C-c"]);
}

#[test]
fn an_error_breaks_at_spaces() {
    let (tmux, folder) = shell();
    run(&tmux, &folder, "approve abcd");
    tmux.until("the error", |tmux| {
        screen(tmux).contains("`toolgate approvals` lists the\n  calls that wait")
    });
}
