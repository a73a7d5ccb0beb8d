//! A client that answers what servers ask, and remembers what it is told.
#![expect(
    deprecated,
    reason = "what rmcp deprecates, clients still have: sampling, roots, logging"
)]

use std::time::Duration;

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, RoleServer,
    ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, Implementation, ListRootsResult, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, Root,
        SamplingMessage,
    },
    service::{NotificationContext, RequestContext, RunningService, ServiceError},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

/// Long enough for the slowest machine; nothing here waits for time to pass.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for something that must happen.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("it never happened")
}

pub(crate) struct Listener(mpsc::Sender<(&'static str, Value)>);

/// A client and its server.
pub(crate) struct Line<H: ServerHandler> {
    pub(crate) client: RunningService<RoleClient, Listener>,
    pub(crate) server: JoinHandle<RunningService<RoleServer, H>>,
    heard: mpsc::Receiver<(&'static str, Value)>,
}

/// The handshake of clients up to 2025-11-25.
pub(crate) fn old_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

/// The client of 2026-07-28, which shakes no hands.
pub(crate) fn new_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

pub(crate) async fn connect<H: ServerHandler>(handler: H, era: ClientLifecycleMode) -> Line<H> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (tell, heard) = mpsc::channel(1000);
    let server = tokio::spawn(async { handler.serve(far).await.unwrap() });
    let client = within(Listener(tell).serve_with_lifecycle(near, era)).await.unwrap();
    Line { client, server, heard }
}

impl<H: ServerHandler> Line<H> {
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are objects") };
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        within(self.client.call_tool(params)).await
    }

    /// The result of a call as JSON.
    pub(crate) async fn result(&self, name: &str, arguments: Value) -> Value {
        json!(self.call(name, arguments).await.unwrap())
    }

    /// The names of the tools.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let tools = within(self.client.peer().list_all_tools()).await.unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    /// The next notifications, in an order that does not depend on rmcp, which has none.
    pub(crate) async fn heard(&mut self, count: usize) -> Value {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(json!(within(self.heard.recv()).await.unwrap()));
        }
        all.sort_by_key(Value::to_string);
        json!(all)
    }

    pub(crate) async fn hang_up(self) {
        within(self.client.cancel()).await.unwrap();
        let server = within(self.server).await.unwrap();
        within(server.waiting()).await.unwrap();
    }
}

impl Listener {
    async fn hear(&self, what: &'static str, mut with: Value) {
        if let Some(with) = with.as_object_mut() {
            with.remove("progressToken");
        }
        self.0.send((what, with)).await.unwrap();
    }
}

type EventContext = NotificationContext<RoleClient>;
type Asked = RequestContext<RoleClient>;

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::builder()
            .enable_roots()
            .enable_sampling()
            .enable_elicitation()
            .build();
        capabilities.extensions = ClientCapabilities::builder().enable_tasks().build().extensions;
        let mut info = ClientConfig::default();
        info.capabilities = capabilities;
        info.client_info = Implementation::new("listener", "1.2");
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: Asked,
    ) -> Result<ElicitResult, ErrorData> {
        let content = match json!(request)["requestedSchema"]["properties"].get("confirm") {
            Some(_) => json!({"confirm": true}),
            None => json!({"name": "Ferris", "asked": request}),
        };
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: Asked,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("Hm."), "model".into()))
    }

    async fn list_roots(&self, _: Asked) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///root")]))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: EventContext) {
        self.hear("progress", json!(params)).await;
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: EventContext) {
        self.hear("log", json!(params)).await;
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: EventContext) {
        self.hear("resource", json!(params)).await;
    }

    async fn on_tool_list_changed(&self, _: EventContext) {
        self.hear("tools", Value::Null).await;
    }
}
