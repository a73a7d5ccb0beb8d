//! Finds the session, window or pane that a caller names, and returns its exact id.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Executed, Failure};

use crate::{
    call::ToolContext,
    engine::{ListTarget, Row, Server, TmuxError, not_found},
};

/// How a tool's caller names a session: flatten it into the tool's arguments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct SessionArgs {
    /// The session by name.
    #[schemars(description = "")]
    pub session_name: Option<String>,
    /// As `$1`; wins over the name.
    pub session_id: Option<String>,
    /// Name of the tmux socket.
    #[schemars(description = "")]
    pub socket_name: Option<String>,
}

impl SessionArgs {
    /// The server, and the session with these fields: by id, otherwise by exact name, otherwise the first one.
    pub async fn find(
        &self,
        cx: &ToolContext,
        fields: &'static [&'static str],
    ) -> Result<(Arc<Server>, Row), Failure> {
        let server = cx.server(self.socket_name.as_deref())?;
        let (id, name) = (self.session_id.as_deref(), self.session_name.as_deref());
        let row = session(&server, id, name, fields).await?;
        Ok((server, row))
    }
}

/// How a tool's caller names a window: flatten it into the tool's arguments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct WindowArgs {
    /// As `@1`; wins.
    pub window_id: Option<String>,
    /// In the session.
    pub window_index: Option<String>,
    /// The session by name.
    #[schemars(description = "")]
    pub session_name: Option<String>,
    /// As `$1`; wins over the name.
    pub session_id: Option<String>,
    /// Name of the tmux socket.
    #[schemars(description = "")]
    pub socket_name: Option<String>,
}

impl WindowArgs {
    /// The server, and the window with these fields, see [`window`].
    pub async fn find(
        &self,
        cx: &ToolContext,
        fields: &'static [&'static str],
    ) -> Result<(Arc<Server>, Row), Failure> {
        let server = cx.server(self.socket_name.as_deref())?;
        let row = window(&server, self.target(), fields).await?;
        Ok((server, row))
    }

    /// The server, and the window's id. If the caller gave the id, this costs no round trip.
    pub async fn id(&self, cx: &ToolContext) -> Result<(Arc<Server>, String), Failure> {
        if let Some(id) = self.window_id.as_deref() {
            return Ok((cx.server(self.socket_name.as_deref())?, window_id(id)?));
        }
        let (server, row) = self.find(cx, WINDOW).await?;
        Ok((server, row.text("window_id")))
    }

    /// The window as the caller names it.
    #[must_use]
    pub fn target(&self) -> WindowTarget<'_> {
        WindowTarget {
            window_id: self.window_id.as_deref(),
            window_index: self.window_index.as_deref(),
            session_id: self.session_id.as_deref(),
            session_name: self.session_name.as_deref(),
        }
    }
}

/// How a tool's caller names a pane: flatten it into the tool's arguments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct PaneArgs {
    /// As `%1`; wins.
    pub pane_id: Option<String>,
    /// Its active pane.
    pub session_name: Option<String>,
    /// Its active pane.
    pub session_id: Option<String>,
    /// Its active pane.
    pub window_id: Option<String>,
    /// Name of the tmux socket.
    #[schemars(description = "")]
    pub socket_name: Option<String>,
}

impl PaneArgs {
    /// The server, and the pane's id, see [`pane`].
    pub async fn find(&self, cx: &ToolContext) -> Result<(Arc<Server>, String), Failure> {
        let server = cx.server(self.socket_name.as_deref())?;
        let pane = pane(&server, self.target()).await?;
        Ok((server, pane))
    }

    /// The pane as the caller names it.
    #[must_use]
    pub fn target(&self) -> PaneTarget<'_> {
        PaneTarget {
            pane_id: self.pane_id.as_deref(),
            window_id: self.window_id.as_deref(),
            session_id: self.session_id.as_deref(),
            session_name: self.session_name.as_deref(),
        }
    }
}

/// Whether a text is an id with this sigil: `%`, `@` or `$`, then digits.
pub(crate) fn is_id(text: &str, sigil: char) -> bool {
    text.strip_prefix(sigil).is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The text, if it has the form of a window id.
pub fn window_id(id: &str) -> Result<String, Failure> {
    if is_id(id, '@') { Ok(id.to_owned()) } else { Err(not_found::window(id)) }
}

/// The text, if it has the form of a pane id.
pub fn pane_id(id: &str) -> Result<String, Failure> {
    if is_id(id, '%') { Ok(id.to_owned()) } else { Err(not_found::pane(id)) }
}

/// The id of a destination session: by its name or, if no session has that name, by its id.
pub async fn destination(server: &Server, wanted: &str) -> Result<String, Failure> {
    let rows = server.list(ListTarget::Sessions, SESSION).await?;
    let by = |field| rows.iter().find(|row| row.get(field) == Some(wanted));
    let found = by("session_name").or_else(|| by("session_id"));
    found.map(|row| row.text("session_id")).ok_or_else(|| not_found::session(wanted))
}

/// The session with these fields: by id, otherwise by exact name, otherwise the first one.
pub async fn session(
    server: &Server,
    id: Option<&str>,
    name: Option<&str>,
    fields: &'static [&'static str],
) -> Result<Row, Failure> {
    let rows = match server.list(ListTarget::Sessions, fields).await {
        // If the caller named a session, that session is missing; otherwise the server is.
        Err(TmuxError::NoServer) if id.or(name).is_some() => Vec::new(),
        rows => rows?,
    };
    let (field, wanted) = match (id, name) {
        (Some(id), _) => ("session_id", id),
        (None, Some(name)) => ("session_name", name),
        (None, None) => {
            return rows.into_iter().next().ok_or_else(|| not_found::session("(any)"));
        }
    };
    let found = rows.into_iter().find(|row| row.get(field) == Some(wanted));
    found.ok_or_else(|| not_found::session(wanted))
}

/// The fields that [`session`] needs.
pub const SESSION: &[&str] = &["session_id", "session_name"];

/// The fields that [`window`] needs.
pub const WINDOW: &[&str] =
    &["window_id", "window_index", "window_active", "session_id", "session_name"];

/// A window as a caller names it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowTarget<'a> {
    /// As `@1`; wins.
    pub window_id: Option<&'a str>,
    /// Its place in the session.
    pub window_index: Option<&'a str>,
    /// The session, as `$1`.
    pub session_id: Option<&'a str>,
    /// The session's name.
    pub session_name: Option<&'a str>,
}

/// The window with these fields, which must include those of [`WINDOW`]. Without an id or an index, it is the current
/// window of the session. Of a window that is linked into several sessions, it is the link in the named session.
pub async fn window(
    server: &Server,
    target: WindowTarget<'_>,
    fields: &'static [&'static str],
) -> Result<Row, Failure> {
    if let Some(id) = target.window_id {
        let rows = server.each(ListTarget::Window(&window_id(id)?), fields).await;
        let rows = if rows == Err(TmuxError::NoServer) { Vec::new() } else { rows? };
        let named = |row: &&Row| match (target.session_id, target.session_name) {
            (Some(id), _) => row.get("session_id") == Some(id),
            (None, Some(name)) => row.get("session_name") == Some(name),
            (None, None) => true,
        };
        let found = rows.iter().find(named).or(rows.first());
        return found.cloned().ok_or_else(|| not_found::window(id));
    }
    let session = session(server, target.session_id, target.session_name, SESSION).await?;
    let session = session.text("session_id");
    let rows = server.each(ListTarget::Windows(Some(&session)), fields).await?;
    let found = rows.into_iter().find(|row| match target.window_index {
        Some(index) => row.get("window_index") == Some(index),
        None => row.is_set("window_active"),
    });
    found.ok_or_else(|| not_found::window(target.window_index.unwrap_or("(any)")))
}

/// A pane as a caller names it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaneTarget<'a> {
    /// As `%1`; wins.
    pub pane_id: Option<&'a str>,
    /// As `@1`: the active pane of the window.
    pub window_id: Option<&'a str>,
    /// As `$1`: the active pane of its current window.
    pub session_id: Option<&'a str>,
    /// The session's name: the active pane of its current window.
    pub session_name: Option<&'a str>,
}

/// The pane's id. If the caller gave the id, this costs no round trip: a command with an id that does not exist fails
/// with `PaneNotFound`.
pub async fn pane(server: &Server, target: PaneTarget<'_>) -> Result<String, Failure> {
    if let Some(id) = target.pane_id {
        return pane_id(id);
    }
    let fields =
        &["session_id", "session_name", "window_id", "window_index", "window_active", "pane_id"];
    let row = match target.window_id {
        Some(_) => {
            let window_id = target.window_id;
            window(server, WindowTarget { window_id, ..Default::default() }, fields).await?
        }
        None => session(server, target.session_id, target.session_name, fields).await?,
    };
    Ok(row.text("pane_id"))
}

/// An existing directory, with `~` for the home folder. Given another path, tmux would use a different directory
/// without an error.
pub fn directory(path: &str) -> Result<String, Failure> {
    let home = std::env::var("HOME").unwrap_or_default();
    let full = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path.to_owned(),
    };
    if std::path::Path::new(&full).is_dir() {
        return Ok(full);
    }
    let message = format!("start_directory is not an existing directory: '{path}'");
    Err(Failure::tool("NotADirectory", message).with_executed(Executed::No))
}
