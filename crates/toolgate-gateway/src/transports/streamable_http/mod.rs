//! The handler for MCP over HTTP: finds the principal, the namespace and the protocol era of each request.

mod cors;
mod legacy;
mod modern;
mod rejection_log;
mod responder;
mod sse_2024;
mod streams;

use std::{net::SocketAddr, sync::Arc};

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::Bytes,
    header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE},
    http::request::Parts,
};
use toolgate::Principal;
use toolgate_wire::{
    Json, Message, Sender, headers, is_batch,
    mcp::{self, meta},
};

use self::{rejection_log::RejectionLog, sse_2024::Sse2024Clients};
use super::http::{
    Handler,
    accept::{Accepts, is_json},
    body::ResponseBody,
    guard::Guard,
    rejection, text,
};
use crate::{
    gateway::{Gateway, namespace::Namespace, response::JsonRpcResponse},
    refusal,
    tokens::bearer,
};

const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);

/// The namespace of paths that name none.
const DEFAULT: &str = crate::config::NAMESPACE;

/// Handles MCP over HTTP.
#[derive(Debug)]
pub(crate) struct McpHandler {
    gateway: Arc<Gateway>,
    guard: Guard,
    older: Sse2024Clients,
    rejections: RejectionLog,
}

/// The endpoint that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathTarget<'a> {
    /// Streamable HTTP, for a namespace.
    Mcp(&'a str),
    /// The stream of the 2024-11-05 transport.
    Sse(&'a str),
    /// The endpoint for the client's messages of the 2024-11-05 transport.
    Messages(&'a str),
    CollectorHealth,
    Nowhere,
}

impl<'a> PathTarget<'a> {
    fn of(path: &'a str) -> Self {
        let namespace = |rest: &'a str| match rest.strip_prefix('/') {
            None if rest.is_empty() => Some(DEFAULT),
            Some("") => Some(DEFAULT),
            Some(name) if !name.contains('/') => Some(name),
            _ => None,
        };
        let found = |start: &str| path.strip_prefix(start).and_then(namespace);
        if let Some(name) = found("/mcp") {
            return Self::Mcp(name);
        }
        if let Some(name) = found("/sse") {
            return Self::Sse(name);
        }
        if let Some(name) = found("/messages") {
            return Self::Messages(name);
        }
        if path == "/health" { Self::CollectorHealth } else { Self::Nowhere }
    }

    /// The namespace that the path names.
    fn namespace(self) -> Option<&'a str> {
        match self {
            Self::Mcp(name) | Self::Sse(name) | Self::Messages(name) => Some(name),
            Self::CollectorHealth | Self::Nowhere => None,
        }
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Mcp(_) => &[Method::POST, Method::GET, Method::DELETE],
            Self::Sse(_) | Self::CollectorHealth => &[Method::GET],
            Self::Messages(_) => &[Method::POST],
            Self::Nowhere => &[],
        }
    }
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rejection {
    NoToken,
    BadToken,
    NoNamespace,
}

impl Rejection {
    fn response(self) -> Response<ResponseBody> {
        match self {
            Self::NoToken | Self::BadToken => {
                let mut answer = rejection(
                    StatusCode::UNAUTHORIZED,
                    if self == Self::NoToken { "no_token" } else { "bad_token" },
                    "send a token of `[serve.tokens]`, as `Authorization: Bearer …`\n",
                );
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                answer
            }
            Self::NoNamespace => {
                rejection(StatusCode::NOT_FOUND, "no_namespace", "there is no such namespace\n")
            }
        }
    }
}

impl McpHandler {
    pub(crate) fn new(gateway: Arc<Gateway>, guard: Guard) -> Self {
        let (older, rejections) = (Sse2024Clients::default(), RejectionLog::new());
        Self { gateway, guard, older, rejections }
    }

    /// The principal and the namespace of a request. A namespace that the token does not open gets the same response as
    /// a namespace that does not exist.
    fn admit(
        &self,
        headers: &HeaderMap,
        name: &str,
    ) -> Result<(Principal, Arc<Namespace>), Rejection> {
        let found = self.gateway.namespace(name);
        let tokens = self.gateway.tokens.load();
        let (principal, found) = if tokens.is_empty() {
            (Principal::Anonymous, found)
        } else {
            let entry = bearer(headers).and_then(|token| tokens.owner(token));
            let is_given = headers.contains_key(AUTHORIZATION);
            let rejected = if is_given { Rejection::BadToken } else { Rejection::NoToken };
            let entry = entry.ok_or(rejected)?;
            (Principal::Key((&*entry.name).into()), found.filter(|_| entry.opens(name)))
        };
        found.map(|namespace| (principal, namespace)).ok_or(Rejection::NoNamespace)
    }
}

impl Handler for McpHandler {
    fn check(&self, head: &Parts) -> Result<(), Response<ResponseBody>> {
        self.guard.check(head).map_err(super::http::guard::GuardRejection::response)?;
        if cors::is_preflight(head) {
            return Err(cors::preflight(&self.guard, &head.headers));
        }
        let place = PathTarget::of(head.uri.path());
        let methods = place.methods();
        if methods.is_empty() {
            return Err(rejection(
                StatusCode::NOT_FOUND,
                "no_such_path",
                "nothing is here: MCP is at /mcp and /mcp/NAMESPACE\n",
            ));
        }
        if !methods.contains(&head.method) {
            return Err(not_allowed(methods));
        }
        if let Some(name) = place.namespace() {
            self.admit(&head.headers, name).map_err(Rejection::response)?;
        }
        if head.method == Method::POST && !is_json(&head.headers) {
            return Err(text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "messages are application/json\n",
            ));
        }
        Ok(())
    }

    fn body_limit(&self, head: &Parts) -> usize {
        let name = PathTarget::of(head.uri.path()).namespace();
        let namespace = name.and_then(|name| self.gateway.namespace(name));
        namespace.map_or(0, |namespace| namespace.message_limits().max_bytes)
    }

    fn too_large(&self, head: &Parts) -> Response<ResponseBody> {
        let failure = refusal::too_large(self.body_limit(head));
        responder::json(StatusCode::PAYLOAD_TOO_LARGE, JsonRpcResponse::failed(None, &failure))
    }

    fn rejected(
        &self,
        peer: Option<SocketAddr>,
        head: &Parts,
        answer: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        self.rejections.note(&self.gateway, peer, head, &answer);
        cors::add_headers(&self.guard, head, answer)
    }

    fn connection_refused(&self, peer: Option<SocketAddr>) {
        self.rejections.note_connection(&self.gateway, peer);
    }

    async fn respond(
        self: &Arc<Self>,
        peer: Option<SocketAddr>,
        head: Parts,
        body: Bytes,
    ) -> Response<ResponseBody> {
        let answer = self.respond(&head, body).await;
        self.rejected(peer, &head, answer)
    }
}

impl McpHandler {
    async fn respond(self: &Arc<Self>, head: &Parts, body: Bytes) -> Response<ResponseBody> {
        let place = PathTarget::of(head.uri.path());
        let Some(name) = place.namespace() else { return text(StatusCode::OK, "ok\n") };
        let (principal, namespace) = match self.admit(&head.headers, name) {
            Ok(admitted) => admitted,
            Err(rejected) => return rejected.response(),
        };
        let exchange = HttpExchange { handler: self, principal, namespace, head };
        match (place, &head.method) {
            (PathTarget::Sse(_), _) => exchange.older_stream(),
            (PathTarget::Messages(_), _) => exchange.older_message(body).await,
            (_, &Method::GET) => exchange.stream(),
            (_, &Method::DELETE) => exchange.leave(),
            _ => exchange.post(body).await,
        }
    }
}

fn not_allowed(methods: &[Method]) -> Response<ResponseBody> {
    let mut answer =
        text(StatusCode::METHOD_NOT_ALLOWED, "this address does not take that method\n");
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    if let Ok(names) = HeaderValue::from_str(&names.join(", ")) {
        answer.headers_mut().insert(ALLOW, names);
    }
    answer
}

/// One HTTP request.
struct HttpExchange<'a> {
    handler: &'a Arc<McpHandler>,
    principal: Principal,
    namespace: Arc<Namespace>,
    head: &'a Parts,
}

impl HttpExchange<'_> {
    async fn post(self, body: Bytes) -> Response<ResponseBody> {
        let accepts = Accepts::of(&self.head.headers);
        if !accepts.json && !accepts.events {
            return text(
                StatusCode::NOT_ACCEPTABLE,
                "answers are application/json or text/event-stream\n",
            );
        }
        if is_batch(&body) {
            // Boxed: a batch is rare, and its future is larger than all others.
            return Box::pin(self.batch(&body)).await;
        }
        match Message::receive(body, &self.namespace.message_limits(), Sender::Client) {
            Ok(message) if self.is_modern(&message) => self.modern(message, accepts).await,
            Ok(message) => self.legacy(message, accepts).await,
            Err(refused) => {
                let failure = refusal::unreadable(&refused);
                responder::json(
                    StatusCode::BAD_REQUEST,
                    JsonRpcResponse::failed(refused.id.as_ref(), &failure),
                )
            }
        }
    }

    /// Whether a message follows 2026-07-28 or later: `_meta` names a version, or the version header names one that is
    /// not legacy, and there is no session header.
    fn is_modern(&self, message: &Message) -> bool {
        let meta = message.member("_meta");
        if meta.is_some_and(|meta| meta.get(meta::PROTOCOL_VERSION).is_some()) {
            return true;
        }
        let version = self.head.headers.get(&VERSION).map(HeaderValue::as_bytes);
        let is_old = |version: &[u8]| {
            let text = std::str::from_utf8(version).unwrap_or_default().trim();
            mcp::VERSIONS.contains(&text) && !mcp::is_modern(text)
        };
        version.is_some_and(|version| !is_old(version)) && !self.head.headers.contains_key(&SESSION)
    }
}

/// The one value of a header; an error if there are several.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(|value| value.as_bytes().trim_ascii())),
        _ => Err(()),
    }
}

/// A response without a body.
fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::Empty);
    *answer.status_mut() = status;
    answer
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with a JSON body.
fn bytes(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// The protocol version in `_meta`: its text, or the raw JSON if it is no string.
fn meta_version(message: &Message) -> Option<String> {
    let version = message.member("_meta")?.get(meta::PROTOCOL_VERSION)?;
    version
        .text()
        .map(std::borrow::Cow::into_owned)
        .or_else(|| Some(Json::as_str(&version).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_mean_namespaces() {
        assert_eq!(PathTarget::of("/mcp"), PathTarget::Mcp("default"));
        assert_eq!(PathTarget::of("/mcp/"), PathTarget::Mcp("default"));
        assert_eq!(PathTarget::of("/mcp/dev"), PathTarget::Mcp("dev"));
        assert_eq!(PathTarget::of("/sse"), PathTarget::Sse("default"));
        assert_eq!(PathTarget::of("/messages/dev"), PathTarget::Messages("dev"));
        assert_eq!(PathTarget::of("/health"), PathTarget::CollectorHealth);
        for odd in ["/", "/mcpx", "/mcp/a/b", "/other", "/health/", "//mcp"] {
            assert_eq!(PathTarget::of(odd), PathTarget::Nowhere, "{odd}");
        }
    }
}
