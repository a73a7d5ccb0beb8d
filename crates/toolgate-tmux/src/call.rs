//! What a tool has at hand while it runs.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock, Weak},
};

use rmcp::{RoleServer, model::JsonObject, service::RequestContext};
use serde_json::Value;
use toolgate::{CallId, Failure, Tier, TierRules, ToolId};
use toolgate_rmcp::Governed;

use crate::{
    buffers::Buffers,
    commands::Pending,
    engine::{Batch, Command, Engine, Server, Socket, TmuxError, text},
    guard::Guard,
    mask::{Rows, masked},
    options::Options,
    record::{self, Recorder},
    server::{NAME, Tmux},
    target::{self, PaneTarget},
    tool::Tool,
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
    /// The chain around us, for calls that are parts of a call; and the tiers that it knows.
    pub(crate) door: OnceLock<(Weak<Governed<Tmux>>, TierRules)>,
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// What was typed and is not entered yet.
    pub(crate) pending: Pending,
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

    /// Begins to record the panes that a call is about to write into, if they are to be.
    pub(crate) async fn record(&self, tool: &str, arguments: &JsonObject) -> Result<(), Failure> {
        let Some(recorder) = self.shared.recorder.as_ref().filter(|_| Recorder::covers(tool))
        else {
            return Ok(());
        };
        let id = self.request.extensions.get::<CallId>().map(|id| format!(" {id}"));
        for target in record::targets(tool, arguments) {
            let text = |name: &str| target.get(name).and_then(Value::as_str);
            let server = self.server(text("socket_name"))?;
            let named = PaneTarget {
                pane_id: text("pane_id"),
                window_id: text("window_id"),
                session_id: text("session_id"),
                session_name: text("session_name"),
            };
            // One that is not there the tool refuses in its own words.
            if let Ok(pane) = target::pane(&server, named).await {
                let call = format!("{tool}{}", id.as_deref().unwrap_or_default());
                recorder.called(&server, &pane, call).await?;
            }
        }
        Ok(())
    }

    /// The paste buffers that are ours.
    pub(crate) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
    }

    /// The chain around us, where there is one.
    pub(crate) fn door(&self) -> Option<Arc<Governed<Tmux>>> {
        self.shared.door.get()?.0.upgrade()
    }

    /// The tier of a tool, in the operator's words where there are any.
    pub(crate) fn tier(&self, tool: &Tool) -> Tier {
        let id = ToolId::new(NAME, tool.name());
        let ruled = self.shared.door.get();
        let ruled = ruled.and_then(|(_, rules)| toolgate::Tool::unlisted(id, rules).tier());
        ruled.unwrap_or_else(|| tool.tier())
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
