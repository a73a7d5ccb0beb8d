//! `run_command` over MCP, against real tmux and real shells.

mod harness;

use harness::{
    Session, text,
    tmux::{Tmux, structured},
};
use serde_json::{Value, json};

/// The shells that are known, each as it is started here. All have to be there in CI.
fn shells() -> Vec<(&'static str, &'static str)> {
    let all = [
        ("bash", "exec bash --norc"),
        ("zsh", "exec zsh -f"),
        ("fish", "exec fish --no-config"),
        ("dash", "exec dash"),
    ];
    let path = std::env::var("PATH").unwrap_or_default();
    let there =
        |name: &str| path.split(':').any(|dir| std::path::Path::new(dir).join(name).exists());
    all.into_iter()
        .filter(|(name, _)| {
            assert!(there(name) || std::env::var_os("CI").is_none(), "{name} is missing");
            there(name)
        })
        .collect()
}

/// A pane of its own with a program in it.
fn pane(tmux: &Tmux, program: &str) -> String {
    tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", program])
}

fn run(session: &mut Session, pane: &str, command: &str) -> Value {
    structured(&session.call("run_command", json!({"pane_id": pane, "command": command}))).clone()
}

fn screen(tmux: &Tmux, pane: &str) -> String {
    let all = tmux.run(&["capture-pane", "-p", "-S", "-", "-t", pane]);
    assert!(!all.contains("stty") && !all.contains("/dev/tty"), "scaffolding on the screen: {all}");
    all
}

#[test]
fn every_shell_gives_the_commands_own_output_and_status() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (shell, program) in shells() {
        let pane = pane(&tmux, program);
        let first = run(&mut session, &pane, "echo one; echo two");
        assert_eq!(first["output"], json!(["one", "two"]), "{shell}: {first}");
        assert_eq!(first["exit_status"], 0, "{shell}");
        let shown = screen(&tmux, &pane);
        println!("== {shell}\n{shown}");
    }
}
