//! `capture_since`: the output of a pane since the previous call.

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    baseline::{Baseline, NewLines},
    call::ToolContext,
    capture_cursor::{self, Cursor},
    engine::Server,
    pane_capture::{self, PaneCapture, PaneLine},
    result_size,
    target::PaneArgs,
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::readonly("capture_since", "Capture tmux Pane Since Cursor", capture_since).about(
        "Use to read only what is new in a pane since the last call: give back the cursor it gave.\n\
         Without a cursor it gives the screen. lines_missed tells that lines were lost in between.",
    )]
}

/// How many rows may scroll between two calls before a second capture is needed.
const SCROLL_MARGIN: i64 = 500;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The cursor of the last answer.
    cursor: Option<String>,
    #[serde(flatten)]
    pane: PaneArgs,
    /// The most lines, the last ones; null for all.
    #[serde(default = "most_lines")]
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
    /// The most bytes; null for all.
    #[serde(default = "most_bytes")]
    #[schemars(range(min = 1))]
    max_bytes: Option<u32>,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
fn most_lines() -> Option<u32> {
    Some(500)
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
fn most_bytes() -> Option<u32> {
    Some(128_000)
}

#[derive(Serialize, JsonSchema)]
struct CaptureSince {
    pane_id: String,
    cursor: String,
    lines: Vec<String>,
    elapsed_seconds: f64,
    lines_missed: bool,
    truncated: bool,
    truncated_lines: usize,
    truncated_bytes: usize,
}

async fn capture_since(cx: ToolContext, args: Args) -> Result<Model<CaptureSince>, Failure> {
    let started = Instant::now();
    let known = args.cursor.as_deref().map(Cursor::open).transpose()?;
    let (server, pane) = target(&cx, &args.pane, known.as_ref()).await?;
    let (look, since) = match known {
        Some(known) => since(&server, &pane, known).await?,
        None => fresh(&server, &pane).await?,
    };
    let socket = socket(&server).await?;
    let sealed = Cursor {
        pane: pane.clone(),
        pid: look.state.pid,
        server: look.state.server,
        socket,
        main: since.main,
        alternate: since.alternate,
    };
    let lines = cx.shown_lines(since.lines);
    let size = |most: Option<u32>| most.and_then(|most| usize::try_from(most).ok());
    let tail = result_size::tail(lines, size(args.max_lines), size(args.max_bytes));
    Ok(Model(CaptureSince {
        pane_id: pane,
        cursor: sealed.seal()?,
        lines: tail.lines,
        elapsed_seconds: (started.elapsed().as_secs_f64() * 1e6).round() / 1e6,
        lines_missed: since.missed,
        truncated: tail.left_bytes > 0 || tail.left_lines > 0,
        truncated_lines: tail.left_lines,
        truncated_bytes: tail.left_bytes,
    }))
}

/// The pane that the arguments name, or the pane of the cursor.
async fn target(
    cx: &ToolContext,
    args: &PaneArgs,
    known: Option<&Cursor>,
) -> Result<(std::sync::Arc<Server>, String), Failure> {
    let Some(known) = known else {
        return args.find(cx).await;
    };
    let named = args.pane_id.is_some()
        || args.window_id.is_some()
        || args.session_id.is_some()
        || args.session_name.is_some();
    if !named {
        return Ok((cx.server(args.socket_name.as_deref())?, known.pane.clone()));
    }
    let (server, pane) = args.find(cx).await?;
    if pane != known.pane {
        let message = format!("cursor pane {} does not match requested pane {pane}", known.pane);
        return Err(Failure::tool("ExpectedToolError", message)
            .suggest("Call it with the pane's own cursor, or without a cursor."));
    }
    Ok((server, pane))
}

async fn socket(server: &Server) -> Result<String, Failure> {
    let identity = server.identity().await?;
    Ok(identity.map(|identity| identity.socket.clone()).unwrap_or_default())
}

/// The lines to return, and the cursor for the next call.
struct CaptureSinceReply {
    lines: Vec<String>,
    missed: bool,
    main: Baseline,
    alternate: Option<Baseline>,
}

fn texts<'a>(lines: impl IntoIterator<Item = &'a PaneLine>) -> Vec<String> {
    lines.into_iter().map(|line| line.text.clone()).collect()
}

/// The screen, and a cursor for the next call.
async fn fresh(server: &Server, pane: &str) -> Result<(PaneCapture, CaptureSinceReply), Failure> {
    let look = PaneCapture::at(server, pane, Some(-SCROLL_MARGIN)).await?;
    if look.state.dead {
        let message = format!("pane {pane} died during pane read");
        return Err(Failure::tool("ExpectedToolError", message)
            .suggest("Call capture_pane for what is left on its screen, or respawn_pane."));
    }
    let screen = Baseline::of(&look);
    let (main, alternate) = if look.state.alternate {
        let hidden = PaneCapture::hidden(server, pane).await?;
        let main =
            hidden.map_or_else(|| Baseline::nothing(&look.state), |look| Baseline::of(&look));
        (main, Some(screen))
    } else {
        (screen, None)
    };
    let lines = texts(look.visible());
    Ok((look, CaptureSinceReply { lines, missed: false, main, alternate }))
}

async fn since(
    server: &Server,
    pane: &str,
    known: Cursor,
) -> Result<(PaneCapture, CaptureSinceReply), Failure> {
    let mut look = match PaneCapture::at(server, pane, Some(known.main.from(SCROLL_MARGIN))).await {
        Err(error) if error.says("can't find pane") => return Err(pane_capture::died(pane)),
        look => look?,
    };
    if known.server != look.state.server || known.socket != socket(server).await? {
        return Err(capture_cursor::bad("it is for another tmux server"));
    }
    pane_capture::check_life(pane, known.pid, &look.state)?;
    if !look.state.alternate && known.main.since(&look) == NewLines::LookFurther {
        look = PaneCapture::at(server, pane, None).await?;
        pane_capture::check_life(pane, known.pid, &look.state)?;
    }
    let screen = Baseline::of(&look);
    if look.state.alternate {
        // The normal screen is hidden and does not change: its position is kept.
        let lines = known.alternate.as_ref().and_then(|seen| seen.written_over(&look));
        let lines = lines.map_or_else(|| texts(look.visible()), texts);
        let news =
            CaptureSinceReply { lines, missed: false, main: known.main, alternate: Some(screen) };
        return Ok((look, news));
    }
    let (lines, missed) = match known.main.since(&look) {
        NewLines::Exactly(lines) => (texts(lines), false),
        NewLines::Lost(_) | NewLines::LookFurther => (texts(look.visible()), true),
    };
    Ok((look, CaptureSinceReply { lines, missed, main: screen, alternate: None }))
}
