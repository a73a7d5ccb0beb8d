//! What surrounds one call: who, from where, under which id, and the bag that layers share.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;
use toolgate_wire::Id;

use crate::{
    asking::{Asking, Round},
    control::Control,
    identity::Principal,
    trace::{Ingress, Trace},
};

/// The id of one call: a UUID of version 7, so ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(uuid::Uuid);

impl CallId {
    /// A new id. Costs a clock read and a counter: no system call for randomness per call.
    #[must_use]
    pub fn next() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let millis = jiff::Timestamp::now().as_millisecond().unsigned_abs();
        let salt = process_salt();
        let [.., high, low] = count.to_be_bytes();
        let mut tail = [0_u8; 10];
        // Two bytes that sort within the millisecond, eight that no other process has.
        tail[..2].copy_from_slice(&[high, low]);
        tail[2..].copy_from_slice(&(salt.wrapping_add(count)).to_be_bytes());
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
    }

    /// As text, where a formatter would cost more than the rest of a record.
    pub(crate) fn text<'a>(&self, buffer: &'a mut [u8; Self::TEXT]) -> &'a str {
        self.0.hyphenated().encode_lower(buffer)
    }

    /// How long it is as text.
    pub(crate) const TEXT: usize = uuid::fmt::Hyphenated::LENGTH;
}

/// Random per process, from the standard library's seeded hasher.
fn process_salt() -> u64 {
    use std::{
        hash::{BuildHasher, RandomState},
        sync::OnceLock,
    };
    static SALT: OnceLock<u64> = OnceLock::new();
    *SALT.get_or_init(|| RandomState::new().hash_one(std::process::id()))
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallId({self})")
    }
}

/// What a client says about itself. Words for messages and records; never decides anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// `clientInfo.name`
    pub name: String,
    /// `clientInfo.version`
    pub version: Option<String>,
}

impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What stays the same for all calls of one connection.
#[derive(Clone, Debug)]
pub struct Session {
    /// The id under which the connection appears in records.
    pub id: Arc<str>,
    /// The namespace that the client connected to.
    pub namespace: Arc<str>,
    /// Who calls.
    pub principal: Principal,
}

/// The surroundings of one call or request, handed down the chain by reference.
#[derive(Debug)]
pub struct Context {
    session: Arc<Session>,
    client: Option<Arc<ClientInfo>>,
    request_id: Option<Id>,
    call_id: CallId,
    control: Control,
    cancel: CancellationToken,
    asking: Asking,
    round: Option<Round>,
    returned: Option<Round>,
    resumed: Option<Round>,
    pub(crate) ingress: Ingress,
    pub(crate) span: Option<Trace>,
    bag: Bag,
}

impl Context {
    /// A context for one new call of `session`.
    #[must_use]
    pub fn new(session: Arc<Session>) -> Self {
        Self {
            session,
            client: None,
            request_id: None,
            call_id: CallId::next(),
            control: Control::default(),
            cancel: CancellationToken::new(),
            asking: Asking::Nobody,
            round: None,
            returned: None,
            resumed: None,
            ingress: Ingress::default(),
            span: None,
            bag: Bag::default(),
        }
    }

    /// With the client that asks.
    #[must_use]
    pub fn with_client(mut self, client: Option<Arc<ClientInfo>>) -> Self {
        self.client = client;
        self
    }

    /// With the JSON-RPC id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<Id>) -> Self {
        self.request_id = id;
        self
    }

    /// With the control data that was lifted off `_meta`.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// With the id of the call that this one is part of (`_meta.parent_call_uuid`).
    #[must_use]
    pub fn with_parent(mut self, parent: Option<Arc<str>>) -> Self {
        self.control.parent = parent;
        self
    }

    /// With the token that the door cancels when the client gives up.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// With how the client can be asked something.
    #[must_use]
    pub fn with_asking(mut self, asking: Asking) -> Self {
        self.asking = asking;
        self
    }

    /// With what the client gave back of a question of ours, lifted off at the door.
    #[must_use]
    pub fn with_round(mut self, round: Round) -> Self {
        self.round = Some(round);
        self
    }

    /// With whatever the client gave back of any question, its state and its answers, if it did.
    #[must_use]
    pub fn with_returned(mut self, round: &Round) -> Self {
        if round.state.is_some() || round.responses.is_some() {
            self.returned = Some(round.clone());
        }
        self
    }

    /// A context for a call made on behalf of this one: same session and client, own id, this call
    /// as its parent, cancelled when this one is.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            client: self.client.clone(),
            request_id: self.request_id.clone(),
            call_id: CallId::next(),
            // What narrows a call narrows every call that is part of it.
            control: Control {
                parent: Some(self.call_id.to_string().into()),
                confirm: None,
                ..self.control.clone()
            },
            cancel: self.cancel.child_token(),
            // An answer to this call is none to its parts, and a part cannot be repeated by the client.
            asking: match &self.asking {
                Asking::Elicit(client) => Asking::Elicit(Arc::clone(client)),
                Asking::Rounds | Asking::Nobody => Asking::Nobody,
            },
            round: None,
            returned: None,
            resumed: None,
            ingress: self.nested_ingress(),
            span: None,
            bag: Bag::default(),
        }
    }

    /// The connection.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Who calls.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.session.principal
    }

    /// What the client says about itself, if it does.
    #[must_use]
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_deref()
    }

    /// The client's name and version, shared.
    #[must_use]
    pub fn client_shared(&self) -> Option<Arc<ClientInfo>> {
        self.client.clone()
    }

    /// The connection, shared.
    #[must_use]
    pub fn session_shared(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// The JSON-RPC id of the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&Id> {
        self.request_id.as_ref()
    }

    /// This call's own id.
    #[must_use]
    pub fn call_id(&self) -> CallId {
        self.call_id
    }

    /// The id of the call that this one is part of.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<str>> {
        self.control.parent.as_ref()
    }

    /// What the request says about itself, to narrow what it may do.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Cancelled when the client gives the call up.
    #[must_use]
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// How the client can be asked something.
    #[must_use]
    pub fn asking(&self) -> &Asking {
        &self.asking
    }

    /// What the client gave back of any question: the gateway's, or a server's.
    #[must_use]
    pub fn returned(&self) -> Option<&Round> {
        self.returned.as_ref()
    }

    /// What the client gave back of a question of ours. No server sees it.
    #[must_use]
    pub fn round(&self) -> Option<&Round> {
        self.round.as_ref()
    }

    /// Hands the server back what is the server's: the state that it gave, and the answers to it.
    pub fn resume(&mut self, round: Round) {
        self.resumed = Some(round);
    }

    /// What the door sends on instead of what was lifted off.
    #[must_use]
    pub fn resumed(&self) -> Option<&Round> {
        self.resumed.as_ref()
    }

    /// What layers leave for each other.
    #[must_use]
    pub fn bag(&self) -> &Bag {
        &self.bag
    }

    /// What layers leave for each other, to write.
    pub fn bag_mut(&mut self) -> &mut Bag {
        &mut self.bag
    }
}

/// State that one layer leaves for another, one value per type.
///
/// Layers agree on a type instead of on a string key, so a misspelt key does not compile. A handful
/// of entries at most: a list beats a map.
#[derive(Default)]
pub struct Bag(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl Bag {
    /// Puts a value in, and hands back the one of the same type that was there.
    pub fn put<T: Any + Send + Sync>(&mut self, value: T) -> Option<T> {
        let old = self.take::<T>();
        self.0.push((TypeId::of::<T>(), Box::new(value)));
        old
    }

    /// The value of this type, if a layer left one.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// The value of this type, to write.
    pub fn get_mut<T: Any + Send + Sync>(&mut self) -> Option<&mut T> {
        let (_, value) = self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_mut()
    }

    /// Takes the value of this type out.
    pub fn take<T: Any + Send + Sync>(&mut self) -> Option<T> {
        let at = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        let (_, value) = self.0.swap_remove(at);
        value.downcast().ok().map(|boxed| *boxed)
    }
}

impl fmt::Debug for Bag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bag({} values)", self.0.len())
    }
}

impl Context {
    /// With how the request came to the door.
    #[must_use]
    pub fn with_ingress(mut self, ingress: Ingress) -> Self {
        self.ingress = ingress;
        self
    }

    /// How the request came to the door.
    #[must_use]
    pub fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    /// Our own span of this call, if a layer follows traces: what a server is told as its parent.
    #[must_use]
    pub fn span(&self) -> Option<&Trace> {
        self.span.as_ref()
    }

    /// Leaves our own span for the layers inside, and for the way to the server.
    pub fn set_span(&mut self, span: Option<Trace>) {
        self.span = span;
    }

    /// How a call that is part of this one comes in: our own span is its parent.
    pub(crate) fn nested_ingress(&self) -> Ingress {
        let trace = self.span.clone().or_else(|| self.ingress.trace.clone());
        Ingress { trace, ..self.ingress.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<Session> {
        let principal = Principal::Local("me".into());
        Arc::new(Session { id: "s".into(), namespace: "default".into(), principal })
    }

    #[test]
    fn the_bag_holds_one_value_per_type() {
        let mut cx = Context::new(session());
        assert_eq!(cx.bag_mut().put(1_u32), None);
        assert_eq!(cx.bag_mut().put("text"), None);
        assert_eq!(cx.bag_mut().put(2_u32), Some(1));
        *cx.bag_mut().get_mut::<u32>().unwrap() += 1;
        assert_eq!((cx.bag().get::<u32>(), cx.bag().get::<&str>()), (Some(&3), Some(&"text")));
        assert_eq!(cx.bag_mut().take::<u32>(), Some(3));
        assert_eq!(cx.bag().get::<u32>(), None);
    }

    #[test]
    fn a_nested_call_names_its_parent_and_dies_with_it() {
        let parent = Context::new(session());
        let child = parent.nested();
        assert_eq!(child.parent().map(ToString::to_string), Some(parent.call_id().to_string()));
        assert_ne!(child.call_id(), parent.call_id());
        parent.cancel().cancel();
        assert!(child.cancel().is_cancelled());
    }

    #[test]
    fn call_ids_are_unique_and_of_version_7() {
        let ids: std::collections::HashSet<_> = (0..10_000).map(|_| CallId::next()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
    }
}
