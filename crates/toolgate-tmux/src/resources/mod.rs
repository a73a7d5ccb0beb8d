//! Resources: sessions, windows, panes, screens, and the new output of panes.
//!
//! A resource is read as a call of the tool that returns the same data, through the same chain: a caller that may not
//! call the tool may not read the resource, and the call log and the audit record both.

mod follow;
mod read;
mod subscriptions;
mod tail;
mod uri;

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceResponse, ReadResourceResult,
        Resource, ResourceContents, ResourceTemplate,
    },
    service::RequestContext,
};
use serde_json::json;
use toolgate::Failure;
use toolgate_rmcp::raise;

use crate::{
    call::ToolContext,
    engine::{ListTarget, TmuxError},
    governed_resources::GovernedResources,
};
pub(crate) use subscriptions::Subscriptions;
use tail::TailPositions;
pub(crate) use uri::is_missing;
use uri::{ResourceAddress, encoded};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// URI, name, title, MIME type and description.
const TEMPLATES: [[&str; 5]; 7] = [
    ["tmux://sessions{?socket_name}", "get_sessions", "All Sessions", JSON, "All sessions."],
    [
        "tmux://sessions/{session_name}{?socket_name}",
        "get_session",
        "Session Detail",
        JSON,
        "A session and its windows.",
    ],
    [
        "tmux://sessions/{session_name}/windows{?socket_name}",
        "get_session_windows",
        "Session Windows",
        JSON,
        "The windows of a session.",
    ],
    [
        "tmux://sessions/{session_name}/windows/{window_index}{?socket_name}",
        "get_window",
        "Window Detail",
        JSON,
        "A window and its panes.",
    ],
    [
        "tmux://panes/{pane_id}{?socket_name}",
        "get_pane",
        "Pane Detail",
        JSON,
        "A pane: size, process, title. The id is %250 for %0.",
    ],
    [
        "tmux://panes/{pane_id}/content{?socket_name}",
        "get_pane_content",
        "Pane Content",
        TEXT,
        "What is on a pane's screen.",
    ],
    [
        "tmux://panes/{pane_id}/tail{?socket_name}",
        "get_pane_tail",
        "Pane Tail",
        TEXT,
        "What is new in a pane since you last read this. Subscribe to it to be told when.",
    ],
];

/// How many resources are listed.
const MAX_LISTED: usize = 200;

/// The resource state of one client.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    tails: Arc<TailPositions>,
    pub(crate) subscriptions: Subscriptions,
}

/// `resources/templates/list`
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |[uri, name, title, kind, about]: [&str; 5]| {
        ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_mime_type(kind)
            .with_description(about)
    };
    ListResourceTemplatesResult::with_all_items(TEMPLATES.map(template).into())
}

/// `resources/list`: the sessions, and the screen of each pane. Empty if there is no server.
pub(crate) async fn list(
    cx: &ToolContext,
    governed: &GovernedResources,
) -> Result<ListResourcesResult, Failure> {
    let nothing = json!({});
    if !governed.allows("list_sessions", &nothing) || !governed.allows("list_panes", &nothing) {
        return Ok(ListResourcesResult::default());
    }
    let server = cx.server(None)?;
    let fields = &["session_name", "window_index", "window_name", "pane_id", "pane_index"];
    let rows = match server.list(ListTarget::Panes(None), fields).await {
        Err(TmuxError::NoServer) => Vec::new(),
        rows => rows?,
    };
    let mut names: Vec<String> = rows.iter().map(|row| row.text("session_name")).collect();
    names.dedup();
    let session = |name: &String| {
        Resource::new(format!("tmux://sessions/{}", encoded(name)), name.as_str())
            .with_mime_type(JSON)
            .with_description("A session and its windows.")
    };
    let pane = |row: &crate::engine::Row| {
        let [id, session, index, window] =
            ["pane_id", "session_name", "window_index", "window_name"].map(|field| row.text(field));
        Resource::new(format!("tmux://panes/{}/content", encoded(&id)), id.as_str())
            .with_title(format!("{id} in {session}:{index} {window}"))
            .with_mime_type(TEXT)
            .with_description("What is on the pane's screen.")
    };
    let all = names.iter().map(session).chain(rows.iter().map(pane)).take(MAX_LISTED);
    Ok(ListResourcesResult::with_all_items(all.collect()))
}

impl Resources {
    /// `resources/read`
    pub(crate) async fn read(
        &self,
        cx: &ToolContext,
        governed: &GovernedResources,
        uri: String,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = async {
            let address = ResourceAddress::parse(&uri)?;
            let run = || read::read(cx, &address, &self.tails);
            let text = allowed(cx, governed, &address, run).await?;
            Ok((text, address))
        };
        let (text, address) = text.await.map_err(|failure| refused(&cx.request, failure, &uri))?;
        let kind = if address.is_text() { TEXT } else { JSON };
        let contents = ResourceContents::text(text, uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

impl ResourceAddress {
    fn is_text(&self) -> bool {
        matches!(self.resource, uri::Resource::Content(_) | uri::Resource::Tail(_))
    }
}

/// Runs `run` as a call of the tool that the resource stands for. If it stands for several tools, all must be allowed.
async fn allowed<F, Fut>(
    cx: &ToolContext,
    governed: &GovernedResources,
    address: &ResourceAddress,
    run: F,
) -> Result<String, Failure>
where
    F: Fn() -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, Failure>> + Send,
{
    let (tools, arguments) = read::stands_for(address);
    let mut tools = tools.iter();
    let Some(first) = tools.next() else { return run().await };
    // The first tool that is denied produces the refusal, in a call that never runs.
    let denied = tools.find(|tool| !governed.allows(tool, &arguments));
    governed.run(denied.unwrap_or(first), &arguments, &cx.request, run).await
}

/// The error of a request. A resource that does not exist has an error code of its own.
fn refused(request: &RequestContext<RoleServer>, failure: Failure, uri: &str) -> ErrorData {
    if !is_missing(&failure) {
        return raise(request, failure);
    }
    let next = failure.suggestion().unwrap_or_default();
    let data = json!({"uri": uri, "error_type": failure.error_type(), "suggestion": next});
    ErrorData::resource_not_found(format!("{}\n{next}", failure.message()), Some(data))
}
