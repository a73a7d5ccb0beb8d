//! `run_command`: runs a command in the shell of a pane.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    call::ToolContext,
    progress::Progress,
    result_size,
    run::{CommandOutput, RunRequest, run},
    target::PaneArgs,
    tool::{Model, Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("run_command", "Run Command in tmux Pane", run_command)
            .about(
                "Use to run a command in a pane's shell (bash, zsh, fish, sh) and get its own output and exit \
                 status.\nIt runs in a subshell: cd and export do not last. After a timeout it runs on.",
            )
            .open_world()
            .self_bounded(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct RunCommand {
    /// The command; may have several lines.
    #[schemars(length(max = 100_000))]
    command: String,
    #[serde(flatten)]
    pane: PaneArgs,
    /// Seconds to wait, up to the server's limit.
    #[serde(default = "half_a_minute")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
    /// The most lines, the last ones; null for all.
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
    /// Keep it out of the shell's history; null as the server is set.
    suppress_history: Option<bool>,
}

fn half_a_minute() -> f64 {
    30.0
}

/// The result of a command.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RunCommandResult {
    /// Where it ran.
    pane_id: String,
    /// Null if it still runs.
    exit_status: Option<i32>,
    /// Whether it still runs.
    timed_out: bool,
    /// From the call to the end.
    elapsed_seconds: f64,
    /// What it wrote, line by line.
    output: Vec<String>,
    /// Whether the beginning was left off.
    output_truncated: bool,
    /// How many lines of it.
    output_truncated_lines: usize,
    /// How many bytes of it.
    output_truncated_bytes: usize,
    /// How long was waited at most.
    effective_timeout: f64,
    /// What to call next, if it still runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn run_command(
    cx: ToolContext,
    args: RunCommand,
) -> Result<Model<RunCommandResult>, Failure> {
    let began = Instant::now();
    if args.command.trim().is_empty() {
        return Err(invalid_arguments("command must not be empty"));
    }
    if args.command.contains('\0') {
        return Err(invalid_arguments("command must not contain a NUL character"));
    }
    let timeout = Duration::try_from_secs_f64(args.timeout).unwrap_or(Duration::MAX);
    let timeout = timeout.min(cx.options().wait_max);
    let keep = !args.suppress_history.unwrap_or(cx.options().suppress_history);
    let (server, pane) = args.pane.find(&cx).await?;
    cx.guard().check_typing(&server, &pane).await?;
    let request = RunRequest { pane: pane.clone(), command: args.command, timeout, keep };
    let mut progress = Progress::new(&cx, timeout, format!("Running a command in pane {pane}"));
    let outcome = progress.during(run(server, request)).await?;
    let text = shown(&cx, outcome.text, args.max_lines);
    let next = (!outcome.ended).then(|| {
        format!(
            "The command is still running in pane {pane}. Call wait_for_text or capture_since with this pane_id to \
             follow it, or send_keys with C-c to stop it; run_command works there again when it has ended."
        )
    });
    Ok(Model(RunCommandResult {
        pane_id: pane,
        next,
        exit_status: outcome.status,
        timed_out: !outcome.ended,
        elapsed_seconds: began.elapsed().as_secs_f64(),
        output_truncated: text.missed || text.left_bytes > 0 || text.left_lines > 0,
        output_truncated_lines: text.left_lines,
        output_truncated_bytes: text.left_bytes,
        output: text.lines,
        effective_timeout: timeout.as_secs_f64(),
    }))
}

/// Masks the output and keeps its last lines.
fn shown(cx: &ToolContext, mut text: CommandOutput, most: Option<u32>) -> CommandOutput {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    if !text.lines.is_empty() {
        // As one text: a secret may span lines.
        text.lines = cx.shown(&text.lines.join("\n")).split('\n').map(str::to_owned).collect();
    }
    text.shorten(most, result_size::MAX_TEXT_BYTES);
    text
}
