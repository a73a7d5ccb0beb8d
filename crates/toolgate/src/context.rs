//! The context of one call: caller, session, ids, client input, and the extensions that layers share.

use std::{
    any::{Any, TypeId},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;
use toolgate_wire::{Id, Json};

use crate::{
    client_input::{ClientInput, InputRound},
    control::Control,
    identity::Principal,
    trace::{Ingress, Trace},
};

/// The id of one call: a UUID of version 7, so ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(uuid::Uuid);

impl CallId {
    /// A new id. Reads the clock and a counter; makes no system call for randomness.
    #[must_use]
    pub fn next() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let millis = jiff::Timestamp::now().as_millisecond().unsigned_abs();
        let salt = process_salt();
        let [.., high, low] = count.to_be_bytes();
        let mut tail = [0_u8; 10];
        // Two bytes of the counter sort ids within a millisecond; eight bytes are unique to this process.
        tail[..2].copy_from_slice(&[high, low]);
        tail[2..].copy_from_slice(&(salt.wrapping_add(count)).to_be_bytes());
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
    }

    /// The id as text in `buffer`, without the cost of a formatter.
    pub(crate) fn text<'a>(&self, buffer: &'a mut [u8; Self::TEXT]) -> &'a str {
        self.0.hyphenated().encode_lower(buffer)
    }

    /// Length of the id as text.
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

/// The client's name and version. Used in messages and records only, never for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// `clientInfo.name`
    pub name: String,
    /// `clientInfo.version`
    pub version: Option<String>,
}

impl ClientInfo {
    /// The pieces of its text.
    pub(crate) fn pieces(&self) -> [&str; 3] {
        match &self.version {
            Some(version) => [&self.name, " ", version],
            None => [&self.name, "", ""],
        }
    }
}

impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().iter().try_for_each(|piece| f.write_str(piece))
    }
}

/// The values that all calls of one connection share.
#[derive(Clone, Debug)]
pub struct Session {
    /// The id under which the connection appears in records.
    pub id: Arc<str>,
    /// The namespace that the client connected to.
    pub namespace: Arc<str>,
    /// The caller.
    pub principal: Principal,
}

/// The context of one call or request. The chain passes it down by reference.
///
/// ```
/// use std::sync::Arc;
/// use toolgate::{Context, Principal, Session};
///
/// let principal = Principal::Key("ci".into());
/// let session = Session { id: "s-1".into(), namespace: "default".into(), principal };
/// let cx = Context::new(Arc::new(session));
/// assert_eq!(cx.principal().to_string(), "key:ci");
/// assert_eq!(cx.nested().parent().map(|id| id.to_string()), Some(cx.call_id().to_string()));
/// ```
#[derive(Debug)]
pub struct Context {
    /// On the heap, because they are large and the futures of a call hand them on several times.
    fields: Box<Fields>,
}

#[derive(Debug)]
struct Fields {
    session: Arc<Session>,
    client: Option<Arc<ClientInfo>>,
    request_id: Option<Id>,
    call_id: CallId,
    control: Control,
    meta: Option<Json>,
    claims: Option<Json>,
    depth: u8,
    cancel: CancellationToken,
    client_input: ClientInput,
    gateway_input: Option<InputRound>,
    returned_input: Option<InputRound>,
    forwarded_input: Option<InputRound>,
    ingress: Ingress,
    span: Option<Trace>,
    extensions: Extensions,
}

impl Context {
    /// A context for one new call of `session`.
    #[must_use]
    pub fn new(session: Arc<Session>) -> Self {
        Self {
            fields: Box::new(Fields {
                session,
                client: None,
                request_id: None,
                call_id: CallId::next(),
                control: Control::default(),
                meta: None,
                claims: None,
                depth: 0,
                cancel: CancellationToken::new(),
                client_input: ClientInput::Unavailable,
                gateway_input: None,
                returned_input: None,
                forwarded_input: None,
                ingress: Ingress::default(),
                span: None,
                extensions: Extensions::default(),
            }),
        }
    }

    /// Sets the client's name and version.
    #[must_use]
    pub fn with_client(mut self, client: Option<Arc<ClientInfo>>) -> Self {
        self.fields.client = client;
        self
    }

    /// Sets the JSON-RPC id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: Option<Id>) -> Self {
        self.fields.request_id = id;
        self
    }

    /// Sets the control data of the request's `_meta`.
    #[must_use]
    pub fn with_control(mut self, control: Control) -> Self {
        self.fields.control = control;
        self
    }

    /// Sets the request's `_meta`, without the control data.
    #[must_use]
    pub fn with_meta(mut self, meta: Option<Json>) -> Self {
        self.fields.meta = meta;
        self
    }

    /// Sets what the transport knows about the principal, such as the claims of a verified token: an object.
    #[must_use]
    pub fn with_claims(mut self, claims: Option<Json>) -> Self {
        self.fields.claims = claims;
        self
    }

    /// Sets what the transport knows about the principal.
    pub fn set_claims(&mut self, claims: impl Into<Json>) {
        self.fields.claims = Some(claims.into());
    }

    /// Sets how many calls this call is nested in.
    #[must_use]
    pub fn with_depth(mut self, depth: u8) -> Self {
        self.fields.depth = depth;
        self
    }

    /// Sets the parent call's id (`_meta.parent_call_uuid`).
    #[must_use]
    pub fn with_parent(mut self, parent: Option<Arc<str>>) -> Self {
        self.fields.control.parent = parent;
        self
    }

    /// Sets the token that the transport cancels when the client cancels the request or disconnects.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.fields.cancel = cancel;
        self
    }

    /// Sets how the client can be asked for input.
    #[must_use]
    pub fn with_client_input(mut self, client_input: ClientInput) -> Self {
        self.fields.client_input = client_input;
        self
    }

    /// Sets the client's input for a question that toolgate asked. Servers never see it.
    #[must_use]
    pub fn with_gateway_input(mut self, input: InputRound) -> Self {
        self.fields.gateway_input = Some(input);
        self
    }

    /// Sets all input that the request carries, for a question of toolgate or of a server. Does nothing if `input` is
    /// empty.
    #[must_use]
    pub fn with_returned_input(mut self, input: &InputRound) -> Self {
        if input.state.is_some() || input.responses.is_some() {
            self.fields.returned_input = Some(input.clone());
        }
        self
    }

    /// A context for a call that this call makes. It has the same session and client and its own id; its parent is
    /// this call, and it is cancelled together with this call.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self {
            fields: Box::new(Fields {
                session: Arc::clone(&self.fields.session),
                client: self.fields.client.clone(),
                request_id: self.fields.request_id.clone(),
                call_id: CallId::next(),
                // Restrictions of a call apply to its nested calls.
                control: Control {
                    parent: Some(self.fields.call_id.to_string().into()),
                    confirm: None,
                    ..self.fields.control.clone()
                },
                meta: self.fields.meta.clone(),
                claims: self.fields.claims.clone(),
                depth: self.fields.depth.saturating_add(1),
                cancel: self.fields.cancel.child_token(),
                // The client cannot repeat a nested call, so only a request of toolgate's own can ask it for input.
                client_input: match &self.fields.client_input {
                    ClientInput::ViaElicitation(client) => {
                        ClientInput::ViaElicitation(Arc::clone(client))
                    }
                    ClientInput::ViaResult | ClientInput::Unavailable => ClientInput::Unavailable,
                },
                gateway_input: None,
                returned_input: None,
                forwarded_input: None,
                ingress: self.nested_ingress(),
                span: None,
                extensions: Extensions::default(),
            }),
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.fields.session
    }

    /// The caller.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.fields.session.principal
    }

    /// The client's name and version, if it sent them.
    #[must_use]
    pub fn client(&self) -> Option<&ClientInfo> {
        self.fields.client.as_deref()
    }

    /// The client's name and version, shared.
    #[must_use]
    pub fn client_shared(&self) -> Option<Arc<ClientInfo>> {
        self.fields.client.clone()
    }

    /// The session, shared.
    #[must_use]
    pub fn session_shared(&self) -> Arc<Session> {
        Arc::clone(&self.fields.session)
    }

    /// The JSON-RPC id of the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&Id> {
        self.fields.request_id.as_ref()
    }

    /// The id of this call.
    #[must_use]
    pub fn call_id(&self) -> CallId {
        self.fields.call_id
    }

    /// The id of the parent call.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<str>> {
        self.fields.control.parent.as_ref()
    }

    /// The control data of the request, which can only restrict it.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.fields.control
    }

    /// The request's `_meta` without the control data, as the client sent it. The client writes it: it may choose between
    /// things that the client may have, and never permits anything.
    #[must_use]
    pub fn meta(&self) -> Option<&Json> {
        self.fields.meta.as_ref()
    }

    /// A member of the request's `_meta`.
    ///
    /// ```
    /// use toolgate::from_fn;
    ///
    /// let layer = from_fn("locale", async |cx, mut call, next| {
    ///     if let Some(locale) = cx.meta_member("example.com/locale") {
    ///         call.insert_arg("locale", locale)?;
    ///     }
    ///     Ok(next.call(cx, call).await)
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn meta_member(&self, key: &str) -> Option<Json> {
        self.fields.meta.as_ref()?.get(key)
    }

    /// What the transport knows about the principal, such as the claims of a verified token.
    #[must_use]
    pub fn claims(&self) -> Option<&Json> {
        self.fields.claims.as_ref()
    }

    /// One claim of the principal, decoded.
    ///
    /// ```
    /// use toolgate::{Failure, gate};
    ///
    /// let layer = gate("tenants", |cx, access| match cx.claim::<String>("tenant") {
    ///     Some(tenant) if access.tool().id().server() == tenant => Ok(()),
    ///     _ => Err(Failure::refused("the tool belongs to another tenant")),
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn claim<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.fields.claims.as_ref()?.get(name)?.decode().ok()
    }

    /// How many calls this call is nested in.
    #[must_use]
    pub fn depth(&self) -> u8 {
        self.fields.depth
    }

    /// Cancelled when the client cancels the call or disconnects.
    #[must_use]
    pub fn cancel(&self) -> &CancellationToken {
        &self.fields.cancel
    }

    /// How the client can be asked for input.
    #[must_use]
    pub fn client_input(&self) -> &ClientInput {
        &self.fields.client_input
    }

    /// All input that the request carries, for a question of toolgate or of a server.
    #[must_use]
    pub fn returned_input(&self) -> Option<&InputRound> {
        self.fields.returned_input.as_ref()
    }

    /// The client's input for a question that toolgate asked. Servers never see it.
    #[must_use]
    pub fn gateway_input(&self) -> Option<&InputRound> {
        self.fields.gateway_input.as_ref()
    }

    /// Forwards the server's own `requestState` and the client's responses to the server.
    pub fn forward_input(&mut self, input: InputRound) {
        self.fields.forwarded_input = Some(input);
    }

    /// The input that the request to the server carries instead of the client's.
    #[must_use]
    pub fn forwarded_input(&self) -> Option<&InputRound> {
        self.fields.forwarded_input.as_ref()
    }

    /// Values that layers share during this call.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.fields.extensions
    }

    /// Values that layers share during this call, mutable.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.fields.extensions
    }
}

/// Values that layers share during one call, one value per type.
///
/// The key is a type and not a string, so a misspelt key does not compile. A call has a handful of values at most,
/// for which a list is faster than a map.
///
/// ```
/// use toolgate::testing;
///
/// #[derive(Debug, PartialEq)]
/// struct Budget(u32);
///
/// let mut cx = testing::context();
/// cx.extensions_mut().insert(Budget(3));
/// assert_eq!(cx.extensions().get::<Budget>(), Some(&Budget(3)));
/// ```
#[derive(Default)]
pub struct Extensions(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl Extensions {
    /// Inserts a value and returns the previous value of the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) -> Option<T> {
        let old = self.remove::<T>();
        self.0.push((TypeId::of::<T>(), Box::new(value)));
        old
    }

    /// The value of this type, if a layer inserted one.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// The value of this type, mutable.
    pub fn get_mut<T: Any + Send + Sync>(&mut self) -> Option<&mut T> {
        let (_, value) = self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?;
        value.downcast_mut()
    }

    /// Removes and returns the value of this type.
    pub fn remove<T: Any + Send + Sync>(&mut self) -> Option<T> {
        let at = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        let (_, value) = self.0.swap_remove(at);
        value.downcast().ok().map(|boxed| *boxed)
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({} values)", self.0.len())
    }
}

impl Context {
    /// Sets how the request arrived.
    #[must_use]
    pub fn with_ingress(mut self, ingress: Ingress) -> Self {
        self.fields.ingress = ingress;
        self
    }

    /// How the request arrived.
    #[must_use]
    pub fn ingress(&self) -> &Ingress {
        &self.fields.ingress
    }

    /// toolgate's span of this call, if a layer records traces. Servers receive it as their parent.
    #[must_use]
    pub fn span(&self) -> Option<&Trace> {
        self.fields.span.as_ref()
    }

    /// Sets toolgate's span for the inner layers and for the request to the server.
    pub fn set_span(&mut self, span: Option<Trace>) {
        self.fields.span = span;
    }

    /// The ingress of a nested call: toolgate's span of this call is its parent.
    pub(crate) fn nested_ingress(&self) -> Ingress {
        let trace = self.fields.span.clone().or_else(|| self.fields.ingress.trace.clone());
        Ingress { trace, ..self.fields.ingress.clone() }
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
    fn extensions_hold_one_value_per_type() {
        let mut cx = Context::new(session());
        assert_eq!(cx.extensions_mut().insert(1_u32), None);
        assert_eq!(cx.extensions_mut().insert("text"), None);
        assert_eq!(cx.extensions_mut().insert(2_u32), Some(1));
        *cx.extensions_mut().get_mut::<u32>().unwrap() += 1;
        assert_eq!(
            (cx.extensions().get::<u32>(), cx.extensions().get::<&str>()),
            (Some(&3), Some(&"text"))
        );
        assert_eq!(cx.extensions_mut().remove::<u32>(), Some(3));
        assert_eq!(cx.extensions().get::<u32>(), None);
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
