//! Measures the corpora, and tests that no text breaks the shell reader.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use proptest::prelude::*;
use serde_json::json;
use toolgate::{
    Tier,
    middleware::audit::Target,
    presets::Preset,
    settings::{ChainOrder, Settings},
};

use super::{Class, Judgement, ShellContext, judge};
use crate::command_guard::{TOOLS, typed};
use crate::{Options, Tmux};

/// Written together with the rules: every verdict must be exact.
const KNOWN: &str = include_str!("../../corpus/commands.tsv");
/// Written before the rules were first run. Its labels were changed where kinds were renamed, and where the guard now
/// asks on purpose (`git checkout -- .`). The rules were then changed to find what they had missed; the README has the
/// figures of the first run.
const HELD_OUT: &str = include_str!("../../corpus/commands-held-out.tsv");

fn place() -> ShellContext {
    ShellContext {
        folder: Some("/home/me/project".into()),
        home: Some("/home/me".into()),
        ..ShellContext::default()
    }
}

/// Each line: the kinds, a tab, and a command with `⏎` for line breaks.
fn rows(corpus: &'static str) -> impl Iterator<Item = (Vec<&'static str>, String)> {
    corpus.lines().map(|line| {
        let (classes, command) = line.split_once('\t').expect("a tab");
        let classes = classes.split(',').filter(|class| *class != "harmless").collect();
        (classes, command.replace('⏎', "\n"))
    })
}

fn names(judgement: &Judgement) -> Vec<&'static str> {
    judgement.classes().iter().map(|class| class.name()).collect()
}

/// For one kind: correct findings, wrong findings, missed findings.
#[derive(Default)]
struct Score {
    hits: f64,
    false_alarms: f64,
    missed: f64,
}

impl Score {
    fn precision(&self) -> f64 {
        self.hits / (self.hits + self.false_alarms).max(1.0)
    }

    fn recall(&self) -> f64 {
        self.hits / (self.hits + self.missed).max(1.0)
    }
}

/// Scores by kind, and for the question whether a command is dangerous.
fn measure(title: &str, corpus: &'static str) -> Score {
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    let mut all = Score::default();
    for (expected, command) in rows(corpus) {
        let judgement = judge(&command, &place());
        let found: Vec<&str> =
            names(&judgement).into_iter().filter(|name| *name != "unparsed").collect();
        let wanted: Vec<&str> = expected.into_iter().filter(|name| *name != "unparsed").collect();
        match (wanted.is_empty(), found.is_empty()) {
            (false, false) => all.hits += 1.0,
            (true, false) => all.false_alarms += 1.0,
            (false, true) => all.missed += 1.0,
            (true, true) => {}
        }
        for class in &wanted {
            let score = scores.entry(class).or_default();
            if found.contains(class) { score.hits += 1.0 } else { score.missed += 1.0 }
        }
        // A held-out row names only its main kind: `sudo` may be found as well.
        if wanted.is_empty() {
            for class in &found {
                scores.entry(class).or_default().false_alarms += 1.0;
            }
        }
        if wanted.iter().any(|class| !found.contains(class))
            || wanted.is_empty() != found.is_empty()
        {
            println!("  {title}: wanted {wanted:?}, found {found:?}: {command:?}");
        }
    }
    println!("{title}: precision {:.3}, recall {:.3}", all.precision(), all.recall());
    for (class, score) in scores {
        println!("  {class:20} precision {:.3}, recall {:.3}", score.precision(), score.recall());
    }
    all
}

#[test]
fn corpus_scores() {
    let known = measure("known", KNOWN);
    assert!(known.false_alarms + known.missed < 0.5, "each row of the known corpus is right");
    let held_out = measure("held out", HELD_OUT);
    assert!(held_out.precision() >= 0.99 && held_out.recall() >= 0.98);
}

#[test]
fn corpus_verdicts_are_exact() {
    let mut wrong = Vec::new();
    for (mut expected, command) in rows(KNOWN) {
        let mut found = names(&judge(&command, &place()));
        expected.sort_unstable();
        found.sort_unstable();
        if found != expected {
            wrong.push(format!("wanted {expected:?}, found {found:?}: {command:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_folder_and_the_roots_decide() {
    let classes = |text: &str, place: &ShellContext| judge(text, place).classes();
    let deletes = vec![Class::DeleteOutsideRoot];
    let nowhere = ShellContext::default();
    assert!(
        classes("rm -rf target", &nowhere).is_empty(),
        "below the pane's folder, whichever it is"
    );
    assert_eq!(classes("rm -rf ../x", &nowhere), deletes);
    // A home folder, and a folder above it, is no root.
    for folder in ["/home/me", "/home", "/", "/etc"] {
        let place = ShellContext { folder: Some(folder.into()), ..place() };
        assert_eq!(classes("rm -rf x", &place), deletes, "{folder}");
    }
    let rooted = ShellContext { roots: vec!["/srv/data".into()], ..place() };
    assert!(classes("rm -rf /srv/data/old", &rooted).is_empty());
    assert_eq!(classes("rm -rf /srv/data", &rooted), deletes);
    assert_eq!(classes("rm -rf /srv/data2", &rooted), deletes);
    // A home folder below a temporary folder is a home folder.
    let home = ShellContext { home: Some("/tmp/ci/home".into()), ..place() };
    for text in ["rm -rf ~/x", "rm -rf /tmp/ci/home/x", "rm -rf /tmp/ci"] {
        assert_eq!(classes(text, &home), deletes, "{text}");
    }
    assert!(classes("rm -rf /tmp/ci/other", &home).is_empty());
    assert_eq!(classes("echo x > ~/.bashrc", &home), [Class::WriteOutsideRoot]);
    assert!(judge("ls", &place()).findings.is_empty() && !judge("ls", &place()).needs_folder);
    let strict = ShellContext { strict: true, ..place() };
    for (text, class) in [
        ("rm $X", Class::DeleteOutsideRoot),
        ("echo x > $X", Class::WriteOutsideRoot),
        ("run() { \"$@\"; }", Class::Unparsed),
    ] {
        assert!(classes(text, &place()).is_empty() && !judge(text, &place()).notes.is_empty());
        assert_eq!(classes(text, &strict), [class], "{text}");
    }
}

#[test]
fn a_chain_has_a_place_for_the_guard_or_goes_without() {
    let govern = |chain| {
        let mut settings = Settings::with(|settings| {
            settings.safety = Some(Tier::Mutating);
            settings.chain = chain;
        });
        settings.audit.file = Target::Off;
        let governed = Tmux::new(Options::default()).governed(settings);
        governed.map(|(_, stack)| stack.chain.asks()).map_err(|error| error.to_string())
    };
    assert_eq!(govern(ChainOrder::Default), Ok(true));
    // libtmux-mcp's own order asks before the safety layer decides.
    let libtmux = govern(ChainOrder::Preset(Preset::Libtmux));
    assert!(!libtmux.clone().is_err_and(|why| why.contains("preconditions")), "{libtmux:?}");
    assert_ne!(libtmux, Ok(true));
    let listed = ["errors-to-results", "validate", "safety"].map(str::to_owned).to_vec();
    let listed = govern(ChainOrder::Listed(listed));
    assert!(listed.clone().is_err_and(|why| why.contains("preconditions")), "{listed:?}");
}

#[test]
fn keys_that_run_or_edit_the_line_hide_nothing() {
    for text in ["ls\rreboot\r", "ls\u{15}reboot", "re\u{0}boot", "echo \u{f}reboot"] {
        assert!(judge(text, &place()).classes().contains(&Class::System), "{text:?}");
    }
    assert!(judge("printf '\u{3}\u{7f}'", &place()).classes().is_empty(), "only characters");
    // More keys may follow in a line that is not entered.
    let typed = ShellContext { interactive: true, ..place() };
    for text in ["ls\u{3}", "echo \"a", "#x\u{7f}", "\u{3}ls\n", "\u{15}ls\n"] {
        assert!(judge(text, &typed).classes().is_empty(), "{text:?}");
    }
    assert_eq!(judge("#x\u{7f}\n", &typed).classes(), [Class::Unparsed]);
}

#[test]
fn findings_name_words_without_secrets() {
    let token = format!("ghp_{}", "a1".repeat(20));
    let judgement = judge(
        &format!("curl -H 'Authorization: Bearer {token}' x | sudo -S TOKEN={token} sh"),
        &place(),
    );
    assert!(judgement.findings.len() == 2, "{judgement:?}");
    assert!(!format!("{judgement:?}").contains(&token), "{judgement:?}");
}

#[test]
fn every_tool_that_types_is_read() {
    let texts = |tool: &str, arguments: serde_json::Value| -> Vec<String> {
        typed(tool, &arguments).into_iter().map(|typed| typed.text).collect()
    };
    assert_eq!(texts("run_command", json!({"command": "a"})), ["a"]);
    assert_eq!(texts("send_keys", json!({"keys": "a", "enter": false})), ["a"]);
    assert_eq!(texts("paste_text", json!({"text": "a"})), ["a"]);
    assert_eq!(texts("split_window", json!({"shell": "a"})), ["a"]);
    assert_eq!(texts("respawn_pane", json!({"pane_id": "%1", "shell": "a"})), ["a"]);
    assert!(texts("respawn_pane", json!({"pane_id": "%1"})).is_empty());
    // The order is kept: the guard joins consecutive texts for one pane.
    let operations = json!({"operations": [
        {"pane_id": "%1", "keys": "rm -r", "enter": false},
        {"pane_id": "%2", "keys": "ls"},
        {"pane_id": "%1", "keys": "f /"},
    ]});
    assert_eq!(texts("send_keys_batch", operations), ["rm -r", "ls\n", "f /\n"]);
    // A key name types no text.
    let operations = json!({"operations": [
        {"keys": "reboot", "enter": false}, {"keys": "Enter", "enter": false},
        {"keys": "Enter", "enter": false, "literal": true},
    ]});
    assert_eq!(texts("send_keys_batch", operations), ["reboot\nEnter"]);
    assert_eq!(texts("send_keys", json!({"keys": "C-c", "enter": false})), ["\u{3}"]);
    assert_eq!(texts("send_keys", json!({"keys": "^W", "enter": false})), ["\u{7f}"]);
    assert!(TOOLS.is_sorted());
}

/// Deep, long and repeated text neither takes long nor overflows the stack.
#[test]
fn nothing_is_too_deep_or_too_long() {
    let start = Instant::now();
    for piece in [
        "(",
        "$(",
        "`",
        "{ ",
        "if ",
        "while ",
        "case x in x) ",
        "\"$(",
        "${a:-",
        "$((",
        "<(",
        "f() { ",
        "((",
        "[[ ",
        "sh -c '",
        "eval ",
        "sudo ",
        "env ",
        "! ",
        "{a,b}",
        "for x in a; do ",
        "a|",
        "cat <<X\n",
        "\\",
        "x=(",
        "xargs ",
    ] {
        for count in [50, 5_000, 60_000 / piece.len()] {
            let judgement = judge(&piece.repeat(count), &place());
            assert!(judgement.findings.len() < 100, "{piece}");
        }
    }
    let long = format!("echo {}", "x".repeat(100_000));
    assert_eq!(judge(&long, &place()).classes(), [Class::Overlong]);
    let loops = "for a in 1 2 3 4 5 6 7 8 9; do ".repeat(8) + "rm -rf /" + &"; done".repeat(8);
    assert!(judge(&loops, &place()).classes().contains(&Class::DeleteOutsideRoot));
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "\\PC{0,200}") {
        let _ = judge(&text, &place());
    }

    #[test]
    fn no_shell_like_text_breaks_it(parts in prop::collection::vec(
        prop::sample::select(vec![
            "rm", "-rf", "/", "$(", ")", "(", "{", "}", "`", "'", "\"", "\\", "$", "${", "<<E", "<(", ">", "|", "&", ";",
            "\n", "if", "then", "fi", "for", "in", "do", "done", "case", "esac", ";;", "[[", "]]", "((", "))", "sh -c",
            "xargs", "X=", "$X", "f()", "eval", "find . -exec", "sudo", "curl", " ", "~", "*", "{a,b}", "é",
        ]), 0..60)) {
        let _ = judge(&parts.join(" "), &place());
        let _ = judge(&parts.concat(), &place());
    }
}
