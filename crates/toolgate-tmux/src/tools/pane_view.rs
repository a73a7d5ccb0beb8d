//! Tools that describe a pane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, Row, not_found, text},
    info::PaneInfo,
    mask::ScreenRows,
    result_size::{self, Tail},
    target::{PaneArgs, WindowArgs},
    tool::{Model, ShortModel, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("get_pane_info", "Get tmux Pane Info", get_pane_info)
            .about("Use for facts of one pane: size, place, program, title. Not what is on its screen."),
        Tool::readonly("find_pane_by_position", "Find tmux Pane by Position", find_pane_by_position)
            .about("Use when a pane is named by the corner of the window that it is in."),
        Tool::readonly("snapshot_pane", "Snapshot tmux Pane", snapshot_pane)
            .about(
                "Use to see a pane at one moment: its screen, cursor, modes and program in one call.",
            )
            .always_loaded(),
    ]
}

async fn get_pane_info(cx: ToolContext, args: PaneArgs) -> Result<Model<PaneInfo>, Failure> {
    let (server, pane) = args.find(&cx).await?;
    PaneInfo::of(&cx, &server, &pane).await.map(Model)
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Corner {
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
}

#[derive(Deserialize, JsonSchema)]
struct FindPane {
    /// The corner of the window.
    corner: Corner,
    #[serde(flatten)]
    window: WindowArgs,
}

async fn find_pane_by_position(
    cx: ToolContext,
    args: FindPane,
) -> Result<ShortModel<PaneInfo>, Failure> {
    let (server, window) = args.window.id(&cx).await?;
    let (name, touches): (_, fn(&PaneInfo) -> bool) = match args.corner {
        Corner::TopLeft => ("top-left", |pane| pane.pane_at_top && pane.pane_at_left),
        Corner::TopRight => ("top-right", |pane| pane.pane_at_top && pane.pane_at_right),
        Corner::BottomLeft => ("bottom-left", |pane| pane.pane_at_bottom && pane.pane_at_left),
        Corner::BottomRight => ("bottom-right", |pane| pane.pane_at_bottom && pane.pane_at_right),
    };
    let panes = PaneInfo::list(&cx, &server, ListTarget::Panes(Some(&window))).await?;
    // A zoomed pane touches every edge. The pane that touches this corner without the zoom is farther from the top
    // left, or listed earlier.
    let there = panes.into_iter().rev().filter(touches);
    let found = there.max_by_key(|pane| pane.pane_left + pane.pane_top);
    found.map(ShortModel).ok_or_else(|| {
        let message = format!(
            "No pane found at corner '{name}' in window {window}. This is unusual and may mean that its \
             layout is just changing."
        );
        Failure::tool("PaneNotFound", message).suggest("Call list_panes with this window_id.")
    })
}

/// The state and the screen of a pane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "fields of libtmux-mcp")]
struct Snapshot {
    pane_id: String,
    content: String,
    cursor_x: i64,
    cursor_y: i64,
    pane_width: i64,
    pane_height: i64,
    pane_left: i64,
    pane_top: i64,
    pane_right: i64,
    pane_bottom: i64,
    pane_at_left: bool,
    pane_at_right: bool,
    pane_at_top: bool,
    pane_at_bottom: bool,
    pane_tty: Option<String>,
    pane_pid: Option<String>,
    pane_dead: bool,
    alternate_on: bool,
    pane_in_mode: bool,
    pane_mode: Option<String>,
    scroll_position: Option<i64>,
    history_size: i64,
    title: Option<String>,
    pane_current_command: Option<String>,
    pane_current_path: Option<String>,
    is_caller: Option<bool>,
    content_truncated: bool,
    content_truncated_lines: usize,
}

impl Snapshot {
    const FIELDS: &[&str] = &[
        "pane_id",
        "cursor_x",
        "cursor_y",
        "pane_width",
        "pane_height",
        "pane_left",
        "pane_top",
        "pane_right",
        "pane_bottom",
        "pane_at_left",
        "pane_at_right",
        "pane_at_top",
        "pane_at_bottom",
        "pane_tty",
        "pane_pid",
        "pane_dead",
        "alternate_on",
        "pane_in_mode",
        "pane_mode",
        "scroll_position",
        "history_size",
        "pane_title",
        "pane_current_command",
        "pane_current_path",
    ];

    fn new(row: &Row, content: &Tail, is_caller: Option<bool>) -> Self {
        // The value is a count: a mode may be entered from another mode.
        let in_mode = row.number("pane_in_mode") > 0;
        Self {
            pane_id: row.text("pane_id"),
            content: content.lines.join("\n"),
            cursor_x: row.number("cursor_x"),
            cursor_y: row.number("cursor_y"),
            pane_width: row.number("pane_width"),
            pane_height: row.number("pane_height"),
            pane_left: row.number("pane_left"),
            pane_top: row.number("pane_top"),
            pane_right: row.number("pane_right"),
            pane_bottom: row.number("pane_bottom"),
            pane_at_left: row.is_set("pane_at_left"),
            pane_at_right: row.is_set("pane_at_right"),
            pane_at_top: row.is_set("pane_at_top"),
            pane_at_bottom: row.is_set("pane_at_bottom"),
            pane_tty: row.maybe("pane_tty"),
            pane_pid: row.maybe("pane_pid"),
            pane_dead: row.is_set("pane_dead"),
            alternate_on: row.is_set("alternate_on"),
            pane_in_mode: in_mode,
            pane_mode: row.maybe("pane_mode"),
            scroll_position: row.get("scroll_position").and_then(|lines| lines.parse().ok()),
            history_size: row.number("history_size"),
            title: row.maybe("pane_title"),
            pane_current_command: row.maybe("pane_current_command"),
            pane_current_path: row.maybe("pane_current_path"),
            is_caller,
            content_truncated: content.left_lines > 0 || content.left_bytes > 0,
            content_truncated_lines: content.left_lines,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct SnapshotPane {
    #[serde(flatten)]
    pane: PaneArgs,
    /// The most lines of the screen, the last ones; null for all.
    #[serde(default = "super::pane_io::lines")]
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
}

async fn snapshot_pane(cx: ToolContext, args: SnapshotPane) -> Result<Model<Snapshot>, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    let capture = |flag| Command::new("capture-pane").flag("-p").flag(flag).target(&*pane);
    // tmux runs the commands as one list, so screen and state belong together.
    let (mut screen, rows) = server
        .then_each(
            Batch::read([capture("-N"), capture("-J")]),
            ListTarget::Pane(&pane),
            Snapshot::FIELDS,
        )
        .await?;
    let row = rows.first().ok_or_else(|| not_found::pane(&pane))?;
    let identity = server.identity().await?;
    let is_caller = identity.and_then(|identity| cx.guard().is_caller(&identity, &pane));
    let joined = text(screen.pop().unwrap_or_default());
    let rows = ScreenRows::new(&text(screen.pop().unwrap_or_default()), &joined);
    let shown = if cx.options().mask { rows.masked(0) } else { rows.plain(0) };
    let most = args.max_lines.and_then(|most| usize::try_from(most).ok());
    let lines = shown.split('\n').map(str::to_owned).collect();
    let tail = result_size::tail(lines, most, None);
    let mut snapshot = Snapshot::new(row, &tail, is_caller);
    snapshot.title = snapshot.title.map(|title| cx.shown(&title).into_owned());
    Ok(Model(snapshot))
}
