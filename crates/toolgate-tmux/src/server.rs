//! The MCP server: the table of tools behind a chain.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use toolgate::{
    Code, Failure, Ran, Selection,
    middleware::{
        preconditions::{self, PreconditionRule},
        safety,
    },
    presets::Preset,
    settings::{Settings, ToolSettings},
    stack::{self, Parts, Stack, StackError},
};
use toolgate_rmcp::{Governed, raise};

use crate::{
    call::{Cx, Shared},
    commands::{self, CommandGuard},
    engine::Engine,
    guard::Guard,
    options::Options,
    record::Recorder,
    tool::Tool,
    tools,
};

/// The server's half of the identity of its tools.
pub const NAME: &str = "tmux";

/// The tmux server, without a chain.
#[derive(Clone, Debug)]
pub struct Tmux {
    shared: Arc<Shared>,
    tools: Arc<[Tool]>,
}

impl Tmux {
    /// Nothing is started and no tmux is asked before a tool is called.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let engine = Engine::new(&options.binary, options.patience);
        let recorder = Recorder::new(&options.record, options.mask).map(Arc::new);
        let shared = Shared { engine, guard: Guard::of_this_process(), options, recorder };
        Self { shared: Arc::new(shared), tools: tools::all().into() }
    }

    /// What records panes, to be closed at the end.
    #[must_use]
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.shared.recorder.clone()
    }

    /// With the chain that the settings describe. The tools' tiers are those of the table, unless the settings
    /// name a tool.
    pub fn governed(self, mut settings: Settings) -> Result<(Governed<Self>, Stack), StackError> {
        let tier = |tool: &Tool| {
            let selector = format!("{NAME}/{}", tool.name()).parse().ok()?;
            Some((selector, ToolSettings { tier: Some(tool.tier()), ..ToolSettings::default() }))
        };
        settings.tools.extend(self.tools.iter().filter_map(tier));
        settings.validate.get_or_insert_default().input_schema = true;
        let parts = self.guarded(&mut settings);
        let stack = stack::build_with(&settings, parts)?;
        let governed = Governed::new(self, stack.chain.clone());
        Ok((governed.server_name(NAME).tier_rules(settings.tier_rules()), stack))
    }

    /// The command guard, where the chain has a place for it.
    fn guarded(&self, settings: &mut Settings) -> Parts {
        let config = &self.shared.options.commands;
        if !config.enabled {
            return Parts::default();
        }
        // A person is asked only about what nothing else refuses; libtmux-mcp's own order has safety last.
        let fits = |preset: Preset| {
            let place = |layer| preset.order().iter().position(|(name, _)| *name == layer);
            place(preconditions::NAME) > place(safety::NAME)
        };
        if let Some(preset) = settings.chain.preset().filter(|preset| !fits(*preset)) {
            tracing::warn!("the preset `{preset}` has no place for it: the command guard is off");
            return Parts::default();
        }
        let tools = commands::TOOLS.iter().filter_map(|tool| format!("{NAME}/{tool}").parse().ok());
        let when = tools.map(Selection::Glob).collect();
        settings
            .preconditions
            .push(PreconditionRule { when, require: vec![commands::ID.to_owned()] });
        let guard = CommandGuard::new(config.clone(), Some(Arc::clone(&self.shared)));
        Parts { preconditions: vec![Arc::new(guard)], ..Parts::default() }
    }

    async fn run(
        &self,
        params: CallToolRequestParams,
        cx: Cx,
    ) -> Result<CallToolResponse, Failure> {
        let tool = self.tools.iter().find(|tool| tool.name() == params.name);
        let tool = tool.ok_or_else(|| {
            Failure::new(Code::UnknownTool, format!("Unknown tool: '{}'", params.name))
                .suggest("Call tools/list for the tools that there are.")
        })?;
        let cancelled = cx.request.ct.clone();
        // Dropping what runs is safe anywhere: an answer that nobody waits for is passed over.
        tokio::select! {
            result = async {
                let arguments = params.arguments.unwrap_or_default();
                cx.record(tool.name(), &arguments).await?;
                tool.run(cx, arguments).await
            } => Ok(result?.into()),
            () = cancelled.cancelled() => {
                Err(Failure::new(Code::Cancelled, "the call was cancelled").ran(Ran::Maybe))
            }
        }
    }
}

impl ServerHandler for Tmux {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        let instructions = "tmux sessions, windows and panes. Ids are exact: sessions $1, windows @1, panes %1; \
             prefer them to names. list_* tools tell what there is, capture_pane what is on a screen.";
        info.instructions = Some(instructions.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(Tool::published).collect()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let cx = Cx { shared: Arc::clone(&self.shared), request: request.clone() };
        self.run(params, cx).await.map_err(|failure| raise(&request, failure))
    }
}

/// Why the server ended before its client did.
#[derive(Debug, thiserror::Error)]
#[error("the client could not be served: {0}")]
pub struct NotServed(String);

/// Serves one client over standard input and output, until it closes them.
pub async fn serve_stdio(tmux: Governed<Tmux>) -> Result<(), NotServed> {
    let transport = rmcp::transport::io::stdio_pipes();
    let served = match rmcp::ServiceExt::serve(tmux, transport).await {
        Ok(served) => served,
        // A client that goes without a word has not been failed.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(NotServed(error.to_string())),
    };
    served.waiting().await.map(drop).map_err(|error| NotServed(error.to_string()))
}
