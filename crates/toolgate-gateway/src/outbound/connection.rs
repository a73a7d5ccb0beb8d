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
use toolgate_wire::{Id, Json, Message, Object, Shape, era, request};

use super::{
    flight::{Ask, Flight, Hop, NotStarted, Step},
    pipe::Pipe,
    streamable::Streamable,
};
use crate::hops;

/// The version that is spoken where each request stands for itself.
pub(crate) const MODERN: &str = "2026-07-28";
/// The version that is asked for where a session is opened.
pub(crate) const LEGACY: &str = "2025-11-25";

/// How long a server may take to answer what we ask on our own account.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Era {
    /// With `initialize` and sessions, until 2025-11-25.
    Legacy,
    /// Each request for itself, from 2026-07-28 on.
    Modern,
}

/// The way to a server.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Pipe(Arc<Pipe>),
    Http(Arc<Streamable>),
}

impl Wire {
    /// Sends a request.
    pub(crate) async fn start(
        &self,
        ask: Ask<'_>,
        own_id: Option<&Id>,
        compose: impl FnOnce(Hop) -> Bytes,
    ) -> Result<Flight, NotStarted> {
        match self {
            Self::Pipe(pipe) => pipe.start(ask, compose).await,
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
pub(crate) struct Offer {
    pub(crate) era: Era,
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Option<Json>,
    pub(crate) instructions: Option<Arc<str>>,
    /// It speaks versions before 2026-07-28, too.
    pub(crate) speaks_legacy: bool,
}

impl Offer {
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
    pub(crate) offer: Offer,
    wire: Wire,
    stop: CancellationToken,
    closed: CancellationToken,
    why: OnceLock<Arc<str>>,
    is_forgotten: AtomicBool,
    /// Whether it tells of what it does: looked up for every call.
    has_logs: bool,
    /// Whether it leads to another gateway over pipes, which have no headers.
    leads_on: bool,
}

impl Connection {
    pub(crate) fn new(offer: Offer, wire: Wire, stop: CancellationToken) -> Self {
        let (closed, why) = (CancellationToken::new(), OnceLock::new());
        let has_logs = offer.has("logging");
        let name = offer.info.as_ref().and_then(|info| info.get("name"));
        let is_gateway = name.is_some_and(|name| name.text().as_deref() == Some("toolgate"));
        let leads_on = is_gateway && matches!(wire, Wire::Pipe(_));
        let is_forgotten = AtomicBool::new(false);
        Self { offer, wire, stop, closed, why, is_forgotten, has_logs, leads_on }
    }

    pub(crate) fn era(&self) -> Era {
        self.offer.era
    }

    pub(crate) fn leads_on(&self) -> bool {
        self.leads_on
    }

    pub(crate) fn has_logs(&self) -> bool {
        self.has_logs
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Sends a request.
    pub(crate) async fn start(
        &self,
        ask: Ask<'_>,
        own_id: Option<&Id>,
        compose: impl FnOnce(Hop) -> Bytes,
    ) -> Result<Flight, NotStarted> {
        self.wire.start(ask, own_id, compose).await
    }

    /// Makes a request of our own and waits for the answer.
    pub(crate) async fn ask(&self, method: &str, params: Object) -> Result<Message, NotStarted> {
        let params = self.own_params(params).finish();
        let compose = |hop: Hop| {
            let id = hop.id.unwrap_or_else(|| Id::number(0));
            request(&id, method, Some(&params))
        };
        let name = params.get("uri").or_else(|| params.get("name"));
        let name = name.as_ref().and_then(Json::text);
        let ask = Ask { name: name.as_deref(), ..Ask::own(method) };
        let asking = async {
            let mut flight = self.start(ask, None, compose).await?;
            loop {
                match flight.next().await? {
                    Step::Answer(message) => return Ok(message),
                    Step::SessionLost => return Err(NotStarted::SessionLost),
                    Step::Notice(_) | Step::Question(_) => {}
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

/// What a request of our own says in `_meta`, from 2026-07-28 on.
pub(crate) fn own_meta() -> Json {
    let mut meta = Object::new();
    meta.set(era::META_PROTOCOL_VERSION, Json::string(MODERN));
    meta.set(era::META_CLIENT_INFO, ourselves());
    meta.set(era::META_CLIENT_CAPABILITIES, Json::empty_object());
    meta.set(hops::META, hops::from_here());
    meta.finish()
}

/// How we introduce ourselves.
pub(crate) fn ourselves() -> Json {
    Json::value(&serde_json::json!({
        "name": "toolgate", "title": "toolgate", "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// The result of an answer, or the error as a failure.
pub(crate) fn result_of(answer: &Message) -> Result<Json, Failure> {
    match (answer.shape(), answer.result()) {
        (Shape::Response, Some(result)) => Ok(result),
        _ => Err(Failure::rejected(rpc_error(answer))),
    }
}

/// The error of an answer.
pub(crate) fn rpc_error(answer: &Message) -> toolgate::RpcError {
    let text = |json: Json| json.text().map(std::borrow::Cow::into_owned);
    toolgate::RpcError {
        code: answer.member("code").and_then(|json| json.i64()).unwrap_or(-32603),
        message: answer.member("message").and_then(text).unwrap_or_default(),
        data: answer.member("data"),
    }
}
