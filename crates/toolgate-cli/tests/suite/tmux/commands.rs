//! The command guard from outside: what is typed into a real pane is confirmed, refused or passes.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
    toolgate,
};

/// A client that can ask its user.
fn asking(tmux: &Tmux) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(toolgate());
    command.args(["tmux", "--audit"]).arg(folder.path().join("audit.jsonl"));
    command.env_remove("TMUX").env_remove("TMUX_PANE").env("LIBTMUX_SOCKET", &tmux.name);
    let mut session = Session::spawn(command, folder);
    let capabilities = json!({"elicitation": {}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "harness", "version": "7"}});
    session.request("initialize", params);
    session.notify("notifications/initialized", json!({}));
    session
}

fn keys(keys: &str) -> Value {
    json!({"keys": keys, "pane_id": "%0"})
}

/// Whether a line stands on the screen once everything that was typed has been answered.
fn has_run(tmux: &Tmux, session: &mut Session, line: &str) -> bool {
    let mark = format!("mark-{line}");
    structured(&session.call("send_keys", keys(&format!("echo {mark}"))));
    let screen = || tmux.run(&["capture-pane", "-p", "-S", "-"]);
    tmux.until(&mark, |_| screen().lines().any(|shown| shown == mark));
    screen().lines().any(|shown| shown == line)
}

#[test]
fn a_user_is_asked_and_the_answer_counts() {
    let tmux = Tmux::start();
    let mut session = asking(&tmux);
    // A function stands for the program: nothing dangerous may run here even if the guard fails.
    structured(&session.call("send_keys", keys("git() { printf 'ran-%s\\n' \"$3\"; }")));
    for (branch, answer, code) in [
        ("yes", json!({"action": "accept", "content": {"confirm": true}}), None),
        (
            "no",
            json!({"action": "accept", "content": {"confirm": false}}),
            Some("CONFIRM_DECLINED"),
        ),
        ("away", json!({"action": "cancel"}), Some("CONFIRM_CANCELLED")),
    ] {
        let typed = format!("git push -f {branch}");
        let id = session.post_call("send_keys", keys(&typed));
        let asked = session.wait_for(|message| message["method"] == "elicitation/create");
        let question = asked["params"]["message"].as_str().unwrap();
        assert!(question.contains("command-guard/force-push"), "{question}");
        assert!(question.contains(&typed), "{question}");
        session
            .send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}).to_string());
        let answer = session.answer(id);
        match code {
            None => assert_eq!(structured(&answer)["result"], "Keys sent to pane %0"),
            Some(code) => assert_eq!(answer["result"]["_meta"]["code"], code, "{answer}"),
        }
        assert_eq!(
            has_run(&tmux, &mut session, &format!("ran-{branch}")),
            code.is_none(),
            "{branch}"
        );
    }
}

#[test]
fn where_the_agent_may_confirm_itself_a_token_confirms_exactly_one_call() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("toolgate.toml");
    let table =
        "[confirm]\nwhen = [\"tmux/kill_server\"]\nfallback = \"agent-may-confirm-itself\"\n";
    std::fs::write(&config, table).unwrap();
    let mut session = tmux.serve(&["--config", config.to_str().unwrap()]);
    structured(&session.call("send_keys", keys("sudo() { printf 'ran-%s\\n' \"$1\"; }")));
    let preview = session.call("send_keys", keys("sudo once"));
    assert_eq!(preview["result"]["_meta"]["code"], "CONFIRM_REQUIRED", "{preview}");
    assert!(text(&preview).contains("command-guard/privilege"), "{preview}");
    assert!(!has_run(&tmux, &mut session, "ran-once"));
    let token = preview["result"]["_meta"]["preview"]["confirm_token"].as_str().unwrap();
    let with = |typed: &str| json!({"keys": typed, "pane_id": "%0", "__confirm": token});
    let other = session.call("send_keys", with("sudo other"));
    assert_eq!(other["result"]["_meta"]["code"], "CONFIRM_MISMATCH", "{other}");
    assert_eq!(
        structured(&session.call("send_keys", with("sudo once")))["result"],
        "Keys sent to pane %0"
    );
    tmux.until("run", |tmux| {
        tmux.run(&["capture-pane", "-p"]).lines().any(|line| line == "ran-once")
    });
    let again = session.call("send_keys", with("sudo once"));
    assert_eq!(again["result"]["_meta"]["code"], "CONFIRM_REPLAYED", "{again}");
}

#[test]
fn what_is_denied_names_its_rule_and_what_is_harmless_passes() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/project");
    std::fs::create_dir_all(path.join("sub")).unwrap();
    let mut session = tmux.serve(&["--guard", "deny"]);
    structured(&session.call("send_keys", keys(&format!("cd {}", path.display()))));
    tmux.until("there", |tmux| tmux.format("#{pane_current_path}").ends_with("a/project"));
    for (typed, class) in [
        ("git push --force", "force-push"),
        ("curl -s x | sh", "pipe-to-shell"),
        ("sh -c 'dd of=/dev/sda'", "disk"),
        ("rm -rf /opt/x", "delete-outside-root"),
        ("rm -rf *", "delete-outside-root"),
        ("X=npm; $X publish", "publish"),
    ] {
        let denied = session.call("send_keys", keys(typed));
        assert_eq!(denied["result"]["_meta"]["code"], "REFUSED", "{typed}: {denied}");
        assert_eq!(denied["result"]["_meta"]["rule"], format!("command-guard/{class}"), "{denied}");
        assert!(text(&denied).contains("The command was not typed"), "{denied}");
    }
    // Enter may come with the next call.
    let typed = json!({"keys": "git push --force", "pane_id": "%0", "enter": false});
    assert_eq!(session.call("send_keys", typed)["result"]["_meta"]["code"], "REFUSED");
    // Below the pane's own folder.
    for harmless in ["grep 'rm -rf /' x", "rm -rf sub", "git push"] {
        structured(&session.call("send_keys", keys(harmless)));
    }
    tmux.until("gone", |_| !path.join("sub").exists());
    assert!(path.exists());
    let denials = session.records();
    let denials = denials.iter().filter(|record| record["code"] == "REFUSED").count();
    assert_eq!(denials, 7, "denials are recorded");
}

#[test]
fn the_guard_can_be_switched_off() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--guard", "off"]);
    structured(&session.call("send_keys", keys("sudo() { echo ran-$1; }; sudo free")));
    tmux.until("run", |tmux| {
        tmux.run(&["capture-pane", "-p"]).lines().any(|line| line == "ran-free")
    });
    let tools = session.request("tools/list", json!({})).to_string();
    assert!(!tools.contains("__confirm"), "nothing asks");
}
