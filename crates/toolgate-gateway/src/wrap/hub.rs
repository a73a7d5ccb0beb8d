//! The hub: what the two directions of a wrapped server share.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::{
    ClientInfo, Code, Context, Control, Failure, Ingress, Ran, Session, Trace, Transport,
};
use toolgate_wire::{Id, Json, Limits, Message, era, error_response};

use super::{
    governance::Governance,
    memory::{Acquaintances, Memory},
    pending::{Arrival, PendingTable, Waiter},
    questions::{self, Questions},
};
use crate::{batch, narrowed::Narrowed, outbox::Outbox, sessions::table::random_id};

/// Shared by the reader of the client, the reader of the server and every call in between.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) server: Arc<str>,
    governance: ArcSwap<Governance>,
    pub(crate) session: Arc<Session>,
    pub(crate) limits: Limits,
    pub(crate) most_in_flight: usize,
    pub(crate) to_client: Arc<Outbox>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) pending: Arc<PendingTable>,
    pub(crate) tasks: TaskTracker,
    pub(crate) start_timeout: std::time::Duration,
    /// The server did not answer `initialize` in time.
    pub(crate) hung: Notify,
    link: Mutex<Link>,
    in_flight: Mutex<HashMap<Id, CancellationToken>>,
    client: Mutex<ClientFacts>,
    own_ids: AtomicU64,
    /// What ids of our own requests begin with: the server learns nothing else from them.
    own_prefix: String,
    memory: Mutex<Option<Memory>>,
    narrowed: Mutex<Narrowed>,
}

/// Whether the server can be reached.
#[derive(Debug)]
pub(crate) enum Link {
    Up(Arc<Outbox>),
    Down(Arc<str>),
}

/// What the client has told about itself.
#[derive(Debug, Default)]
pub(crate) struct ClientFacts {
    info: Option<Arc<ClientInfo>>,
    info_text: Option<Json>,
    /// The version that requests carry themselves, from 2026-07-28 on.
    pub(crate) modern: Option<String>,
    pub(crate) initialize: Option<Message>,
    pub(crate) initialized: Option<Bytes>,
    /// The version that `initialize` agreed on.
    negotiated: Option<Arc<str>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(
        server: Arc<str>,
        governance: Governance,
        session: Session,
        settings: &toolgate::settings::Settings,
        start_timeout: std::time::Duration,
        memory: Memory,
    ) -> Self {
        let to_client = Arc::new(Outbox::new());
        Self {
            server,
            governance: ArcSwap::from_pointee(governance),
            limits: Limits { max_bytes: settings.limits.message_bytes, ..Limits::default() },
            most_in_flight: settings.limits.in_flight,
            questions: Arc::new(Questions::new(Arc::clone(&to_client))),
            to_client,
            session: Arc::new(session),
            pending: Arc::default(),
            tasks: TaskTracker::new(),
            start_timeout,
            hung: Notify::new(),
            link: Mutex::new(Link::Down("it has not been started yet".into())),
            in_flight: Mutex::default(),
            client: Mutex::default(),
            own_ids: AtomicU64::new(0),
            own_prefix: format!("toolgate-{}-", random_id().as_deref().unwrap_or("own")),
            memory: Mutex::new(Some(memory)),
            narrowed: Mutex::default(),
        }
    }

    /// What governs a call that starts now.
    pub(crate) fn governance(&self) -> Arc<Governance> {
        self.governance.load_full()
    }

    /// From here on, calls that start are governed by this. Those under way finish by what they started
    /// with.
    pub(crate) fn govern_by(&self, governance: Governance) {
        self.governance.store(Arc::new(governance));
    }

    /// The store, to be closed.
    pub(crate) fn take_memory(&self) -> Option<Memory> {
        lock(&self.memory).take()
    }

    /// What remembers tools, if there is a store.
    pub(crate) fn acquaintances(&self) -> Option<Acquaintances> {
        lock(&self.memory).as_ref().and_then(Memory::acquaintances)
    }

    /// The narrowing that a call inherits from the one that it is part of, and hands on to those that are
    /// part of it.
    pub(crate) fn inherit(&self, cx: Context, control: Control) -> Context {
        lock(&self.narrowed).inherit(cx, control)
    }

    /// The way to the server.
    pub(crate) fn link(&self) -> Result<Arc<Outbox>, Failure> {
        match &*lock(&self.link) {
            Link::Up(outbox) => Ok(Arc::clone(outbox)),
            Link::Down(why) => {
                let message = format!("The server `{}` is not running: {why}", self.server);
                Err(Failure::new(Code::ServerUnavailable, message)
                    .suggest("Try again in a moment."))
            }
        }
    }

    pub(crate) fn set_link(&self, link: Link) {
        *lock(&self.link) = link;
    }

    /// An id for a request of our own, which no client uses.
    pub(crate) fn own_id(&self) -> Id {
        let count = self.own_ids.fetch_add(1, Ordering::Relaxed);
        Id::string(&format!("{}{count}", self.own_prefix))
    }

    pub(crate) fn client_facts(&self) -> MutexGuard<'_, ClientFacts> {
        lock(&self.client)
    }

    /// Starts to follow a request of the client; `None` when too many are in flight or one with the same
    /// id is.
    pub(crate) fn begin(&self, id: &Id) -> Result<CancellationToken, Refusal> {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.contains_key(id) {
            return Err(Refusal::SameId);
        }
        if in_flight.len() >= self.most_in_flight {
            return Err(Refusal::TooMany);
        }
        let token = CancellationToken::new();
        in_flight.insert(id.clone(), token.clone());
        Ok(token)
    }

    pub(crate) fn finish(&self, id: &Id) {
        lock(&self.in_flight).remove(id);
    }

    /// The client gives one request up.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(token) = lock(&self.in_flight).get(id) {
            token.cancel();
        } else {
            self.pending.give_up(id);
        }
    }

    /// The client is gone: everything is given up.
    pub(crate) fn cancel_all(&self) {
        lock(&self.in_flight).values().for_each(CancellationToken::cancel);
    }

    /// The surroundings of one request.
    pub(crate) fn context(&self, message: &Message, cancel: CancellationToken) -> Context {
        let meta = message.member("_meta");
        let client = self.client_of(meta.as_ref());
        let ingress = self.ingress(meta.as_ref());
        let cx = Context::new(Arc::clone(&self.session))
            .with_client(client)
            .with_request_id(message.id().cloned())
            .with_cancel(cancel)
            .with_ingress(ingress);
        if !self.governance.load().chain().asks() {
            return cx;
        }
        let initialize = lock(&self.client).initialize.clone();
        cx.with_asking(questions::asking(&self.questions, meta.as_ref(), initialize.as_ref()))
    }

    /// How a request came in, as far as a layer asks.
    fn ingress(&self, meta: Option<&Json>) -> Ingress {
        let transport = Some(Transport::Stdio);
        if !self.governance.load().chain().follows_traces() {
            return Ingress { transport, ..Ingress::default() };
        }
        let said = meta.and_then(|meta| meta.get(era::META_PROTOCOL_VERSION));
        let said = said.as_ref().and_then(version);
        let protocol = said.or_else(|| lock(&self.client).negotiated.clone());
        Ingress { transport, protocol, trace: meta.and_then(Trace::of) }
    }

    /// Whether the session speaks the version that has batches.
    pub(crate) fn takes_batches(&self) -> bool {
        batch::are_allowed(lock(&self.client).negotiated.as_deref())
    }

    /// Notes what the answer to `initialize` says.
    pub(crate) fn note_initialized(&self, answer: &Message) {
        let agreed = answer.member("protocolVersion");
        lock(&self.client).negotiated = agreed.as_ref().and_then(version);
    }

    /// The client as it introduced itself, with `initialize` or, from 2026-07-28 on, with this request.
    fn client_of(&self, meta: Option<&Json>) -> Option<Arc<ClientInfo>> {
        let mut facts = lock(&self.client);
        let Some(meta) = meta else { return facts.info.clone() };
        if facts.modern.is_none()
            && let Some(version) = meta.get(era::META_PROTOCOL_VERSION)
        {
            facts.modern = version.text().map(Cow::into_owned);
        }
        if let Some(text) = meta.get(era::META_CLIENT_INFO)
            && facts.info_text.as_ref() != Some(&text)
        {
            facts.info = client_info(&text);
            facts.info_text = Some(text);
        }
        facts.info.clone()
    }

    /// Notes what `initialize` says.
    pub(crate) fn note_initialize(&self, message: &Message) {
        let mut facts = lock(&self.client);
        facts.info = message.member("clientInfo").as_ref().and_then(client_info);
        facts.initialize = Some(message.clone());
    }

    /// Answers everything that waits: the server is gone.
    pub(crate) async fn server_gone(&self, why: &Arc<str>) {
        self.set_link(Link::Down(Arc::clone(why)));
        for (id, waiter) in self.pending.take_all() {
            match waiter {
                Waiter::Task(task) => drop(task.send(Arrival::Gone(Arc::clone(why)))),
                Waiter::Client | Waiter::Listing | Waiter::Start => {
                    self.refuse(Some(&id), &self.crashed(why, Ran::Maybe)).await;
                }
            }
        }
    }

    /// The failure of a request that the server took down with it.
    pub(crate) fn crashed(&self, why: &str, ran: Ran) -> Failure {
        let server = &self.server;
        let message = match ran {
            Ran::No => format!(
                "The server `{server}` ended ({why}) before the call reached it: it did not run"
            ),
            _ => format!(
                "The server `{server}` ended ({why}) while the call was under way: it may have run"
            ),
        };
        let next = match ran {
            Ran::No => "Call again once the server is back.",
            _ => "Check what the call did before you repeat it.",
        };
        Failure::new(Code::ServerCrashed, message).suggest(next).ran(ran)
    }

    /// Answers a request with a JSON-RPC error.
    pub(crate) async fn refuse(&self, id: Option<&Id>, failure: &Failure) {
        let rpc = failure.to_rpc();
        let line = error_response(id, rpc.code, &rpc.message, rpc.data.as_ref());
        self.to_client.push(line).await;
    }
}

/// Why a request is not followed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    SameId,
    TooMany,
}

/// A version of the protocol. What is too long to be one is none.
fn version(json: &Json) -> Option<Arc<str>> {
    json.text().filter(|text| text.len() <= 32).map(|text| Arc::from(text.as_ref()))
}

fn client_info(json: &Json) -> Option<Arc<ClientInfo>> {
    let text = |key| json.get(key).and_then(|json| json.text().map(Cow::into_owned));
    Some(Arc::new(ClientInfo { name: text("name")?, version: text("version") }))
}
