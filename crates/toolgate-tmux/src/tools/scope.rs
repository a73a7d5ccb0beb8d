//! The scope of an option or a hook: the arguments that their tools share.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{Executed, Failure};

use crate::{
    call::ToolContext,
    engine::{Command, Server, TmuxError},
    target::{self, PaneTarget, WindowTarget},
    tool::invalid_arguments,
};

/// A scope of tmux's options.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    Server,
    Session,
    Window,
    Pane,
}

/// The arguments that name a scope.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ScopeArgs {
    pub(super) scope: Option<Scope>,
    /// A session's name, a window's id or a pane's id; needs scope.
    pub(super) target: Option<String>,
    /// What holds for all that have none of their own.
    #[serde(default)]
    pub(super) global_: bool,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

impl ScopeArgs {
    /// The server, and the id of the target if there is one.
    pub(super) async fn find(
        &self,
        cx: &ToolContext,
    ) -> Result<(Arc<Server>, Option<String>), Failure> {
        let refused = |message: &str| Err(invalid_arguments(message));
        let server = cx.server(self.socket_name.as_deref())?;
        let found = match (self.scope, self.target.as_deref()) {
            (None, Some(_)) => return refused("scope is required when target is specified"),
            (Some(Scope::Server), Some(_)) => {
                return refused("scope \"server\" takes no target: there is one server");
            }
            (Some(Scope::Server), None) => None,
            (_, None) if self.global_ => None,
            // Without a target: the first session, as for all tools; `None` if there is none.
            (_, None) => {
                let rows = server.list(crate::engine::ListTarget::Sessions, &["session_id"]).await;
                let rows = if rows == Err(TmuxError::NoServer) { Vec::new() } else { rows? };
                rows.first().map(|row| row.text("session_id"))
            }
            (Some(Scope::Session), Some(target)) => {
                let id = target.strip_prefix('$').filter(|id| id.parse::<u32>().is_ok());
                let (id, name) =
                    if id.is_some() { (Some(target), None) } else { (None, Some(target)) };
                Some(target::session(&server, id, name, target::SESSION).await?.text("session_id"))
            }
            (Some(Scope::Window), Some(target)) => {
                let wanted = WindowTarget { window_id: Some(target), ..WindowTarget::default() };
                Some(target::window(&server, wanted, &["window_id"]).await?.text("window_id"))
            }
            (Some(Scope::Pane), Some(target)) => {
                let wanted = PaneTarget { pane_id: Some(target), ..PaneTarget::default() };
                Some(target::pane(&server, wanted).await?)
            }
        };
        Ok((server, found))
    }

    /// Adds the scope to a command.
    pub(super) fn of(&self, command: Command, target: Option<&str>) -> Command {
        let command = match self.scope {
            Some(Scope::Server) => command.flag("-s"),
            Some(Scope::Window) => command.flag("-w"),
            Some(Scope::Pane) => command.flag("-p"),
            Some(Scope::Session) | None => command,
        };
        let command = command.flag_if(self.global_, "-g");
        target.into_iter().fold(command, Command::target)
    }
}

/// The failure for a name that tmux does not know, with libtmux-mcp's error type.
pub(super) fn named(error: TmuxError) -> Failure {
    let kinds = [
        ("invalid option", "InvalidOption"),
        ("unknown option", "UnknownOption"),
        ("ambiguous option", "AmbiguousOption"),
    ];
    match kinds.iter().find(|(words, _)| error.says(words)) {
        Some((_, kind)) => Failure::tool(*kind, format!("tmux error: {error}"))
            .suggest("Write the name as in tmux(1); a user's own option begins with @ and must have been set.")
            .with_executed(Executed::No),
        None => error.into(),
    }
}
