//! The MCP server: the table of tools behind a chain.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use toolgate::{
    Code, Failure, Ran,
    settings::{Settings, ToolSettings},
    stack::{self, Stack, StackError},
};
use toolgate_rmcp::{Governed, raise};

use crate::{
    buffers::Buffers,
    call::{Cx, Shared},
    engine::{self, Engine},
    guard::Guard,
    options::Options,
    programs,
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
        let (guard, buffers) = (Guard::of_this_process(), Buffers::default());
        let shared = Shared { engine, guard, options, buffers, door: OnceLock::new() };
        Self { shared: Arc::new(shared), tools: tools::all().into() }
    }

    /// With the chain that the settings describe. The tools' tiers are those of the table, unless the settings
    /// name a tool.
    pub fn governed(
        self,
        mut settings: Settings,
    ) -> Result<(Arc<Governed<Self>>, Stack), StackError> {
        let tier = |tool: &Tool| {
            let selector = format!("{NAME}/{}", tool.name()).parse().ok()?;
            Some((selector, ToolSettings { tier: Some(tool.tier()), ..ToolSettings::default() }))
        };
        settings.tools.extend(self.tools.iter().filter_map(tier));
        settings.validate.get_or_insert_default().input_schema = true;
        let stack = stack::build(&settings)?;
        let (shared, rules) = (Arc::clone(&self.shared), settings.tier_rules());
        let governed = Governed::new(self, stack.chain.clone());
        let governed = Arc::new(governed.server_name(NAME).tier_rules(rules.clone()));
        // Calls that are parts of a call come in by the same door.
        let _ = shared.door.set((Arc::downgrade(&governed), rules));
        Ok((governed, stack))
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Takes back what is ours in tmux.
    async fn end(&self) {
        self.shared.buffers.clear(&self.shared.engine).await;
    }

    async fn run(
        &self,
        params: CallToolRequestParams,
        cx: Cx,
    ) -> Result<CallToolResponse, Failure> {
        let tool = self.tool(&params.name).ok_or_else(|| {
            Failure::new(Code::UnknownTool, format!("Unknown tool: '{}'", params.name))
                .suggest("Call tools/list for the tools that there are.")
        })?;
        let arguments = params.arguments.unwrap_or_default();
        if let Some(environment) = arguments.get("environment") {
            programs::variables(cx.options(), environment)?;
        }
        let cancelled = cx.request.ct.clone();
        // Dropping what runs is safe anywhere: an answer that nobody waits for is passed over.
        tokio::select! {
            result = tool.run(cx, arguments) => Ok(result?.into()),
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

/// How long tmux may take to let go when the server ends.
const PARTING: Duration = Duration::from_millis(500);

/// Why the server ended before its client did.
#[derive(Debug, thiserror::Error)]
#[error("the client could not be served: {0}")]
pub struct NotServed(String);

/// Serves one client over standard input and output, until it closes them.
pub async fn serve_stdio(tmux: Arc<Governed<Tmux>>) -> Result<(), NotServed> {
    let transport = rmcp::transport::io::stdio_pipes();
    let served = match rmcp::ServiceExt::serve(Arc::clone(&tmux), transport).await {
        Ok(served) => served,
        // A client that goes without a word has not been failed.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(NotServed(error.to_string())),
    };
    let ended = served.waiting().await;
    tmux.handler().end().await;
    // A tmux that hangs keeps nobody.
    let _ = tokio::time::timeout(PARTING, engine::leave_all()).await;
    ended.map(drop).map_err(|error| NotServed(error.to_string()))
}
