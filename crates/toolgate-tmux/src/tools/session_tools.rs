//! Tools about sessions and the windows in them.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Code, Failure, Ran};

use super::server_tools::check_name;
use crate::{
    call::Cx,
    engine::{Command, Kind, Server, TmuxError},
    environment::{Environment, variables, with_variables},
    filters::{Filters, filtered},
    guard::Victim,
    info::{SessionInfo, WindowInfo},
    target::{self, WindowTarget, directory},
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("list_windows", "List tmux Windows", list_windows)
            .about("Use to find windows, of one session or of all. A window linked into several sessions is told once.")
            .always_loaded(),
        Tool::readonly("get_session_info", "Get tmux Session Info", get_session_info)
            .about("Use for one session whose name or id is known; without either, the first session."),
        Tool::mutating("create_window", "Create tmux Window", create_window)
            .about("Use to open a new window in a session; active_pane_id of the result is where to send keys."),
        Tool::mutating("rename_session", "Rename tmux Session", rename_session)
            .about("Use to give a session another name. Its id stays.")
            .idempotent(),
        Tool::destructive("kill_session", "Kill tmux Session", kill_session).about(
            "Use only when a session and all programs in it shall end. Name it: there is no default.\n\
             Refused for the session that this server runs in.",
        ),
        Tool::mutating("select_window", "Select tmux Window", select_window)
            .about("Use to change which window of a session is current, by id, index or direction.")
            .idempotent(),
    ]
}

const FIELDS: &[&str] = &[
    "window_id",
    "window_name",
    "window_index",
    "session_id",
    "session_name",
    "pane_count",
    "window_layout",
    "window_active",
    "window_width",
    "window_height",
    "active_pane_id",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWindows {
    /// Only of this session, by name.
    session_name: Option<String>,
    /// Only of this session, by id, as `$1`.
    session_id: Option<String>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
    /// `{"field": "value"}` or `{"field__op": "value"}`, as `window_name__contains`.
    filters: Option<Filters>,
}

async fn list_windows(cx: Cx, args: ListWindows) -> Result<Vec<WindowInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    let session = match (id, name) {
        (None, None) => None,
        _ => Some(session_id(&server, id, name).await?),
    };
    let rows = match server.list(Kind::Windows(session.as_deref()), WindowInfo::FIELDS).await {
        Err(TmuxError::NoServer) => Vec::new(),
        rows => rows?,
    };
    filtered(rows.iter().map(WindowInfo::from).collect(), args.filters.as_ref(), FIELDS)
}

async fn session_id(
    server: &Server,
    id: Option<&str>,
    name: Option<&str>,
) -> Result<String, Failure> {
    Ok(target::session(server, id, name, target::SESSION).await?.text("session_id"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneSession {
    /// The session by id, as `$1`; wins over the name.
    session_id: Option<String>,
    /// The session by name.
    session_name: Option<String>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

async fn get_session_info(cx: Cx, args: OneSession) -> Result<Model<SessionInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    let row = target::session(&server, id, name, SessionInfo::FIELDS).await?;
    Ok(Model(SessionInfo::from(&row)))
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Side {
    Before,
    After,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateWindow {
    /// The session by name.
    session_name: Option<String>,
    /// The session by id, as `$1`; wins over the name.
    session_id: Option<String>,
    /// Name of the window.
    window_name: Option<String>,
    /// An existing directory to start in.
    start_directory: Option<String>,
    /// Whether it becomes the current window.
    #[serde(default)]
    attach: bool,
    /// Where it goes, from the current window.
    direction: Option<Side>,
    /// Variables of its program, by name.
    environment: Option<Environment>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
    /// Keep shells from writing a history file.
    #[serde(default)]
    suppress_persistent_history: bool,
}

async fn create_window(cx: Cx, args: CreateWindow) -> Result<Model<WindowInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let variables = variables(args.environment.as_ref(), args.suppress_persistent_history)?;
    let folder = args.start_directory.as_deref().map(directory).transpose()?;
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    let session = session_id(&server, id, name).await?;
    let create = Command::new("new-window").flag_if(!args.attach, "-d");
    let made = server.make(create, WindowInfo::FIELDS, |mut command| {
        command = match args.direction {
            // A session stands for its current window here, and for a free place otherwise.
            Some(Side::Before) => command.flag("-b").target(session),
            Some(Side::After) => command.flag("-a").target(session),
            None => command.target(format!("{session}:")),
        };
        for (flag, text) in [("-n", args.window_name.as_deref()), ("-c", folder.as_deref())] {
            command =
                text.into_iter().fold(command, |command, text| command.text_option(flag, text));
        }
        with_variables(command, &variables)
    });
    Ok(Model(WindowInfo::from(&made.await?)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameSession {
    /// The new name, without `:` and `.`.
    new_name: String,
    /// The session by name.
    session_name: Option<String>,
    /// The session by id, as `$1`; wins over the name.
    session_id: Option<String>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

async fn rename_session(cx: Cx, args: RenameSession) -> Result<Model<SessionInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    check_name(&args.new_name)?;
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    let session = session_id(&server, id, name).await?;
    let rename = Command::new("rename-session").target(&*session).end().text(&args.new_name);
    match server.run(rename).await {
        Err(error) if error.says("duplicate session") => {
            let message = format!("Session named {} exists", args.new_name);
            return Err(Failure::tool("TmuxSessionExists", message).ran(Ran::No));
        }
        renamed => renamed?,
    };
    let row = target::session(&server, Some(&session), None, SessionInfo::FIELDS).await?;
    Ok(Model(SessionInfo::from(&row)))
}

async fn kill_session(cx: Cx, args: OneSession) -> Result<String, Failure> {
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    if id.is_none() && name.is_none() {
        let message =
            "Refusing to kill without an explicit target. Provide session_name or session_id.";
        return Err(Failure::new(Code::InvalidArguments, message).ran(Ran::No));
    }
    let server = cx.server(args.socket_name.as_deref())?;
    let row = target::session(&server, id, name, target::SESSION).await?;
    let id = row.text("session_id");
    cx.guard().check(&server, Victim::Session(&id), "kill").await?;
    match server.run(Command::new("kill-session").target(&*id)).await {
        // The last session takes the server with it, before it answers.
        Ok(_) | Err(TmuxError::Lost) => Ok(format!("Session killed: {}", row.text("session_name"))),
        Err(error) => Err(error.into()),
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Next,
    Previous,
    Last,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SelectWindow {
    /// The window by id, as `@1`; wins.
    window_id: Option<String>,
    /// The window by its index in the session.
    window_index: Option<String>,
    /// Another window, from the current one.
    direction: Option<Direction>,
    /// The session by name.
    session_name: Option<String>,
    /// The session by id, as `$1`; wins over the name.
    session_id: Option<String>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

async fn select_window(cx: Cx, args: SelectWindow) -> Result<Model<WindowInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    let named = WindowTarget {
        window_id: args.window_id.as_deref(),
        window_index: args.window_index.as_deref(),
        session_id: id,
        session_name: name,
    };
    let chosen = match (args.direction, args.window_id.is_some() || args.window_index.is_some()) {
        (None, false) => {
            let message = "Provide window_id, window_index, or direction.";
            return Err(Failure::new(Code::InvalidArguments, message).ran(Ran::No));
        }
        (_, true) => {
            let row = target::window(&server, named, WindowInfo::FIELDS).await?;
            let select = Command::new("select-window").target(row.text("window_id"));
            server.run(select).await?;
            return current(&server, &row.text("session_id"), Some(&row.text("window_id"))).await;
        }
        (Some(Direction::Next), false) => "next-window",
        (Some(Direction::Previous), false) => "previous-window",
        (Some(Direction::Last), false) => "last-window",
    };
    let session = session_id(&server, id, name).await?;
    server.run(Command::new(chosen).target(&*session)).await?;
    current(&server, &session, None).await
}

/// A window of a session: this one, or the current one.
async fn current(
    server: &Server,
    session: &str,
    window_id: Option<&str>,
) -> Result<Model<WindowInfo>, Failure> {
    let target = WindowTarget { window_id, session_id: Some(session), ..Default::default() };
    let row = target::window(server, target, WindowInfo::FIELDS).await?;
    Ok(Model(WindowInfo::from(&row)))
}
