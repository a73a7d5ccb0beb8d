//! The tools of a server that uses whatever MCP has.
#![expect(deprecated, reason = "what rmcp deprecates, servers still use: sampling, roots, logging")]

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rmcp::{
    ErrorData, Json, Peer, RoleServer,
    handler::server::{
        router::tool::ToolRouter,
        tool::{InputResponses, RequestState},
        wrapper::Parameters,
    },
    model::{
        CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequestParams, ElicitRequest,
        ElicitRequestParams, ErrorCode, InputRequest, InputRequests, InputRequiredResult,
        LoggingLevel, LoggingMessageNotificationParam, MetaObject, ProgressNotificationParam,
        RequestMetaObject, SamplingMessage,
    },
    schemars,
    service::RequestContext,
    tool, tool_router,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

/// Every tool and whatever else a server can offer; see `offers.rs` for what are not tools.
#[derive(Clone, Default)]
pub(crate) struct Everything(pub(crate) Arc<State>);

/// What tests ask of it.
pub(crate) struct State {
    /// Whether the tool `late` is there by now.
    pub(crate) late: AtomicBool,
    /// Whether `shifty` calls itself destructive by now.
    pub(crate) shifted: AtomicBool,
    /// How often a tool really ran.
    pub(crate) ran: AtomicUsize,
    /// How often the tools were listed.
    pub(crate) listed: AtomicUsize,
    /// A permit for each `wait` that began.
    pub(crate) waiting: Semaphore,
    /// A permit for each `wait` or task of it that noticed the cancellation.
    pub(crate) stopped: Semaphore,
    /// Notifications that arrived.
    pub(crate) told: watch::Sender<Vec<String>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            late: AtomicBool::default(),
            shifted: AtomicBool::default(),
            ran: AtomicUsize::default(),
            listed: AtomicUsize::default(),
            waiting: Semaphore::new(0),
            stopped: Semaphore::new(0),
            told: watch::Sender::default(),
        }
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    a: i64,
    b: i64,
}

#[derive(Serialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct Sum {
    sum: i64,
    half: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct Size {
    bytes: usize,
}

#[derive(Serialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(crate) struct Report {
    title: String,
    body: String,
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn question() -> ElicitRequestParams {
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Name?".into(),
        requested_schema: serde_json::from_value(json!({
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"]
        }))
        .unwrap(),
    }
}

impl Everything {
    /// The tools that there are now.
    pub(crate) fn router(&self) -> ToolRouter<Self> {
        let mut router = Self::tools();
        if !self.0.late.load(Ordering::SeqCst) {
            router = router.with_disabled("late");
        }
        if self.0.shifted.load(Ordering::SeqCst)
            && let Some(route) = router.map.get_mut("shifty")
        {
            route.attr.annotations.as_mut().unwrap().read_only_hint = Some(false);
        }
        router
    }
}

#[tool_router(router = tools, vis = "pub(crate)")]
impl Everything {
    #[tool(description = "Adds two numbers", annotations(read_only_hint = true))]
    async fn add(&self, Parameters(Pair { a, b }): Parameters<Pair>) -> Json<Sum> {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        Json(Sum { sum: a + b, half: (a + b) as f64 / 2.0 })
    }

    #[tool(description = "Says how far it is", annotations(read_only_hint = true))]
    async fn count(
        &self,
        meta: RequestMetaObject,
        peer: Peer<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let token = meta.get_progress_token().ok_or_else(|| failed("no progress token"))?;
        for step in 1..=3_u8 {
            let progress = ProgressNotificationParam::new(token.clone(), step.into());
            peer.notify_progress(progress.with_total(3.0)).await.map_err(failed)?;
        }
        Ok(text("counted"))
    }

    #[tool(description = "Waits to be cancelled", annotations(read_only_hint = true))]
    async fn wait(&self, context: RequestContext<RoleServer>) -> CallToolResult {
        let (state, token) = (Arc::clone(&self.0), context.ct.clone());
        // What a tool sets going hears of the cancellation too, even when the tool is dropped.
        tokio::spawn(async move {
            token.cancelled().await;
            state.stopped.add_permits(1);
        });
        self.0.waiting.add_permits(1);
        context.ct.cancelled().await;
        self.0.stopped.add_permits(1);
        text("stopped")
    }

    #[tool(description = "Asks the user", annotations(read_only_hint = true))]
    async fn ask(&self, peer: Peer<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let answer = peer.create_elicitation(question()).await.map_err(failed)?;
        Ok(text(json!(answer).to_string()))
    }

    #[tool(description = "Asks the model and for roots", annotations(read_only_hint = true))]
    async fn consult(&self, peer: Peer<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text("Hm?")], 9);
        let said = peer.create_message(params).await.map_err(failed)?;
        let roots = peer.list_roots().await.map_err(failed)?;
        Ok(text(json!([said, roots]).to_string()))
    }

    #[tool(description = "Greets whoever it asked for", annotations(read_only_hint = true))]
    async fn greet(
        &self,
        RequestState(state): RequestState,
        InputResponses(responses): InputResponses,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(state) = state else {
            let ask = InputRequest::Elicitation(ElicitRequest::new(question()));
            let requests = InputRequests::from([("who".to_owned(), ask)]);
            let state = Some("first \"round\"\n".to_owned());
            return Ok(InputRequiredResult::new(Some(requests), state).into());
        };
        let name = responses.and_then(|mut all| all.remove("who")).ok_or_else(|| failed("who?"))?;
        Ok(text(format!("{state}: {}", name["content"]["name"])).into())
    }

    #[tool(description = "Writes to the log", annotations(read_only_hint = true))]
    async fn log(&self, peer: Peer<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let entry = LoggingMessageNotificationParam::new(LoggingLevel::Notice, json!({"a": 1}));
        peer.notify_logging_message(entry).await.map_err(failed)?;
        Ok(text("logged"))
    }

    #[tool(description = "Adds a tool", annotations(read_only_hint = true))]
    async fn grow(&self, peer: Peer<RoleServer>) -> Result<CallToolResult, ErrorData> {
        self.0.late.store(true, Ordering::SeqCst);
        peer.notify_tool_list_changed().await.map_err(failed)?;
        Ok(text("grown"))
    }

    #[tool(description = "Comes later", annotations(read_only_hint = true))]
    async fn late(&self) -> CallToolResult {
        text("better than never")
    }

    #[tool(description = "Changes its mind about itself", annotations(read_only_hint = true))]
    async fn shifty(&self) -> CallToolResult {
        text("shifted")
    }

    #[tool(description = "Shows its _meta and has some", annotations(read_only_hint = true))]
    async fn meta(&self, meta: RequestMetaObject) -> CallToolResult {
        let keys: Vec<_> = meta.keys().filter(|key| *key != "progressToken").collect();
        let mut result = text(json!(keys).to_string());
        result.meta = Some(MetaObject(rmcp::object!({"cost": 0.1, "null": null})));
        result
    }

    #[tool(description = "Writes a long report", annotations(read_only_hint = true))]
    async fn report(&self, Parameters(Size { bytes }): Parameters<Size>) -> Json<Report> {
        Json(Report { title: "Report".into(), body: "0123456789".repeat(bytes / 10) })
    }

    #[tool(description = "Renames", annotations(read_only_hint = false, destructive_hint = false))]
    async fn rename(&self) -> CallToolResult {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        text("renamed")
    }

    #[tool(description = "Deletes everything", annotations(destructive_hint = true))]
    async fn wipe(&self) -> CallToolResult {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        text("wiped")
    }

    #[tool(description = "Says nothing of itself")]
    async fn silent(&self) -> CallToolResult {
        text("...")
    }

    #[tool(description = "Fails politely", annotations(read_only_hint = true))]
    async fn fail(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("no such pane")])
    }

    #[tool(description = "Fails by protocol", annotations(read_only_hint = true))]
    async fn reject(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::new(ErrorCode(-32005), "disk on fire", Some(json!({"disk": 0.1}))))
    }

    #[tool(description = "Wants other arguments", annotations(read_only_hint = true))]
    async fn picky(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::invalid_params("what is hunter2-secret?", Some(json!({"field": "x"}))))
    }

    #[tool(description = "Wants a page visited first", annotations(read_only_hint = true))]
    async fn visit(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::new(ErrorCode(-32042), "go there", Some(json!({"urls": [0.1]}))))
    }

    #[tool(description = "Works the second time", annotations(read_only_hint = true))]
    async fn flaky(&self) -> CallToolResult {
        assert!(self.0.ran.fetch_add(1, Ordering::SeqCst) > 0, "expected in this test");
        text("at last")
    }

    /// rmcp can write this result and cannot read it.
    #[tool(description = "Asks for nothing", annotations(read_only_hint = true))]
    async fn odd(&self) -> Result<CallToolResponse, ErrorData> {
        Ok(InputRequiredResult::new(None, None).into())
    }

    #[tool(description = "Panics", annotations(read_only_hint = true))]
    async fn panic(&self) -> CallToolResult {
        panic!("expected in this test")
    }
}
