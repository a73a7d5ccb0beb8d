//! One request on its way to a server and back, with whatever the server says or asks meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{Id, Json, Message};

use super::{event_request::EventRequest, pipe::PipeRequest};
use crate::capabilities::{ClientCapabilities, is_vendor};

/// What comes from a server while a request is in flight.
#[derive(Debug)]
pub(crate) enum UpstreamEvent {
    /// A notification that belongs to the request.
    Notice(Message),
    /// The server asks the client something.
    Question(Message),
    /// The server takes a question back, by the question's id.
    Withdrawn(Id),
    /// The answer: nothing follows.
    Answer(Message),
    /// The server has forgotten the session: the request did not run, and nothing follows.
    SessionLost,
}

/// What whoever made a request wants to hear of it before its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interest {
    /// The token under which the client follows progress.
    pub(crate) token: Option<Json>,
    /// What the client can be asked.
    pub(crate) abilities: ClientCapabilities,
    /// Whether log messages are of interest.
    pub(crate) logs: bool,
    /// Whether the client can be asked what is no method of MCP.
    pub(crate) vendor: bool,
    /// The session that made the request: all requests of one lead to the same client.
    pub(crate) session: Option<Arc<str>>,
    /// A request of our own: nothing that a server asks or tells belongs to it.
    pub(crate) is_ours: bool,
    /// The process that is this request's alone as long as it is in flight.
    #[expect(dead_code, reason = "dropped with the request, which gives the process back")]
    pub(crate) lease: Option<Lease>,
}

/// A process that one request has to itself, until the last copy of this is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease(Arc<()>);

impl Lease {
    /// Whether some request still holds one that this is a copy of.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Interest {
    /// Whether there is anything to be heard.
    pub(crate) fn anything(&self) -> bool {
        self.token.is_some() || !self.abilities.is_empty() || self.logs || self.vendor
    }

    /// Whether a request of the server can be put to the client.
    pub(crate) fn can_answer(&self, method: &str, params: Option<&Json>) -> bool {
        if is_vendor(method) { self.vendor } else { self.abilities.can_answer(method, params) }
    }
}

/// What a connection needs to know of a request besides its text.
#[derive(Debug)]
pub(crate) struct UpstreamRequest<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// What the request names, for the header that says so.
    pub(crate) name: Option<&'a str>,
    /// Further headers, which mirror arguments.
    pub(crate) mirrored: &'a [(hyper::header::HeaderName, hyper::header::HeaderValue)],
    /// What is wanted before the answer.
    pub(crate) hears: Interest,
}

impl<'a> UpstreamRequest<'a> {
    /// A request of our own.
    pub(crate) fn own(method: &'a str) -> Self {
        let hears = Interest { is_ours: true, ..Interest::default() };
        Self { method, name: None, mirrored: &[], hears }
    }
}

/// Whether a request of this method changes nothing, whatever the server is: it may be sent twice.
pub(crate) fn is_safe(method: &str) -> bool {
    matches!(
        method,
        "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "tasks/list"
            | "tasks/get"
            | "server/discover"
            | "ping"
    )
}

/// What a request has to carry on this hop instead of what the client wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdRewrite {
    /// The id; the client's own if not set.
    pub(crate) id: Option<Id>,
    /// The progress token; the client's own if not set.
    pub(crate) token: Option<Json>,
}

/// A request in flight. Dropped before its answer, it is given up, and the server is told.
#[derive(Debug)]
pub(crate) enum InFlightRequest {
    /// The answer is here already.
    Landed(Option<Box<Message>>),
    /// On a connection that carries many.
    Pipe(PipeRequest),
    /// On a stream of its own.
    Events(Box<EventRequest>),
}

impl InFlightRequest {
    /// What comes next. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        match self {
            Self::Landed(answer) => {
                let answer = answer.take();
                answer.map(|answer| UpstreamEvent::Answer(*answer)).ok_or_else(over)
            }
            Self::Pipe(flight) => flight.next().await,
            Self::Events(flight) => Box::pin(flight.next()).await,
        }
    }

    /// Answers a question of the server.
    pub(crate) async fn reply(&mut self, line: Bytes) -> Result<(), Failure> {
        match self {
            Self::Landed(_) => Err(over()),
            Self::Pipe(flight) => {
                flight.reply(line).await;
                Ok(())
            }
            Self::Events(flight) => flight.reply(line).await,
        }
    }
}

fn over() -> Failure {
    Failure::internal("a request that was answered is asked about again")
}

/// Why a request did not get on its way.
#[derive(Debug)]
pub(crate) enum StartFailure {
    /// The server has forgotten the session: the request did not run, and may be sent in a new one.
    SessionLost,
    /// The connection is gone, and the request was not sent on it.
    Closed(String),
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for StartFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A server that cannot be reached: nothing ran.
pub(crate) fn unavailable(server: &str, why: &str) -> Failure {
    let message = format!("The server `{server}` cannot be reached: {why}");
    Failure::new(Code::ServerUnavailable, message)
        .suggest("Try again in a moment.")
        .with_executed(Executed::No)
}

/// How what is told of a server that went away ends where a call may have run.
const UNDER_WAY: &str = " while the call was under way: it may have run";

/// Maps a crash during the handshake to `ServerUnavailable`: the call was never sent.
pub(crate) fn never_up(failure: Failure) -> Failure {
    match failure.message().strip_suffix(UNDER_WAY) {
        Some(ended) if failure.code() == Code::ServerCrashed => {
            let failure = Failure::new(Code::ServerUnavailable, format!("{ended} at its start"));
            failure.suggest("Try again in a moment.").with_executed(Executed::No)
        }
        _ => failure,
    }
}

/// A server that went away while a request was under way.
pub(crate) fn lost(server: &str, why: &str, executed: Executed) -> Failure {
    let (message, next) = match executed {
        Executed::No => (
            format!(
                "The server `{server}` ended ({why}) before the call reached it: it did not run"
            ),
            "Call again once the server is back.",
        ),
        _ => (
            format!("The server `{server}` ended ({why}){UNDER_WAY}"),
            "Check what the call did before you repeat it.",
        ),
    };
    Failure::new(Code::ServerCrashed, message).suggest(next).with_executed(executed)
}

/// A server that says something that cannot be understood.
/// A server that asks for what the client cannot do: the client's shortcoming, not the server's.
pub(crate) fn incapable(server: &str, what: &str, missing: ClientCapabilities) -> Failure {
    let message = format!("The server `{server}` {what}, which the client cannot do");
    let required = missing.capabilities().to_value().unwrap_or_default();
    Failure::new(Code::ClientIncapable, message)
        .suggest("Use a client that declares the capability, or another tool.")
        .with_fact("requiredCapabilities", required)
        .with_executed(Executed::Maybe)
}

pub(crate) fn nonsense(server: &str, what: &str) -> Failure {
    let message = format!("The server `{server}` {what}");
    Failure::new(Code::ServerProtocol, message)
        .suggest("Report it to the server's authors; the call may have run.")
        .with_executed(Executed::Maybe)
}
