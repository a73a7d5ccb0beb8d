//! A request to a server: what its transport needs to know of it, and what comes back while it is in flight.

use std::sync::Arc;

use toolgate::Failure;
use toolgate_wire::{Id, Json, Message, mcp::method};

use crate::capabilities::{ClientCapabilities, is_vendor};

/// What a server sends while a request is in flight.
#[derive(Debug)]
pub(crate) enum UpstreamEvent {
    /// A notification that belongs to the request.
    Notification(Message),
    /// A request of the server to the client.
    ServerRequest(Message),
    /// The server cancels its own request with this id.
    ServerRequestCancelled(Id),
    /// The response: nothing follows.
    Response(Message),
    /// The server has forgotten the session: the request did not run, and nothing follows.
    SessionLost,
}

/// Which side messages the client accepts before the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interest {
    /// The token under which the client follows progress.
    pub(crate) token: Option<Json>,
    /// Which questions of the server the client can answer.
    pub(crate) capabilities: ClientCapabilities,
    /// Whether the client accepts log messages.
    pub(crate) logs: bool,
    /// Whether the client accepts requests whose method is not part of MCP.
    pub(crate) vendor: bool,
    /// The session of the client. Requests of one session come from one client.
    pub(crate) session: Option<Arc<str>>,
    pub(crate) requester: Requester,
    /// Reserves a process for this request while it is in flight.
    #[expect(dead_code, reason = "dropped with the request, which releases the process")]
    pub(crate) lease: Option<Lease>,
}

/// Who made a request to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Requester {
    /// The gateway itself: no side message belongs to the request.
    Gateway,
    /// The client of an exclusive server, which gets all messages of the server anyway.
    #[default]
    ExclusiveClient,
    /// A client that takes what the server sends before the response.
    Client,
}

/// The reservation of a process for one request. It ends when the last copy is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease(Arc<()>);

impl Lease {
    /// Whether a request holds a copy.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Interest {
    /// Whether the client can answer this request of the server.
    pub(crate) fn can_answer(&self, method: &str, params: Option<&Json>) -> bool {
        if is_vendor(method) { self.vendor } else { self.capabilities.can_answer(method, params) }
    }
}

/// What a transport needs to know of a request besides its text.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The tool, prompt or resource that the request names: the `Mcp-Name` header.
    pub(crate) name: Option<&'a str>,
    /// Further headers, which repeat arguments.
    pub(crate) param_headers: &'a [(hyper::header::HeaderName, hyper::header::HeaderValue)],
    pub(crate) interest: Interest,
}

impl<'a> UpstreamRequest<'a> {
    /// A request that the gateway itself makes.
    pub(crate) fn own(method: &'a str) -> Self {
        let interest = Interest { requester: Requester::Gateway, ..Interest::default() };
        Self { method, name: None, param_headers: &[], interest }
    }
}

/// Whether requests of this method change nothing on any server: the gateway may send them twice.
pub(crate) fn is_idempotent(method: &str) -> bool {
    matches!(
        method,
        method::TOOLS_LIST
            | method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::RESOURCES_TEMPLATES_LIST
            | method::TASKS_LIST
            | method::TASKS_GET
            | method::SERVER_DISCOVER
            | method::PING
    )
}

/// The id and progress token that replace the client's on the way to the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdRewrite {
    /// The id; `None` keeps the client's.
    pub(crate) id: Option<Id>,
    /// The progress token; `None` keeps the client's.
    pub(crate) token: Option<Json>,
}

/// Why a request could not be sent.
#[derive(Debug)]
pub(crate) enum StartFailure {
    /// The server has forgotten the session: the request did not run, and may be sent in a new session.
    SessionLost,
    /// The connection is closed, and the request was not sent.
    Closed(String),
    /// Another failure.
    Failed(Failure),
}

impl From<Failure> for StartFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
