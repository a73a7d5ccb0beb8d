//! From what a caller names to the exact id of it.

use toolgate::{Failure, Ran};

use crate::engine::{Kind, Row, Server, TmuxError, not_found};

/// Whether a text is an id of this kind: `%`, `@` or `$`, then digits.
fn is_id(text: &str, sigil: char) -> bool {
    text.strip_prefix(sigil).is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The session that is meant, with these fields: by id, else by exact name, else the first one.
pub async fn session(
    server: &Server,
    id: Option<&str>,
    name: Option<&str>,
    fields: &'static [&'static str],
) -> Result<Row, Failure> {
    let rows = match server.list(Kind::Sessions, fields).await {
        Err(TmuxError::NoServer) => Vec::new(),
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

/// How a caller names a window.
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

/// The window that is meant, with these fields (`window_id`, `window_index`, `window_active` among them).
/// Without an id or an index, it is the current window of the session.
pub async fn window(
    server: &Server,
    target: WindowTarget<'_>,
    fields: &'static [&'static str],
) -> Result<Row, Failure> {
    if let Some(id) = target.window_id {
        if !is_id(id, '@') {
            return Err(not_found::window(id));
        }
        let rows = server.list(Kind::Windows(None), fields).await;
        let rows = if rows == Err(TmuxError::NoServer) { Vec::new() } else { rows? };
        let found = rows.into_iter().find(|row| row.get("window_id") == Some(id));
        return found.ok_or_else(|| not_found::window(id));
    }
    let session = session(server, target.session_id, target.session_name, SESSION).await?;
    let session = session.text("session_id");
    let rows = server.each(Kind::Windows(Some(&session)), fields).await?;
    let found = rows.into_iter().find(|row| match target.window_index {
        Some(index) => row.get("window_index") == Some(index),
        None => row.is_set("window_active"),
    });
    found.ok_or_else(|| not_found::window(target.window_index.unwrap_or("(any)")))
}

/// How a caller names a pane.
#[derive(Clone, Copy, Debug, Default)]
pub struct PaneTarget<'a> {
    /// As `%1`; wins.
    pub pane_id: Option<&'a str>,
    /// As `@1`: its active pane.
    pub window_id: Option<&'a str>,
    /// As `$1`: the active pane of its current window.
    pub session_id: Option<&'a str>,
    /// The same by name.
    pub session_name: Option<&'a str>,
}

/// The id of the pane that is meant. A pane's own id costs no round trip: a command that gets one that is not
/// there fails with `PaneNotFound`.
pub async fn pane(server: &Server, target: PaneTarget<'_>) -> Result<String, Failure> {
    if let Some(id) = target.pane_id {
        return if is_id(id, '%') { Ok(id.to_owned()) } else { Err(not_found::pane(id)) };
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

/// A directory that is there, with `~` for the home folder. tmux would take another one in silence.
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
    Err(Failure::tool("NotADirectory", message).ran(Ran::No))
}
