//! What the server of `everything.rs` offers besides tools.
#![expect(deprecated, reason = "what rmcp deprecates, servers still have: set_level, subscribe")]

use std::sync::atomic::Ordering;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::tool::ToolCallContext,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CompletionInfo, CustomNotification, CustomRequest,
        CustomResult, DetailedTask, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, Prompt, PromptMessage, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
        ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Task, TaskPayload,
        TaskStatus, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::json;

use crate::everything::Everything;

type Asked = RequestContext<RoleServer>;
type EventContext = NotificationContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

impl Everything {
    fn told(&self, what: impl Into<String>) {
        self.0.told.send_modify(|told| told.push(what.into()));
    }
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("everything", "1.0.0"))
            .with_instructions("Ask for anything.")
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Asked,
    ) -> Result<CallToolResponse, ErrorData> {
        self.router().call(ToolCallContext::new(self, request, context)).await
    }

    async fn list_tools(&self, _: Page, _: Asked) -> Result<ListToolsResult, ErrorData> {
        self.0.listed.fetch_add(1, Ordering::SeqCst);
        // Long enough for other calls to come in between.
        tokio::task::yield_now().await;
        Ok(ListToolsResult::with_all_items(self.router().list_all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.router().get(name).cloned()
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Asked,
    ) -> Result<CompleteResult, ErrorData> {
        let values = vec![format!("{}!", request.argument.value)];
        Ok(CompleteResult::new(CompletionInfo::new(values).unwrap()))
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: Asked) -> Result<(), ErrorData> {
        self.told(format!("level {:?}", request.level));
        Ok(())
    }

    async fn list_prompts(&self, page: Page, _: Asked) -> Result<ListPromptsResult, ErrorData> {
        let prompt = |name: &str| vec![Prompt::new(name, Some("A prompt"), None)];
        Ok(match page.and_then(|page| page.cursor) {
            None => ListPromptsResult {
                next_cursor: Some("more".into()),
                ..ListPromptsResult::with_all_items(prompt("hail"))
            },
            Some(_) => ListPromptsResult::with_all_items(prompt("farewell")),
        })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Asked,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != "hail" {
            return Err(ErrorData::invalid_params("no such prompt", Some(json!(request.name))));
        }
        let messages = vec![PromptMessage::new_text(Role::User, "Hail!")];
        Ok(GetPromptResult::new(messages).into())
    }

    async fn list_resources(&self, _: Page, _: Asked) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("mem://note", "note")]))
    }

    async fn list_resource_templates(
        &self,
        _: Page,
        _: Asked,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("mem://{name}", "memory");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Asked,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let text = match uri.as_str() {
            "mem://note" => "a note".to_owned(),
            "mem://long" => "a line\n".repeat(2000),
            _ => {
                return Err(ErrorData::resource_not_found("no such memory", Some(json!(uri))));
            }
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]).into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, cx: Asked) -> Result<(), ErrorData> {
        let update = ResourceUpdatedNotificationParam::new(request.uri);
        cx.peer.notify_resource_updated(update).await.unwrap();
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Asked) -> Result<(), ErrorData> {
        self.told("unsubscribe");
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        asked: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(asked.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        context.sink().notify_tool_list_changed().await.unwrap();
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Asked) -> Result<GetTaskResult, ErrorData> {
        let task = Task::new(request.task_id, TaskStatus::Working, "2026-01-01", "2026-01-02");
        Ok(GetTaskResult::new(DetailedTask::new(task, TaskPayload::Working)))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Asked) -> Result<(), ErrorData> {
        self.told(format!("update {}", request.task_id));
        Ok(())
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Asked) -> Result<(), ErrorData> {
        Err(ErrorData::invalid_params("no such task", Some(json!(request.task_id))))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: Asked,
    ) -> Result<CustomResult, ErrorData> {
        Ok(CustomResult(json!({"asked": request.method, "with": request.params})))
    }

    async fn on_cancelled(&self, notification: CancelledNotificationParam, _: EventContext) {
        self.told(format!("cancelled: {}", notification.reason.unwrap_or_default()));
    }

    async fn on_progress(&self, notification: ProgressNotificationParam, _: EventContext) {
        self.told(format!("progress {}", notification.progress));
    }

    async fn on_initialized(&self, _: EventContext) {
        self.told("initialized");
    }

    async fn on_roots_list_changed(&self, _: EventContext) {
        self.told("roots");
    }

    async fn on_custom_notification(&self, notification: CustomNotification, _: EventContext) {
        self.told(format!("custom {}", notification.method));
    }
}
