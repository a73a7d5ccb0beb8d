//! Tools that change a pane.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Executed, Failure};

use super::window_tools::{end, with_size};
use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget},
    environment::{Environment, variables, with_variables},
    info::PaneInfo,
    self_guard::KillTarget,
    target::{self, PaneArgs, WindowArgs, directory},
    tool::{ShortModel, Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("resize_pane", "Resize tmux Pane", resize_pane)
            .about("Use to give a pane another size, or to zoom it to the whole window and back.")
            .idempotent(),
        Tool::destructive("kill_pane", "Kill tmux Pane", kill_pane)
            .about("Use only when a pane and its program shall end."),
        Tool::mutating("respawn_pane", "Respawn tmux Pane", respawn_pane)
            .about(
                "Use to start a pane's program anew when it hangs: pane id and layout stay, what runs is lost.",
            )
            .loses(),
        Tool::mutating("set_pane_title", "Set tmux Pane Title", set_pane_title)
            .about("Use to give a pane a title.")
            .idempotent(),
        Tool::mutating("clear_pane", "Clear tmux Pane", clear_pane)
            .about("Use to empty a pane's screen and its history; what was there is lost.")
            .loses(),
        Tool::mutating("select_pane", "Select tmux Pane", select_pane)
            .about("Use to change which pane of a window is active, by id or by direction."),
        Tool::mutating("swap_pane", "Swap tmux Panes", swap_pane)
            .about("Use to let two panes change places. The result is the first one."),
        Tool::mutating("enter_copy_mode", "Enter tmux Copy Mode", enter_copy_mode)
            .about("Use to show a pane's history to the person who watches it; to read it yourself use capture_pane."),
        Tool::mutating("exit_copy_mode", "Exit tmux Copy Mode", exit_copy_mode)
            .about("Use to leave copy mode or any other mode; fine if there is none.")
            .idempotent(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ResizePane {
    #[serde(flatten)]
    pane: PaneArgs,
    /// In rows.
    #[schemars(range(min = 1, max = 10_000))]
    height: Option<u32>,
    /// In columns.
    #[schemars(range(min = 1, max = 10_000))]
    width: Option<u32>,
    /// true to zoom it, false to end any zoom of its window.
    zoom: Option<bool>,
}

async fn resize_pane(cx: ToolContext, args: ResizePane) -> Result<ShortModel<PaneInfo>, Failure> {
    match (args.zoom, args.height.or(args.width)) {
        (Some(_), Some(_)) => {
            return Err(invalid_arguments("Cannot combine zoom with height/width"));
        }
        (None, None) => return Err(invalid_arguments("Provide height, width, or zoom.")),
        _ => {}
    }
    let (server, pane) = args.pane.find(&cx).await?;
    let resize = || Command::new("resize-pane").target(&*pane);
    // `-Z` toggles, and a resize without flags ends any zoom. Both run in one list, so that no other client runs
    // commands in between.
    let commands = match args.zoom {
        Some(true) => vec![resize(), resize().flag("-Z")],
        Some(false) => vec![resize()],
        None => vec![with_size(resize(), args.width, args.height)],
    };
    PaneInfo::after(&cx, &server, commands, &pane).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct KillPane {
    /// The pane by id, as `%1`.
    pane_id: String,
    socket_name: Option<String>,
}

async fn kill_pane(cx: ToolContext, args: KillPane) -> Result<String, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let id = target::pane_id(&args.pane_id)?;
    cx.guard().check(&server, KillTarget::Pane(&id), "kill").await?;
    end(&server, Command::new("kill-pane").target(&*id), ListTarget::Pane(&id)).await?;
    Ok(format!("Pane killed: {id}"))
}

#[derive(Deserialize, JsonSchema)]
struct RespawnPane {
    /// The pane by id, as `%1`.
    pane_id: String,
    /// End what runs in it; else it is an error if something does.
    #[serde(default = "yes")]
    kill: bool,
    /// What to run; what it ran before if not given.
    shell: Option<String>,
    /// An existing directory to start in.
    start_directory: Option<String>,
    /// Variables of its program, by name.
    environment: Option<Environment>,
    socket_name: Option<String>,
    /// Keep shells from writing a history file.
    #[serde(default)]
    suppress_persistent_history: bool,
}

fn yes() -> bool {
    true
}

async fn respawn_pane(cx: ToolContext, args: RespawnPane) -> Result<ShortModel<PaneInfo>, Failure> {
    let variables = variables(args.environment.as_ref(), args.suppress_persistent_history)?;
    let folder = args.start_directory.as_deref().map(directory).transpose()?;
    let server = cx.server(args.socket_name.as_deref())?;
    let pane = target::pane_id(&args.pane_id)?;
    // A pane that does not exist is reported before the guard refuses.
    PaneInfo::of(&cx, &server, &pane).await?;
    cx.guard().check(&server, KillTarget::Pane(&pane), "respawn").await?;
    let respawn = Command::new("respawn-pane").flag_if(args.kill, "-k").target(&*pane);
    let respawn = folder.iter().fold(respawn, |command, path| command.text_option("-c", path));
    let respawn = with_variables(respawn, &variables);
    let respawn = args.shell.iter().fold(respawn, |command, shell| command.end().argument(shell));
    let respawned = PaneInfo::after(&cx, &server, [respawn], &pane).await;
    respawned.map(ShortModel).map_err(|failure| {
        if failure.message().contains("still active") {
            failure
                .with_executed(Executed::No)
                .suggest("Set kill=true to end what runs in the pane.")
        } else {
            failure
        }
    })
}

#[derive(Deserialize, JsonSchema)]
struct SetPaneTitle {
    /// The title.
    title: String,
    #[serde(flatten)]
    pane: PaneArgs,
}

async fn set_pane_title(
    cx: ToolContext,
    args: SetPaneTitle,
) -> Result<ShortModel<PaneInfo>, Failure> {
    // tmux would keep the old title without an error.
    if args.title.chars().any(char::is_control) {
        return Err(invalid_arguments("title must not contain control characters"));
    }
    let (server, pane) = args.pane.find(&cx).await?;
    // With `-T`, select-pane does not select the pane.
    let command = Command::new("select-pane").target(&*pane).text_option("-T", &args.title);
    PaneInfo::after(&cx, &server, [command], &pane).await.map(ShortModel)
}

async fn clear_pane(cx: ToolContext, args: PaneArgs) -> Result<String, Failure> {
    let (server, pane) = args.find(&cx).await?;
    cx.guard().check(&server, KillTarget::Pane(&pane), "clear").await?;
    let reset = Command::new("send-keys").flag("-R").target(&*pane);
    let forget = Command::new("clear-history").target(&*pane);
    server.run(Batch::write([reset, forget])).await?;
    Ok(format!("Pane cleared: {pane}"))
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PaneDirection {
    Up,
    Down,
    Left,
    Right,
    Last,
    Next,
    Previous,
}

#[derive(Deserialize, JsonSchema)]
struct SelectPane {
    /// The pane by id, as `%1`; wins.
    pane_id: Option<String>,
    /// Another pane of the window, from its active one.
    direction: Option<PaneDirection>,
    #[serde(flatten)]
    window: WindowArgs,
}

async fn select_pane(cx: ToolContext, args: SelectPane) -> Result<ShortModel<PaneInfo>, Failure> {
    let select = Command::new("select-pane");
    let (server, window, command) = match (args.pane_id.as_deref(), args.direction) {
        (None, None) => return Err(invalid_arguments("Provide either pane_id or direction.")),
        (Some(id), _) => {
            let pane = target::pane_id(id)?;
            (cx.server(args.window.socket_name.as_deref())?, pane.clone(), select.target(pane))
        }
        (None, Some(direction)) => {
            let (server, window) = args.window.id(&cx).await?;
            let command = match direction {
                PaneDirection::Up => select.flag("-U").target(&*window),
                PaneDirection::Down => select.flag("-D").target(&*window),
                PaneDirection::Left => select.flag("-L").target(&*window),
                PaneDirection::Right => select.flag("-R").target(&*window),
                PaneDirection::Last => select.flag("-l").target(&*window),
                PaneDirection::Next => select.target(format!("{window}.+")),
                PaneDirection::Previous => select.target(format!("{window}.-")),
            };
            (server, window, command)
        }
    };
    let of = ListTarget::Panes(Some(&window));
    let (_, rows) = server.then_each(Batch::write([command]), of, PaneInfo::FIELDS).await?;
    let active = rows.iter().find(|row| row.is_set("pane_active"));
    let active = active.map(|row| row.text("pane_id")).unwrap_or_default();
    PaneInfo::one(&cx, &server, &rows, &active).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct SwapPane {
    /// A pane, by id, as `%1`.
    source_pane_id: String,
    /// The other one.
    target_pane_id: String,
    socket_name: Option<String>,
}

async fn swap_pane(cx: ToolContext, args: SwapPane) -> Result<ShortModel<PaneInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let source = target::pane_id(&args.source_pane_id)?;
    let other = target::pane_id(&args.target_pane_id)?;
    // Both panes move. `layout_tools` explains why the own pane does not.
    for pane in [&source, &other] {
        cx.guard().check(&server, KillTarget::Pane(pane), "move").await?;
    }
    let swap = Command::new("swap-pane").option("-s", &*source).target(other);
    PaneInfo::after(&cx, &server, [swap], &source).await.map(ShortModel)
}

#[derive(Deserialize, JsonSchema)]
struct EnterCopyMode {
    #[serde(flatten)]
    pane: PaneArgs,
    /// Lines to scroll up at once.
    #[schemars(range(min = 0, max = 10_000_000))]
    scroll_up: Option<u32>,
}

async fn enter_copy_mode(
    cx: ToolContext,
    args: EnterCopyMode,
) -> Result<ShortModel<PaneInfo>, Failure> {
    let (server, pane) = args.pane.find(&cx).await?;
    let mut commands = vec![Command::new("copy-mode").target(&*pane)];
    if let Some(lines) = args.scroll_up.filter(|lines| *lines > 0) {
        let scroll = Command::new("send-keys").flag("-X").option("-N", lines.to_string());
        commands.push(scroll.target(&*pane).argument("scroll-up"));
    }
    PaneInfo::after(&cx, &server, commands, &pane).await.map(ShortModel)
}

async fn exit_copy_mode(cx: ToolContext, args: PaneArgs) -> Result<ShortModel<PaneInfo>, Failure> {
    let (server, pane) = args.find(&cx).await?;
    let leave = Command::new("copy-mode").flag("-q").target(&*pane);
    PaneInfo::after(&cx, &server, [leave], &pane).await.map(ShortModel)
}
