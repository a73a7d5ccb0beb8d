//! A connection to a server after its handshake: its era, what the server declared, and its transport.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use toolgate::Failure;
use toolgate_wire::{Id, Json, Message, Object, mcp::Era, request};

use super::{
    event_request::{EventRequest, StartedExchange},
    in_flight::InFlightRequest,
    pipe::Pipe,
    request::{IdRewrite, StartFailure, UpstreamEvent, UpstreamRequest},
    streamable_http::StreamableHttp,
};
use crate::implementation_info::own_meta;

/// How long a server may take to answer a request of the gateway itself.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The transport to a server.
#[derive(Clone, Debug)]
pub(crate) enum UpstreamTransport {
    Pipe(Arc<Pipe>),
    Http(Arc<StreamableHttp>),
}

impl UpstreamTransport {
    /// Sends a request.
    pub(crate) async fn start(
        &self,
        request: UpstreamRequest<'_>,
        clients_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        match self {
            Self::Pipe(pipe) => {
                let sent = pipe.start(request, clients_id, compose).await?;
                Ok(InFlightRequest::Pipe(sent))
            }
            Self::Http(http) => {
                Ok(match EventRequest::start(http, request, clients_id, compose).await? {
                    StartedExchange::Answered(response) => {
                        InFlightRequest::Answered(Some(response))
                    }
                    StartedExchange::Streaming(sent) => InFlightRequest::Events(sent),
                })
            }
        }
    }

    /// Notes that the handshake is over.
    fn set_open(&self) {
        match self {
            Self::Pipe(pipe) => pipe.set_open(),
            Self::Http(http) => http.pending.set_open(),
        }
    }

    /// Sends a notification.
    pub(crate) async fn send_line(&self, line: Bytes) -> Result<(), Failure> {
        match self {
            Self::Pipe(pipe) => {
                pipe.send_line(line).await;
                Ok(())
            }
            Self::Http(http) => http.send_line(line).await,
        }
    }
}

/// What a server declared in its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub(crate) era: Era,
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) instructions: Option<Arc<str>>,
    /// Whether the server speaks legacy versions. `None`: the server lists none, and the gateway has not tried: some
    /// servers accept `initialize` all the same.
    pub(crate) speaks_legacy: Option<bool>,
    /// What a server of 2026-07-28 announced to `initialize`.
    pub(crate) legacy_capabilities: Option<Json>,
}

impl ServerInfo {
    /// For a server whose handshake is the client's: the gateway knows nothing of it yet.
    pub(crate) fn unknown() -> Self {
        Self {
            era: Era::Legacy,
            version: toolgate_wire::mcp::LEGACY.into(),
            capabilities: Json::empty_object(),
            info: None,
            instructions: None,
            speaks_legacy: Some(true),
            legacy_capabilities: None,
        }
    }

    /// What it announces to clients of an era, where it was asked in that era.
    pub(crate) fn announced_to(&self, era: Era) -> Option<&Json> {
        match era {
            era if era == self.era => Some(&self.capabilities),
            Era::Legacy => self.legacy_capabilities.as_ref(),
            Era::Modern => None,
        }
    }

    /// Whether the server declares this capability.
    pub(crate) fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|json| json.object().is_some())
    }

    /// Whether the server declares this feature of a capability.
    pub(crate) fn can(&self, capability: &str, feature: &str) -> bool {
        let feature = self.capabilities.get(capability).and_then(|json| json.get(feature));
        feature.and_then(|json| json.bool()) == Some(true)
    }
}

/// A connection to a server after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server_info: ServerInfo,
    transport: UpstreamTransport,
    stop: CancellationToken,
    closed: CancellationToken,
    why: OnceLock<Arc<str>>,
    is_forgotten: AtomicBool,
    /// The log level that the server was set to last.
    pub(super) level: tokio::sync::Mutex<Option<&'static str>>,
    /// Whether the server is another gateway over stdio, which has no headers.
    is_stdio_gateway: bool,
    /// Whether requests of the gateway itself are of 2026-07-28. On an exclusive connection, they follow the client.
    is_modern: AtomicBool,
}

impl Connection {
    pub(crate) fn new(
        server_info: ServerInfo,
        transport: UpstreamTransport,
        stop: CancellationToken,
    ) -> Self {
        let (closed, why) = (CancellationToken::new(), OnceLock::new());
        let name = server_info.info.as_ref().and_then(|info| info.get("name"));
        let name_is_ours = name.is_some_and(|name| name.text().as_deref() == Some("toolgate"));
        let is_stdio_gateway = name_is_ours && matches!(transport, UpstreamTransport::Pipe(_));
        let (is_forgotten, level) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        let is_modern = AtomicBool::new(server_info.era == Era::Modern);
        transport.set_open();
        Self {
            server_info,
            transport,
            stop,
            closed,
            why,
            is_forgotten,
            level,
            is_stdio_gateway,
            is_modern,
        }
    }

    pub(crate) fn era(&self) -> Era {
        if self.is_modern.load(Ordering::Relaxed) { Era::Modern } else { Era::Legacy }
    }

    /// Sets the era that the client of an exclusive connection speaks.
    pub(crate) fn follow_client(&self, era: Era) {
        self.is_modern.store(era == Era::Modern, Ordering::Relaxed);
    }

    pub(crate) fn is_stdio_gateway(&self) -> bool {
        self.is_stdio_gateway
    }

    pub(crate) fn transport(&self) -> &UpstreamTransport {
        &self.transport
    }

    /// Sends a request.
    pub(crate) async fn start(
        &self,
        request: UpstreamRequest<'_>,
        clients_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        self.transport.start(request, clients_id, compose).await
    }

    /// Sends a request of the gateway itself, and waits for the response.
    pub(crate) async fn ask(&self, method: &str, params: Object) -> Result<Message, StartFailure> {
        let params = self.own_params(params).finish();
        let compose = |rewrite: IdRewrite| {
            let id = rewrite.id.unwrap_or_else(|| Id::number(0));
            request(&id, method, Some(&params))
        };
        let name = params.get("uri").or_else(|| params.get("name"));
        let name = name.as_ref().and_then(Json::text);
        let outgoing = UpstreamRequest { name: name.as_deref(), ..UpstreamRequest::own(method) };
        let asking = async {
            let mut sent = self.start(outgoing, None, compose).await?;
            loop {
                match sent.next().await? {
                    UpstreamEvent::Response(message) => return Ok(message),
                    UpstreamEvent::SessionLost => return Err(StartFailure::SessionLost),
                    UpstreamEvent::Notification(_)
                    | UpstreamEvent::ServerRequest(_)
                    | UpstreamEvent::ServerRequestCancelled(_) => {}
                }
            }
        };
        let late = || Failure::new(toolgate::Code::TimedOut, format!("{method} took too long"));
        tokio::time::timeout(REQUEST_TIMEOUT, asking).await.unwrap_or_else(|_| Err(late().into()))
    }

    /// The params of a request of the gateway itself: in 2026-07-28 each request names its client and version.
    pub(crate) fn own_params(&self, mut params: Object) -> Object {
        if self.era() == Era::Modern {
            params.set("_meta", own_meta());
        }
        params
    }

    /// Closes the connection. The first reason stays.
    pub(crate) fn close(&self, why: &str) {
        let _ = self.why.set(why.into());
        if let UpstreamTransport::Pipe(pipe) = &self.transport {
            pipe.close(&self.why());
        }
        self.closed.cancel();
        self.stop.cancel();
    }

    /// Closes the connection because the server has forgotten its session: no DELETE follows.
    pub(crate) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
        self.close("it has forgotten the session");
    }

    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// The number of pending requests of clients, as far as the transport knows.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.transport {
            UpstreamTransport::Pipe(pipe) => pipe.in_flight(),
            UpstreamTransport::Http(http) => http.pending.len(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Why the connection is closed.
    pub(crate) fn why(&self) -> Arc<str> {
        self.why.get().cloned().unwrap_or_else(|| "it has ended".into())
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
