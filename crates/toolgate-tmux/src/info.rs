//! What tools tell of sessions, windows and panes: the original's fields.

use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::Row;

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
    /// What has to be asked for.
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
    /// What has to be asked for.
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

/// A tmux server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServerInfo {
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
