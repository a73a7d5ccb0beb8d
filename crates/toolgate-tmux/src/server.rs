//! The MCP server: tools, resources and prompts, with the chain around them.

use std::{
    sync::{Arc, Weak},
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
    Boxed, CallId, Code, Executed, Failure, ToolId,
    settings::{Settings, ToolSettings},
    stack::{self, Parts, Stack, StackError},
};
use toolgate_rmcp::{ActiveChain, Governed, raise};

use crate::{
    buffers::Buffers,
    call::{BatchedTool, GovernedTools, MAX_CHANNEL_WAITS, ServerState, ToolContext},
    command_guard,
    commands::PendingInput,
    complete,
    engine::{self, Engine},
    governed_resources::GovernedResources,
    instructions::instructions,
    name::NAME,
    options::Options,
    page::page,
    program_settings, prompts,
    record::Recorder,
    resources::{self, Resources, Subscriptions},
    self_guard::SelfGuard,
    tool::Tool,
    tool_selection::{NoSuchTool, selector},
    tools,
    transport::LineTransport,
};

/// The tmux server as an rmcp handler. [`governed`](Self::governed) puts the chain around it.
#[derive(Clone, Debug)]
pub struct Tmux {
    shared: Arc<ServerState>,
    tools: Arc<[Tool]>,
    resources: Arc<Resources>,
    /// The chain around this server; without one, batches are refused and resources are read directly.
    governed_tools: Option<Weak<dyn GovernedTools>>,
    governed_resources: GovernedResources,
}

impl GovernedTools for Governed<Tmux> {
    fn find(&self, name: &str) -> Option<BatchedTool> {
        let own = self.own_name(name)?;
        let tool = self.handler().tool(&own)?;
        let id = ToolId::new(NAME, tool.name());
        let configured = toolgate::Tool::unlisted(id, &self.active_chain().rules).tier();
        Some(BatchedTool {
            name: tool.name(),
            is_self_bounded: tool.is_self_bounded(),
            tier: configured.unwrap_or_else(|| tool.tier()),
        })
    }

    fn call(
        &self,
        params: CallToolRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Boxed<'_, Result<CallToolResponse, ErrorData>> {
        Box::pin(self.call_tool(params, request))
    }
}

impl Tmux {
    /// A server with these settings. It starts nothing and asks no tmux server before a tool is called.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let engine =
            Engine::new(&options.binary, options.time_limit).launched_by(&options.launcher);
        let shared = ServerState {
            engine,
            guard: SelfGuard::of_this_process(),
            buffers: Buffers::default(),
            recorder: Recorder::new(&options.record, options.mask).map(Arc::new),
            options,
            chain_replaced: tokio::sync::Notify::new(),
            channel_waits: tokio::sync::Semaphore::new(MAX_CHANNEL_WAITS),
            pending: PendingInput::default(),
        };
        let mut tools = tools::all();
        if shared.options.prompts_as_tools {
            tools.extend(prompts::tools());
        }
        Self {
            shared: Arc::new(shared),
            tools: tools.into(),
            resources: Arc::default(),
            governed_tools: None,
            governed_resources: GovernedResources::default(),
        }
    }

    /// Completes the settings of a chain for this server: each tool has its own tier unless the settings give it another
    /// one, tools that are not selected are inactive, and the command guard judges commands before they are typed.
    pub fn settle(&self, mut settings: Settings) -> Result<Settings, NoSuchTool> {
        self.shared.options.choice.apply(&self.tools, &mut settings)?;
        let tier = |tool: &Tool| {
            let tier = Some(tool.tier());
            Some((selector(tool)?, ToolSettings::with(|tool| tool.tier = tier)))
        };
        settings.tools.extend(self.tools.iter().filter_map(tier));
        settings.validate.get_or_insert_default().input_schema = true;
        command_guard::require(&self.shared, &mut settings);
        Ok(settings)
    }

    /// Adds the command guard to the parts that a chain is built from.
    pub fn install(&self, parts: &mut Parts) {
        command_guard::install(&self.shared, parts);
    }

    /// The tmux socket of calls that name none.
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

    /// Puts the chain that the settings describe around this server.
    pub fn governed(self, settings: Settings) -> Result<(Arc<Governed<Self>>, Stack), StackError> {
        let settings = self.settle(settings).map_err(|error| StackError::Layer {
            layer: toolgate::middleware::filter::NAME,
            why: error.to_string(),
            key: Vec::new(),
        })?;
        self.governed_with(&settings, Parts::default(), "default")
    }

    /// Like [`governed`](Self::governed), in a namespace and with the parts that the program adds to the chain. The
    /// settings must be [settled](Self::settle).
    pub fn governed_with(
        self,
        settings: &Settings,
        mut parts: Parts,
        namespace: &str,
    ) -> Result<(Arc<Governed<Self>>, Stack), StackError> {
        self.install(&mut parts);
        let stack = stack::build_with(settings, parts)?;
        let active = self.active_chain(&stack, settings);
        let governed =
            Governed::new(self, stack.chain.clone()).server_name(NAME).namespace(namespace);
        governed.govern_by(active);
        let governed = Arc::new_cyclic(|weak: &Weak<Governed<Self>>| {
            governed.map_handler(|tmux, chain| Self {
                governed_tools: Some(weak.clone()),
                governed_resources: GovernedResources::new(chain, Arc::clone(&tmux.tools)),
                ..tmux
            })
        });
        Ok((governed, stack))
    }

    /// Replaces the chain for calls that start from now on by a stack that was built from these settings.
    pub fn govern_by(governed: &Governed<Self>, stack: &Stack, settings: &Settings) {
        let active = governed.handler().active_chain(stack, settings);
        governed.govern_by(active);
        governed.handler().shared.chain_replaced.notify_one();
    }

    fn active_chain(&self, stack: &Stack, settings: &Settings) -> ActiveChain {
        let listed: Vec<ToolId> = self.names().map(|name| ToolId::new(NAME, name)).collect();
        for collision in stack.overrides.learn(&listed) {
            tracing::error!("{collision}");
        }
        if let Some(tier) = settings.safety {
            self.shared.options.safety.set(tier);
        }
        ActiveChain {
            chain: stack.chain.clone(),
            names: Some(stack.overrides.clone()),
            rules: settings.tier_rules(),
            in_flight: settings.limits.in_flight,
        }
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// Ends the recordings and deletes this server's paste buffers.
    async fn close(&self) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.close().await;
        }
        self.shared.buffers.clear(&self.shared.engine).await;
    }

    fn cx(&self, request: RequestContext<RoleServer>) -> ToolContext {
        let governed = self.governed_tools.clone();
        ToolContext { shared: Arc::clone(&self.shared), governed, request }
    }

    async fn run(
        &self,
        params: CallToolRequestParams,
        cx: ToolContext,
    ) -> Result<CallToolResponse, Failure> {
        let tool = self.tool(&params.name).ok_or_else(|| {
            Failure::new(Code::UnknownTool, format!("Unknown tool: '{}'", params.name))
                .suggest("Call tools/list for available tools.")
        })?;
        let arguments = params.arguments.unwrap_or_default();
        if let Some(environment) = arguments.get("environment") {
            program_settings::variables(cx.options(), environment)?;
        }
        if let Some(call) = cx.request.extensions.get::<CallId>() {
            self.shared.pending.ran(*call).await;
        }
        let cancelled = cx.request.ct.clone();
        // A tool's future can be dropped at any point: answers to its commands are then discarded.
        tokio::select! {
            result = async {
                cx.record(tool.name(), &arguments).await?;
                tool.run(cx, arguments).await
            } => Ok(result?.into()),
            () = cancelled.cancelled() => {
                Err(Failure::new(Code::Cancelled, "the call was cancelled").with_executed(Executed::Maybe))
            }
        }
    }
}

impl ServerHandler for Tmux {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_completions().enable_prompts();
        let can = can.enable_resources().enable_resources_subscribe();
        let can = can.enable_tools().enable_tool_list_changed().build();
        let mut info = ServerConfig::new(can);
        info.server_info = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        let safety = self.governed_tools.as_ref().map(|_| self.shared.options.safety.get());
        info.instructions = Some(instructions(&self.shared, safety));
        info
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(Tool::published).collect();
        let (tools, next) = page(tools, self.shared.options.page_size, params)?;
        let mut list = ListToolsResult::with_all_items(tools);
        list.next_cursor = next;
        Ok(list)
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
        params: Option<PaginatedRequestParams>,
        request: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cx = self.cx(request);
        let list = resources::list(&cx, &self.governed_resources).await;
        let mut list = list.map_err(|failure| raise(&cx.request, failure))?;
        let resources = std::mem::take(&mut list.resources);
        (list.resources, list.next_cursor) =
            page(resources, self.shared.options.page_size, params)?;
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut list = resources::templates();
        let templates = std::mem::take(&mut list.resource_templates);
        (list.resource_templates, list.next_cursor) =
            page(templates, self.shared.options.page_size, params)?;
        Ok(list)
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resources.read(&self.cx(request), &self.governed_resources, params.uri).await
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let cx = self.cx(request);
        self.resources.subscriptions.open(cx, &self.governed_resources, params.uri).await
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
        Some(Subscriptions::accepted(&self.governed_resources, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let cx = self.cx(context.request_context().clone());
        self.resources.subscriptions.listen(cx, &self.governed_resources, context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        params: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut list = prompts::list();
        let prompts = std::mem::take(&mut list.prompts);
        (list.prompts, list.next_cursor) = page(prompts, self.shared.options.page_size, params)?;
        Ok(list)
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
        let complete = complete::complete(&cx, &self.governed_resources, params).await;
        complete.map_err(|failure| raise(&cx.request, failure))
    }
}

/// How long calls may take to end, and tmux to close its clients, when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Why the server ended before its client did.
#[derive(Debug, thiserror::Error)]
#[error("the client could not be served: {0}")]
pub struct ServeError(String);

/// Serves one client over standard input and output until the client closes them or `stop` completes. Messages of more
/// than `message_bytes` are refused.
pub async fn serve_stdio(
    tmux: Arc<Governed<Tmux>>,
    message_bytes: usize,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let transport = LineTransport::new(input, output, message_bytes);
    let serving = rmcp::ServiceExt::serve(Arc::clone(&tmux), transport);
    let mut stop = std::pin::pin!(stop);
    let served = tokio::select! {
        served = serving => served,
        () = &mut stop => return Ok(()),
    };
    let served = match served {
        Ok(served) => served,
        // The client closed the connection without a message: that is no error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError(error.to_string())),
    };
    let (cancel, client) = (served.cancellation_token(), served.peer().clone());
    let mut waiting = std::pin::pin!(served.waiting());
    let ended = loop {
        tokio::select! {
            ended = &mut waiting => break ended.map(drop).map_err(|error| ServeError(error.to_string())),
            () = &mut stop => {
                cancel.cancel();
                // Calls that do not end in time are dropped.
                let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut waiting).await;
                break Ok(());
            }
            () = tmux.handler().shared.chain_replaced.notified() => {
                // It fails if the client has disconnected.
                let _ = client.notify_tool_list_changed().await;
            }
        }
    };
    tmux.handler().close().await;
    // With a limit, for a tmux server that hangs.
    let close = tmux.handler().shared.engine.close_clients();
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, close).await;
    ended
}
