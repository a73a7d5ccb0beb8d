//! The result fields of tools that return sessions, windows and panes: those of libtmux-mcp.

use schemars::JsonSchema;
use serde::Serialize;

use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, Row, Server, not_found},
    tool::SharedModel,
};

impl SharedModel for SessionInfo {
    const FULL_SCHEMA_TOOL: &str = "get_session_info";
}

impl SharedModel for WindowInfo {
    const FULL_SCHEMA_TOOL: &str = "get_window_info";
}

impl SharedModel for PaneInfo {
    const FULL_SCHEMA_TOOL: &str = "get_pane_info";
}

/// A session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionInfo {
    /// As `$1`.
    pub session_id: String,
    /// Its name.
    pub session_name: Option<String>,
    /// How many windows it has.
    pub window_count: i64,
    /// How many clients are attached, ours not counted.
    pub session_attached: Option<String>,
    /// When it was made, in seconds of the epoch.
    pub session_created: Option<String>,
    /// The active pane of its current window.
    pub active_pane_id: Option<String>,
}

impl SessionInfo {
    /// The tmux format variables that a row needs.
    pub const FIELDS: &[&str] = &[
        "session_id",
        "session_name",
        "session_windows",
        "session_attached",
        "session_created",
        "pane_id",
    ];
}

impl From<&Row> for SessionInfo {
    fn from(row: &Row) -> Self {
        Self {
            session_id: row.text("session_id"),
            session_name: row.maybe("session_name"),
            window_count: row.number("session_windows"),
            session_attached: row.maybe("session_attached"),
            session_created: row.maybe("session_created"),
            active_pane_id: row.maybe("pane_id"),
        }
    }
}

/// A window.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WindowInfo {
    /// As `@1`.
    pub window_id: String,
    /// Its name.
    pub window_name: Option<String>,
    /// Its place in the session.
    pub window_index: Option<String>,
    /// The session that it was found in.
    pub session_id: Option<String>,
    /// The name of that session.
    pub session_name: Option<String>,
    /// How many panes it has.
    pub pane_count: i64,
    /// How its panes are laid out.
    pub window_layout: Option<String>,
    /// `1` if it is the session's current window.
    pub window_active: Option<String>,
    /// In columns.
    pub window_width: Option<String>,
    /// In rows.
    pub window_height: Option<String>,
    /// Its active pane.
    pub active_pane_id: Option<String>,
}

impl WindowInfo {
    /// The tmux format variables that a row needs.
    pub const FIELDS: &[&str] = &[
        "window_id",
        "window_name",
        "window_index",
        "session_id",
        "session_name",
        "window_panes",
        "window_layout",
        "window_active",
        "window_width",
        "window_height",
        "pane_id",
    ];
}

impl WindowInfo {
    /// Runs commands that change the window and reads it, in one round trip.
    pub async fn after(
        server: &Server,
        commands: impl IntoIterator<Item = Command>,
        window: &str,
    ) -> Result<Self, Failure> {
        let batch = Batch::write(commands);
        let (_, rows) = server.then_each(batch, ListTarget::Window(window), Self::FIELDS).await?;
        rows.first().map(Self::from).ok_or_else(|| not_found::window(window))
    }
}

impl From<&Row> for WindowInfo {
    fn from(row: &Row) -> Self {
        Self {
            window_id: row.text("window_id"),
            window_name: row.maybe("window_name"),
            window_index: row.maybe("window_index"),
            session_id: row.maybe("session_id"),
            session_name: row.maybe("session_name"),
            pane_count: row.number("window_panes"),
            window_layout: row.maybe("window_layout"),
            window_active: row.maybe("window_active"),
            window_width: row.maybe("window_width"),
            window_height: row.maybe("window_height"),
            active_pane_id: row.maybe("pane_id"),
        }
    }
}

/// A pane.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "fields of libtmux-mcp")]
pub struct PaneInfo {
    /// As `%1`.
    pub pane_id: String,
    /// Its place in the window.
    pub pane_index: Option<String>,
    /// In columns.
    pub pane_width: Option<String>,
    /// In rows.
    pub pane_height: Option<String>,
    /// Its first column; columns and rows of the window count from 0.
    pub pane_left: i64,
    /// Its first row.
    pub pane_top: i64,
    /// Its last column.
    pub pane_right: i64,
    /// Its last row.
    pub pane_bottom: i64,
    /// Whether it touches this edge of the window.
    pub pane_at_left: bool,
    /// The same, right.
    pub pane_at_right: bool,
    /// The same, top.
    pub pane_at_top: bool,
    /// The same, bottom.
    pub pane_at_bottom: bool,
    /// Its terminal device.
    pub pane_tty: Option<String>,
    /// What runs in it.
    pub pane_current_command: Option<String>,
    /// Where that runs.
    pub pane_current_path: Option<String>,
    /// Its first process.
    pub pane_pid: Option<String>,
    /// Its title.
    pub pane_title: Option<String>,
    /// `1` if it is the window's active pane.
    pub pane_active: Option<String>,
    /// The window.
    pub window_id: Option<String>,
    /// The session that it was found in.
    pub session_id: Option<String>,
    /// Whether this server runs in it; null where that is not known.
    pub is_caller: Option<bool>,
}

impl PaneInfo {
    /// The tmux format variables that a row needs.
    pub const FIELDS: &[&str] = &[
        "pane_id",
        "pane_index",
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
        "pane_current_command",
        "pane_current_path",
        "pane_pid",
        "pane_title",
        "pane_active",
        "window_id",
        "session_id",
    ];

    fn new(row: &Row, is_caller: Option<bool>) -> Self {
        Self {
            pane_id: row.text("pane_id"),
            pane_index: row.maybe("pane_index"),
            pane_width: row.maybe("pane_width"),
            pane_height: row.maybe("pane_height"),
            pane_left: row.number("pane_left"),
            pane_top: row.number("pane_top"),
            pane_right: row.number("pane_right"),
            pane_bottom: row.number("pane_bottom"),
            pane_at_left: row.is_set("pane_at_left"),
            pane_at_right: row.is_set("pane_at_right"),
            pane_at_top: row.is_set("pane_at_top"),
            pane_at_bottom: row.is_set("pane_at_bottom"),
            pane_tty: row.maybe("pane_tty"),
            pane_current_command: row.maybe("pane_current_command"),
            pane_current_path: row.maybe("pane_current_path"),
            pane_pid: row.maybe("pane_pid"),
            pane_title: row.maybe("pane_title"),
            pane_active: row.maybe("pane_active"),
            window_id: row.maybe("window_id"),
            session_id: row.maybe("session_id"),
            is_caller,
        }
    }

    /// Lists panes, each once, in one round trip. Empty if there is no server.
    pub async fn list(
        cx: &ToolContext,
        server: &Server,
        of: ListTarget<'_>,
    ) -> Result<Vec<Self>, Failure> {
        Self::with(cx, server, of, Self::FIELDS).await
    }

    /// Like [`list`](Self::list), but asks tmux only for these fields. The others are empty.
    pub async fn with(
        cx: &ToolContext,
        server: &Server,
        of: ListTarget<'_>,
        fields: &[&'static str],
    ) -> Result<Vec<Self>, Failure> {
        let rows = match server.list(of, fields).await {
            Err(crate::engine::TmuxError::NoServer) => return Ok(Vec::new()),
            rows => rows?,
        };
        Self::from_rows(cx, server, &rows).await
    }

    /// Panes from rows with [`Self::FIELDS`].
    pub async fn from_rows(
        cx: &ToolContext,
        server: &Server,
        rows: &[Row],
    ) -> Result<Vec<Self>, Failure> {
        let identity = server.identity().await?;
        let caller = |row: &Row| {
            let identity = identity.as_deref()?;
            cx.guard().is_caller(identity, row.get("pane_id").unwrap_or_default())
        };
        // Programs set titles, so titles are masked like screens.
        let shown = |mut pane: Self| {
            pane.pane_title = pane.pane_title.map(|title| cx.shown(&title).into_owned());
            pane
        };
        Ok(rows.iter().map(|row| shown(Self::new(row, caller(row)))).collect())
    }

    /// The one pane from rows; an error if there is none.
    pub async fn one(
        cx: &ToolContext,
        server: &Server,
        rows: &[Row],
        pane: &str,
    ) -> Result<Self, Failure> {
        let panes = Self::from_rows(cx, server, rows).await?;
        panes.into_iter().find(|info| info.pane_id == pane).ok_or_else(|| not_found::pane(pane))
    }

    /// Runs commands that change the pane and reads it, in one round trip.
    pub async fn after(
        cx: &ToolContext,
        server: &Server,
        commands: impl IntoIterator<Item = Command>,
        pane: &str,
    ) -> Result<Self, Failure> {
        let batch = Batch::write(commands);
        let (_, rows) = server.then_each(batch, ListTarget::Pane(pane), Self::FIELDS).await?;
        Self::one(cx, server, &rows, pane).await
    }

    /// Reads one pane by its id.
    pub async fn of(cx: &ToolContext, server: &Server, pane: &str) -> Result<Self, Failure> {
        let panes = Self::list(cx, server, ListTarget::Pane(pane)).await?;
        panes.into_iter().find(|info| info.pane_id == pane).ok_or_else(|| not_found::pane(pane))
    }
}

/// A tmux server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TmuxServerInfo {
    /// Whether it answers.
    pub is_alive: bool,
    /// Its name, if it was found by name.
    pub socket_name: Option<String>,
    /// Where its socket is.
    pub socket_path: Option<String>,
    /// How many sessions it has.
    pub session_count: usize,
    /// tmux's version.
    pub version: Option<String>,
}
