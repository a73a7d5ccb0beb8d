//! `capture_pane` and `send_keys`: reading a pane's screen and typing into it.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::Failure;

use super::sgr;
use crate::{
    call::ToolContext,
    engine::{Batch, Command},
    target::PaneArgs,
    tool::Tool,
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("capture_pane", "Capture tmux Pane", capture_pane).about(
            "Use to read what is on a pane's screen, or in its history with a negative start.\n\
             The last max_lines lines are kept; a first line tells how many were left off.",
        ),
        Tool::mutating("send_keys", "Send Keys to tmux Pane", send_keys)
            .about(
                "Use to type into a pane: text, or key names as C-c, Up, Escape. It returns before the \
                 program answers.\nSet enter=false for single keys and control keys.",
            )
            .open_world(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct CapturePane {
    #[serde(flatten)]
    pane: PaneArgs,
    /// First line: 0 is the top of the screen, negative is history.
    start: Option<i32>,
    /// Last line.
    end: Option<i32>,
    /// The most lines, the last ones; null for all.
    #[serde(default = "lines")]
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
    /// Keep colours and other attributes, as escape sequences.
    #[serde(default)]
    colors: bool,
    /// Make one line of lines that the screen's width broke.
    #[serde(default)]
    join: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
pub(super) fn lines() -> Option<u32> {
    Some(500)
}

async fn capture_pane(cx: ToolContext, args: CapturePane) -> Result<String, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    let mut capture = Command::new("capture-pane").flag("-p").target(pane);
    for (flag, line) in [("-S", args.start), ("-E", args.end)] {
        capture = line.into_iter().fold(capture, |command, n| command.option(flag, n.to_string()));
    }
    let shown = cx.captured(&server, capture.flag_if(args.join, "-J"), args.colors).await?;
    if !args.colors {
        return Ok(tail(&shown, args.max_lines));
    }
    let (kept, left_off) = last_lines(&shown, args.max_lines);
    let before = shown.strip_suffix(kept).unwrap_or_default();
    // tmux only writes changes of colour, so the kept part starts with the state at the end of the removed part.
    Ok(headed(&format!("{}{kept}", sgr::state_after(before)), left_off))
}

/// The last lines of a text, after a line about those that were left out.
pub(super) fn tail(text: &str, most: Option<u32>) -> String {
    let (kept, left_off) = last_lines(text, most);
    headed(kept, left_off)
}

fn headed(kept: &str, left_off: usize) -> String {
    match left_off {
        0 => kept.to_owned(),
        _ => format!("[... truncated {left_off} lines ...]\n{kept}"),
    }
}

/// The last lines of a text, and how many were left out.
pub(super) fn last_lines(text: &str, most: Option<u32>) -> (&str, usize) {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let cut = most.checked_sub(1).and_then(|most| text.rmatch_indices('\n').nth(most));
    match cut {
        None => (text, 0),
        Some((at, _)) => {
            let (before, kept) = text.split_at(at + 1);
            (kept, before.matches('\n').count())
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct SendKeys {
    /// Text to type, or the name of a key.
    keys: String,
    #[serde(flatten)]
    pane: PaneArgs,
    /// Press Enter afterwards.
    #[serde(default = "yes")]
    enter: bool,
    /// Type the text even if it is the name of a key.
    #[serde(default)]
    literal: bool,
    /// Put a space before it, which keeps it out of most shells' history.
    #[serde(default)]
    suppress_history: bool,
}

fn yes() -> bool {
    true
}

async fn send_keys(cx: ToolContext, args: SendKeys) -> Result<String, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    cx.guard().check_typing(&server, &pane).await?;
    let SendKeys { keys, enter, literal, suppress_history, .. } = args;
    let keystrokes = Keystrokes { keys: &keys, enter, literal, suppress_history };
    server.run(keystrokes.commands(&pane)).await?;
    Ok(format!("Keys sent to pane {pane}"))
}

/// Text or keys to type; the fields are those of `send_keys`.
pub(super) struct Keystrokes<'a> {
    pub(super) keys: &'a str,
    pub(super) enter: bool,
    pub(super) literal: bool,
    pub(super) suppress_history: bool,
}

impl Keystrokes<'_> {
    /// The commands that type into a pane.
    pub(super) fn commands(&self, pane: &str) -> Batch {
        let space = if self.suppress_history { " " } else { "" };
        let to_pane = || Command::new("send-keys").target(pane);
        let text = format!("{space}{}", self.keys);
        let mut commands = vec![to_pane().flag_if(self.literal, "-l").end().argument(text)];
        if self.enter {
            commands.push(to_pane().argument("Enter"));
        }
        Batch::write(commands)
    }
}
