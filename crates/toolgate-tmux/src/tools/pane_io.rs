//! What goes into a pane and what comes out: the two tools that are called most.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::Failure;

use crate::{
    call::Cx,
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
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
fn lines() -> Option<u32> {
    Some(500)
}

async fn capture_pane(cx: Cx, args: CapturePane) -> Result<String, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    let mut capture = Command::new("capture-pane").flag("-p").target(pane);
    for (flag, line) in [("-S", args.start), ("-E", args.end)] {
        capture = line.into_iter().fold(capture, |command, n| command.option(flag, n.to_string()));
    }
    let text = server.ask(Batch::read([capture])).await?;
    Ok(tail(&cx.shown(text.trim_end_matches('\n')), args.max_lines))
}

/// The last lines of a text, with a word about those that were left off.
pub(super) fn tail(text: &str, most: Option<u32>) -> String {
    let all = text.split('\n').count();
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    if all <= most {
        return text.to_owned();
    }
    let kept: Vec<&str> = text.split('\n').skip(all - most).collect();
    format!("[... truncated {} lines ...]\n{}", all - most, kept.join("\n"))
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

async fn send_keys(cx: Cx, args: SendKeys) -> Result<String, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    let SendKeys { keys, enter, literal, suppress_history, .. } = args;
    server.run(keystrokes(&pane, &keys, enter, literal, suppress_history)).await?;
    Ok(format!("Keys sent to pane {pane}"))
}

/// The commands that type into a pane.
pub(super) fn keystrokes(
    pane: &str,
    keys: &str,
    enter: bool,
    literal: bool,
    suppress_history: bool,
) -> Batch {
    let space = if suppress_history { " " } else { "" };
    let to_pane = || Command::new("send-keys").target(pane);
    let mut commands =
        vec![to_pane().flag_if(literal, "-l").end().argument(format!("{space}{keys}"))];
    if enter {
        commands.push(to_pane().argument("Enter"));
    }
    Batch::write(commands)
}
