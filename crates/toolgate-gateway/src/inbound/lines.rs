//! A client whose messages come and go on one way: over stdio, or over the transport of 2024-11-05.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::{Principal, Session, Transport};
use toolgate_wire::{Id, Json, Message, Sender, Shape, era, is_batch, split_batch};

use crate::{
    batch::{self, Responses},
    hops::{self, Hops},
    outbox::Outbox,
    serve::{
        Gateway,
        dispatch::{Incoming, dispatch},
        hello,
        namespace::Namespace,
        said::Said,
    },
    sessions::{
        caller::{self, Caller, Speaks},
        legacy::LegacySession,
        side::Side,
        usage,
    },
};

/// After the client has closed its end, calls in flight may take this long.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// So many requests of one client may be under way.
const MOST: usize = 1024;

/// One such client.
#[derive(Debug)]
pub(crate) struct LineClient {
    gateway: Arc<Gateway>,
    namespace: Arc<Namespace>,
    principal: Principal,
    transport: Transport,
    out: Arc<Outbox>,
    id: Arc<str>,
    /// The gateways that the connection was opened through.
    opened_by: Option<Hops>,
    session: Mutex<Option<Arc<LegacySession>>>,
    /// Requests of 2026-07-28, which belong to no session.
    in_flight: Mutex<HashMap<Id, CancellationToken>>,
    tasks: TaskTracker,
    /// Whether it has said hello.
    begun: AtomicBool,
    gone: CancellationToken,
    /// Cancelled when the client says no more.
    silent: CancellationToken,
    room: Arc<Semaphore>,
}

impl LineClient {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        namespace: Arc<Namespace>,
        principal: Principal,
        transport: Transport,
        out: Arc<Outbox>,
        id: Arc<str>,
        opened_by: Option<Hops>,
    ) -> Self {
        Self {
            gateway,
            namespace,
            principal,
            transport,
            out,
            id,
            opened_by,
            session: Mutex::default(),
            in_flight: Mutex::default(),
            tasks: TaskTracker::new(),
            begun: AtomicBool::new(false),
            gone: CancellationToken::new(),
            silent: CancellationToken::new(),
            room: Arc::new(Semaphore::new(MOST)),
        }
    }

    pub(crate) fn is_of(&self, namespace: &str, principal: &Principal) -> bool {
        *self.namespace.name == *namespace && self.principal == *principal
    }

    fn session(&self) -> Option<Arc<LegacySession>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a line of the client.
    pub(crate) async fn take(self: &Arc<Self>, line: Bytes) {
        if !is_batch(&line) {
            return self.take_one(line).await;
        }
        let session = self.session();
        if !batch::are_allowed(session.as_ref().map(|session| &*session.version)) {
            return self.refuse(None, -32600, batch::REFUSED).await;
        }
        match split_batch(&line, &self.gateway.limits) {
            Some(Ok(messages)) => self.take_batch(messages),
            Some(Err(error)) => self.say(Said::unread_batch(&error)).await,
            None => {}
        }
    }

    /// Takes several messages at once, one after the other: answered with an array.
    fn take_batch(self: &Arc<Self>, messages: Vec<Bytes>) {
        let client = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut responses = Responses::new(&client.gateway.limits);
            for line in messages {
                // Others of this thread have their turn in between.
                tokio::task::yield_now().await;
                let said = match Message::receive(line, &client.gateway.limits, Sender::Client) {
                    Ok(message) if message.shape() != Shape::Request => {
                        client.hear(&message);
                        continue;
                    }
                    Ok(message) if responses.is_full() => {
                        responses.refuse(message.id());
                        continue;
                    }
                    Ok(message) => {
                        let id = message.id().cloned();
                        match client.begin(message) {
                            Ok(Some(begun)) => (id, begun.run(&client).await),
                            Ok(None) => continue,
                            Err(said) => (id, *said),
                        }
                    }
                    Err(refused) => (refused.id.clone(), Said::unread(&refused)),
                };
                if let (id, Some(line)) = (said.0, said.1.into_line()) {
                    responses.add(id.as_ref(), &line);
                }
            }
            if let Some(array) = responses.finish() {
                client.out.push(array).await;
            }
        });
    }

    async fn take_one(self: &Arc<Self>, line: Bytes) {
        let message = match Message::receive(line, &self.gateway.limits, Sender::Client) {
            Ok(message) => message,
            Err(refused) => {
                let is_request = refused.shape_hint.is_none_or(|shape| shape == Shape::Request);
                if refused.id.is_some() || is_request {
                    return self.say(Said::unread(&refused)).await;
                }
                return tracing::warn!("a message of the client is refused: {}", refused.error);
            }
        };
        match (message.shape(), message.method()) {
            (Shape::Request, "initialize") if !says_version(&message) => {
                if self.begun.swap(true, Ordering::AcqRel) {
                    let why = "there is a session already: a client says `initialize` once";
                    return self.refuse(message.id(), -32600, why).await;
                }
                self.initialize(message);
            }
            (Shape::Request, _) => self.request(message).await,
            _ => self.hear(&message),
        }
    }

    /// Takes a notification, or an answer.
    fn hear(&self, message: &Message) {
        if message.method() == "notifications/cancelled" {
            self.cancel(message);
        } else if let Some(session) = self.session() {
            Gateway::hear(&session, &self.namespace, message);
        }
    }

    /// The gateways that a request has passed; an error if it is in a loop.
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

    fn initialize(self: &Arc<Self>, message: Message) {
        let client = Arc::clone(self);
        self.tasks.spawn(async move {
            let Some(id) = message.id() else { return };
            let session = Session {
                id: Arc::clone(&client.id),
                namespace: Arc::clone(&client.namespace.name),
                principal: client.principal.clone(),
            };
            let hops = match client.hops(&message) {
                Ok(hops) => hops,
                Err(why) => return client.refuse(Some(id), -32600, &why).await,
            };
            let member = client.namespace.member(&client.principal);
            let place = match member.account.take(usage::Kind::Sessions, 1) {
                Ok(place) => place,
                Err(full) => return client.say(Said::full(id, &full)).await,
            };
            let opened =
                hello::initialize(&client.namespace, &message, session, member, hops).await;
            let (result, session) = match opened {
                Ok((result, session)) => (result, Arc::new(session)),
                Err(why) => return client.refuse(Some(id), -32602, &why).await,
            };
            {
                let mut own = client.session.lock().unwrap_or_else(PoisonError::into_inner);
                // It may have left while it was told what there is.
                if client.gone.is_cancelled() {
                    return;
                }
                client.gateway.sessions.enter(&session, place);
                *own = Some(Arc::clone(&session));
            }
            client.namespace.listen(&session.outlet);
            client.say(Said::result(id, result)).await;
            client.follow(session);
        });
    }

    /// Tells the client what belongs to no request.
    fn follow(self: &Arc<Self>, session: Arc<LegacySession>) {
        let client = Arc::clone(self);
        tokio::spawn(async move {
            let _busy = session.busy();
            loop {
                let lines = tokio::select! {
                    lines = session.outlet.next() => lines,
                    () = session.over.cancelled() => return,
                };
                let Some(lines) = lines else { return };
                for line in lines {
                    client.out.push(line).await;
                }
            }
        });
    }

    async fn request(self: &Arc<Self>, message: Message) {
        let begun = match self.begin(message) {
            Ok(Some(begun)) => begun,
            Ok(None) => return,
            Err(said) => return self.say(*said).await,
        };
        let client = Arc::clone(self);
        self.tasks.spawn(async move {
            let said = begun.run(&client).await;
            client.say(said).await;
        });
    }

    /// Notes a request that is to be run; `None` if its id is that of another one.
    fn begin(&self, message: Message) -> Result<Option<Begun>, Box<Said>> {
        let Some(id) = message.id().cloned() else { return Ok(None) };
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            let why = "too many requests of this client are under way";
            return Err(Box::new(Said::refused(Some(&id), -32603, why)));
        };
        let speaks = self.speaks(&message)?;
        let hops = self.hops(&message);
        let hops = hops.map_err(|why| Box::new(Said::refused(Some(&id), -32600, why)))?;
        // Whoever only listens has nothing left to wait for when the client says no more.
        let is_listening = message.method() == "subscriptions/listen";
        let token = if is_listening { self.silent.child_token() } else { CancellationToken::new() };
        let begun = match &speaks {
            Speaks::Legacy(session) => {
                let Ok(begun) = session.begin(&id, &token) else {
                    tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
                    return Ok(None);
                };
                Some(begun)
            }
            Speaks::Modern(_) => {
                let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
                if in_flight.contains_key(&id) {
                    tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
                    return Ok(None);
                }
                in_flight.insert(id.clone(), token.clone());
                None
            }
        };
        let (session, member) = match &speaks {
            Speaks::Legacy(session) => (Arc::clone(&session.session), Arc::clone(&session.member)),
            Speaks::Modern(_) => {
                let member = self.namespace.member(&self.principal);
                (Arc::clone(&member.session), member)
            }
        };
        let incoming = Incoming {
            namespace: Arc::clone(&self.namespace),
            caller: Caller { session, member, transport: self.transport, speaks, hops },
            message,
            side: Side::Pipe(Arc::clone(&self.out)),
            cancel: token,
            headers: None,
        };
        Ok(Some(Begun { incoming, _session: begun, _room: room }))
    }

    fn speaks(&self, message: &Message) -> Result<Speaks, Box<Said>> {
        let refused = |why: String| Box::new(Said::refused(message.id(), -32602, why));
        if !says_version(message) {
            if let Some(session) = self.session() {
                return Ok(Speaks::Legacy(session));
            }
            let why = "say `initialize` first, or say in `_meta` which version you speak";
            return Err(refused(why.to_owned()));
        }
        let meta = message.member("_meta");
        let said = caller::Said::of(meta.as_ref());
        let said = said.map_err(|missing| refused(format!("`_meta` must have `{missing}`")))?;
        match hello::unsupported(message.id(), &said.version) {
            Some(unsupported) => Err(Box::new(unsupported)),
            None => Ok(Speaks::Modern(said)),
        }
    }

    fn cancel(&self, message: &Message) {
        let Some(id) = message.member("requestId").and_then(Id::from_json) else { return };
        if let Some(session) = self.session() {
            session.cancel(&id);
        }
        if let Some(token) = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).get(&id)
        {
            token.cancel();
        }
    }

    async fn say(&self, said: Said) {
        if let Some(line) = said.into_line() {
            self.out.push(line).await;
        }
    }

    pub(crate) async fn refuse(&self, id: Option<&Id>, code: i64, why: &str) {
        self.say(Said::refused(id, code, why)).await;
    }

    /// The client is done: what is in flight may end, then its session does.
    pub(crate) async fn finish(&self) {
        self.silent.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(LAST_CALLS, self.tasks.wait()).await;
        self.end();
    }

    /// The client is gone: everything of it is given up.
    pub(crate) fn end(&self) {
        let session = {
            let own = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            self.gone.cancel();
            own.clone()
        };
        if let Some(session) = session {
            self.gateway.end_session(&session);
        }
        let tokens =
            std::mem::take(&mut *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner));
        tokens.values().for_each(CancellationToken::cancel);
        self.out.close();
    }
}

/// A request that is to be run.
struct Begun {
    incoming: Incoming,
    _session: Option<crate::sessions::legacy::Begun>,
    _room: OwnedSemaphorePermit,
}

impl Begun {
    async fn run(self, client: &LineClient) -> Said {
        let said = dispatch(&client.gateway, &self.incoming).await;
        let mut in_flight = client.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if self.incoming.caller.is_modern() {
            in_flight.remove(self.incoming.id());
        }
        said
    }
}

/// Whether a message says which version it speaks, as from 2026-07-28 on.
fn says_version(message: &Message) -> bool {
    let version = message.member("_meta").and_then(|meta| meta.get(era::META_PROTOCOL_VERSION));
    version.as_ref().and_then(Json::text).is_some()
}
