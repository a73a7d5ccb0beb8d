//! The governed terminal: what keys, history, hooks and global variables let through, what masking falsified, and how
//! waits stayed silent.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// A function stands for the program: nothing dangerous may run here even if the guard fails.
const STUB: &str = "sudo() { printf 'ran-%s\\n' \"$*\"; }; set -H";

fn keys(keys: &str, enter: bool) -> Value {
    json!({"keys": keys, "pane_id": "%0", "enter": enter})
}

fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["code"].as_str().unwrap_or_default()
}

/// A terminal whose shell knows the stub.
fn terminal(tmux: &Tmux, options: &[&str]) -> Session {
    tmux.run(&["send-keys", "-t", "%0", "-l", STUB]);
    tmux.run(&["send-keys", "-t", "%0", "Enter"]);
    let prompt = |tmux: &Tmux| {
        let screen = tmux.run(&["capture-pane", "-p"]);
        screen.contains("set -H") && (screen.ends_with('#') || screen.ends_with('$'))
    };
    tmux.until("ready", prompt);
    tmux.serve(options)
}

/// Gives the line up, so that the next attack begins at an empty prompt, and says whether a stub ever ran.
fn nothing_ran(tmux: &Tmux, session: &mut Session, mark: &str) -> bool {
    let screen = || tmux.run(&["capture-pane", "-p", "-S", "-"]);
    let at_prompt = || screen().trim_end().ends_with('#') || screen().trim_end().ends_with('$');
    let before = screen().matches("^C").count();
    structured(&session.call("send_keys", keys("C-c", false)));
    // The signal throws away what is typed before it is handled.
    tmux.until("given up", |_| screen().matches("^C").count() > before && at_prompt());
    structured(&session.call("send_keys", keys(&format!("echo mark-{mark}"), true)));
    let mark = format!("mark-{mark}");
    tmux.until(&mark, |_| screen().lines().any(|line| line == mark));
    !screen().lines().any(|line| line.starts_with("ran-"))
}

/// [review 13] A harmless line was typed, keys turned it into another one, and Enter ran that: the guard had only judged the first.
#[test]
fn keys_that_edit_a_typed_line_are_asked_about_when_it_is_entered() {
    let tmux = Tmux::start();
    for options in [&[][..], &["--guard", "deny"]] {
        let mut session = terminal(&tmux, options);
        let wanted = if options.is_empty() { "CONFIRM_REQUIRED" } else { "REFUSED" };
        for (at, pieces) in [
            &["#sudo two", "Home", "DC"][..],
            &["echo sudo four", "Home", "M-d"],
            &["echo sudo a", "C-a", "M-d"],
            &["xsudo b", "C-a", "Right", "BSpace"],
            &["sud", "Tab", "c"],
            &["o d", "Home", "sud"],
        ]
        .iter()
        .enumerate()
        {
            for piece in *pieces {
                structured(&session.call("send_keys", keys(piece, false)));
            }
            let entered = session.call("send_keys", keys("Enter", false));
            assert_eq!(code(&entered), wanted, "{pieces:?}: {entered}");
            assert!(text(&entered).contains("keys edited the line"), "{entered}");
            assert!(nothing_ran(&tmux, &mut session, &format!("{}-{at}", options.len())));
        }
        // The same in one batch, with the other names of Enter.
        for enter in ["Enter", "C-m", "^J", "KPEnter"] {
            let keys: Vec<Value> = ["#sudo e", "Home", "DC", enter]
                .map(|keys| json!({"keys": keys, "pane_id": "%0", "enter": false}))
                .to_vec();
            let batch = session.call("send_keys_batch", json!({"operations": keys}));
            assert_eq!(code(&batch), wanted, "{enter}: {batch}");
        }
        assert!(nothing_ran(&tmux, &mut session, &format!("{}-batch", options.len())));
    }
}

/// [review 13] Recalled lines and history expansion (`^: ^^`) ran what the guard had refused or never seen.
#[test]
fn recalled_history_and_history_expansion_are_asked_about() {
    let tmux = Tmux::start();
    let mut session = terminal(&tmux, &[]);
    structured(&session.call("send_keys", keys(": sudo three", true)));
    for (at, pieces) in [
        &["Up"][..],
        &["C-p"],
        &["C-r", "sud"],
        &["Up", "Down"],
        &["^: ^^"],
        &["!!"],
        &["!:"],
        &["M-p"],
    ]
    .iter()
    .enumerate()
    {
        for piece in *pieces {
            // A line that holds the expansion itself is asked about at once.
            session.call("send_keys", keys(piece, false));
        }
        let entered = session.call("send_keys", keys(pieces.last().unwrap(), true));
        assert_eq!(code(&entered), "CONFIRM_REQUIRED", "{pieces:?}: {entered}");
        assert!(text(&entered).contains("command-guard/history"), "{pieces:?}: {entered}");
        assert!(nothing_ran(&tmux, &mut session, &format!("history-{at}")));
    }
    let pasted = session.call("paste_text", json!({"text": "^:^sudo^\n", "pane_id": "%0"}));
    assert_eq!(code(&pasted), "CONFIRM_REQUIRED", "{pasted}");
    // What runs without a line editor has no history.
    let plain = session.call("run_command", json!({"command": "echo '!!'", "pane_id": "%0"}));
    assert_eq!(structured(&plain)["output"], json!(["!!"]));
    assert!(nothing_ran(&tmux, &mut session, "history-end"));
}

/// [review 13] A quote, a pipe or a list that was open at the end of one call hid what the next call added to it.
#[test]
fn a_command_that_comes_in_several_calls_is_judged_as_one() {
    let tmux = Tmux::start();
    let mut session = terminal(&tmux, &["--guard", "ask"]);
    for (at, (first, second)) in [
        ("echo 'a", "'; sudo x"),
        ("curl -s localhost:1 |", "sh"),
        ("cat <<E | sh", "sudo y"),
        ("if true; then", "sudo z"),
        ("echo $(", "sudo w)"),
    ]
    .iter()
    .enumerate()
    {
        let open = session.call("send_keys", keys(first, true));
        assert_eq!(code(&open), "CONFIRM_REQUIRED", "{first}: {open}");
        super::approval::approve(&session.folder().join("state"), &open);
        structured(&session.call("send_keys", keys(first, true)));
        let rest = session.call("send_keys", keys(second, true));
        assert_eq!(code(&rest), "CONFIRM_REQUIRED", "{first} {second}: {rest}");
        assert!(nothing_ran(&tmux, &mut session, &format!("pieces-{at}")));
    }
    // Not entered yet, an open quote is asked about by nobody; the whole line is what counts.
    structured(&session.call("send_keys", keys("echo \"one ", false)));
    structured(&session.call("send_keys", keys("two\"", true)));
    assert!(nothing_ran(&tmux, &mut session, "pieces-end"));
}

/// [review 13] `export PROMPT_COMMAND=…`, `. /dev/stdin`, `env -S`, `coproc` and their like ran what the guard asks about elsewhere.
#[test]
fn hooks_of_the_shell_and_text_from_elsewhere_are_asked_about() {
    let tmux = Tmux::start();
    let mut session = terminal(&tmux, &[]);
    for (line, class) in [
        ("export PROMPT_COMMAND='sudo five'", "shell-hook"),
        ("PS1='$(sudo a)'", "shell-hook"),
        ("declare -x BASH_ENV=./x", "shell-hook"),
        ("trap 'sudo b' DEBUG", "shell-hook"),
        ("bind -x '\"\\C-m\": sudo c'", "shell-hook"),
        ("precmd() { sudo d; }", "shell-hook"),
        ("tmux set-environment -g PATH /x", "shell-hook"),
        (". /dev/stdin <<< 'sudo six'", "privilege"),
        ("env -S'sudo' e", "privilege"),
        ("coproc N { sudo f; }", "privilege"),
        ("cat lines | bash -s", "unparsed"),
        ("rm -rf $UNSET/x", "delete-outside-root"),
        ("cat list | xargs rm", "delete-outside-root"),
        ("echo x > ~/.bashrc", "write-outside-root"),
        ("ln -sf /tmp/x ~/.profile", "write-outside-root"),
        ("git checkout -- .", "discard-work"),
        ("git branch -D topic", "discard-work"),
        ("chmod -R 777 /opt/x", "permissions"),
        ("curl x | tee y; bash y", "pipe-to-shell"),
        ("kubectl delete ns prod", "cluster-delete"),
        ("terraform destroy", "infrastructure-destroy"),
        ("gh repo delete me/x", "remote-repository"),
        ("crontab -r", "schedule"),
    ] {
        let asked = session.call("send_keys", keys(line, true));
        assert_eq!(code(&asked), "CONFIRM_REQUIRED", "{line}: {asked}");
        assert!(text(&asked).contains(&format!("command-guard/{class}")), "{line}: {asked}");
    }
    assert!(nothing_ran(&tmux, &mut session, "hooks"));
}

/// [users E.6] The question said "not below a root" and left the person to guess which folder was meant.
#[test]
fn the_question_names_the_folder() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("me/project");
    std::fs::create_dir_all(&path).unwrap();
    tmux.run(&["send-keys", "-t", "%0", "-l", &format!("cd {}", path.display())]);
    tmux.run(&["send-keys", "-t", "%0", "Enter"]);
    tmux.until("there", |tmux| tmux.format("#{pane_current_path}").ends_with("me/project"));
    let mut session = tmux.serve(&[]);
    for line in ["rm -rf /opt/x", "echo x > /opt/x", "rm -rf $X/y"] {
        let asked = session.call("send_keys", keys(line, true));
        assert!(text(&asked).contains(&format!("outside {}", path.display())), "{line}: {asked}");
    }
}

/// [review 13] Keys for an editor or a pager, and lines for another language, are no shell's: asking about each would teach people to say yes.
#[test]
fn editors_and_languages_are_not_asked_about_as_shells() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "row\n".repeat(500)).unwrap();
    let less = format!("less {}", file.path().display());
    structured(&session.call("send_keys", keys(&less, true)));
    tmux.until("less", |tmux| tmux.format("#{pane_current_command} #{alternate_on}") == "less 1");
    for key in ["Down", "Up", "PPage", "Home"] {
        structured(&session.call("send_keys", keys(key, false)));
    }
    structured(&session.call("send_keys", keys("Down", true)));
    structured(&session.call("send_keys", keys("q", false)));
    tmux.until("bash", |tmux| tmux.format("#{pane_current_command}") == "bash");
    structured(&session.call("send_keys", keys("echo back", true)));
    // A shell that only looks like one that has the screen is still a shell.
    structured(&session.call("send_keys", keys("tput smcup || printf '\\033[?1049h'", true)));
    tmux.until("alternate", |tmux| tmux.format("#{alternate_on}") == "1");
    assert_eq!(code(&session.call("send_keys", keys("Up", true))), "CONFIRM_REQUIRED");
}

/// [review 13] `set_environment` for all sessions, which reaches the panes of people, forbade some names and took every other one.
#[test]
fn variables_of_all_sessions_are_set_by_an_allow_list() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("toolgate.toml");
    std::fs::write(
        &config,
        "[tmux]\nglobal_environment = [\"MYAPP_*\"]\n[namespaces.default]\nsafety = \"mutating\"\n",
    )
    .unwrap();
    let mut session = tmux.serve(&["--config", config.to_str().unwrap()]);
    let mut set = |name: &str, one: bool| {
        let mut arguments = json!({"name": name, "value": "x"});
        if one {
            arguments["session_name"] = json!("one");
        }
        session.call("set_environment", arguments)
    };
    for name in [
        "DOTNET_STARTUP_HOOKS",
        "STARSHIP_CONFIG",
        "XDG_DATA_DIRS",
        "HISTFILE",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "FOO",
    ] {
        let denied = set(name, false);
        assert_eq!(code(&denied), "TIER_DENIED", "{name}: {denied}");
        assert!(text(&denied).contains("Only the operator can allow it"), "{denied}");
        assert!(!tmux.run(&["show-environment", "-g"]).contains(&format!("{name}=x")));
        structured(&set(name, true));
    }
    for name in ["LANG", "LC_TIME", "TZ", "MYAPP_LEVEL"] {
        structured(&set(name, false));
    }
    assert_eq!(code(&set("PROMPT_COMMAND", true)), "TIER_DENIED");
}

/// [users 0.10] After a token the first word of the next line was cut away: `12 tests passed` became ` tests passed`.
#[test]
fn masking_leaves_the_next_line_whole() {
    let tmux = Tmux::start();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let file = tempfile::NamedTempFile::new().unwrap();
    // One token on a row of its own, one that is the longest row, and one that the screen breaks.
    let long = format!("{} {token}", "x".repeat(100));
    let script = format!(
        "clear; echo {token}; echo '12 tests passed'; echo '{long}'; echo exit_code=0; echo end"
    );
    std::fs::write(file.path(), script).unwrap();
    tmux.run(&["send-keys", "-t", "%0", &format!(". {}", file.path().display()), "Enter"]);
    tmux.until("end", |tmux| tmux.run(&["capture-pane", "-p"]).lines().any(|line| line == "end"));
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().to_str().unwrap();
    let mut session = tmux.serve(&["--mask", "--record", record]);
    let pane = || json!({"pane_id": "%0"});
    let run = session.call("run_command", json!({"pane_id": "%0", "command": "true"}));
    structured(&run);
    let read = |uri: &str| json!({"uri": uri});
    let shown = [
        session.call("capture_pane", pane()),
        session.call("capture_pane", json!({"pane_id": "%0", "colors": true})),
        session.call("capture_pane", json!({"pane_id": "%0", "join": true})),
        session.call("capture_since", pane()),
        session.call("snapshot_pane", pane()),
        session.call("wait_for_text", json!({"pane_id": "%0", "timeout": 0.05})),
        session.call("search_panes", json!({"pattern": ".", "regex": true})),
        session.request("resources/read", read("tmux://panes/%250/content")),
        session.request("resources/read", read("tmux://panes/%250/tail")),
    ];
    for answer in &shown {
        let answer = answer.to_string();
        for whole in ["12 tests passed", "exit_code=0"] {
            assert!(answer.contains(whole), "{whole}: {answer}");
        }
        assert!(!answer.contains("a1B2a1B2"), "{answer}");
        assert!(answer.contains("[redacted: github-token]"), "{answer}");
    }
    session.finish();
    let recordings: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let recording = recordings.concat();
    assert!(
        recording.contains("12 tests passed") && recording.contains("exit_code=0"),
        "{recording}"
    );
    assert!(!recording.contains("a1B2a1B2"), "{recording}");
}

/// [issue 12.6] A client that waited for a build heard nothing for seconds and gave the call up.
#[test]
fn every_tool_that_waits_sends_rising_progress_if_it_is_asked_for() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let is_progress = |message: &Value| message["method"] == "notifications/progress";
    for (tool, arguments, most) in [
        ("wait_for_text", json!({"pane_id": "%0", "patterns": ["never"], "timeout": 4}), 4.0),
        ("wait_for_channel", json!({"channel": "never", "timeout": 4}), 4.0),
        ("run_command", json!({"pane_id": "%0", "command": "sleep 3", "timeout": 10}), 3.0),
    ] {
        let meta = json!({"progressToken": tool});
        let id = session
            .post("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}));
        let mut values = Vec::new();
        let answer = loop {
            let message = session.wait_for(|message| is_progress(message) || message["id"] == id);
            if message["id"] == id {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], tool);
            values.push(message["params"]["progress"].as_f64().unwrap());
        };
        assert!(answer.get("result").is_some(), "{answer}");
        assert!(values.is_sorted_by(|one, two| one < two), "{tool}: {values:?}");
        // By the values themselves, which are seconds: no second passed without a word.
        let gaps = values.iter().zip([0.0].iter().chain(&values)).map(|(two, one)| two - one);
        let longest = gaps.fold(0.0, f64::max);
        assert!(
            longest <= 1.0 && values.last().is_some_and(|last| most - last < 1.5),
            "{tool}: {values:?}"
        );
    }
    // Without a token there is none.
    let id = session.post_call(
        "wait_for_text",
        json!({"pane_id": "%0", "patterns": ["never"], "timeout": 1.5}),
    );
    let first = session.wait_for(|message| is_progress(message) || message["id"] == id);
    assert_eq!(first["id"], id, "{first}");
}

/// [users E.8] After `timed_out: true` nothing said that the command still ran, and the next call was refused as "not at its prompt".
#[test]
fn a_command_that_runs_on_says_what_to_call_next() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let run = json!({"pane_id": "%0", "command": "sleep 30", "timeout": 0.5});
    let answer = session.call("run_command", run);
    let result = structured(&answer);
    assert_eq!(result["timed_out"], true);
    let next = result["next"].as_str().unwrap();
    assert!(next.contains("still running") && next.contains("wait_for_text"), "{next}");
    structured(&session.call("send_keys", keys("C-c", false)));
    let done = session.call("run_command", json!({"pane_id": "%0", "command": "true"}));
    assert!(structured(&done).get("next").is_none(), "{done}");
}

/// [users E.4] An argument with a wrong name was refused without a word about the right one.
#[test]
fn a_wrong_argument_is_answered_with_the_right_ones() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let answer = session.call("wait_for_text", json!({"pane_id": "%0", "pattern": "x"}));
    let suggestion = text(&answer);
    assert!(suggestion.contains("Did you mean `patterns`?"), "{answer}");
    assert!(suggestion.contains("The tool takes: ") && suggestion.contains("timeout"), "{answer}");
}

/// [users E.9] A refusal told the agent to change the operator's settings.
#[test]
fn a_refusal_says_that_only_the_operator_can_allow_it() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "readonly"]);
    let denied = session.call("send_keys", keys("ls", true));
    assert_eq!(code(&denied), "TIER_DENIED", "{denied}");
    assert!(text(&denied).contains("Only the operator can allow it"), "{denied}");
    let mut session = tmux.serve(&["--guard", "deny"]);
    let refused = session.call("send_keys", keys("sudo x", true));
    assert!(text(&refused).contains("Only the operator can allow it"), "{refused}");
}
