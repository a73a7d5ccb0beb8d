//! `run_command` over MCP, against real tmux and real shells.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

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

/// Types into a pane once a prompt is there.
fn type_text(tmux: &Tmux, pane: &str, text: &str) {
    tmux.until("at its prompt", |tmux| {
        let shown = tmux.run(&["capture-pane", "-p", "-t", pane]);
        let cursor = tmux.run(&["display-message", "-p", "-t", pane, "#{cursor_x}"]);
        shown.trim_end().ends_with(['#', '$', '%', '>']) && cursor != "0"
    });
    tmux.run(&["send-keys", "-l", "-t", pane, "--", text]);
}

/// The same, and presses Enter.
fn type_line(tmux: &Tmux, pane: &str, line: &str) {
    type_text(tmux, pane, line);
    tmux.run(&["send-keys", "-t", pane, "Enter"]);
}

/// Waits until the last line on a pane's screen is this one.
fn ends_with(tmux: &Tmux, pane: &str, line: &str) {
    tmux.until(&format!("at {line:?} in {pane}"), |tmux| {
        tmux.run(&["capture-pane", "-p", "-t", pane]).lines().last() == Some(line)
    });
}

/// Nothing of ours is in tmux.
fn assert_clean(tmux: &Tmux, pane: &str) {
    assert_eq!(tmux.run(&["show-options", "-p", "-t", pane]), "");
    assert_eq!(tmux.run(&["list-buffers"]), "");
}

#[test]
fn every_shell_gives_the_commands_own_output_and_status() {
    let tmux = Tmux::start();
    // The guard would ask about text that no shell can read.
    let mut session = tmux.serve(&["--guard", "off"]);
    for (shell, program) in shells() {
        let pane = pane(&tmux, program);
        let mut check = |command: &str, output: Value, status: i32| {
            let ran = run(&mut session, &pane, command);
            assert_eq!(ran["output"], output, "{shell}: {command}: {ran}");
            assert_eq!(ran["exit_status"], status, "{shell}: {command}: {ran}");
            assert_eq!(
                (&ran["timed_out"], &ran["output_truncated"]),
                (&json!(false), &json!(false))
            );
        };
        check("echo one; echo two", json!(["one", "two"]), 0);
        check("printf 'no newline'", json!(["no newline"]), 0);
        check(
            "echo \"it's\"; printf '%s\\n' '\"$HOME\" \\x'\necho 'é'",
            json!(["it's", "\"$HOME\" \\x", "é"]),
            0,
        );
        check("exit 3", json!([]), 3);
        check("sh -c 'exit 4' | sh -c 'exit 5'", json!([]), 5);
        check("cd /; pwd", json!(["/"]), 0);
        check("test \"$PWD\" != / && echo there; false", json!(["there"]), 1);
        check("sleep 100 & echo at once", json!(["at once"]), 0);
        let long = "y".repeat(9000);
        check(&format!("echo {long}"), json!([long]), 0);
        check(
            "printf '%s' '\u{3}\u{4}\r\u{15}\u{7f}' | od -An -tx1",
            json!([" 03 04 0d 15 7f"]),
            0,
        );
        check("test -t 0 && test -t 1 && echo tty", json!(["tty"]), 0);
        let killed = run(&mut session, &pane, "sh -c 'kill -9 $$'");
        assert_eq!(killed["exit_status"], 137, "{shell}: {killed}");
        let broken = run(&mut session, &pane, "echo (; fi");
        assert_ne!(broken["exit_status"], 0, "{shell}: {broken}");
        assert!(
            broken["output"].as_array().is_some_and(|lines| !lines.is_empty()),
            "{shell}: {broken}"
        );
        screen(&tmux, &pane);
        assert_clean(&tmux, &pane);
        // Keys that end it are told, and the shell lives.
        let id = session.post_call(
            "run_command",
            json!({"pane_id": pane, "command": "echo in; sleep 100; echo out"}),
        );
        ends_with(&tmux, &pane, "in");
        tmux.run(&["send-keys", "-t", &pane, "C-c"]);
        let stopped = session.answer(id);
        assert_eq!(structured(&stopped)["exit_status"], 130, "{shell}: {stopped}");
        assert_eq!(structured(&stopped)["output"][0], "in");
        assert_eq!(run(&mut session, &pane, "echo alive")["output"], json!(["alive"]), "{shell}");
    }
}

#[test]
fn the_screen_shows_what_a_person_would_have_typed() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let prompts = [
        ("bash", "exec env PS1='$ ' bash --norc", "$ "),
        ("bash", r"exec env PS1='two\n\[\e[1;31m\]é> \[\e[0m\]$ ' bash --norc", "é> $ "),
        ("zsh", "exec env PS1='$ ' RPROMPT='right' zsh -f", "$ "),
        ("dash", "exec env PS1='$ ' dash", "$ "),
        ("fish", "exec fish --no-config -C 'function fish_prompt; echo -n \"\\$ \"; end'", "$ "),
    ];
    for (shell, program, prompt) in prompts {
        if !shells().iter().any(|(there, _)| *there == shell) {
            continue;
        }
        let narrow =
            ["new-session", "-d", "-P", "-F", "#{pane_id}", "-x", "20", "-y", "8", program];
        let window = tmux.run(&narrow);
        // More than the screen holds, so that all of it happens at the bottom too.
        for count in 1..=4 {
            let ran = run(&mut session, &window, &format!("echo a line of {count}\necho more"));
            assert_eq!(
                ran["output"],
                json!([format!("a line of {count}"), "more"]),
                "{shell}: {ran}"
            );
        }
        tmux.until("at its prompt", |tmux| {
            let shown = tmux.run(&["capture-pane", "-p", "-t", &window]);
            let last = shown.lines().last().unwrap_or_default();
            last.trim_end_matches("right").trim_end() == prompt.trim_end()
        });
        let shown = tmux.run(&["capture-pane", "-p", "-J", "-S", "-", "-t", &window]);
        let shown: Vec<&str> =
            shown.lines().map(|line| line.trim_end().trim_end_matches("right")).collect();
        let mut wanted = Vec::new();
        for count in 1..=4 {
            wanted.push(format!("{prompt}echo a line of {count}"));
            wanted.extend([
                "echo more".to_owned(),
                format!("a line of {count}"),
                "more".to_owned(),
            ]);
        }
        let seen: Vec<&str> = shown
            .iter()
            .map(|line| line.trim_end())
            .filter(|line| *line != "two" && !line.is_empty())
            .collect();
        wanted.push(prompt.trim_end().to_owned());
        assert_eq!(seen, wanted, "{shell} with {prompt:?}");
        // What clears the screen has nothing of ours to spoil.
        assert_eq!(run(&mut session, &window, "clear; echo new")["output"], json!(["new"]));
        screen(&tmux, &window);
    }
}

#[test]
fn output_is_complete_or_its_counts_are_true() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    tmux.run(&["resize-window", "-t", "one", "-x", "80", "-y", "30"]);
    let all = run(&mut session, "%0", "seq 1 200");
    assert_eq!(all["output"].as_array().unwrap().len(), 200, "more than the screen holds");
    assert_eq!(all["output_truncated"], false);
    let huge = run(&mut session, "%0", "seq 1 200000");
    let kept = huge["output"].as_array().unwrap();
    assert_eq!(kept.last().unwrap(), "200000");
    let left = huge["output_truncated_lines"].as_u64().unwrap();
    assert_eq!(left + u64::try_from(kept.len()).unwrap(), 200_000);
    assert_eq!(
        kept[0],
        json!((left + 1).to_string()),
        "no hole between what is told and what is left off"
    );
    let bytes: usize = kept.iter().map(|line| line.as_str().unwrap().len() + 1).sum();
    let left_bytes = huge["output_truncated_bytes"].as_u64().unwrap();
    assert_eq!(
        left_bytes + u64::try_from(bytes).unwrap(),
        1_288_895,
        "what `seq 1 200000 | wc -c` says"
    );
    assert_eq!(huge["output_truncated"], true);
    let few =
        session.call("run_command", json!({"pane_id": "%0", "command": "seq 1 9", "max_lines": 2}));
    assert_eq!(structured(&few)["output"], json!(["8", "9"]));
    assert_eq!(structured(&few)["output_truncated_lines"], 7);
    let wide =
        run(&mut session, "%0", r"printf '%0300d\n' 7; printf '1%%\r100%%\n\033[31mred\033[0m\n'");
    let wide = wide["output"].as_array().unwrap();
    assert_eq!(wide[0].as_str().unwrap().len(), 300, "lines are those of the program");
    assert_eq!(wide[1..], [json!("100%"), json!("red")]);
    // Whoever knows how the end is marked cannot make one up.
    let forged = run(&mut session, "%0", r"printf '\033]7717;tg0x0;0\007'; echo still; exit 9");
    assert_eq!((&forged["output"], &forged["exit_status"]), (&json!(["still"]), &json!(9)));
}

#[test]
fn a_timeout_and_a_cancelled_call_leave_nothing_behind() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (shell, program) in shells() {
        let pane = pane(&tmux, program);
        let gate = session.folder().join(format!("{shell}.gate"));
        let gate = gate.to_str().unwrap();
        let command = format!("echo early; until test -e {gate}; do sleep 0.02; done; echo late");
        let command = format!("sh -c '{command}'");
        let slow = json!({"pane_id": pane, "command": command, "timeout": 2.0});
        let slow = session.call("run_command", slow);
        let slow = structured(&slow);
        assert_eq!(
            (&slow["exit_status"], &slow["timed_out"]),
            (&Value::Null, &json!(true)),
            "{shell}"
        );
        assert_eq!(slow["output"], json!(["early"]), "{shell}");
        assert_eq!(slow["effective_timeout"], 2.0);
        let busy = session.call("run_command", json!({"pane_id": pane, "command": "echo no"}));
        assert_eq!(busy["result"]["_meta"]["error_type"], "PaneBusy", "{shell}: {busy}");
        std::fs::write(gate, "").unwrap();
        let next = |session: &mut Session, command: &str| {
            // It is at its prompt again when it is; until then it is refused.
            let mut answer =
                session.call("run_command", json!({"pane_id": pane, "command": command}));
            while answer["result"]["isError"] == true {
                answer = session.call("run_command", json!({"pane_id": pane, "command": command}));
            }
            structured(&answer)["output"].clone()
        };
        assert_eq!(next(&mut session, "echo next"), json!(["next"]), "{shell}");
        std::fs::remove_file(gate).unwrap();
        let id = session.post_call("run_command", json!({"pane_id": pane, "command": command}));
        ends_with(&tmux, &pane, "early");
        session.notify("notifications/cancelled", json!({"requestId": id}));
        std::fs::write(gate, "").unwrap();
        assert_eq!(next(&mut session, "echo last"), json!(["last"]), "{shell}");
        screen(&tmux, &pane);
        // Lines as they were written, however wide the shell's prompt is.
        let shown = tmux.run(&["capture-pane", "-p", "-J", "-S", "-", "-t", &pane]);
        assert_eq!(
            shown.matches("late").count(),
            2 + 2,
            "{shell}: twice typed, twice said: {shown}"
        );
        assert!(!shown.contains("echo no"), "{shell}: {shown}");
        assert_clean(&tmux, &pane);
    }
}

#[test]
fn what_is_no_shell_at_its_prompt_is_refused_and_nothing_is_typed() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let mut refused = |pane: &str, why: &str| {
        let answer = session.call("run_command", json!({"pane_id": pane, "command": "echo typed"}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).contains(why), "{why}: {answer}");
        let shown = tmux.run(&["capture-pane", "-p", "-S", "-", "-t", pane]);
        assert!(!shown.contains("typed") && !shown.contains("stty"), "{why}: {shown}");
    };
    // A pane that is young may still become a shell, for a while.
    let cat = pane(&tmux, "exec cat");
    refused(&cat, "it runs cat, which is no shell that is known");
    for (line, name) in
        [("python3 -q", "python3"), ("less /etc/passwd", "less"), ("sleep 100", "sleep")]
    {
        let pane = pane(&tmux, "exec bash --norc");
        type_line(&tmux, &pane, line);
        tmux.until(name, |tmux| {
            tmux.run(&["display-message", "-p", "-t", &pane, "#{pane_current_command}"])
                .starts_with(name)
        });
        refused(&pane, "which is no shell that is known");
    }
    let script = pane(&tmux, "exec bash --norc");
    type_line(&tmux, &script, "echo loops; while :; do :; done");
    ends_with(&tmux, &script, "loops");
    refused(&script, "its shell, bash, is not at its prompt");
    let open = pane(&tmux, "exec bash --norc");
    type_line(&tmux, &open, "echo 'begun");
    ends_with(&tmux, &open, ">");
    refused(&open, "its shell waits for the rest of a command");
    let copying = pane(&tmux, "exec bash --norc");
    tmux.run(&["copy-mode", "-t", &copying]);
    refused(&copying, "it is in copy mode");
    tmux.run(&["send-keys", "-t", &copying, "-X", "cancel"]);
    tmux.run(&["set-option", "-w", "-t", &copying, "synchronize-panes", "on"]);
    refused(&copying, "synchronize-panes");
    tmux.run(&["set-option", "-g", "remain-on-exit", "on"]);
    let dead = pane(&tmux, "exit 0");
    tmux.until("dead", |tmux| {
        tmux.run(&["display-message", "-p", "-t", &dead, "#{pane_dead}"]) == "1"
    });
    refused(&dead, "its program has ended");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (arguments, why) in [
        (json!({"command": " \n"}), "command must not be empty"),
        (json!({"command": "a\u{0}b"}), "command must not contain a NUL character"),
        (json!({"command": "true", "timeout": 0}), "timeout"),
        (json!({"command": "true", "max_lines": 0}), "max_lines"),
    ] {
        let answer = session.call("run_command", arguments);
        assert_eq!(answer["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{answer}");
        assert!(text(&answer).contains(why), "{answer}");
    }
    let missing = session.call("run_command", json!({"command": "true", "pane_id": "%99"}));
    assert_eq!(missing["result"]["_meta"]["error_type"], "PaneNotFound", "{missing}");
}

#[test]
fn panes_run_at_once_and_one_pane_runs_one() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let other = pane(&tmux, "exec bash --norc");
    let gate = session.folder().join("gate");
    let gate = gate.to_str().unwrap().to_owned();
    let wait = format!("echo waits; until test -e {gate}; do sleep 0.02; done");
    let first =
        session.post_call("run_command", json!({"pane_id": "%0", "command": wait, "timeout": 900}));
    ends_with(&tmux, "%0", "waits");
    let second = session.call("run_command", json!({"pane_id": "%0", "command": "echo no"}));
    assert!(text(&second).starts_with("Another run_command has not ended in pane %0"), "{second}");
    assert_eq!(run(&mut session, &other, "echo here")["output"], json!(["here"]));
    std::fs::write(&gate, "").unwrap();
    let first = session.answer(first);
    assert_eq!(structured(&first)["exit_status"], 0, "{first}");
    assert_eq!(structured(&first)["effective_timeout"], 30.0, "the server's limit");
}

#[test]
fn text_that_is_half_typed_is_not_run_and_stays() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (shell, program) in shells() {
        let pane = pane(&tmux, program);
        assert_eq!(run(&mut session, &pane, "true")["exit_status"], 0);
        let half = format!("touch {}/{shell}.half", session.folder().display());
        type_text(&tmux, &pane, &half);
        let typed = |tmux: &Tmux| {
            let shown = tmux.run(&["capture-pane", "-p", "-J", "-t", &pane]);
            shown.lines().last().unwrap_or_default().trim_end().ends_with(&half)
        };
        tmux.until("typed", typed);
        assert_eq!(
            run(&mut session, &pane, "echo between")["output"],
            json!(["between"]),
            "{shell}"
        );
        tmux.until("put back", typed);
        let folder = session.folder().join(format!("{shell}.half"));
        assert!(!folder.exists(), "{shell} ran what was half typed");
        tmux.run(&["send-keys", "-t", &pane, "Enter"]);
        tmux.until("run by Enter", |_| folder.exists());
        screen(&tmux, &pane);
    }
}

#[test]
fn the_history_has_what_was_asked_for_and_nothing_of_ours() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let folder = session.folder().to_str().unwrap().to_owned();
    let panes = [
        (
            "bash",
            format!("exec env HISTFILE={folder}/bash PROMPT_COMMAND='history -a' bash --norc"),
        ),
        (
            "bash",
            format!(
                "exec env HISTFILE={folder}/bash2 HISTCONTROL=ignoreboth HISTTIMEFORMAT=%F bash --norc"
            ),
        ),
        (
            "zsh",
            format!(
                "exec env HISTFILE={folder}/zsh HISTSIZE=99 SAVEHIST=99 zsh -f -o histignorespace -o incappendhistory"
            ),
        ),
        ("fish", format!("exec env XDG_DATA_HOME={folder}/fish fish --no-config")),
    ];
    for (shell, program) in panes {
        if !shells().iter().any(|(there, _)| *there == shell) {
            continue;
        }
        let pane = pane(&tmux, &program);
        run(&mut session, &pane, "true");
        type_line(&tmux, &pane, "echo a''lpha");
        tmux.until("alpha", |tmux| {
            tmux.run(&["capture-pane", "-p", "-t", &pane]).contains("\nalpha")
        });
        run(&mut session, &pane, "echo secret");
        run(&mut session, &pane, "echo two\necho lines");
        let keep = json!({"pane_id": pane, "command": "echo k''eep", "suppress_history": false});
        assert_eq!(structured(&session.call("run_command", keep))["output"], json!(["keep"]));
        let out = format!("{folder}/{shell}.history");
        let list = if shell == "zsh" { "fc -l 1" } else { "history" };
        type_line(&tmux, &pane, &format!("{list} > {out}; touch {out}.done"));
        let done = format!("{out}.done");
        tmux.until("listed", |_| std::path::Path::new(&done).exists());
        std::fs::remove_file(&done).unwrap();
        let history = std::fs::read_to_string(&out).unwrap();
        assert!(history.contains("a''lpha"), "{shell}: {history}");
        for ours in ["stty", "/dev/tty", "secret", "two"] {
            assert!(!history.contains(ours), "{shell} has {ours}: {history}");
        }
        // fish has no way to add a line by itself.
        assert_eq!(history.contains("k''eep"), shell != "fish", "{shell}: {history}");
        for file in ["bash", "zsh"] {
            let written = std::fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            assert!(!written.contains("stty") && !written.contains("secret"), "{shell}: {written}");
        }
    }
}
