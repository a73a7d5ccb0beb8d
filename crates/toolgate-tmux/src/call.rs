//! What a tool uses while it runs: the server's state, and the request that called it.

use std::{
    borrow::Cow,
    sync::{Arc, Weak},
};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use toolgate::{Boxed, Failure, Tier};

use crate::{
    buffers::Buffers,
    commands::PendingInput,
    engine::{Batch, Command, Engine, Server, Socket, TmuxError, text},
    mask::{ScreenRows, masked},
    options::Options,
    record::Recorder,
    self_guard::SelfGuard,
};

/// How many calls of `wait_for_channel` may run at once.
pub(crate) const MAX_CHANNEL_WAITS: usize = 64;

/// The longest name of a socket: a longer path fits into no socket address.
const MAX_SOCKET_NAME_BYTES: usize = 100;

/// The server's state, the chain around it, and one request.
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) shared: Arc<ServerState>,
    /// The chain around this server, for calls that a batch makes.
    pub(crate) governed: Option<Weak<dyn GovernedTools>>,
    /// The request: for progress notifications and for questions to the client.
    pub request: RequestContext<RoleServer>,
}

/// The state that all calls share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) engine: Engine,
    pub(crate) guard: SelfGuard,
    pub(crate) options: Options,
    pub(crate) buffers: Buffers,
    /// Notified when a changed config has replaced the chain: the list of tools may have changed.
    pub(crate) chain_replaced: tokio::sync::Notify,
    /// Permits for calls of `wait_for_channel`, each of which has a process of its own.
    pub(crate) channel_waits: tokio::sync::Semaphore,
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// Text that was typed into panes and not entered yet.
    pub(crate) pending: PendingInput,
}

/// The tools of this server, called through the chain around it.
pub(crate) trait GovernedTools: Send + Sync {
    /// The tool that clients know by this name; `None` if there is none.
    fn find(&self, name: &str) -> Option<BatchedTool>;

    /// Calls a tool through the chain.
    fn call(
        &self,
        params: CallToolRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Boxed<'_, Result<CallToolResponse, ErrorData>>;
}

/// A tool that is called by a batch.
pub(crate) struct BatchedTool {
    /// The tool's own name, also if the operator has renamed it.
    pub(crate) name: &'static str,
    pub(crate) is_self_bounded: bool,
    /// The tool's tier, as the operator has set it if the operator did.
    pub(crate) tier: Tier,
}

impl ToolContext {
    /// The tmux server with this socket name, or the configured one if the call names none.
    pub fn server(&self, socket_name: Option<&str>) -> Result<Arc<Server>, Failure> {
        let socket = match socket_name {
            None => self.shared.options.socket.clone(),
            Some(name)
                if name.is_empty()
                    || name.contains(['/', '\0'])
                    || name.starts_with('.')
                    || name.len() > MAX_SOCKET_NAME_BYTES =>
            {
                let shown: String = name.chars().take(MAX_SOCKET_NAME_BYTES).collect();
                return Err(Failure::tool(
                    "InvalidSocketName",
                    format!("Invalid socket name: '{shown}'"),
                )
                .suggest("Give the name of a socket in tmux's folder, as `default`; list_servers knows them."));
            }
            Some(name) => Socket::Name(name.to_owned()),
        };
        Ok(self.shared.engine.server(socket))
    }

    /// Permits for calls of `wait_for_channel`.
    pub(crate) fn channel_waits(&self) -> &tokio::sync::Semaphore {
        &self.shared.channel_waits
    }

    /// The engine, for servers on other sockets.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The settings of this server.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Text of a screen, a buffer or a program with its secrets masked, if that is set. All such text passes through here.
    #[must_use]
    pub fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.shared.options.mask { masked(text) } else { Cow::Borrowed(text) }
    }

    /// What `capture-pane` prints of a pane, masked like [`shown`](Self::shown), without the empty rows at its end.
    pub(crate) async fn captured(
        &self,
        server: &Server,
        capture: Command,
        colours: bool,
    ) -> Result<String, TmuxError> {
        let coloured = || capture.clone().flag_if(colours, "-e");
        if !self.shared.options.mask {
            let text = server.ask(Batch::read([coloured()])).await?;
            return Ok(text.trim_end_matches('\n').to_owned());
        }
        let both = [capture.clone().flag("-N"), capture.clone().flag("-J"), coloured()];
        // tmux runs a list of commands at once: all captures show the same moment.
        let both = server.run(Batch::read(both)).await?;
        let mut both = both.into_iter().map(text);
        let rows =
            ScreenRows::new(&both.next().unwrap_or_default(), &both.next().unwrap_or_default());
        let coloured = both.next().unwrap_or_default();
        Ok(if colours {
            rows.masked_coloured(coloured.trim_end_matches('\n'))
        } else {
            rows.masked(0)
        })
    }

    /// Like [`shown`](Self::shown) for lines, masked as one text, since a secret may span lines. Searches use these lines,
    /// too: otherwise a caller could guess a secret piece by piece.
    #[must_use]
    pub fn shown_lines(&self, lines: Vec<String>) -> Vec<String> {
        if !self.shared.options.mask || lines.is_empty() {
            return lines;
        }
        self.shown(&lines.join("\n")).split('\n').map(str::to_owned).collect()
    }

    /// The paste buffers that this server has created.
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
    }

    /// The chain around this server, if there is one.
    pub(crate) fn governed(&self) -> Option<Arc<dyn GovernedTools>> {
        self.governed.as_ref()?.upgrade()
    }

    /// The guard of the pane that this process runs in.
    #[must_use]
    pub fn guard(&self) -> &SelfGuard {
        &self.shared.guard
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cx").field("shared", &self.shared).finish_non_exhaustive()
    }
}
