//! Measures precision and recall of the guard with its default settings, on typed lines: with keys, and in several
//! calls.

use std::collections::BTreeMap;

use serde_json::json;

use super::{CommandsConfig, ShellContext, judge};
use crate::command_guard::typed;

/// Written before the rules that it measures (commit "a held-out corpus of typed lines"); the rules were then tuned on
/// it.
const TYPED: &str = include_str!("../../corpus/typed-lines.tsv");

/// Written after the rules were finished, and measured once: the figure is in the README of this crate. No rule was
/// changed because of it.
const HELD_OUT: &str = include_str!("../../corpus/typed-lines-held-out.tsv");

/// How often the guard asks, of the lines where it should and of those where it should not.
#[derive(Debug, Default)]
struct Score {
    hits: u32,
    false_alarms: u32,
    missed: u32,
    /// The guard asks, but not for the kind that the corpus names.
    misnamed: u32,
}

impl Score {
    fn precision(&self) -> f64 {
        f64::from(self.hits) / f64::from((self.hits + self.false_alarms).max(1))
    }

    fn recall(&self) -> f64 {
        f64::from(self.hits) / f64::from((self.hits + self.missed).max(1))
    }
}

/// The text that reaches the pane: `⏎` is a line break, `⟦Up⟧` a key. A line without a key at its end is entered.
fn text(line: &str) -> String {
    let mut rest = line.replace('⏎', "\n");
    let mut out = String::new();
    while let Some((before, (key, after))) =
        rest.split_once('⟦').and_then(|(before, key)| Some((before, key.split_once('⟧')?)))
    {
        out.push_str(before);
        let keys = json!({"keys": key, "enter": false});
        out.extend(typed("send_keys", &keys).into_iter().map(|typed| typed.text));
        rest = after.to_owned();
    }
    let entered = rest.is_empty() && !out.is_empty();
    out + &rest + if entered { "" } else { "\n" }
}

fn measure(title: &str, corpus: &str) -> Score {
    let ask = CommandsConfig::default().ask;
    let place = ShellContext {
        folder: Some("/home/me/project".into()),
        home: Some("/home/me".into()),
        interactive: true,
        ..ShellContext::default()
    };
    let (mut all, mut each) = (Score::default(), BTreeMap::<&str, Score>::new());
    for row in corpus.lines() {
        let (wanted, line) = row.split_once('\t').expect("a tab");
        let found = judge(&text(line), &place).classes();
        let found: Vec<_> = found.into_iter().filter(|class| ask.contains(class)).collect();
        let named = wanted.split(',').all(|name| found.iter().any(|class| class.name() == name));
        for score in [&mut all, each.entry(wanted).or_default()] {
            match (wanted, found.is_empty()) {
                ("none", true) => {}
                ("none", false) => score.false_alarms += 1,
                (_, true) => score.missed += 1,
                (_, false) => {
                    score.hits += 1;
                    score.misnamed += u32::from(!named);
                }
            }
        }
        if (wanted != "none" && !named) || (wanted == "none" && !found.is_empty()) {
            println!("  {title}: wanted {wanted}, found {found:?}: {line}");
        }
    }
    println!("{title}: precision {:.3}, recall {:.3}, {all:?}", all.precision(), all.recall());
    for (wanted, score) in each {
        println!("  {wanted:24} {score:?}");
    }
    all
}

#[test]
fn typed_lines_are_asked_about_when_they_should_be() {
    let score = measure("typed lines", TYPED);
    assert!(score.precision() >= 0.98 && score.recall() >= 0.98, "{score:?}");
}

#[test]
fn held_out_lines_are_asked_about_about_as_often() {
    let score = measure("held-out lines", HELD_OUT);
    assert!(score.precision() >= 0.9 && score.recall() >= 0.9, "{score:?}");
}
