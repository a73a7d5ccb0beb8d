//! What a tool has at hand while it runs.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock, Weak},
};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use toolgate::{Boxed, Failure, Tier};

use crate::{
    buffers::Buffers,
    commands::Pending,
    engine::{Batch, Command, Engine, Server, Socket, TmuxError, text},
    guard::Guard,
    mask::{Rows, masked},
    options::Options,
    record::Recorder,
};

/// The longest name of a socket: no system has room for a longer path.
const LONGEST: usize = 100;

/// The engine, the guard and the request.
#[derive(Clone)]
pub struct Cx {
    pub(crate) shared: Arc<Shared>,
    /// The request: for progress and for asking the client.
    pub request: RequestContext<RoleServer>,
}

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) guard: Guard,
    pub(crate) options: Options,
    pub(crate) buffers: Buffers,
    /// The chain around us, for calls that are parts of a call.
    pub(crate) door: OnceLock<Weak<dyn Door>>,
    /// Another chain governs calls from here on: what is listed may be something else.
    pub(crate) governed_anew: tokio::sync::Notify,
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// What was typed and is not entered yet.
    pub(crate) pending: Pending,
}

/// The chain around us.
pub(crate) trait Door: Send + Sync {
    /// The tool that clients know by this name.
    fn part(&self, name: &str) -> Option<Part>;

    /// Calls a tool through the chain.
    fn call(
        &self,
        params: CallToolRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Boxed<'_, Result<CallToolResponse, ErrorData>>;
}

/// A tool that is called as part of a call.
pub(crate) struct Part {
    /// Its own name.
    pub(crate) name: &'static str,
    pub(crate) is_self_bounded: bool,
    /// Its tier, in the operator's words where there are any.
    pub(crate) tier: Tier,
}

impl Cx {
    /// The server that a call means: by name, or the one that is set for all calls.
    ///
    /// A name wins over whatever is set, also over a path.
    pub fn server(&self, socket_name: Option<&str>) -> Result<Arc<Server>, Failure> {
        let socket = match socket_name {
            None => self.shared.options.socket.clone(),
            Some(name)
                if name.is_empty()
                    || name.contains(['/', '\0'])
                    || name.starts_with('.')
                    || name.len() > LONGEST =>
            {
                let shown: String = name.chars().take(LONGEST).collect();
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

    /// The engine, for other sockets.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// What the server is set to.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Text of a screen, a buffer or a program, as it may be shown. Whatever tells of these goes through here.
    #[must_use]
    pub fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.shared.options.mask { masked(text) } else { Cow::Borrowed(text) }
    }

    /// What `capture-pane` prints of a pane's rows, as it may be shown, without the empty rows at its end.
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
        // tmux runs a list without letting a pane's program in between: they show the same moment.
        let both = server.run(Batch::read(both)).await?;
        let mut both = both.into_iter().map(text);
        let rows = Rows::new(&both.next().unwrap_or_default(), &both.next().unwrap_or_default());
        let coloured = both.next().unwrap_or_default();
        Ok(if colours {
            rows.masked_coloured(coloured.trim_end_matches('\n'))
        } else {
            rows.masked(0)
        })
    }

    /// The same for lines: as one text, since a secret may have several. Who looks for something looks in these too,
    /// or else could guess a secret piece by piece.
    #[must_use]
    pub fn shown_lines(&self, lines: Vec<String>) -> Vec<String> {
        if !self.shared.options.mask || lines.is_empty() {
            return lines;
        }
        self.shown(&lines.join("\n")).split('\n').map(str::to_owned).collect()
    }

    /// The paste buffers that are ours.
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
    }

    /// The chain around us, where there is one.
    pub(crate) fn door(&self) -> Option<Arc<dyn Door>> {
        self.shared.door.get()?.upgrade()
    }

    /// What keeps tools from ending the pane that we run in.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.shared.guard
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cx").field("shared", &self.shared).finish_non_exhaustive()
    }
}
