//! Buffers and pastes: exact bytes, only our own names, nothing left behind.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// The names of all buffers.
fn buffers(tmux: &Tmux) -> Vec<String> {
    let names = tmux.run(&["list-buffers", "-F", "#{buffer_name}"]);
    names.lines().map(str::to_owned).collect()
}

fn load(session: &mut Session, content: &str) -> String {
    let loaded = session.call("load_buffer", json!({"content": content, "logical_name": "x.y"}));
    structured(&loaded)["buffer_name"].as_str().unwrap_or_default().to_owned()
}

/// Texts that something on the way could change.
fn awkward() -> Vec<String> {
    let controls: String = (1..=127_u8).map(char::from).collect();
    let mut all: Vec<String> = [
        "echo hi;",
        ";",
        "-l",
        "--",
        "a\n\nb\n",
        "\n",
        "~ $HOME \"q\" \\ #{pid} #(x) '",
        "é漢😀\u{85}",
        "a\0b",
    ]
    .map(str::to_owned)
    .into();
    all.push(controls.clone());
    all.push(controls.repeat(16) + "x");
    all.push("0123456789abcde\n".repeat(1 << 16));
    all
}

#[test]
fn buffers_hold_exactly_what_was_loaded() {
    let tmux = Tmux::start();
    tmux.run(&["set-buffer", "-b", "mine", "the user's clipboard"]);
    let mut session = tmux.serve(&[]);
    for content in awkward() {
        let name = load(&mut session, &content);
        let bytes = tmux.output(&["show-buffer", "-b", &name]).stdout;
        assert!(bytes == content.as_bytes(), "{:?}", content.get(..40));
        if content.len() < 100_000 {
            let shown = json!({"buffer_name": name, "max_lines": null});
            let shown = session.call("show_buffer", shown);
            let expected = json!({"buffer_name": name, "content": content,
                "content_truncated": false, "content_truncated_lines": 0});
            assert_eq!(structured(&shown), &expected);
        }
    }
    let name = load(&mut session, "1\n2\n3\n4\n");
    let digits = name.strip_prefix("libtmux_mcp_").unwrap().strip_suffix("_x.y").unwrap();
    assert!(digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    let tail = session.call("show_buffer", json!({"buffer_name": name, "max_lines": 2}));
    assert_eq!(structured(&tail)["content"], "3\n4");
    assert_eq!(structured(&tail)["content_truncated_lines"], 2);
    let deleted = session.call("delete_buffer", json!({"buffer_name": name}));
    assert_eq!(structured(&deleted)["result"], format!("Buffer '{name}' deleted"));
    for tool in ["delete_buffer", "show_buffer", "paste_buffer"] {
        let gone = session.call(tool, json!({"buffer_name": name}));
        let words = format!("{} failed for '{name}': ", tool.replace('_', "-"));
        assert!(text(&gone).starts_with(&words), "{gone}");
        for other in ["mine", "buffer0", "", "libtmux_mcp_short_buf"] {
            let refused = session.call(tool, json!({"buffer_name": other}));
            assert_eq!(refused["result"]["_meta"]["error_type"], "InvalidBufferName");
            let words = format!("Invalid buffer name: '{other}'");
            assert!(text(&refused).starts_with(&words), "{refused}");
        }
    }
    for arguments in [json!({"content": "x", "logical_name": "a b"}), json!({"content": ""})] {
        let refused = session.call("load_buffer", arguments);
        assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{refused}");
    }
    let tools = session.request("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let delete = tools.iter().find(|tool| tool["name"] == "delete_buffer").unwrap();
    assert_eq!(delete["annotations"]["idempotentHint"], false);
    let audit = format!("{:?}", session.records());
    assert!(!audit.contains("echo hi"), "contents are not written down");
    assert_eq!(buffers(&tmux), ["mine"], "ours are gone with us, and no others");
}

#[test]
fn pastes_arrive_as_they_are() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    // The guard would ask about these: some leave a quote open on the pane's line.
    let mut session = tmux.serve(&["--guard", "off"]);
    for (at, content) in awkward().into_iter().enumerate() {
        let file = folder.path().join(at.to_string());
        // Raw, so that the terminal changes nothing; tmux pastes a newline as Enter.
        let reader = format!(
            "stty raw -echo; printf ready; head -c {} > {}; stty sane; exec bash --norc",
            content.len(),
            file.display()
        );
        tmux.run(&["respawn-pane", "-k", "-t", "%0", &reader]);
        tmux.until("ready", |tmux| tmux.run(&["capture-pane", "-p"]).contains("ready"));
        let pasted = session.call("paste_text", json!({"text": content, "pane_id": "%0"}));
        assert_eq!(structured(&pasted)["result"], "Text pasted to pane %0");
        let expected = content.replace('\n', "\r");
        tmux.until("pasted", |_| {
            let arrived = std::fs::metadata(&file).map_or(0, |file| file.len());
            arrived == u64::try_from(expected.len()).unwrap()
        });
        assert!(std::fs::read(&file).unwrap() == expected.as_bytes(), "{:?}", content.get(..40));
    }
    // A long text by itself needs no confirmation.
    tmux.run(&["respawn-pane", "-k", "-t", "%0", "stty raw -echo; printf ready; cat > /dev/null"]);
    tmux.until("ready", |tmux| tmux.run(&["capture-pane", "-p"]).contains("ready"));
    let text = "0123456789abcde\n".repeat(1 << 16);
    let long = tmux.serve(&[]).call("paste_text", json!({"text": text, "pane_id": "%0"}));
    assert_eq!(structured(&long)["result"], "Text pasted to pane %0");
    assert_eq!(buffers(&tmux), [""; 0]);
    // Programs that asked for it are told that it is a paste; a text cannot end that by itself.
    tmux.run(&[
        "respawn-pane",
        "-k",
        "-t",
        "%0",
        "printf '\\033[?2004h'; stty -echo; printf ready; exec cat -v",
    ]);
    tmux.until("ready", |tmux| tmux.run(&["capture-pane", "-p"]).contains("ready"));
    let name = load(&mut session, "one\n");
    let pasted = session.call("paste_buffer", json!({"buffer_name": name, "pane_id": "%0"}));
    assert_eq!(structured(&pasted)["result"], format!("Buffer '{name}' pasted to pane %0"));
    structured(&session.call("paste_text", json!({"text": "two\n", "bracket": false})));
    tmux.until("bracketed", |tmux| {
        let screen = tmux.run(&["capture-pane", "-p"]);
        screen.contains("^[[200~one") && screen.contains("^[[201~two")
    });
    let escape = session.call("paste_text", json!({"text": "a\u{1b}[201~rm -rf"}));
    assert_eq!(escape["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
    for (text, pane) in [("short", "%99"), (&*"long".repeat(1000), "%99")] {
        let missing = session.call("paste_text", json!({"text": text, "pane_id": pane}));
        assert_eq!(missing["result"]["_meta"]["error_type"], "PaneNotFound", "{missing}");
    }
    tmux.until("tidied up", |tmux| buffers(tmux) == [name.clone()]);
}

#[test]
fn a_paste_that_is_cancelled_leaves_nothing() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    structured(&session.call("paste_text", json!({"text": "warm", "bracket": false})));
    // tmux hangs, so that the text is on its way: over the connection, and by a process.
    for content in ["short".to_owned(), "long".repeat(10_000)] {
        let hanging = tmux.hang();
        let id = session.post_call("paste_text", json!({"text": content, "pane_id": "%0"}));
        // It is answered after the one before has begun.
        session.call("get_server_info", json!({"socket_name": "nobody"}));
        session.notify("notifications/cancelled", json!({"requestId": id}));
        session.call("get_server_info", json!({"socket_name": "nobody"}));
        drop(hanging);
        structured(&session.call("list_sessions", json!({})));
        tmux.until("tidied up", |tmux| buffers(tmux).is_empty());
    }
}

#[test]
fn what_a_killed_server_left_goes_and_what_another_holds_stays() {
    let tmux = Tmux::start();
    let mut killed = tmux.serve(&[]);
    let left = load(&mut killed, "left");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let mut running = tmux.serve(&[]);
    let held = load(&mut running, "held");
    // One of the original's, whose owner nobody knows.
    let foreign = "libtmux_mcp_00112233445566778899aabbccddeeff_buf";
    tmux.run(&["set-buffer", "-b", foreign, "x"]);
    assert!(!buffers(&tmux).contains(&left), "the first call tidies up");
    let mut other = tmux.serve(&[]);
    load(&mut other, "own");
    assert!(other.finish().0.success());
    let mut now = buffers(&tmux);
    now.sort();
    let mut expected = vec![held.clone(), foreign.to_owned()];
    expected.sort();
    assert_eq!(now, expected);
    // It is a name of our kind: it may be read by whoever has it.
    let shown: Value = running.call("show_buffer", json!({"buffer_name": foreign}));
    assert_eq!(structured(&shown)["content"], "x");
}
