//! Tools for windows, and the panes in them.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Code, Executed, Failure};

use super::{
    layout,
    pane_fields::{PaneFields, PaneRow},
    split_placement::{SplitSide, SplitSize},
};
use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, Server, TmuxError, not_found},
    environment::{Environment, variables, with_variables},
    filters::Filters,
    info::{PaneInfo, WindowInfo},
    self_guard::KillTarget,
    target::{self, WindowArgs, directory},
    tool::{Model, ShortList, ShortModel, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("list_panes", "List tmux Panes", list_panes)
            .about("Use to find panes: of one window, of one session or of all. Each is told once.")
            .always_loaded(),
        Tool::readonly("get_window_info", "Get tmux Window Info", get_window_info)
            .about("Use for one window whose id or index is known."),
        Tool::mutating("split_window", "Split tmux Window", split_window).about(
            "Use to open a new pane beside another one; the result is the new pane. The active pane stays.",
        ),
        Tool::mutating("rename_window", "Rename tmux Window", rename_window)
            .about("Use to give a window another name. Its id stays.")
            .idempotent(),
        Tool::destructive("kill_window", "Kill tmux Window", kill_window).about(
            "Use only when a window and all programs in it shall end, in every session that it is linked into.",
        ),
        Tool::mutating("select_layout", "Select tmux Layout", select_layout)
            .about(
                "Use to rearrange the panes of a window: even-horizontal, even-vertical, main-horizontal, \
                 main-vertical, tiled, or a layout as window_layout tells it.",
            )
            .idempotent(),
        Tool::mutating("resize_window", "Resize tmux Window", resize_window)
            .about("Use to give a window a fixed size, whatever the size of its clients.")
            .idempotent(),
        Tool::mutating("move_window", "Move tmux Window", move_window).about(
            "Use to give a window another index or session; it becomes the current window there.\n\
             A session whose last window goes ends.",
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ListPanes {
    #[serde(flatten)]
    window: WindowArgs,
    /// `{"field": "value"}` or `{"field__op": "value"}`, as `pane_title__contains`.
    filters: Option<Filters>,
    /// Only these fields, and `pane_id`. tmux is slowest at `pane_current_command` and `pane_current_path`.
    fields: Option<Vec<String>>,
}

async fn list_panes(cx: ToolContext, args: ListPanes) -> Result<ShortList<PaneRow>, Failure> {
    let server = cx.server(args.window.socket_name.as_deref())?;
    let fields = PaneFields::new(args.fields.as_deref(), args.filters.as_ref())?;
    let of = scope(&server, &args.window).await?;
    let of = ListTarget::Panes(of.as_deref());
    let panes = PaneInfo::with(&cx, &server, of, &fields.tmux_fields()).await?;
    Ok(ShortList(fields.rows(panes)))
}

/// The window that is named, otherwise the session, otherwise `None` for all.
async fn scope(server: &Server, args: &WindowArgs) -> Result<Option<String>, Failure> {
    if let Some(id) = args.window_id.as_deref() {
        return target::window_id(id).map(Some);
    }
    if args.window_index.is_some() {
        let row = target::window(server, args.target(), target::WINDOW).await?;
        return Ok(row.maybe("window_id"));
    }
    let (id, name) = (args.session_id.as_deref(), args.session_name.as_deref());
    if id.is_none() && name.is_none() {
        return Ok(None);
    }
    let row = target::session(server, id, name, target::SESSION).await?;
    Ok(row.maybe("session_id"))
}

async fn get_window_info(cx: ToolContext, args: WindowArgs) -> Result<Model<WindowInfo>, Failure> {
    let (_, row) = args.find(&cx, WindowInfo::FIELDS).await?;
    Ok(Model(WindowInfo::from(&row)))
}

#[derive(Deserialize, JsonSchema)]
struct SplitWindow {
    /// The pane to split, by id, as `%1`; wins. Else the window's active pane.
    pane_id: Option<String>,
    #[serde(flatten)]
    window: WindowArgs,
    /// Where the new pane goes; below if not given.
    direction: Option<SplitSide>,
    /// Rows or columns of the new pane, or a part as `50%`.
    size: Option<SplitSize>,
    /// An existing directory to start in.
    start_directory: Option<String>,
    /// What to run instead of the default shell.
    shell: Option<String>,
    /// Variables of its program, by name.
    environment: Option<Environment>,
    /// Keep shells from writing a history file.
    #[serde(default)]
    suppress_persistent_history: bool,
}

async fn split_window(cx: ToolContext, args: SplitWindow) -> Result<ShortModel<PaneInfo>, Failure> {
    let variables = variables(args.environment.as_ref(), args.suppress_persistent_history)?;
    let folder = args.start_directory.as_deref().map(directory).transpose()?;
    let (server, at) = match args.pane_id.as_deref() {
        Some(id) => (cx.server(args.window.socket_name.as_deref())?, target::pane_id(id)?),
        None => args.window.id(&cx).await?,
    };
    let split = SplitSide::put(args.direction, Command::new("split-window").flag("-d").target(at));
    let made = server.make(split, PaneInfo::FIELDS, |command| {
        let command = SplitSize::put(args.size.as_ref(), command);
        let command = folder.iter().fold(command, |command, path| command.text_option("-c", path));
        let command = with_variables(command, &variables);
        args.shell.iter().fold(command, |command, shell| command.end().argument(shell))
    });
    let row = made.await.map_err(no_room)?;
    let pane = row.text("pane_id");
    PaneInfo::one(&cx, &server, &[row], &pane).await.map(ShortModel)
}

/// Adds a suggestion to tmux's error that a pane is too small.
pub(super) fn no_room(error: TmuxError) -> Failure {
    error.hinted(
        &["no space for new pane", "pane too small"],
        "Split a larger pane, take another direction, or call resize_window first.",
    )
}

#[derive(Deserialize, JsonSchema)]
struct RenameWindow {
    /// The new name.
    new_name: String,
    #[serde(flatten)]
    window: WindowArgs,
}

async fn rename_window(
    cx: ToolContext,
    args: RenameWindow,
) -> Result<ShortModel<WindowInfo>, Failure> {
    let (server, id) = args.window.id(&cx).await?;
    let rename = Command::new("rename-window").target(&*id).end().text(&args.new_name);
    WindowInfo::after(&server, [rename], &id).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct KillWindow {
    /// The window by id, as `@1`.
    window_id: String,
    socket_name: Option<String>,
}

async fn kill_window(cx: ToolContext, args: KillWindow) -> Result<String, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let id = target::window_id(&args.window_id)?;
    cx.guard().check(&server, KillTarget::Window(&id), "kill").await?;
    end(&server, Command::new("kill-window").target(&*id), ListTarget::Window(&id)).await?;
    Ok(format!("Window killed: {id}"))
}

/// Runs a command that ends something. If that ends the server, the server does not answer: then the command has worked
/// if the target is gone.
pub(super) async fn end(
    server: &Server,
    command: Command,
    victim: ListTarget<'_>,
) -> Result<(), Failure> {
    match server.run(command).await {
        Err(TmuxError::Lost) => match server.each(victim, &["pane_id"]).await {
            Err(TmuxError::NoServer | TmuxError::Refused(_)) => Ok(()),
            Ok(rows) if rows.is_empty() => Ok(()),
            _ => Err(TmuxError::Lost.into()),
        },
        ended => ended.map(drop).map_err(Failure::from),
    }
}

#[derive(Deserialize, JsonSchema)]
struct SelectLayout {
    /// The layout.
    #[schemars(length(max = 8192))]
    layout: String,
    #[serde(flatten)]
    window: WindowArgs,
}

async fn select_layout(
    cx: ToolContext,
    args: SelectLayout,
) -> Result<ShortModel<WindowInfo>, Failure> {
    let (server, id) = args.window.id(&cx).await?;
    let identity = server.identity().await?;
    layout::check(&args.layout, identity.as_ref().map(|identity| &*identity.version))?;
    let select = Command::new("select-layout").target(&*id).end().argument(args.layout);
    WindowInfo::after(&server, [select], &id).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct ResizeWindow {
    #[serde(flatten)]
    window: WindowArgs,
    /// In rows.
    #[schemars(range(min = 1, max = 10_000))]
    height: Option<u32>,
    /// In columns.
    #[schemars(range(min = 1, max = 10_000))]
    width: Option<u32>,
}

async fn resize_window(
    cx: ToolContext,
    args: ResizeWindow,
) -> Result<ShortModel<WindowInfo>, Failure> {
    if args.height.is_none() && args.width.is_none() {
        let message = "Provide height or width.";
        return Err(Failure::new(Code::InvalidArguments, message).with_executed(Executed::No));
    }
    let (server, id) = args.window.id(&cx).await?;
    let resize = Command::new("resize-window").target(&*id);
    let resize = with_size(resize, args.width, args.height);
    WindowInfo::after(&server, [resize], &id).await.map(ShortModel)
}

/// Adds `-x` and `-y`.
pub(super) fn with_size(command: Command, width: Option<u32>, height: Option<u32>) -> Command {
    let add = |command: Command, (flag, cells): (&'static str, Option<u32>)| {
        cells.into_iter().fold(command, |command, cells| command.option(flag, cells.to_string()))
    };
    [("-x", width), ("-y", height)].into_iter().fold(command, add)
}

#[derive(Deserialize, JsonSchema)]
struct MoveWindow {
    #[serde(flatten)]
    window: WindowArgs,
    /// Its new index; the next free one if empty.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{0,9}$"))]
    destination_index: String,
    /// Another session, by name.
    destination_session: Option<String>,
}

async fn move_window(cx: ToolContext, args: MoveWindow) -> Result<ShortModel<WindowInfo>, Failure> {
    let (server, row) = args.window.find(&cx, target::WINDOW).await?;
    let (id, from) = (row.text("window_id"), row.text("session_id"));
    let to = match args.destination_session.as_deref() {
        Some(session) => target::destination(&server, session).await?,
        None => from.clone(),
    };
    // Within its session a window only gets another index. A move to another session may end the session; and the self
    // guard, which knows the session from the environment, would protect the wrong one.
    if to != from {
        cx.guard().check(&server, KillTarget::Window(&id), "move").await?;
    }
    let command = Command::new("move-window")
        .option("-s", format!("{from}:{id}"))
        .target(format!("{to}:{}", args.destination_index));
    moved(&server, command, &id, (&to, &args.destination_index)).await.map(ShortModel)
}

/// Reads the window after a command that moves it to a session, and to an index if it is known.
pub(super) async fn moved(
    server: &Server,
    command: Command,
    window: &str,
    (session, index): (&str, &str),
) -> Result<WindowInfo, Failure> {
    let (batch, of) = (Batch::write([command]), ListTarget::Window(window));
    let moved = server.then_each(batch, of, WindowInfo::FIELDS).await;
    let (_, rows) = moved.map_err(index_in_use)?;
    let there = rows.iter().filter(|row| row.get("session_id") == Some(session));
    let found = there.max_by_key(|row| row.get("window_index") == Some(index));
    found.map(WindowInfo::from).ok_or_else(|| not_found::window(window))
}

fn index_in_use(error: TmuxError) -> Failure {
    let next = "Call list_windows for the indexes that are taken, or give none.";
    error.hinted(&["index in use", "same index"], next)
}
