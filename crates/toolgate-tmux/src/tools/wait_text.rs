//! `wait_for_text`: waits for the output of a pane's program.

use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    call::ToolContext,
    pane_capture::PaneCapture,
    pane_wait::{PaneUpdate, PaneWait},
    patterns::{PatternOptions, compile_all, first},
    result_size,
    target::PaneArgs,
    tool::{Model, Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("wait_for_text", "Wait for Text in tmux Pane", wait_for_text)
            .about(
                "Use to wait for new output of a program that you did not start with run_command: until a pattern \
                 shows on a new line, a stop pattern does, or time is up.\nWithout patterns, any new output ends it.",
            )
            .self_bounded(),
    ]
}

/// How much of the screen is returned.
const MAX_SCREEN_LINES: usize = 20;
const MAX_SCREEN_BYTES: usize = 2000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// What to wait for, any of them; null for any new output.
    #[schemars(length(max = 64), inner(length(max = 1000)))]
    patterns: Option<Vec<String>>,
    /// What ends the wait as a failure, any of them.
    #[schemars(length(max = 64), inner(length(max = 1000)))]
    stop: Option<Vec<String>>,
    /// Read patterns as regular expressions.
    #[serde(default)]
    regex: bool,
    #[serde(flatten)]
    pane: PaneArgs,
    /// Seconds; the server caps it.
    #[serde(default = "eight")]
    timeout: f64,
    /// The shortest time between two looks, in seconds.
    #[serde(default = "interval")]
    #[schemars(range(min = 0.01))]
    interval: f64,
    /// Upper and lower case are different.
    #[serde(default)]
    match_case: bool,
}

fn eight() -> f64 {
    8.0
}

fn interval() -> f64 {
    0.05
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WaitOutcome {
    Matched,
    AnyOutput,
    Stopped,
    AlternateScreen,
    Timeout,
}

#[expect(clippy::struct_excessive_bools, reason = "fields of libtmux-mcp")]
#[derive(Serialize, JsonSchema)]
struct WaitForText {
    found: bool,
    outcome: WaitOutcome,
    matched_index: Option<usize>,
    matched_lines: Vec<String>,
    tail: Vec<String>,
    saw_new_output: bool,
    matched_at_entry: bool,
    alternate_screen: bool,
    pane_id: String,
    elapsed_seconds: f64,
    effective_timeout: f64,
}

struct WaitPatterns {
    patterns: Vec<Regex>,
    stop: Vec<Regex>,
}

/// Why a wait ends.
struct WaitEnd<'a> {
    outcome: WaitOutcome,
    /// The index of the pattern that matched.
    index: Option<usize>,
    /// The lines that matched.
    hits: Vec<&'a str>,
}

impl WaitPatterns {
    fn new(args: &Args) -> Result<Self, Failure> {
        if args.timeout.is_nan() || args.timeout <= 0.0 {
            return Err(invalid_arguments(format!(
                "timeout must be positive (received {})",
                args.timeout
            )));
        }
        if args.patterns.as_ref().is_some_and(Vec::is_empty) {
            let message =
                "patterns must be a non-empty list, or null to wait for any new output".to_owned();
            return Err(invalid_arguments(message));
        }
        let how = PatternOptions { regex: args.regex, match_case: args.match_case };
        let all = |label, patterns: &Option<Vec<String>>| {
            compile_all(label, patterns.as_deref().unwrap_or_default(), how)
        };
        Ok(Self { patterns: all("patterns", &args.patterns)?, stop: all("stop", &args.stop)? })
    }

    /// Whether the new lines end the wait, and how. A failure wins over a success in the same lines.
    fn end<'a>(&self, lines: &[&'a str]) -> Option<WaitEnd<'a>> {
        if let Some((index, hits)) = first(&self.stop, lines) {
            return Some(WaitEnd { outcome: WaitOutcome::Stopped, index: Some(index), hits });
        }
        if let Some((index, hits)) = first(&self.patterns, lines) {
            return Some(WaitEnd { outcome: WaitOutcome::Matched, index: Some(index), hits });
        }
        let any = self.patterns.is_empty() && !lines.is_empty();
        let outcome = WaitOutcome::AnyOutput;
        any.then(|| WaitEnd { outcome, index: None, hits: lines.to_vec() })
    }
}

async fn wait_for_text(cx: ToolContext, args: Args) -> Result<Model<WaitForText>, Failure> {
    let wanted = WaitPatterns::new(&args)?;
    let longest = cx.options().wait_max.as_secs_f64();
    let seconds = args.timeout.min(longest);
    let interval = Duration::from_secs_f64(args.interval.min(longest));
    let mut waiting =
        PaneWait::enter(&cx, &args.pane, Duration::from_secs_f64(seconds), interval).await?;
    let at_entry = cx.shown_lines(screen(waiting.entry()));
    let at_entry: Vec<&str> = at_entry.iter().map(String::as_str).collect();
    let at_entry = first(&wanted.patterns, &at_entry).is_some();
    let (mut outcome, mut index, mut hits) = (WaitOutcome::Timeout, None, Vec::new());
    let last = loop {
        match waiting.next().await? {
            PaneUpdate::Lines(lines, look) => {
                let lines = cx.shown_lines(lines);
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                if let Some(end) = wanted.end(&lines) {
                    (outcome, index) = (end.outcome, end.index);
                    hits = end.hits.iter().map(|line| (*line).to_owned()).collect();
                    break look;
                }
            }
            PaneUpdate::Timeout(look) => break look,
        }
    };
    let alternate = waiting.saw_alternate();
    if outcome == WaitOutcome::Timeout && alternate {
        outcome = WaitOutcome::AlternateScreen;
    }
    let found = matches!(outcome, WaitOutcome::Matched | WaitOutcome::AnyOutput);
    let most = |lines: Vec<String>| {
        result_size::tail(lines, Some(MAX_SCREEN_LINES), Some(MAX_SCREEN_BYTES)).lines
    };
    Ok(Model(WaitForText {
        found,
        outcome,
        matched_index: index,
        matched_lines: most(hits),
        tail: most(cx.shown_lines(screen(&last))),
        saw_new_output: waiting.saw_output(),
        matched_at_entry: at_entry && !found,
        alternate_screen: alternate,
        pane_id: waiting.pane().to_owned(),
        elapsed_seconds: (waiting.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        effective_timeout: seconds,
    }))
}

fn screen(look: &PaneCapture) -> Vec<String> {
    look.visible().iter().map(|line| line.text.clone()).collect()
}
