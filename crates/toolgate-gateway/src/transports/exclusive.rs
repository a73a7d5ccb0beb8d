//! The one client of an exclusive server (`toolgate wrap`). The gateway forwards handshake, ids, notifications and
//! responses between client and server as they are. The middleware chain handles tool calls, and other requests only if
//! a layer inspects them or if they carry a control for toolgate.

use std::{pin::pin, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolgate::{Boxed, CallId, Code, Control, Executed, Failure, Principal, Session, Transport};
use toolgate_wire::{
    Id, Json, Kind, Limits, Message, Shape, error_response,
    mcp::{self, Era, code, meta, method},
    notification,
};

use super::{
    line_client::{MIN_IN_FLIGHT, follow},
    line_front::{LineFront, LineRequest, LineResponse, LineService},
    stdio,
};
use crate::{
    backoff::Backoff,
    batch,
    clients::{
        active_requests::ActiveRequests,
        caller::{self, Caller, CallerProtocol},
        legacy_session::{ClientHandshake, LegacySession},
        notifications::{NotificationFilter, NotificationQueue},
        side_channel::SideChannel,
    },
    gateway::{
        ExclusiveServer, Gateway, RunningGateway, dispatch::dispatch,
        incoming_request::IncomingRequest, namespace::Namespace, show_notification,
        upstream_call::filter_message,
    },
    process::child::{Ending, StartError},
    question_attribution::attributed,
    refusal,
    upstream::{
        connection::{Connection, UpstreamTransport},
        exclusive::{ExclusiveClient, ExclusiveProcess},
        failures::{LossStage, connection_lost},
        in_flight::InFlightRequest,
        request::{IdRewrite, Interest, StartFailure, UpstreamEvent, UpstreamRequest},
        server::Server,
    },
    usage::PrincipalInNamespace,
    write_queue::WriteQueue,
};

/// If the server could not be started, the gateway answers the client with the error for this long before it ends.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// After the server has ended, the gateway waits at most this long until the pending requests are answered.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

impl RunningGateway {
    /// Connects one client on standard input and output to its exclusive server. Returns the exit code when the client
    /// disconnects, when the server has ended and is not restarted, or when `stop` completes.
    pub async fn exclusive(&self, stop: impl Future<Output = u8>) -> std::io::Result<u8> {
        let missing = || std::io::Error::other("there is no exclusive server");
        let options = self.options.exclusive.as_ref().ok_or_else(missing)?;
        let namespace = self.gateway.namespaces().next().cloned().ok_or_else(missing)?;
        let server = namespace.exclusive().cloned().ok_or_else(missing)?;
        let client = Arc::new(Client::new(Arc::clone(&self.gateway), namespace, server));
        // The server is started before the client's first message is read, so that this message can be forwarded at
        // once.
        let first = client.server.start_exclusive(Arc::clone(&client) as _);
        if let Err(error) = &first {
            // Before the client is read: it may have closed its end already, and the gateway then ends at once.
            tracing::error!("{error}");
        }
        let never_started = first.as_ref().err().map(StartError::exit_code);
        let first = first.map(|process| client.set_running(process));
        let front = LineFront::new(
            ExclusiveService(Arc::clone(&client)),
            Arc::clone(&client.out),
            Arc::clone(&client.requests),
        );
        let stop = async {
            tokio::select! {
                code = stop => code,
                code = client.live(first, options) => {
                    // The pending requests fail with the server: wait until their error responses are queued.
                    let _ = tokio::time::timeout(SETTLE_TIMEOUT, front.settled()).await;
                    code
                }
            }
        };
        let stopped = stdio::run(&front, stop).await?;
        Ok(stopped.or(never_started).unwrap_or(0))
    }
}

/// The client, and the state that both directions of the traffic share.
#[derive(Debug)]
struct Client {
    gateway: Arc<Gateway>,
    namespace: Arc<Namespace>,
    server: Arc<Server>,
    principal: Arc<PrincipalInNamespace>,
    out: Arc<WriteQueue>,
    requests: Arc<ActiveRequests>,
    /// The client's capabilities and info from `initialize`, and the negotiated version.
    session: ArcSwap<LegacySession>,
    handshake: Mutex<Handshake>,
    /// The running server process, which receives the requests.
    process: Mutex<Option<Arc<ExclusiveProcess>>>,
    /// Notified when the server does not answer `initialize` in time.
    hung: Notify,
}

/// The client's handshake messages. The gateway repeats them to a restarted server.
#[derive(Debug, Default)]
struct Handshake {
    initialize: Option<Message>,
    initialized: Option<Bytes>,
}

/// How a request is handled.
enum RequestHandling {
    /// The middleware chain handles the request.
    Governed(Box<IncomingRequest>),
    /// The request was forwarded to the server.
    Sent(Id, InFlightRequest, CancellationToken, Response),
    Refused(Bytes),
}

/// The kind of a forwarded response: the gateway reads the responses to `initialize` and `tools/list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    Initialize,
    Tools,
    Other,
}

impl Client {
    fn new(gateway: Arc<Gateway>, namespace: Arc<Namespace>, server: Arc<Server>) -> Self {
        let local = Principal::local();
        let principal = namespace.principal(&local);
        let session = Session {
            id: CallId::next().to_string().into(),
            namespace: Arc::clone(&namespace.name),
            principal: local,
        };
        let requests: Arc<ActiveRequests> = Arc::default();
        let unknown = LegacySession::new(ClientHandshake {
            session: Arc::new(session),
            principal: Arc::clone(&principal),
            version: "".into(),
            capabilities: Json::empty_object(),
            info: Json::empty_object(),
            hops: None,
        });
        Self {
            gateway,
            namespace,
            server,
            principal,
            out: Arc::new(WriteQueue::new()),
            requests,
            session: ArcSwap::from_pointee(unknown),
            handshake: Mutex::default(),
            process: Mutex::default(),
            hung: Notify::new(),
        }
    }

    /// Makes this process the one that receives requests.
    fn set_running(&self, process: ExclusiveProcess) -> Arc<ExclusiveProcess> {
        let process = Arc::new(process);
        self.server.set_running(&process);
        let mut current = self.process.lock();
        *current = Some(Arc::clone(&process));
        process
    }

    /// Ends the process after the messages queued for it are written.
    async fn end(&self) {
        let process = self.process.lock().take();
        if let Some(process) = process {
            process.end().await;
        }
    }

    fn handshake(&self) -> MutexGuard<'_, Handshake> {
        self.handshake.lock()
    }

    /// Starts a request. Requests that no layer inspects are forwarded in the order in which they arrived.
    async fn begin(&self, LineRequest { message, cancel }: LineRequest) -> RequestHandling {
        let Some(id) = message.id().cloned() else { return RequestHandling::Refused(Bytes::new()) };
        let speaks = self.speaks(&message);
        let current = self.namespace.current_chain();
        let chain = &current.stack.chain;
        let response = match message.method() {
            method::INITIALIZE => Response::Initialize,
            method::TOOLS_LIST => Response::Tools,
            _ => Response::Other,
        };
        let is_governed = match message.method() {
            method::INITIALIZE => false,
            method::TOOLS_CALL => true,
            method::TOOLS_LIST if chain.sees_listings() => true,
            method => chain.sees_request(method) || is_controlled(&message),
        };
        if is_governed && let Some(id) = message.id().cloned() {
            let caller = Caller {
                session: Arc::clone(&self.session.load().session),
                principal: Arc::clone(&self.principal),
                transport: Transport::Stdio,
                speaks,
                hops: None,
            };
            return RequestHandling::Governed(Box::new(IncomingRequest {
                namespace: Arc::clone(&self.namespace),
                caller,
                id,
                message,
                side: SideChannel::Pipe(Arc::clone(&self.out)),
                cancel,
                headers: None,
            }));
        }
        if response == Response::Initialize {
            self.handshake().initialize = Some(message.clone());
        }
        match self.send(&message).await {
            Ok(flight) => RequestHandling::Sent(id, flight, cancel, response),
            Err(failure) => RequestHandling::Refused(refusal::line(Some(&id), &failure)),
        }
    }

    /// Registers a client of 2026-07-28 for changes of its tools, if the request subscribes to them: a changed config
    /// changes the tools that the client sees, and the server cannot tell.
    fn tool_changes(&self, message: &Message) -> Option<Arc<NotificationQueue>> {
        if message.method() != method::SUBSCRIPTIONS_LISTEN {
            return None;
        }
        let tools = message.member("notifications")?.get("toolsListChanged")?.bool()?;
        let subscription = message.id().cloned();
        let filter = NotificationFilter { tools, subscription, ..NotificationFilter::default() };
        let queue = NotificationQueue::new(filter);
        self.namespace.add_listener(&queue);
        Some(queue)
    }

    /// Waits for the response to a subscription, and sends the client the changes meanwhile.
    async fn send_changes<T>(
        &self,
        changes: &NotificationQueue,
        response: impl Future<Output = T>,
    ) -> T {
        let mut response = pin!(response);
        loop {
            tokio::select! {
                biased;
                response = &mut response => return response,
                lines = changes.next() => {
                    for line in lines.unwrap_or_default() {
                        self.out.send(line).await;
                    }
                }
            }
        }
    }

    /// Forwards a request unchanged.
    async fn send(&self, message: &Message) -> Result<InFlightRequest, Failure> {
        let connection = self.server.connection(None).await?;
        let interest = Interest::default();
        let method = message.method();
        let request = UpstreamRequest { method, name: None, param_headers: &[], interest };
        let started = connection.start(request, message.id(), |_| message.line().clone()).await;
        started.map_err(|error| self.not_sent(error))
    }

    fn not_sent(&self, error: StartFailure) -> Failure {
        match error {
            StartFailure::Failed(failure) => failure,
            StartFailure::Closed(why) => {
                connection_lost(&self.server.name, &why, LossStage::NotSent)
            }
            StartFailure::SessionLost => {
                connection_lost(&self.server.name, "it has no session", LossStage::NotSent)
            }
        }
    }

    /// The protocol version of a request's sender. The server validates the request's metadata, not the gateway.
    fn speaks(&self, message: &Message) -> CallerProtocol {
        let meta = message.member("_meta");
        let version = meta.as_ref().and_then(|meta| meta.get(meta::PROTOCOL_VERSION));
        let version = version.as_ref().and_then(Json::text);
        let is_modern = version.as_deref().is_some_and(mcp::is_modern);
        if let Some(connection) = self.server.connected(None) {
            connection.follow_client(if is_modern { Era::Modern } else { Era::Legacy });
        }
        match version.filter(|_| is_modern) {
            Some(version) => {
                CallerProtocol::Modern(caller::RequestMeta::lenient(&version, meta.as_ref()))
            }
            None => CallerProtocol::Legacy(self.session.load_full()),
        }
    }

    /// Waits for the response to a forwarded request.
    async fn answer(
        &self,
        id: Id,
        mut flight: InFlightRequest,
        cancel: CancellationToken,
        response: Response,
    ) -> Option<Bytes> {
        let limit = match response {
            Response::Initialize => self.server.config.start_timeout,
            _ => Duration::MAX,
        };
        let step = tokio::select! {
            biased;
            step = tokio::time::timeout(limit, flight.next()) => step,
            () = cancel.cancelled() => return None,
        };
        let failure = match step {
            Ok(Ok(UpstreamEvent::Response(answer))) => {
                // The texts of the only server stay unchanged, unless the client could mistake them for toolgate's.
                let answer = attributed(answer, &self.server.name, false);
                self.note(response, &answer);
                return Some(answer.line().clone());
            }
            Ok(Ok(_)) => Failure::internal("an exclusive server's message has no client"),
            Ok(Err(failure)) => failure,
            Err(_) => self.hangs(),
        };
        Some(refusal::line(Some(&id), &failure))
    }

    fn hangs(&self) -> Failure {
        let after = toolgate::duration::format(self.server.config.start_timeout);
        let name = &self.server.name;
        let text = format!("The server `{name}` did not answer initialize within {after}");
        tracing::error!("{text}");
        self.hung.notify_one();
        Failure::new(Code::ServerStartTimeout, text).with_executed(Executed::No)
    }

    /// Updates the gateway's state from a response.
    fn note(&self, response: Response, answer: &Message) {
        match response {
            Response::Initialize if answer.shape() == Shape::Response => self.initialized(answer),
            Response::Tools => {
                let current = self.namespace.current_chain();
                drop(current.live.as_ref().and_then(|live| live.read_page(answer)));
            }
            Response::Initialize | Response::Other => {}
        }
    }

    /// Replaces the session by the one that the server's response to `initialize` opens.
    fn initialized(&self, answer: &Message) {
        let version = answer.member("protocolVersion");
        let version = version.as_ref().and_then(Json::text).unwrap_or_default();
        let initialize = self.handshake().initialize.clone();
        let object = |name: &str| {
            let value = initialize.as_ref().and_then(|message| message.member(name));
            let value = value.filter(|json| json.kind() == Kind::Object);
            value.map_or_else(Json::empty_object, |json| json.owned())
        };
        let session = LegacySession::new(ClientHandshake {
            session: Arc::clone(&self.session.load().session),
            principal: Arc::clone(&self.principal),
            version: version.as_ref().into(),
            capabilities: object("capabilities"),
            info: object("clientInfo"),
            hops: None,
        });
        let session = Arc::new(session);
        if tells_changes(answer) {
            // The client is notified too when a changed config changes the tools that it sees.
            self.namespace.add_listener(&session.notifications);
            follow(Arc::clone(&session), &self.out);
        }
        // Cancelling the previous session ends the task that forwards its notifications.
        self.session.swap(session).over.cancel();
        if let Some(UpstreamTransport::Pipe(pipe)) =
            self.connected().as_deref().map(Connection::transport)
        {
            pipe.set_version(&version);
        }
    }

    fn connected(&self) -> Option<Arc<Connection>> {
        self.server.connected(None)
    }

    /// Forwards a notification or a response of the client to the server.
    async fn forward(&self, message: &Message) {
        let session = self.session.load_full();
        if matches!(message.shape(), Shape::Response | Shape::Error)
            && session.client_requests.take_own_response(message)
        {
            return;
        }
        if !matches!(message.shape(), Shape::Response | Shape::Error) {
            show_notification(&session.session, session.info.clone(), &self.namespace, message);
        }
        let Some(connection) = self.connected() else {
            return tracing::debug!(method = message.method(), "not delivered: no server runs");
        };
        match message.method() {
            method::NOTIFICATIONS_CANCELLED => {
                let id = message.member("requestId").and_then(Id::from_json);
                if let (Some(id), UpstreamTransport::Pipe(pipe)) = (id, connection.transport()) {
                    pipe.mark_cancelled_by_client(&id);
                }
            }
            method::NOTIFICATIONS_INITIALIZED => {
                self.handshake().initialized = Some(message.line().clone());
            }
            _ => {}
        }
        let _ = connection.transport().send_line(message.line().clone()).await;
    }

    /// Watches the server process. Returns the exit code when the process has ended and is not restarted.
    async fn live(
        self: &Arc<Self>,
        first: Result<Arc<ExclusiveProcess>, StartError>,
        options: &ExclusiveServer,
    ) -> u8 {
        let mut process = match first {
            Ok(process) => process,
            Err(error) => {
                self.server.set_down(&error.to_string());
                tokio::time::sleep(EXPLAIN_TIMEOUT).await;
                return error.exit_code();
            }
        };
        let mut backoff = Backoff::new();
        loop {
            let code = tokio::select! {
                ending = process.wait() => {
                    self.server.set_down(&ending.map_or_else(|| "it is gone".to_owned(), |e| e.to_string()));
                    let code = ending.and_then(Ending::code).unwrap_or(1);
                    u8::try_from(code).unwrap_or(1)
                }
                () = self.hung.notified() => {
                    self.server.set_down("it did not answer initialize in time");
                    process.end().await;
                    1
                }
            };
            if !options.restart {
                return code;
            }
            process = self.start_again(&mut backoff).await;
        }
    }

    /// Restarts the server after a backoff, and retries until a start succeeds.
    async fn start_again(self: &Arc<Self>, backoff: &mut Backoff) -> Arc<ExclusiveProcess> {
        loop {
            let wait = backoff.wait();
            let after = toolgate::duration::format(wait);
            self.server.set_down(&format!("it ended and is started again in {after}"));
            tokio::time::sleep(wait).await;
            backoff.started();
            let failure = match self.server.start_exclusive(Arc::clone(self) as _) {
                Err(error) => Failure::new(Code::ServerUnavailable, error.to_string()),
                Ok(process) => match self.resume(&process).await {
                    Ok(tells_changes) => {
                        let process = self.set_running(process);
                        tracing::info!("the server `{}` is up again", self.server.name);
                        if tells_changes {
                            let changed =
                                notification(method::NOTIFICATIONS_TOOLS_LIST_CHANGED, None);
                            self.out.send(changed).await;
                        }
                        return process;
                    }
                    Err(failure) => {
                        process.end().await;
                        failure
                    }
                },
            };
            tracing::error!("{failure}");
        }
    }

    /// Repeats the client's handshake with a new process. Returns whether the gateway has to notify the client that the
    /// tools may have changed.
    async fn resume(&self, process: &ExclusiveProcess) -> Result<bool, Failure> {
        let (initialize, initialized) = {
            let handshake = self.handshake();
            (handshake.initialize.clone(), handshake.initialized.clone())
        };
        let mut tells_changes = false;
        if let (Some(initialize), Some(initialized)) = (initialize, initialized) {
            let answer = self.repeat(process, &initialize);
            let answer = tokio::time::timeout(self.server.config.start_timeout, answer).await;
            let late = |_| self.refused("it did not answer initialize in time");
            let answer = answer.map_err(late)??;
            if answer.shape() == Shape::Error {
                return Err(self.refused("it refused initialize"));
            }
            let version = answer.member("protocolVersion");
            process.pipe.set_version(&version.as_ref().and_then(Json::text).unwrap_or_default());
            process.pipe.send_line(initialized).await;
            tells_changes = self::tells_changes(&answer);
        }
        if let Some(live) = &self.namespace.current_chain().live {
            live.mark_outdated();
        }
        Ok(tells_changes)
    }

    async fn repeat(
        &self,
        process: &ExclusiveProcess,
        initialize: &Message,
    ) -> Result<Message, Failure> {
        let compose = |hop: IdRewrite| {
            hop.id.map_or_else(|| initialize.line().clone(), |id| initialize.with_id(&id))
        };
        let started =
            process.connection.start(UpstreamRequest::own(method::INITIALIZE), None, compose).await;
        let mut flight = started.map_err(|error| self.not_sent(error))?;
        match flight.next().await? {
            UpstreamEvent::Response(answer) => Ok(answer),
            _ => Err(self.refused("it has no client")),
        }
    }

    fn refused(&self, why: &str) -> Failure {
        connection_lost(&self.server.name, why, LossStage::NotSent)
    }
}

/// Whether a response to `initialize` declares `tools.listChanged`.
fn tells_changes(answer: &Message) -> bool {
    let changes = |json: Json| json.get("tools")?.get("listChanged")?.bool();
    answer.member("capabilities").and_then(changes) == Some(true)
}

/// Whether `_meta` holds a control for toolgate.
fn is_controlled(message: &Message) -> bool {
    let meta = message.member("_meta").and_then(|meta| meta.object());
    meta.is_some_and(|meta| Control::KEYS.iter().any(|key| meta.contains(key)))
}

impl ExclusiveClient for Client {
    fn pass<'a>(&'a self, message: Message, server: &'a Arc<WriteQueue>) -> Boxed<'a, ()> {
        Box::pin(async move {
            let message = attributed(message, &self.server.name, false);
            let current = self.namespace.current_chain();
            if message.method() == method::NOTIFICATIONS_TOOLS_LIST_CHANGED
                && let Some(live) = &current.live
            {
                live.mark_outdated();
            }
            if let Some(id) = message.id()
                && self.session.load().client_requests.has(id)
            {
                // The gateway would take the client's response for the response to one of its own requests.
                let name = &self.server.name;
                return tracing::warn!(server = %name, "the server's request has the id of one of toolgate's own requests to the client; dropped");
            }
            match filter_message(&current.stack.chain, &self.server.name, &message) {
                Ok(line) => drop(self.out.push(line).await),
                Err(why) => {
                    if let Some(id) = message.id() {
                        server
                            .send(error_response(Some(id), code::INTERNAL_ERROR, &why, None))
                            .await;
                    }
                }
            }
        })
    }
}

/// Answers the messages that the front end reads.
#[derive(Debug)]
struct ExclusiveService(Arc<Client>);

impl LineService for ExclusiveService {
    fn limits(&self) -> Limits {
        self.0.namespace.message_limits()
    }

    /// The gateway itself refuses calls beyond `limits.in_flight`, and records the refusals. This limit covers the
    /// requests that `limits.in_flight` does not count.
    fn max_in_flight(&self) -> usize {
        self.0.namespace.max_in_flight().saturating_mul(2).max(MIN_IN_FLIGHT)
    }

    fn takes_batches(&self) -> bool {
        batch::are_allowed(Some(&self.0.session.load().version))
    }

    async fn start(
        self: &Arc<Self>,
        request: LineRequest,
    ) -> LineResponse<impl Future<Output = Option<Bytes>> + Send + 'static> {
        let client = Arc::clone(&self.0);
        let changes = client.tool_changes(&request.message);
        let work = client.begin(request).await;
        // Boxed here: the future is large, and would be moved several times before its task is spawned.
        LineResponse::Pending(Box::pin(async move {
            let response = async {
                match work {
                    RequestHandling::Governed(incoming) => {
                        dispatch(&client.gateway, &incoming).await.into_line()
                    }
                    RequestHandling::Refused(line) => Some(line),
                    RequestHandling::Sent(id, flight, cancel, response) => {
                        Box::pin(client.answer(id, flight, cancel, response)).await
                    }
                }
            };
            match changes {
                None => response.await,
                Some(changes) => Box::pin(client.send_changes(&changes, response)).await,
            }
        }))
    }

    async fn message(self: &Arc<Self>, message: Message) {
        self.0.forward(&message).await;
    }

    /// The client still receives the messages that the server sends before its end.
    async fn end(&self) {
        self.0.end().await;
    }
}
