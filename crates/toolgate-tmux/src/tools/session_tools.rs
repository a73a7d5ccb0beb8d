//! Tools for sessions and the windows in them.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Code, Executed, Failure};

use super::server_tools::check_name;
use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, TmuxError, not_found},
    environment::{Environment, variables, with_variables},
    filters::{Filters, filtered},
    info::{SessionInfo, WindowInfo},
    self_guard::KillTarget,
    target::{self, SessionArgs, WindowArgs, directory},
    tool::{Model, ShortList, ShortModel, Tool},
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
struct ListWindows {
    #[serde(flatten)]
    session: SessionArgs,
    /// `{"field": "value"}` or `{"field__op": "value"}`, as `window_name__contains`.
    filters: Option<Filters>,
}

async fn list_windows(
    cx: ToolContext,
    args: ListWindows,
) -> Result<ShortList<WindowInfo>, Failure> {
    let server = cx.server(args.session.socket_name.as_deref())?;
    let session = match (&args.session.session_id, &args.session.session_name) {
        (None, None) => None,
        _ => Some(args.session.find(&cx, target::SESSION).await?.1.text("session_id")),
    };
    let rows = match server.list(ListTarget::Windows(session.as_deref()), WindowInfo::FIELDS).await
    {
        Err(TmuxError::NoServer) => Vec::new(),
        rows => rows?,
    };
    filtered(rows.iter().map(WindowInfo::from).collect(), args.filters.as_ref(), FIELDS)
        .map(ShortList)
}

async fn get_session_info(
    cx: ToolContext,
    args: SessionArgs,
) -> Result<Model<SessionInfo>, Failure> {
    let (_, row) = args.find(&cx, SessionInfo::FIELDS).await?;
    Ok(Model(SessionInfo::from(&row)))
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WindowSide {
    Before,
    After,
}

#[derive(Deserialize, JsonSchema)]
struct CreateWindow {
    #[serde(flatten)]
    session: SessionArgs,
    /// Name of the window.
    window_name: Option<String>,
    /// An existing directory to start in.
    start_directory: Option<String>,
    /// Whether it becomes the current window.
    #[serde(default)]
    attach: bool,
    /// Where it goes, from the current window.
    direction: Option<WindowSide>,
    /// Variables of its program, by name.
    environment: Option<Environment>,
    /// Keep shells from writing a history file.
    #[serde(default)]
    suppress_persistent_history: bool,
}

async fn create_window(
    cx: ToolContext,
    args: CreateWindow,
) -> Result<ShortModel<WindowInfo>, Failure> {
    let variables = variables(args.environment.as_ref(), args.suppress_persistent_history)?;
    let folder = args.start_directory.as_deref().map(directory).transpose()?;
    let (server, row) = args.session.find(&cx, target::SESSION).await?;
    let session = row.text("session_id");
    let create = Command::new("new-window").flag_if(!args.attach, "-d");
    let made = server.make(create, WindowInfo::FIELDS, |mut command| {
        command = match args.direction {
            // With a direction, a session stands for its current window; otherwise for a free index.
            Some(WindowSide::Before) => command.flag("-b").target(session),
            Some(WindowSide::After) => command.flag("-a").target(session),
            None => command.target(format!("{session}:")),
        };
        for (flag, text) in [("-n", args.window_name.as_deref()), ("-c", folder.as_deref())] {
            command =
                text.into_iter().fold(command, |command, text| command.text_option(flag, text));
        }
        with_variables(command, &variables)
    });
    Ok(ShortModel(WindowInfo::from(&made.await?)))
}

#[derive(Deserialize, JsonSchema)]
struct RenameSession {
    /// The new name, without `:` and `.`.
    new_name: String,
    #[serde(flatten)]
    session: SessionArgs,
}

async fn rename_session(
    cx: ToolContext,
    args: RenameSession,
) -> Result<ShortModel<SessionInfo>, Failure> {
    check_name(&args.new_name)?;
    let (server, row) = args.session.find(&cx, target::SESSION).await?;
    let session = row.text("session_id");
    let rename = Command::new("rename-session").target(&*session).end().text(&args.new_name);
    let (batch, fields) = (Batch::write([rename]), SessionInfo::FIELDS);
    let rows = match server.then_each(batch, ListTarget::Sessions, fields).await {
        Err(error) if error.says("duplicate session") => {
            let message = format!("Session named {} exists", args.new_name);
            return Err(Failure::tool("TmuxSessionExists", message).with_executed(Executed::No));
        }
        renamed => renamed?.1,
    };
    let row = rows.iter().find(|row| row.get("session_id") == Some(&*session));
    row.map(|row| ShortModel(SessionInfo::from(row))).ok_or_else(|| not_found::session(&session))
}

async fn kill_session(cx: ToolContext, args: SessionArgs) -> Result<String, Failure> {
    if args.session_id.is_none() && args.session_name.is_none() {
        let message =
            "Refusing to kill without an explicit target. Provide session_name or session_id.";
        return Err(Failure::new(Code::InvalidArguments, message).with_executed(Executed::No));
    }
    let (server, row) = args.find(&cx, target::SESSION).await?;
    let id = row.text("session_id");
    cx.guard().check(&server, KillTarget::Session(&id), "kill").await?;
    match server.run(Command::new("kill-session").target(&*id)).await {
        // If it was the last session, the server ends before it answers.
        Ok(_) | Err(TmuxError::Lost) => Ok(format!("Session killed: {}", row.text("session_name"))),
        Err(error) => Err(error.into()),
    }
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WindowDirection {
    Next,
    Previous,
    Last,
}

#[derive(Deserialize, JsonSchema)]
struct SelectWindow {
    #[serde(flatten)]
    window: WindowArgs,
    /// Another window, from the current one.
    direction: Option<WindowDirection>,
}

async fn select_window(
    cx: ToolContext,
    args: SelectWindow,
) -> Result<ShortModel<WindowInfo>, Failure> {
    let named = args.window.window_id.is_some() || args.window.window_index.is_some();
    if !named && args.direction.is_none() {
        let message = "Provide window_id, window_index, or direction.";
        return Err(Failure::new(Code::InvalidArguments, message).with_executed(Executed::No));
    }
    // Without an id or an index, this is the session's current window.
    let (server, row) = args.window.find(&cx, target::WINDOW).await?;
    let session = row.text("session_id");
    let select = match args.direction.filter(|_| !named) {
        // In the session in which the window was found: it may be linked into others.
        None => {
            Command::new("select-window").target(format!("{session}:{}", row.text("window_id")))
        }
        Some(WindowDirection::Next) => Command::new("next-window").target(&*session),
        Some(WindowDirection::Previous) => Command::new("previous-window").target(&*session),
        Some(WindowDirection::Last) => Command::new("last-window").target(&*session),
    };
    let (batch, of) = (Batch::write([select]), ListTarget::Windows(Some(&session)));
    let (_, rows) = server.then_each(batch, of, WindowInfo::FIELDS).await?;
    let current = rows.iter().find(|row| row.is_set("window_active"));
    current.map(|row| ShortModel(WindowInfo::from(row))).ok_or_else(|| not_found::session(&session))
}
