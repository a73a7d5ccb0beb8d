//! The MCP server: the table of tools behind a chain.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
        GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use toolgate::{
    CallId, Code, Failure, Ran, Tier, ToolId,
    settings::{Settings, ToolSettings},
    stack::{self, Parts, Stack, StackError},
};
use toolgate_rmcp::{Governed, raise};

use crate::{
    buffers::Buffers,
    call::{Cx, Shared},
    commands::{self, Pending},
    complete,
    engine::{self, Engine},
    front::Front,
    guard::Guard,
    instructions::instructions,
    options::Options,
    programs, prompts,
    record::Recorder,
    resources::{self, Resources, Subscriptions},
    tool::Tool,
    tools,
    toolsets::{NoSuchTool, selector},
};

/// The server's half of the identity of its tools.
pub const NAME: &str = "tmux";

/// The tmux server, without a chain.
#[derive(Clone, Debug)]
pub struct Tmux {
    shared: Arc<Shared>,
    tools: Arc<[Tool]>,
    resources: Arc<Resources>,
    /// The chain around this, and the tier that it allows.
    front: Arc<OnceLock<(Front, Option<Tier>)>>,
}

impl Tmux {
    /// Nothing is started and no tmux is asked before a tool is called.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let engine = Engine::new(&options.binary, options.patience);
        let shared = Shared {
            engine,
            guard: Guard::of_this_process(),
            buffers: Buffers::default(),
            recorder: Recorder::new(&options.record, options.mask).map(Arc::new),
            options,
            door: OnceLock::new(),
            pending: Pending::default(),
        };
        let mut tools = tools::all();
        if shared.options.prompts_as_tools {
            tools.extend(prompts::tools());
        }
        let (resources, front) = (Arc::default(), Arc::default());
        Self { shared: Arc::new(shared), tools: tools.into(), resources, front }
    }

    /// The settings as they are for this server: the tools' tiers are those of the table, unless the settings name
    /// a tool; what is not chosen is switched off.
    pub fn settle(&self, mut settings: Settings) -> Result<Settings, NoSuchTool> {
        self.shared.options.choice.apply(&self.tools, &mut settings)?;
        let tier = |tool: &Tool| {
            let tier = Some(tool.tier());
            Some((selector(tool)?, ToolSettings { tier, ..ToolSettings::default() }))
        };
        settings.tools.extend(self.tools.iter().filter_map(tier));
        settings.validate.get_or_insert_default().input_schema = true;
        Ok(settings)
    }

    /// Adds the command guard to what a chain is built from.
    pub fn install_guard(&self, settings: &mut Settings, parts: &mut Parts) {
        commands::install(&self.shared, settings, parts);
    }

    /// The socket of calls that name none.
    #[must_use]
    pub fn socket(&self) -> &engine::Socket {
        &self.shared.options.socket
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(Tool::name)
    }

    /// The tools as they are published.
    #[must_use]
    pub fn definitions(&self) -> Vec<serde_json::Value> {
        let published = self.tools.iter().map(Tool::published);
        published.filter_map(|tool| serde_json::to_value(tool).ok()).collect()
    }

    /// With the chain that the settings describe.
    pub fn governed(self, settings: Settings) -> Result<(Arc<Governed<Self>>, Stack), StackError> {
        self.governed_with(settings, Parts::default(), "default")
    }

    /// The same in this namespace, with what the program gives the chain.
    pub fn governed_with(
        mut self,
        settings: Settings,
        mut parts: Parts,
        namespace: &str,
    ) -> Result<(Arc<Governed<Self>>, Stack), StackError> {
        let mut settings = self.settle(settings).map_err(|error| StackError::Layer {
            layer: toolgate::middleware::filter::NAME,
            why: error.to_string(),
        })?;
        if let (Some(shared), Some(tier)) = (Arc::get_mut(&mut self.shared), settings.safety) {
            shared.options.safety = tier;
        }
        self.install_guard(&mut settings, &mut parts);
        let stack = stack::build_with(&settings, parts)?;
        let listed: Vec<ToolId> = self.names().map(|name| ToolId::new(NAME, name)).collect();
        for collision in stack.overrides.learn(&listed) {
            tracing::error!("{collision}");
        }
        let governed =
            Governed::new(self, stack.chain.clone()).server_name(NAME).namespace(namespace);
        let (shared, rules) = (Arc::clone(&governed.handler().shared), settings.tier_rules());
        let governed = governed.tier_rules(rules.clone()).names(stack.overrides.clone());
        let governed = Arc::new(governed);
        // Calls that are parts of a call come in by the same door.
        let _ = shared.door.set((Arc::downgrade(&governed), rules));
        let tmux = governed.handler();
        let front =
            Front::new(governed.side_door(), settings.tier_rules(), Arc::clone(&tmux.tools));
        // Set once: this is the only chain around it.
        let _ = tmux.front.set((front, settings.safety));
        Ok((governed, stack))
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Takes back what is ours in tmux.
    async fn end(&self) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.close().await;
        }
        self.shared.buffers.clear(&self.shared.engine).await;
    }

    fn front(&self) -> &Front {
        &self.front.get_or_init(Default::default).0
    }

    fn cx(&self, request: RequestContext<RoleServer>) -> Cx {
        Cx { shared: Arc::clone(&self.shared), request }
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
        if let Some(call) = cx.request.extensions.get::<CallId>() {
            self.shared.pending.ran(*call).await;
        }
        let cancelled = cx.request.ct.clone();
        // Dropping what runs is safe anywhere: an answer that nobody waits for is passed over.
        tokio::select! {
            result = async {
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
        let can = ServerCapabilities::builder().enable_completions().enable_prompts();
        let can = can.enable_resources().enable_resources_subscribe().enable_tools().build();
        let mut info = ServerConfig::new(can);
        info.server_info = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        let safety = self.front.get().and_then(|(_, safety)| *safety);
        info.instructions = Some(instructions(&self.shared, safety));
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
        let cx = self.cx(request.clone());
        self.run(params, cx).await.map_err(|failure| raise(&request, failure))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        request: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cx = self.cx(request);
        let list = resources::list(&cx, self.front()).await;
        list.map_err(|failure| raise(&cx.request, failure))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resources.read(&self.cx(request), self.front(), params.uri).await
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cx = self.cx(request);
        self.resources.subscriptions.open(cx, self.front(), params.uri).await
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.resources.subscriptions.close(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(Subscriptions::accepted(self.front(), requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let cx = self.cx(context.request_context().clone());
        self.resources.subscriptions.listen(cx, self.front(), context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list())
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(prompts::get(&params.name, params.arguments.as_ref())?.into())
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let cx = self.cx(request);
        let complete = complete::complete(&cx, self.front(), params).await;
        complete.map_err(|failure| raise(&cx.request, failure))
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
