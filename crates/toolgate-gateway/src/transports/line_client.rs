//! A client of the gateway that sends each message as a line: over stdio, or over the HTTP transport of 2024-11-05.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use toolgate::{CallId, Principal, Session, Transport};
use toolgate_wire::{
    Json, Limits, Message,
    mcp::{code, meta, method},
};

use super::{
    line_front::{LineFront, LineRequest, LineResponse, LineService},
    stdio,
};
use crate::{
    batch,
    clients::{
        active_requests::ActiveRequests,
        caller::{self, Caller, CallerProtocol},
        legacy_session::LegacySession,
        side_channel::SideChannel,
    },
    gateway::{
        Gateway, RunningGateway, dispatch::dispatch, handshake, incoming_request::IncomingRequest,
        namespace::Namespace, response::JsonRpcResponse,
    },
    hops::{self, Hops},
    usage,
    write_queue::WriteQueue,
};

/// The front end allows at least this many requests in flight, so that short requests have room beside the calls that
/// `limits.in_flight` counts.
pub(super) const MIN_IN_FLIGHT: usize = 1024;

impl RunningGateway {
    /// Serves one client on standard input and output until the client disconnects or `stop` completes.
    pub async fn one(
        &self,
        namespace: &str,
        stop: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        let missing = || std::io::Error::other(format!("there is no namespace `{namespace}`"));
        let gateway = &self.gateway;
        let namespace = gateway.namespace(namespace).ok_or_else(missing)?;
        let who = (Principal::local(), Transport::Stdio, CallId::next().to_string().into());
        let client = LineClient::new(Arc::clone(gateway), namespace, who, None);
        stdio::run(&client.into_front(), stop).await.map(drop)
    }
}

/// A client that sends each message as a line.
#[derive(Debug)]
pub(crate) struct LineClient {
    gateway: Arc<Gateway>,
    namespace: Arc<Namespace>,
    principal: Principal,
    transport: Transport,
    id: Arc<str>,
    /// The gateways that the request to open the connection has passed.
    opened_by: Option<Hops>,
    out: Arc<WriteQueue>,
    requests: Arc<ActiveRequests>,
    session: Mutex<Option<Arc<LegacySession>>>,
    has_initialized: AtomicBool,
}

impl LineClient {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        namespace: Arc<Namespace>,
        who: (Principal, Transport, Arc<str>),
        opened_by: Option<Hops>,
    ) -> Self {
        let (principal, transport, id) = who;
        Self {
            gateway,
            namespace,
            principal,
            transport,
            id,
            opened_by,
            out: Arc::new(WriteQueue::new()),
            requests: Arc::default(),
            session: Mutex::default(),
            has_initialized: AtomicBool::new(false),
        }
    }

    /// The front end that this client answers.
    pub(crate) fn into_front(self) -> LineFront<Self> {
        let (out, requests) = (Arc::clone(&self.out), Arc::clone(&self.requests));
        LineFront::new(self, out, requests)
    }

    fn session(&self) -> Option<Arc<LegacySession>> {
        self.session.lock().clone()
    }

    /// The gateways that a request has passed; an error if the request is in a loop.
    fn hops(&self, message: &Message) -> Result<Option<Hops>, String> {
        let session = self.session();
        let before = session.as_ref().and_then(|session| session.hops.as_ref());
        let read =
            hops::read(before.or(self.opened_by.as_ref()), None, message.member("_meta").as_ref());
        if let Err(why) = &read {
            tracing::warn!("{why}");
        }
        read
    }

    /// Opens the session, and queues the response before any notification of the session.
    async fn initialize(self: &Arc<Self>, message: &Message) -> JsonRpcResponse {
        let Some(id) = message.id() else { return JsonRpcResponse::nothing() };
        if self.has_initialized.swap(true, Ordering::AcqRel) {
            let why = "there is a session already: a client says `initialize` once";
            return JsonRpcResponse::refused(Some(id), code::INVALID_REQUEST, why);
        }
        let session = Session {
            id: Arc::clone(&self.id),
            namespace: Arc::clone(&self.namespace.name),
            principal: self.principal.clone(),
        };
        let hops = match self.hops(message) {
            Ok(hops) => hops,
            Err(why) => return JsonRpcResponse::refused(Some(id), code::INVALID_REQUEST, why),
        };
        let member = self.namespace.principal(&self.principal);
        let place = match member.account.take(usage::UsageKind::Sessions, 1) {
            Ok(place) => place,
            Err(full) => return JsonRpcResponse::full(id, &full),
        };
        let opened = handshake::initialize(&self.namespace, message, session, member, hops).await;
        let (result, mut session) = match opened {
            Ok(opened) => opened,
            Err(why) => return JsonRpcResponse::refused(Some(id), code::INVALID_PARAMS, why),
        };
        session.requests = Arc::clone(&self.requests);
        let session = Arc::new(session);
        self.gateway.sessions.insert(&session, place);
        *self.session.lock() = Some(Arc::clone(&session));
        self.namespace.add_listener(&session.notifications);
        if let Some(line) = JsonRpcResponse::result(id, result).into_line() {
            self.out.send(line).await;
        }
        follow(session, &self.out);
        JsonRpcResponse::nothing()
    }

    /// Builds the request for dispatch, or the response that refuses it.
    fn incoming(&self, request: LineRequest) -> Result<IncomingRequest, Box<JsonRpcResponse>> {
        let LineRequest { message, cancel } = request;
        let Some(id) = message.id().cloned() else {
            return Err(Box::new(JsonRpcResponse::nothing()));
        };
        let speaks = self.speaks(&message)?;
        let hops = self.hops(&message);
        let hops = hops.map_err(|why| {
            Box::new(JsonRpcResponse::refused(message.id(), code::INVALID_REQUEST, why))
        })?;
        Ok(IncomingRequest {
            namespace: Arc::clone(&self.namespace),
            caller: self.caller(speaks, hops),
            id,
            message,
            side: SideChannel::Pipe(Arc::clone(&self.out)),
            cancel,
            headers: None,
        })
    }

    fn caller(&self, speaks: CallerProtocol, hops: Option<Hops>) -> Caller {
        let (session, principal) = match &speaks {
            CallerProtocol::Legacy(session) => {
                (Arc::clone(&session.session), Arc::clone(&session.principal))
            }
            CallerProtocol::Modern(_) => {
                let principal = self.namespace.principal(&self.principal);
                (Arc::clone(&principal.session), principal)
            }
        };
        Caller { session, principal, transport: self.transport, speaks, hops }
    }

    fn speaks(&self, message: &Message) -> Result<CallerProtocol, Box<JsonRpcResponse>> {
        let refused = |why: String| {
            Box::new(JsonRpcResponse::refused(message.id(), code::INVALID_PARAMS, why))
        };
        if !says_version(message) {
            if let Some(session) = self.session() {
                return Ok(CallerProtocol::Legacy(session));
            }
            let why = "send `initialize` first, or name your protocol version in `_meta`";
            return Err(refused(why.to_owned()));
        }
        let meta = message.member("_meta");
        let request_meta = caller::RequestMeta::of(meta.as_ref());
        let request_meta =
            request_meta.map_err(|missing| refused(format!("`_meta` must have `{missing}`")))?;
        match handshake::unsupported(message.id(), &request_meta.version) {
            Some(unsupported) => Err(Box::new(unsupported)),
            None => Ok(CallerProtocol::Modern(request_meta)),
        }
    }
}

impl LineService for LineClient {
    fn limits(&self) -> Limits {
        self.namespace.message_limits()
    }

    /// The gateway itself refuses calls beyond `limits.in_flight`, and records the refusals. This limit covers the
    /// requests that `limits.in_flight` does not count.
    fn max_in_flight(&self) -> usize {
        self.namespace.max_in_flight().saturating_mul(2).max(MIN_IN_FLIGHT)
    }

    fn takes_batches(&self) -> bool {
        batch::are_allowed(self.session().as_ref().map(|session| &*session.version))
    }

    async fn start(
        self: &Arc<Self>,
        request: LineRequest,
    ) -> LineResponse<impl Future<Output = Option<Bytes>> + Send + 'static> {
        if request.message.method() == method::INITIALIZE && !says_version(&request.message) {
            return LineResponse::Ready(self.initialize(&request.message).await.into_line());
        }
        match self.incoming(request) {
            Ok(incoming) => {
                let gateway = Arc::clone(&self.gateway);
                // Boxed here: the future is large, and would be moved several times before its task is spawned.
                let running = async move { dispatch(&gateway, &incoming).await.into_line() };
                LineResponse::Pending(Box::pin(running))
            }
            Err(refusal) => LineResponse::Ready(refusal.into_line()),
        }
    }

    async fn message(self: &Arc<Self>, message: Message) {
        let session = self.session().filter(|_| !says_version(&message));
        if let Some(session) = session {
            return Gateway::receive(&session, &self.namespace, &message).await;
        }
        let meta = message.member("_meta");
        if let (Ok(meta), Ok(hops)) = (caller::RequestMeta::of(meta.as_ref()), self.hops(&message))
        {
            let caller = self.caller(CallerProtocol::Modern(meta), hops);
            Gateway::receive_sessionless(&caller, &self.namespace, &message).await;
        }
    }

    async fn end(&self) {
        if let Some(session) = self.session() {
            self.gateway.end_session(&session);
        }
    }
}

/// Forwards the messages of a session that belong to no request to its client.
pub(super) fn follow(session: Arc<LegacySession>, out: &Arc<WriteQueue>) {
    let out = Arc::clone(out);
    tokio::spawn(async move {
        let _busy = session.busy();
        loop {
            let lines = tokio::select! {
                lines = session.notifications.next() => lines,
                () = session.over.cancelled() => return,
            };
            let Some(lines) = lines else { return };
            for line in lines {
                out.send(line).await;
            }
        }
    });
}

/// Whether a message names its protocol version in `_meta`, as from 2026-07-28 on.
fn says_version(message: &Message) -> bool {
    let version = message.member("_meta").and_then(|meta| meta.get(meta::PROTOCOL_VERSION));
    version.as_ref().and_then(Json::text).is_some()
}
