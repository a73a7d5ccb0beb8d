//! `send_keys_batch`: keys for several panes, or several times, in one call.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use toolgate::Failure;

use super::{batch::OnError, pane_io::Keystrokes};
use crate::{
    call::ToolContext,
    engine::Server,
    target::{self, PaneTarget},
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("send_keys_batch", "Send Keys Batch to tmux Panes", send_keys_batch)
            .about(
                "Use to type into panes several times, in order. Each row of the result tells how that one went.\n\
                 For the output of a command use run_command.",
            )
            .open_world(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct SendKeysBatch {
    /// As for `send_keys`, in this order.
    #[schemars(length(min = 1, max = 1000))]
    operations: Vec<KeysOperation>,
    /// What to do after one that fails.
    #[serde(default)]
    on_error: OnError,
    /// The most seconds for all of it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: Option<f64>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeysOperation {
    keys: String,
    pane_id: Option<String>,
    session_name: Option<String>,
    session_id: Option<String>,
    window_id: Option<String>,
    #[serde(default = "yes")]
    enter: bool,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    suppress_history: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
struct SendKeysBatchResult {
    results: Vec<KeysRow>,
    succeeded: usize,
    failed: usize,
    stopped_at: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct KeysRow {
    index: usize,
    pane_id: Option<String>,
    success: bool,
    error: Option<String>,
    elapsed_seconds: f64,
}

async fn send_keys_batch(
    cx: ToolContext,
    args: SendKeysBatch,
) -> Result<Model<SendKeysBatchResult>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let within = args.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let deadline = within.and_then(|within| Instant::now().checked_add(within));
    let (mut results, mut stopped_at) = (Vec::new(), None);
    for (index, operation) in args.operations.iter().enumerate() {
        let started = Instant::now();
        let mut pane_id = None;
        let typed = typed(&cx, &server, operation, &mut pane_id);
        let done = match deadline {
            None => typed.await.map_err(|failure| words(&failure)),
            Some(deadline) => match timeout_at(deadline, typed).await {
                Ok(done) => done.map_err(|failure| words(&failure)),
                Err(_) => Err(format!(
                    "batch execution exceeded timeout of {:?}s",
                    args.timeout.unwrap_or_default()
                )),
            },
        };
        let (success, error) = (done.is_ok(), done.err());
        let pane_id = pane_id.or_else(|| operation.pane_id.clone());
        let elapsed_seconds = started.elapsed().as_secs_f64();
        results.push(KeysRow { index, pane_id, success, error, elapsed_seconds });
        if !success && args.on_error == OnError::Stop {
            stopped_at = Some(index);
            break;
        }
    }
    let succeeded = results.iter().filter(|row| row.success).count();
    let failed = results.len() - succeeded;
    Ok(Model(SendKeysBatchResult { results, succeeded, failed, stopped_at }))
}

async fn typed(
    cx: &ToolContext,
    server: &Server,
    operation: &KeysOperation,
    pane_id: &mut Option<String>,
) -> Result<(), Failure> {
    let wanted = PaneTarget {
        pane_id: operation.pane_id.as_deref(),
        window_id: operation.window_id.as_deref(),
        session_id: operation.session_id.as_deref(),
        session_name: operation.session_name.as_deref(),
    };
    let pane = pane_id.insert(target::pane(server, wanted).await?);
    cx.guard().check_typing(server, pane).await?;
    let &KeysOperation { ref keys, enter, literal, suppress_history, .. } = operation;
    let keystrokes = Keystrokes { keys, enter, literal, suppress_history };
    server.run(keystrokes.commands(pane)).await?;
    Ok(())
}

/// A failure as one text, with its suggestion.
fn words(failure: &Failure) -> String {
    match failure.suggestion() {
        Some(suggestion) => format!("{failure}\n{suggestion}"),
        None => failure.to_string(),
    }
}
