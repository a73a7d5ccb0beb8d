//! Tools that move panes and windows between windows and sessions.
//!
//! The pane that this process runs in is not moved, although that would not end it. The self guard knows the session
//! from the environment, and nothing more if the pane is unknown: after a move it would protect the wrong session. A
//! user who looks at the pane would also lose sight of it.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::Failure;

use super::{
    split_placement::{SplitSide, SplitSize},
    window_tools::{moved, no_room},
};
use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, TmuxError, not_found},
    info::{PaneInfo, WindowInfo},
    self_guard::KillTarget,
    target::{self, SessionArgs, WindowArgs},
    tool::{ShortModel, Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("join_pane", "Join tmux Pane", join_pane)
            .about("Use to move a pane into another window, beside a pane there. A window whose last pane goes ends."),
        Tool::mutating("break_pane", "Break tmux Pane", break_pane)
            .about("Use to move a pane out of its window into a new one; the result is that window."),
        Tool::mutating("link_window", "Link tmux Window", link_window)
            .about("Use to show one window in a second session too; it stays one window."),
        Tool::mutating("unlink_window", "Unlink tmux Window", unlink_window).about(
            "Use to take a window out of one of the sessions that it is linked into. Nothing is lost: the last \
             link is refused.",
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct JoinPane {
    /// The pane that moves, by id, as `%1`.
    source_pane_id: String,
    /// The pane beside which it goes.
    target_pane_id: String,
    /// On which side; below if not given.
    direction: Option<SplitSide>,
    /// Rows or columns of the pane that moves, or a part as `50%`.
    size: Option<SplitSize>,
    socket_name: Option<String>,
}

async fn join_pane(cx: ToolContext, args: JoinPane) -> Result<ShortModel<PaneInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let source = target::pane_id(&args.source_pane_id)?;
    let beside = target::pane_id(&args.target_pane_id)?;
    cx.guard().check(&server, KillTarget::Pane(&source), "move").await?;
    let join = Command::new("join-pane").flag("-d").option("-s", &*source).target(&*beside);
    let join = SplitSize::put(args.size.as_ref(), SplitSide::put(args.direction, join));
    let of = ListTarget::Pane(&source);
    let joined = server.then_each(Batch::write([join]), of, PaneInfo::FIELDS).await;
    let (_, rows) = joined.map_err(no_room)?;
    PaneInfo::one(&cx, &server, &rows, &source).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct BreakPane {
    /// The pane, by id, as `%1`.
    pane_id: String,
    /// Name of the new window.
    window_name: Option<String>,
    /// The session of the new window, by name; the pane's own if not given.
    destination_session: Option<String>,
    /// Whether it becomes the current window there.
    #[serde(default)]
    attach: bool,
    socket_name: Option<String>,
}

async fn break_pane(cx: ToolContext, args: BreakPane) -> Result<ShortModel<WindowInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let pane = target::pane_id(&args.pane_id)?;
    // Without a target, tmux would use the session that this server's own client is attached to.
    let session = if let Some(session) = args.destination_session.as_deref() {
        target::destination(&server, session).await?
    } else {
        let rows = server.list(ListTarget::Pane(&pane), &["pane_id", "session_id"]).await?;
        let row = rows.first().ok_or_else(|| not_found::pane(&pane))?;
        row.text("session_id")
    };
    cx.guard().check(&server, KillTarget::Pane(&pane), "move").await?;
    let broken = Command::new("break-pane")
        .flag_if(!args.attach, "-d")
        .option("-s", &*pane)
        .target(format!("{session}:"));
    // tmux takes this name as it is.
    let broken = args.window_name.iter().fold(broken, |command, name| command.option("-n", name));
    // The pane is alone in its new window: its row contains the window's fields.
    let (batch, of) = (Batch::write([broken]), ListTarget::Pane(&pane));
    let (_, rows) = server.then_each(batch, of, WindowInfo::FIELDS).await?;
    rows.first().map(|row| ShortModel(WindowInfo::from(row))).ok_or_else(|| not_found::pane(&pane))
}

#[derive(Deserialize, JsonSchema)]
struct LinkWindow {
    #[serde(flatten)]
    window: WindowArgs,
    /// The session that it is linked into, by name.
    destination_session: String,
    /// Its index there; the next free one if empty.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{0,9}$"))]
    destination_index: String,
    /// Whether it becomes the current window there.
    #[serde(default)]
    attach: bool,
}

/// Without `-k`, a link replaces no window, so nothing ends: the own window may be linked, too.
async fn link_window(cx: ToolContext, args: LinkWindow) -> Result<ShortModel<WindowInfo>, Failure> {
    let (server, row) = args.window.find(&cx, target::WINDOW).await?;
    let (id, from) = (row.text("window_id"), row.text("session_id"));
    let to = target::destination(&server, &args.destination_session).await?;
    let command = Command::new("link-window")
        .flag_if(!args.attach, "-d")
        .option("-s", format!("{from}:{id}"))
        .target(format!("{to}:{}", args.destination_index));
    moved(&server, command, &id, (&to, &args.destination_index)).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct UnlinkWindow {
    /// The window by id, as `@1`.
    window_id: String,
    #[serde(flatten)]
    session: SessionArgs,
}

async fn unlink_window(cx: ToolContext, args: UnlinkWindow) -> Result<String, Failure> {
    let id = target::window_id(&args.window_id)?;
    if args.session.session_id.is_none() && args.session.session_name.is_none() {
        let message = "Provide session_name or session_id: the session that loses the window.";
        return Err(invalid_arguments(message));
    }
    let (server, row) = args.session.find(&cx, target::SESSION).await?;
    let (session, name) = (row.text("session_id"), row.text("session_name"));
    // The own session may end with the link, and it is not always known which link is the own one.
    cx.guard().check(&server, KillTarget::Window(&id), "unlink").await?;
    let unlink = Command::new("unlink-window").target(format!("{session}:{id}"));
    server.run(unlink).await.map_err(|error| only_link(error, &id))?;
    Ok(format!("Window {id} unlinked from session {name}"))
}

fn only_link(error: TmuxError, window: &str) -> Failure {
    if error.says("can't find window") {
        return not_found::window(window);
    }
    let next = "Use kill_window to end the window and the programs in it.";
    error.hinted(&["only linked to one session"], next)
}
