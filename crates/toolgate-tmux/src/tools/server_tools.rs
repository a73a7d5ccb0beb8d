//! Tools for whole tmux servers.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Executed, Failure};

use crate::{
    call::ToolContext,
    engine::{Batch, Command, Identity, ListTarget, Server, Socket, TmuxError, folder, listens},
    environment::{Environment, variables, with_variables},
    filters::{Filters, filtered},
    info::{SessionInfo, TmuxServerInfo},
    self_guard::KillTarget,
    target::directory,
    tool::{Model, ShortList, ShortModel, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("list_sessions", "List tmux Sessions", list_sessions).about(
            "Use to find tmux sessions and their ids. An empty list means that no server runs or none fits.",
        ),
        Tool::readonly("list_servers", "List tmux Servers", list_servers).about(
            "Use when a session is not where you expect it: finds every running tmux server of this user.",
        ),
        Tool::readonly("get_server_info", "Get tmux Server Info", get_server_info)
            .about("Use to see whether a tmux server runs, its version and its socket. Never fails when it is down."),
        Tool::mutating("create_session", "Create tmux Session", create_session).about(
            "Use to start a new detached session; starts the tmux server if it is down.\n\
             active_pane_id of the result is where to send keys.",
        ),
        Tool::destructive("kill_server", "Kill tmux Server", kill_server).about(
            "Use only when every session of a server shall end; all programs in it are lost.\n\
             Refused for the server that this one runs in.",
        ),
    ]
}

const FIELDS: &[&str] = &[
    "session_id",
    "session_name",
    "window_count",
    "session_attached",
    "session_created",
    "active_pane_id",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSessions {
    socket_name: Option<String>,
    /// `{"field": "value"}` or `{"field__op": "value"}`, as `session_name__contains`.
    filters: Option<Filters>,
}

async fn list_sessions(
    cx: ToolContext,
    args: ListSessions,
) -> Result<ShortList<SessionInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let rows = match server.list(ListTarget::Sessions, SessionInfo::FIELDS).await {
        Err(TmuxError::NoServer) => Vec::new(),
        rows => rows?,
    };
    filtered(rows.iter().map(SessionInfo::from).collect(), args.filters.as_ref(), FIELDS)
        .map(ShortList)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListServers {
    /// Sockets outside of tmux's own folder to look at too.
    #[schemars(length(max = 100))]
    extra_socket_paths: Option<Vec<String>>,
}

async fn list_servers(cx: ToolContext, args: ListServers) -> Result<Vec<TmuxServerInfo>, Failure> {
    let mut sockets = Vec::new();
    if let Ok(entries) = std::fs::read_dir(folder()) {
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        sockets.extend(names.map(Socket::Name));
    }
    sockets.sort_by_key(Socket::path);
    let extra = args.extra_socket_paths.unwrap_or_default();
    sockets.extend(extra.into_iter().map(|path| Socket::Path(PathBuf::from(path))));
    let mut found = Vec::new();
    for socket in sockets {
        if listens(&socket.path()).await {
            // A server that hangs is reported as not alive.
            found.push(info(&cx.engine().server(socket)).await.unwrap_or_else(|info| info));
        }
    }
    Ok(found)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneServer {
    socket_name: Option<String>,
}

async fn get_server_info(
    cx: ToolContext,
    args: OneServer,
) -> Result<Model<TmuxServerInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    Ok(Model(info(&server).await.unwrap_or_else(|info| info)))
}

/// Describes a server; as the error if the server does not answer.
async fn info(server: &Server) -> Result<TmuxServerInfo, TmuxServerInfo> {
    let down = || TmuxServerInfo {
        is_alive: false,
        socket_name: server.socket().name().map(str::to_owned),
        socket_path: Some(server.socket().path().display().to_string()),
        session_count: 0,
        version: None,
    };
    let who = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
    let output = server.ask(Batch::read([who])).await.map_err(|_| down())?;
    let identity = Identity::parse(&output).ok_or_else(down)?;
    let sessions = server.list(ListTarget::Sessions, &["session_id"]).await;
    Ok(TmuxServerInfo {
        is_alive: true,
        socket_path: Some(identity.socket),
        session_count: sessions.map_or(0, |sessions| sessions.len()),
        version: Some(identity.version),
        ..down()
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateSession {
    /// Name of the session; tmux makes one up if there is none.
    session_name: Option<String>,
    /// Name of its first window.
    window_name: Option<String>,
    /// An existing directory to start in.
    start_directory: Option<String>,
    /// Width in columns.
    #[schemars(range(min = 1, max = 10_000))]
    x: Option<u32>,
    /// Height in rows.
    #[schemars(range(min = 1, max = 10_000))]
    y: Option<u32>,
    /// Variables of the session, by name.
    environment: Option<Environment>,
    socket_name: Option<String>,
    /// Keep shells from writing a history file.
    #[serde(default)]
    suppress_persistent_history: bool,
}

async fn create_session(
    cx: ToolContext,
    args: CreateSession,
) -> Result<ShortModel<SessionInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let name = args.session_name.as_deref();
    name.map_or(Ok(()), check_name)?;
    let variables = variables(args.environment.as_ref(), args.suppress_persistent_history)?;
    let folder = args.start_directory.as_deref().map(directory).transpose()?;
    let create = Command::new("new-session").flag("-d");
    let made = server.make(create, SessionInfo::FIELDS, |mut command| {
        let texts = [("-s", name), ("-n", args.window_name.as_deref()), ("-c", folder.as_deref())];
        for (flag, text) in texts {
            command =
                text.into_iter().fold(command, |command, text| command.text_option(flag, text));
        }
        for (flag, number) in [("-x", args.x), ("-y", args.y)] {
            command =
                number.into_iter().fold(command, |command, n| command.option(flag, n.to_string()));
        }
        with_variables(command, &variables)
    });
    match made.await {
        Err(error) if error.says("duplicate session") => {
            let message = format!("Session named {} exists", name.unwrap_or_default());
            Err(Failure::tool("TmuxSessionExists", message).with_executed(Executed::No))
        }
        made => Ok(ShortModel(SessionInfo::from(&made?))),
    }
}

/// Refuses characters that separate sessions, windows and panes in tmux's targets: tmux would replace them without an
/// error.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let why = match name {
        "" => "empty",
        name if name.contains(':') => "contains colons",
        name if name.contains('.') => "contains periods",
        _ => return Ok(()),
    };
    let message = format!("Bad session name: {why} (session name: {name})");
    Err(Failure::tool("BadSessionName", message).with_executed(Executed::No))
}

async fn kill_server(cx: ToolContext, args: OneServer) -> Result<String, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    cx.guard().check(&server, KillTarget::Server, "kill").await?;
    match server.run(Command::new("kill-server")).await {
        // The server ends before it answers.
        Ok(_) | Err(TmuxError::Lost) => Ok("Server killed successfully".to_owned()),
        Err(error) => Err(error.into()),
    }
}
