//! The server itself: which request is answered by what.

#![expect(deprecated, reason = "the suite tests what is deprecated too")]

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::http::request::Parts;
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        ClientCapabilities, CompleteRequestParams, CompleteResult, CompletionInfo,
        GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LoggingLevel, LoggingMessageNotificationParam,
        PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ResourceUpdatedNotificationParam,
        ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
    task_manager::TaskManager,
};
use serde_json::json;
use tokio::sync::broadcast;

use crate::{
    asking::{self, Asked, States},
    catalog,
    jobs::{self, Job},
    questions,
    sessions::Sessions,
};

/// The first version without `initialize`.
pub(crate) const MODERN: &str = "2026-07-28";

/// Which versions the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
    Both,
}

/// What changed. Subscribed clients are notified of it.
#[derive(Clone, Copy, Debug)]
enum Change {
    Tools,
    Prompts,
    Watched,
}

/// What all sessions and requests have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    era: Era,
    sessions: Option<Arc<Sessions>>,
    tasks: Tasks,
    states: States,
    changes: broadcast::Sender<Change>,
    changed: [AtomicU64; 3],
    /// Legacy clients, and whether they subscribed: they are told of other changes without a request that asks for it.
    peers: Mutex<Vec<(Peer<RoleServer>, Arc<AtomicBool>)>>,
}

/// The library's tasks do not say what is in them.
#[derive(Default)]
struct Tasks(TaskManager);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(era: Era, sessions: Option<Arc<Sessions>>) -> Arc<Self> {
        Arc::new(Self {
            era,
            sessions,
            tasks: Tasks::default(),
            states: States::default(),
            changes: broadcast::channel(64).0,
            changed: Default::default(),
            peers: Mutex::default(),
        })
    }

    fn count(&self, change: Change) -> u64 {
        self.counter(change).load(Ordering::Relaxed)
    }

    fn counter(&self, change: Change) -> &AtomicU64 {
        let [tools, prompts, watched] = &self.changed;
        match change {
            Change::Tools => tools,
            Change::Prompts => prompts,
            Change::Watched => watched,
        }
    }

    /// Changes something, and tells everyone who listens.
    async fn change(&self, change: Change) {
        self.counter(change).fetch_add(1, Ordering::Relaxed);
        let _ = self.changes.send(change);
        let peers = {
            let mut peers = self.peers.lock().unwrap();
            peers.retain(|(peer, _)| !peer.is_transport_closed());
            peers.clone()
        };
        for (peer, watches) in peers {
            let _ = match change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Watched if !watches.load(Ordering::Relaxed) => Ok(()),
                Change::Watched => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(
                        catalog::WATCHED,
                    ))
                    .await
                }
            };
        }
    }
}

/// Whether the request is one of the newer era.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= MODERN)
}

/// One session, or one request without a session.
#[derive(Debug)]
pub(crate) struct Conformance {
    shared: Arc<Shared>,
    /// The least level that a legacy client wants to read of.
    level: Mutex<Option<LoggingLevel>>,
    /// Whether a legacy client subscribed to the resource that changes.
    watches: Arc<AtomicBool>,
}

impl Conformance {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, level: Mutex::default(), watches: Arc::default() }
    }

    /// Sends a log message, if the client wants it.
    async fn log(&self, context: &RequestContext<RoleServer>, text: &str) {
        let least = if is_modern(context) {
            let Some(level) = context.meta.log_level() else { return };
            level
        } else {
            self.level.lock().unwrap().unwrap_or(LoggingLevel::Debug)
        };
        if (least as u8) <= LoggingLevel::Info as u8 {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text))
                .with_logger("conformance");
            let _ = context.peer.notify_logging_message(message).await;
        }
    }

    async fn progress(&self, context: &RequestContext<RoleServer>) -> CallToolResult {
        for progress in [0.0, 50.0, 100.0] {
            if let Some(token) = context.meta.get_progress_token() {
                let notification =
                    ProgressNotificationParam::new(token, progress).with_total(100.0);
                let _ = context.peer.notify_progress(notification).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        catalog::text("Tool with progress executed")
    }

    /// Closes the stream that the call came on, and answers on the one that the client comes back with.
    async fn reconnect(&self, context: &RequestContext<RoleServer>) -> CallToolResult {
        let session =
            context.extensions.get::<Parts>().and_then(|parts| parts.headers.get("mcp-session-id"));
        let session = session.and_then(|session| session.to_str().ok());
        if let (Some(session), Some(sessions)) = (session, &self.shared.sessions) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            sessions.close_stream(session, &context.id).await;
            // Longer than the retry time that clients were sent: a message without a connected client is lost.
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
        catalog::text("Reconnection test completed successfully")
    }

    /// The tools that do something.
    async fn act(
        &self,
        tool: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        match tool {
            "test_tool_with_logging" => {
                for text in
                    ["Tool execution started", "Tool processing data", "Tool execution completed"]
                {
                    self.log(context, text).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "test_logging_tool" => self.log(context, "Tool was called").await,
            "test_tool_with_progress" => return Ok(self.progress(context).await),
            "test_reconnection" => return Ok(self.reconnect(context).await),
            "test_trigger_tool_change" => self.shared.change(Change::Tools).await,
            "test_trigger_prompt_change" => self.shared.change(Change::Prompts).await,
            "test_trigger_resource_update" => self.shared.change(Change::Watched).await,
            "test_missing_capability" => {
                let capabilities = context.client_capabilities().unwrap_or_default();
                if capabilities.sampling.is_none() {
                    let needed = ClientCapabilities::builder().enable_sampling().build();
                    return Err(asking::missing(context, needed));
                }
            }
            _ => return Err(ErrorData::invalid_params(format!("unknown tool `{tool}`"), None)),
        }
        Ok(catalog::text("Done"))
    }

    /// The tools that ask, and the ones that may go on as a task.
    async fn converse(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let tasks = &self.shared.tasks.0;
        let takes_tasks = is_modern(context)
            && context.client_capabilities().is_some_and(|client| client.supports_tasks());
        if let Some(job) = jobs::job(&request.name, &arguments) {
            if takes_tasks {
                return Ok(Some(job.spawn(tasks)));
            }
            if matches!(job, Job::Fail) && is_modern(context) {
                let needed = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            if !matches!(job, Job::Ask(_)) {
                return job.wait().await.map(|result| Some(result.into()));
            }
        }
        let Some(script) = questions::script(&request.name, &arguments) else { return Ok(None) };
        let text = script.text;
        let asked = script
            .run(&self.shared.states, context, request.input_responses, request.request_state)
            .await?;
        Ok(Some(match asked {
            Asked::More(more) => more.into(),
            Asked::Answered(answers) if request.name == "test_tool_with_task" && takes_tasks => {
                Job::Say(text(&answers)).spawn(tasks)
            }
            Asked::Answered(answers) => catalog::text(text(&answers)).into(),
        }))
    }
}

impl ServerHandler for Conformance {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolgate-conformance", "1.0.0"))
            .with_instructions("A server for conformance tests.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let speaks = |version: &&ProtocolVersion| match self.shared.era {
            Era::Both => true,
            Era::Legacy => version.as_str() < MODERN,
            Era::Modern => version.as_str() >= MODERN,
        };
        ProtocolVersion::KNOWN_VERSIONS.iter().filter(speaks).cloned().collect()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.negotiate_initialize(&request)?;
        // Tasks are an extension of the newer era.
        result.capabilities.extensions = None;
        context.peer.set_peer_info(request);
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.peers.lock().unwrap().push((context.peer, self.watches.clone()));
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap() = Some(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(catalog::tools(self.shared.count(Change::Tools))))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalog::tools(0).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.clone().unwrap_or_default();
        if let Some(answer) = catalog::answer(&request.name, &arguments) {
            return Ok(answer.into());
        }
        let name = request.name.clone();
        if let Some(response) = self.converse(request, &context).await? {
            return Ok(response);
        }
        self.act(&name, &context).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(catalog::prompts(self.shared.count(Change::Prompts))))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        if let Some(prompt) = catalog::prompt(&request.name, &arguments) {
            return Ok(prompt.into());
        }
        let unknown =
            || ErrorData::invalid_params(format!("unknown prompt `{}`", request.name), None);
        let script = questions::script(&request.name, &arguments).ok_or_else(unknown)?;
        let text = script.text;
        let asked = script
            .run(&self.shared.states, &context, request.input_responses, request.request_state)
            .await?;
        Ok(match asked {
            Asked::More(more) => more.into(),
            Asked::Answered(answers) => {
                catalog::messages(vec![catalog::said(&text(&answers))]).into()
            }
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(catalog::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(catalog::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = catalog::read(&request.uri, self.shared.count(Change::Watched));
        let missing = || {
            ErrorData::resource_not_found("Resource not found", Some(json!({"uri": request.uri})))
        };
        read.map(Into::into).ok_or_else(missing)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watches.fetch_or(request.uri == catalog::WATCHED, Ordering::Relaxed);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watches.fetch_and(request.uri != catalog::WATCHED, Ordering::Relaxed);
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let values = ["test", "testing", "paris", "park"]
            .into_iter()
            .filter(|value| value.starts_with(begun));
        let values = values.map(str::to_owned).collect();
        let completion = CompletionInfo::with_all_values(values);
        let completion = completion.map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = context.cancelled() => return Ok(()),
            };
            let sink = context.sink();
            // What the client did not ask for is refused by the sink, and so not sent.
            let _ = match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Ok(Change::Watched) => sink.notify_resource_updated(catalog::WATCHED).await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.shared.tasks.0.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.0.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.0.cancel_task(&request.task_id)
    }
}
