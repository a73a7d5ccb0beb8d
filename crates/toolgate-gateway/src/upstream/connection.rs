//! A connection to a server that has said hello: which era it speaks, what it offers, and the way to it.

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
    in_flight::{IdRewrite, InFlightRequest, StartFailure, UpstreamEvent, UpstreamRequest},
    pipe::Pipe,
    streamable_http::StreamableHttp,
};
use crate::implementation_info::own_meta;

/// How long a server may take to answer what we ask on our own account.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way to a server.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Pipe(Arc<Pipe>),
    Http(Arc<StreamableHttp>),
}

impl Wire {
    /// Sends a request.
    pub(crate) async fn start(
        &self,
        ask: UpstreamRequest<'_>,
        own_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        match self {
            Self::Pipe(pipe) => pipe.start(ask, own_id, compose).await,
            Self::Http(http) => http.start(ask, own_id, compose).await,
        }
    }

    /// Sends a notification.
    pub(crate) async fn tell(&self, line: Bytes) -> Result<(), Failure> {
        match self {
            Self::Pipe(pipe) => {
                pipe.tell(line).await;
                Ok(())
            }
            Self::Http(http) => http.tell(line).await,
        }
    }
}

/// What a server said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub(crate) era: Era,
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) instructions: Option<Arc<str>>,
    /// Whether it speaks versions before 2026-07-28; `None` where it lists none and was not tried: some accept
    /// `initialize` all the same.
    pub(crate) speaks_legacy: Option<bool>,
    /// What a server of 2026-07-28 announced to `initialize`.
    pub(crate) legacy_capabilities: Option<Json>,
}

impl ServerInfo {
    /// What is known of a server to which the client itself says hello: nothing.
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

    /// Whether it has such a capability.
    pub(crate) fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|json| json.object().is_some())
    }

    /// Whether a capability says that it has this feature.
    pub(crate) fn can(&self, capability: &str, feature: &str) -> bool {
        let feature = self.capabilities.get(capability).and_then(|json| json.get(feature));
        feature.and_then(|json| json.bool()) == Some(true)
    }
}

/// A connection that can be used.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) offer: ServerInfo,
    wire: Wire,
    stop: CancellationToken,
    closed: CancellationToken,
    why: OnceLock<Arc<str>>,
    is_forgotten: AtomicBool,
    /// The level of log messages that the server was told last.
    pub(super) level: tokio::sync::Mutex<Option<&'static str>>,
    /// Whether it leads to another gateway over pipes, which have no headers.
    leads_on: bool,
    /// Whether the client of an exclusive connection speaks 2026-07-28: the gateway's own requests then do, too.
    is_modern: AtomicBool,
}

impl Connection {
    pub(crate) fn new(offer: ServerInfo, wire: Wire, stop: CancellationToken) -> Self {
        let (closed, why) = (CancellationToken::new(), OnceLock::new());
        let name = offer.info.as_ref().and_then(|info| info.get("name"));
        let is_gateway = name.is_some_and(|name| name.text().as_deref() == Some("toolgate"));
        let leads_on = is_gateway && matches!(wire, Wire::Pipe(_));
        let (is_forgotten, level) = (AtomicBool::new(false), tokio::sync::Mutex::default());
        let is_modern = AtomicBool::new(offer.era == Era::Modern);
        Self { offer, wire, stop, closed, why, is_forgotten, level, leads_on, is_modern }
    }

    pub(crate) fn era(&self) -> Era {
        if self.is_modern.load(Ordering::Relaxed) { Era::Modern } else { Era::Legacy }
    }

    /// The client of an exclusive connection speaks so.
    pub(crate) fn follow_client(&self, era: Era) {
        self.is_modern.store(era == Era::Modern, Ordering::Relaxed);
    }

    pub(crate) fn leads_on(&self) -> bool {
        self.leads_on
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Sends a request.
    pub(crate) async fn start(
        &self,
        ask: UpstreamRequest<'_>,
        own_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        self.wire.start(ask, own_id, compose).await
    }

    /// Makes a request of our own and waits for the answer.
    pub(crate) async fn ask(&self, method: &str, params: Object) -> Result<Message, StartFailure> {
        let params = self.own_params(params).finish();
        let compose = |hop: IdRewrite| {
            let id = hop.id.unwrap_or_else(|| Id::number(0));
            request(&id, method, Some(&params))
        };
        let name = params.get("uri").or_else(|| params.get("name"));
        let name = name.as_ref().and_then(Json::text);
        let ask = UpstreamRequest { name: name.as_deref(), ..UpstreamRequest::own(method) };
        let asking = async {
            let mut flight = self.start(ask, None, compose).await?;
            loop {
                match flight.next().await? {
                    UpstreamEvent::Answer(message) => return Ok(message),
                    UpstreamEvent::SessionLost => return Err(StartFailure::SessionLost),
                    UpstreamEvent::Notice(_)
                    | UpstreamEvent::Question(_)
                    | UpstreamEvent::Withdrawn(_) => {}
                }
            }
        };
        let late = || Failure::new(toolgate::Code::TimedOut, format!("{method} took too long"));
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(late().into()))
    }

    /// Params of a request of our own: from 2026-07-28 on each one says who asks and how.
    pub(crate) fn own_params(&self, mut params: Object) -> Object {
        if self.era() == Era::Modern {
            params.set("_meta", own_meta());
        }
        params
    }

    /// It is of no use any more. What comes first counts.
    pub(crate) fn close(&self, why: &str) {
        let _ = self.why.set(why.into());
        if let Wire::Pipe(pipe) = &self.wire {
            pipe.close(&self.why());
        }
        self.closed.cancel();
        self.stop.cancel();
    }

    /// The server has forgotten the session: there is nothing to take leave of.
    pub(crate) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
        self.close("it has forgotten the session");
    }

    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// How many requests of clients are in flight, as far as that is known.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.wire {
            Wire::Pipe(pipe) => pipe.in_flight(),
            Wire::Http(http) => http.flights.len(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Why it is closed.
    pub(crate) fn why(&self) -> Arc<str> {
        self.why.get().cloned().unwrap_or_else(|| "it has ended".into())
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
