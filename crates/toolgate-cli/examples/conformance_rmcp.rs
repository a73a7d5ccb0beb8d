//! What the conformance server of the official Rust SDK does, on the SDK's own sessions and defaults: `--http ADDR`.
//!
//! It has the contents of our own server for the suite and differs in its ways, which are those of many servers: it answers
//! completions without announcing them, asks the client in either era without looking whether the client can answer, keeps
//! nothing between two rounds but a sealed state, logs whatever the level, and lets its lists be cached.

#![expect(deprecated, reason = "the suite tests what is deprecated too")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a program for the tests: what cannot go on should say where"
)]

#[path = "conformance/catalog.rs"]
mod catalog;
#[path = "conformance/http.rs"]
mod http;
#[path = "conformance/jobs.rs"]
mod jobs;
#[path = "conformance/questions.rs"]
mod questions;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex},
    time::Duration,
};

use jobs::Job;
use questions::{Answers, Script};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
        ClientCapabilities, CompleteRequestParams, CompleteResult, CompletionInfo,
        GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
        InitializeRequestParams, InitializeResult, InputRequests, InputRequiredResult,
        InputResponses, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams,
        ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RequestContext, SubscriptionContext, SubscriptionSink},
    task_manager::TaskManager,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::json;

#[tokio::main]
async fn main() {
    let Some(address) = std::env::args().skip_while(|argument| argument != "--http").nth(1) else {
        return eprintln!("usage: conformance_rmcp --http ADDR");
    };
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let server = Mirror::default();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    http::serve(&listener, move |request| {
        let service = service.clone();
        async move { service.handle(request).await }
    })
    .await;
}

type Context = RequestContext<RoleServer>;

#[derive(Clone, Default)]
struct Mirror {
    tasks: Arc<TaskManager>,
    listeners: Arc<Mutex<Vec<SubscriptionSink>>>,
    /// Seals the states that clients bring back.
    key: RandomState,
}

/// What became of a call that asks.
enum Asked {
    Answered(String),
    More(InputRequiredResult),
}

impl Mirror {
    fn seal(&self, round: usize, answers: &Answers) -> String {
        let state = json!([round, answers]).to_string();
        format!("{:016x}{state}", self.key.hash_one(&state))
    }

    fn open(&self, sealed: &str) -> Result<(usize, Answers), ErrorData> {
        let wrong = || ErrorData::invalid_params("the request state is not genuine", None);
        let (seal, state) = sealed.split_at_checked(16).ok_or_else(wrong)?;
        if format!("{:016x}", self.key.hash_one(state)) != seal {
            return Err(wrong());
        }
        serde_json::from_str(state).map_err(|_| wrong())
    }

    /// Goes on with what a client brought back: what an answer says is of no interest, only that there is one.
    fn go_on(
        &self,
        script: &Script,
        context: &Context,
        responses: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Asked, ErrorData> {
        let (mut round, mut answers) = match state {
            Some(state) if script.keeps_state => self.open(state)?,
            _ => (0, Answers::new()),
        };
        let may_answer = !script.keeps_state || state.is_some();
        let capabilities = context.meta.client_capabilities().unwrap_or_default();
        let questions = |round: usize| {
            let mut questions = script.rounds.get(round).cloned().unwrap_or_default();
            questions.retain(|(_, question)| {
                !script.leaves_out || questions::can_answer(&capabilities, question)
            });
            questions
        };
        let responses = responses.unwrap_or_default();
        let given = responses.into_iter().filter(|(_, answer)| may_answer && answer.is_object());
        answers.extend(given);
        while round < script.rounds.len()
            && questions(round).iter().all(|(key, _)| answers.contains_key(*key))
        {
            round += 1;
        }
        if round == script.rounds.len() {
            return Ok(Asked::Answered((script.text)(&answers)));
        }
        let mut requests = InputRequests::new();
        for (key, question) in questions(round) {
            requests.insert(key.to_owned(), questions::request(&question)?);
        }
        let state = script.keeps_state.then(|| self.seal(round, &answers));
        Ok(Asked::More(InputRequiredResult::new(Some(requests), state)))
    }

    /// The tools that ask, and the ones that go on as tasks.
    async fn converse(
        &self,
        request: CallToolRequestParams,
        context: &Context,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        let (tool, arguments) = (&*request.name, request.arguments.unwrap_or_default());
        let takes_tasks = context.client_capabilities().is_some_and(|it| it.supports_tasks());
        let job = jobs::job(tool, &arguments);
        let needs_a_task =
            matches!(job, Some(Job::Fail | Job::Ask(_))) || tool == "test_tool_with_task";
        if needs_a_task && !takes_tasks {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        match job {
            Some(job) if takes_tasks => return Ok(Some(job.spawn(&self.tasks))),
            Some(job) => return job.wait().await.map(|result| Some(result.into())),
            None => {}
        }
        let Some(script) = questions::script(tool, &arguments) else { return Ok(None) };
        if tool == "test_sampling" || tool.starts_with("test_elicitation") {
            return Ok(Some(match script.ask(context).await {
                Ok(answers) => catalog::text((script.text)(&answers)).into(),
                Err(error) => catalog::failure(&error.message).into(),
            }));
        }
        let state = request.request_state.as_deref();
        Ok(Some(match self.go_on(&script, context, request.input_responses, state)? {
            Asked::More(more) => more.into(),
            Asked::Answered(text) if tool == "test_tool_with_task" => {
                Job::Say(text).spawn(&self.tasks)
            }
            Asked::Answered(text) => catalog::text(text).into(),
        }))
    }

    /// The tools that do something.
    async fn act(&self, tool: &str, context: &Context) -> Result<CallToolResult, ErrorData> {
        let log = async |level, text: &str| {
            let message = LoggingMessageNotificationParam::new(level, json!(text));
            let _ = context.peer.notify_logging_message(message).await;
        };
        let listeners = self.listeners.lock().unwrap().clone();
        match tool {
            "test_tool_with_logging" => {
                for text in ["started", "goes on", "ends"] {
                    log(LoggingLevel::Info, text).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "test_logging_tool" => {
                if let Some(level) = context.meta.log_level() {
                    log(level, "called").await;
                }
            }
            "test_tool_with_progress" => {
                let Some(token) = context.meta.get_progress_token() else { return Ok(done()) };
                for progress in [0.0, 50.0, 100.0] {
                    let progress = ProgressNotificationParam::new(token.clone(), progress);
                    let _ = context.peer.notify_progress(progress.with_total(100.0)).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "test_reconnection" => tokio::time::sleep(Duration::from_millis(100)).await,
            "test_trigger_tool_change" => {
                for listener in listeners {
                    let _ = listener.notify_tool_list_changed().await;
                }
            }
            "test_trigger_prompt_change" => {
                for listener in listeners {
                    let _ = listener.notify_prompt_list_changed().await;
                }
            }
            "test_trigger_resource_update" => {
                for listener in listeners {
                    let _ = listener.notify_resource_updated(catalog::WATCHED).await;
                }
            }
            "test_missing_capability" => {
                let capabilities = context.meta.client_capabilities().unwrap_or_default();
                if capabilities.sampling.is_none() {
                    let needed = ClientCapabilities::builder().enable_sampling().build();
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
            }
            _ => return Err(ErrorData::invalid_params(format!("Unknown tool: {tool}"), None)),
        }
        Ok(done())
    }
}

fn done() -> CallToolResult {
    catalog::text("Done")
}

/// A minute is how long each list and each resource may be kept, by anybody.
macro_rules! cacheable {
    ($result:expr) => {
        $result.with_ttl_ms(60_000).with_cache_scope(CacheScope::Public)
    };
}

impl ServerHandler for Mirror {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("conformance-rmcp", "1.0.0"))
            .with_instructions("A server for conformance tests, as the SDK makes them.")
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: Context,
    ) -> Result<InitializeResult, ErrorData> {
        let version = request.protocol_version.clone();
        context.peer.set_peer_info(request);
        // Whatever the client speaks.
        Ok(self.get_info().with_protocol_version(version))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalog::tools(0).into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(cacheable!(ListToolsResult::with_all_items(catalog::tools(0))))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.clone().unwrap_or_default();
        if let Some(answer) = catalog::answer(&request.name, &arguments) {
            return Ok(answer.into());
        }
        let tool = request.name.clone();
        if let Some(response) = self.converse(request, &context).await? {
            return Ok(response);
        }
        self.act(&tool, &context).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(cacheable!(ListPromptsResult::with_all_items(catalog::prompts(0))))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        if let Some(prompt) = catalog::prompt(&request.name, &arguments) {
            return Ok(prompt.into());
        }
        let unknown =
            || ErrorData::invalid_params(format!("Unknown prompt: {}", request.name), None);
        let script = questions::script(&request.name, &arguments).ok_or_else(unknown)?;
        Ok(match self.go_on(&script, &context, request.input_responses, None)? {
            Asked::More(more) => more.into(),
            Asked::Answered(text) => catalog::messages(vec![catalog::said(&text)]).into(),
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(cacheable!(ListResourcesResult::with_all_items(catalog::resources())))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(cacheable!(ListResourceTemplatesResult::with_all_items(catalog::templates())))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let data = Some(json!({"uri": request.uri}));
        let missing = ErrorData::resource_not_found("Resource not found", data);
        let read = catalog::read(&request.uri, 0).ok_or(missing)?;
        Ok(cacheable!(read).into())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let completion = CompletionInfo::new(vec!["paris".to_owned(), "park".to_owned()]);
        let completion = completion.map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        // It stays there when it has ended: it then refuses what it is told.
        self.listeners.lock().unwrap().push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: Context,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
