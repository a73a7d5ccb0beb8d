//! The handler's methods. None is left to rmcp's defaults: `tests/suite/explicit.rs` checks that.
#![expect(deprecated, reason = "what rmcp deprecates, handlers still have: subscribe, set_level")]

use std::borrow::Cow;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
        CompleteRequestParams, CompleteResult, CustomNotification, CustomRequest, CustomResult,
        DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde::Serialize;
use toolgate_wire::{Json, mcp::method};

use crate::Governed;

type RequestCx = RequestContext<RoleServer>;
type NotificationCx = NotificationContext<RoleServer>;

impl<H> Governed<H> {
    /// Shows a notification to the layers that look at these.
    fn see(&self, method: &str, params: Option<&impl Serialize>) {
        let active = self.connection.active();
        if active.chain.chain.sees_notifications() {
            let params = params.and_then(|params| Json::serialize(params).ok());
            active.chain.chain.notified(&self.anonymous_context(), method, params.as_ref());
        }
    }
}

impl<H: ServerHandler> ServerHandler for Governed<H> {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestCx,
    ) -> Result<CallToolResponse, ErrorData> {
        self.govern_call(request, context).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestCx,
    ) -> Result<ListToolsResult, ErrorData> {
        self.govern_list(request, context).await
    }

    /// The tool as the chain shows it; `None` if the chain hides it.
    ///
    /// rmcp calls this without a request, so the layers decide for this connection without a client; with
    /// [`principal_of`](Governed::principal_of), for an anonymous principal. It only affects what rmcp knows about the
    /// tool: every call passes the chain.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shown(self.handler.get_tool(name)?)
    }

    // Requests pass the chain if a layer looks at requests.

    async fn ping(&self, context: RequestCx) -> Result<(), ErrorData> {
        let run = |(), context| self.handler.ping(context);
        self.request(method::PING, (), context, run).await
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestCx,
    ) -> Result<InitializeResult, ErrorData> {
        let run = |request, context| self.handler.initialize(request, context);
        self.request(method::INITIALIZE, request, context, run).await
    }

    async fn discover(&self, context: RequestCx) -> Result<DiscoverResult, ErrorData> {
        let run = |(), context| self.handler.discover(context);
        self.request(method::SERVER_DISCOVER, (), context, run).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestCx,
    ) -> Result<CompleteResult, ErrorData> {
        let run = |request, context| self.handler.complete(request, context);
        self.request(method::COMPLETION_COMPLETE, request, context, run).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestCx,
    ) -> Result<(), ErrorData> {
        let run = |request, context| self.handler.set_level(request, context);
        self.request(method::LOGGING_SET_LEVEL, request, context, run).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestCx,
    ) -> Result<GetPromptResponse, ErrorData> {
        let run = |request, context| self.handler.get_prompt(request, context);
        self.request(method::PROMPTS_GET, request, context, run).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestCx,
    ) -> Result<ListPromptsResult, ErrorData> {
        let run = |request, context| self.handler.list_prompts(request, context);
        self.request(method::PROMPTS_LIST, request, context, run).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestCx,
    ) -> Result<ListResourcesResult, ErrorData> {
        let run = |request, context| self.handler.list_resources(request, context);
        self.request(method::RESOURCES_LIST, request, context, run).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestCx,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let run = |request, context| self.handler.list_resource_templates(request, context);
        self.request(method::RESOURCES_TEMPLATES_LIST, request, context, run).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestCx,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let run = |request, context| self.handler.read_resource(request, context);
        self.request(method::RESOURCES_READ, request, context, run).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestCx,
    ) -> Result<(), ErrorData> {
        let run = |request, context| self.handler.subscribe(request, context);
        self.request(method::RESOURCES_SUBSCRIBE, request, context, run).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestCx,
    ) -> Result<(), ErrorData> {
        let run = |request, context| self.handler.unsubscribe(request, context);
        self.request(method::RESOURCES_UNSUBSCRIBE, request, context, run).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestCx,
    ) -> Result<GetTaskResult, ErrorData> {
        let run = |request, context| self.handler.get_task(request, context);
        self.request(method::TASKS_GET, request, context, run).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestCx,
    ) -> Result<(), ErrorData> {
        let run = |request, context| self.handler.update_task(request, context);
        self.request(method::TASKS_UPDATE, request, context, run).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestCx,
    ) -> Result<(), ErrorData> {
        let run = |request, context| self.handler.cancel_task(request, context);
        self.request(method::TASKS_CANCEL, request, context, run).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestCx,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, extensions } = request;
        let run = |params, context| {
            let (method, extensions) = (method.clone(), extensions.clone());
            self.handler.on_custom_request(CustomRequest { method, params, extensions }, context)
        };
        self.request(&method, params, context, run).await
    }

    // A subscription is a stream of the handler, not a request with one response.

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.handler.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.handler.listen(context).await
    }

    // Notifications have no response that a layer could change. Layers only see them.

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationCx,
    ) {
        self.see(method::NOTIFICATIONS_CANCELLED, Some(&notification));
        self.handler.on_cancelled(notification, context).await;
    }

    async fn on_progress(&self, notification: ProgressNotificationParam, context: NotificationCx) {
        self.see(method::NOTIFICATIONS_PROGRESS, Some(&notification));
        self.handler.on_progress(notification, context).await;
    }

    async fn on_initialized(&self, context: NotificationCx) {
        self.see(method::NOTIFICATIONS_INITIALIZED, None::<&()>);
        self.handler.on_initialized(context).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationCx) {
        self.see(method::NOTIFICATIONS_ROOTS_LIST_CHANGED, None::<&()>);
        self.handler.on_roots_list_changed(context).await;
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationCx,
    ) {
        self.see(&notification.method, notification.params.as_ref());
        self.handler.on_custom_notification(notification, context).await;
    }

    // Server information.

    fn get_info(&self) -> ServerConfig {
        self.handler.get_info()
    }

    fn negotiate_initialize(
        &self,
        request: &InitializeRequestParams,
    ) -> Result<InitializeResult, ErrorData> {
        self.handler.negotiate_initialize(request)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }
}
