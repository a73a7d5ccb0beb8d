//! Messages of legacy clients: each belongs to a session, which `initialize` opens.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Response, StatusCode, header::HeaderValue};
use tokio_util::sync::CancellationToken;
use toolgate::{Code, Failure, Session, Transport};
use toolgate_wire::{
    Message, Sender, Shape, mcp,
    mcp::{Era, code, method},
    split_batch,
};

use super::{HttpExchange, SESSION, VERSION, bytes, empty, only, responder};
use crate::{
    batch::{self, Responses},
    clients::{
        caller::{Caller, CallerProtocol},
        legacy_session::LegacySession,
        side_channel::SideChannel,
    },
    gateway::{
        Gateway, dispatch::dispatch, handshake, incoming_request::IncomingRequest,
        response::JsonRpcResponse,
    },
    hops::{self, Hops},
    ids::random_id,
    refusal,
    transports::http::{accept::Accepts, body::ResponseBody},
    usage,
};

impl HttpExchange<'_> {
    pub(super) async fn legacy(self, message: Message, accepts: Accepts) -> Response<ResponseBody> {
        if message.shape() == Shape::Request && message.method() == method::INITIALIZE {
            return self.initialize(&message).await;
        }
        let session = match self.session() {
            Ok(session) => session,
            Err((status, why)) => {
                let failure = Failure::new(Code::InvalidRequest, why);
                return responder::json(status, JsonRpcResponse::failed(message.id(), &failure));
            }
        };
        if message.shape() != Shape::Request {
            Gateway::receive(&session, &self.namespace, &message).await;
            return empty(StatusCode::ACCEPTED);
        }
        let incoming = match self.incoming(&session, message) {
            Ok(incoming) => incoming,
            Err(looped) => return *looped,
        };
        responder::respond(Arc::clone(&self.handler.gateway), incoming, accepts, Some(session))
            .await
    }

    /// The gateways that a request has passed; an error if the request is in a loop.
    pub(super) fn hops(
        &self,
        session: Option<&LegacySession>,
        message: &Message,
    ) -> Result<Option<Hops>, String> {
        let before = session.and_then(|session| session.hops.as_ref());
        hops::read(before, Some(&self.head.headers), message.member("_meta").as_ref())
    }

    fn incoming(
        &self,
        session: &Arc<LegacySession>,
        message: Message,
    ) -> Result<IncomingRequest, Box<Response<ResponseBody>>> {
        let Some(id) = message.id().cloned() else {
            return Err(Box::new(empty(StatusCode::BAD_REQUEST)));
        };
        let hops = self.hops(Some(session), &message);
        let hops = hops.map_err(|why| Box::new(responder::looped(message.id(), why)))?;
        Ok(IncomingRequest {
            namespace: Arc::clone(&self.namespace),
            caller: Caller {
                session: Arc::clone(&session.session),
                principal: Arc::clone(&session.principal),
                transport: Transport::Http,
                speaks: CallerProtocol::Legacy(Arc::clone(session)),
                hops,
            },
            id,
            message,
            side: SideChannel::NotificationQueue(Arc::clone(&session.notifications)),
            cancel: CancellationToken::new(),
            headers: None,
        })
    }

    async fn initialize(self, message: &Message) -> Response<ResponseBody> {
        let Some(id) = message.id() else { return empty(StatusCode::BAD_REQUEST) };
        let failed = |why: String| {
            responder::json(
                StatusCode::SERVICE_UNAVAILABLE,
                JsonRpcResponse::refused(Some(id), code::INTERNAL_ERROR, why),
            )
        };
        let hops = match self.hops(None, message) {
            Ok(hops) => hops,
            Err(why) => return responder::looped(Some(id), why),
        };
        let member = self.namespace.principal(&self.principal);
        let place = match member.account.take(usage::UsageKind::Sessions, 1) {
            Ok(place) => place,
            Err(full) => return responder::finished(JsonRpcResponse::full(id, &full), Era::Legacy),
        };
        let session = match random_id() {
            Ok(session) => session,
            Err(why) => return failed(why),
        };
        let session = Session {
            id: session,
            namespace: Arc::clone(&self.namespace.name),
            principal: self.principal.clone(),
        };
        let opened = handshake::initialize(&self.namespace, message, session, member, hops).await;
        let (result, session) = match opened {
            Ok((result, session)) => (result, Arc::new(session)),
            Err(why) => {
                return responder::json(
                    StatusCode::BAD_REQUEST,
                    JsonRpcResponse::refused(Some(id), code::INVALID_PARAMS, why),
                );
            }
        };
        self.handler.gateway.sessions.insert(&session, place);
        self.namespace.add_listener(&session.notifications);
        let mut response = responder::json(StatusCode::OK, JsonRpcResponse::result(id, result));
        if let Ok(value) = HeaderValue::from_str(&session.session.id) {
            response.headers_mut().insert(SESSION, value);
        }
        response
    }

    /// The session that the headers of a message name.
    pub(super) fn session(&self) -> Result<Arc<LegacySession>, (StatusCode, &'static str)> {
        const MISSING: &str = "the header `Mcp-Session-Id` is missing: send `initialize` first";
        const GONE: &str = "there is no such session: send `initialize` again";
        let headers = &self.head.headers;
        let version = only(headers, &VERSION)
            .map_err(|()| (StatusCode::BAD_REQUEST, "`MCP-Protocol-Version` occurs twice"))?;
        let is_known = |version: &[u8]| {
            std::str::from_utf8(version).is_ok_and(|version| mcp::VERSIONS.contains(&version))
        };
        if version.is_some_and(|version| !is_known(version)) {
            return Err((
                StatusCode::BAD_REQUEST,
                "`MCP-Protocol-Version` is not a version that toolgate supports",
            ));
        }
        let id = only(headers, &SESSION).map_err(|()| (StatusCode::BAD_REQUEST, MISSING))?;
        let id = id.ok_or((StatusCode::BAD_REQUEST, MISSING))?;
        let id = std::str::from_utf8(id).unwrap_or_default();
        let found = self.handler.gateway.sessions.find(id, &self.namespace.name, &self.principal);
        let found = found.ok_or((StatusCode::NOT_FOUND, GONE))?;
        found.use_now();
        Ok(found)
    }

    /// Answers a batch, which only 2025-03-26 defines, with an array of responses.
    pub(super) async fn batch(self, body: &Bytes) -> Response<ResponseBody> {
        let refused = |said| responder::json(StatusCode::BAD_REQUEST, said);
        let session = match self.session() {
            Ok(session) => session,
            Err((status, why)) => {
                let failure = Failure::new(Code::InvalidRequest, why);
                return responder::json(status, JsonRpcResponse::failed(None, &failure));
            }
        };
        if !batch::are_allowed(Some(&session.version)) {
            return refused(JsonRpcResponse::failed(None, &batch::refused()));
        }
        let gateway = &self.handler.gateway;
        let limits = self.namespace.message_limits();
        let messages = match split_batch(body, &limits) {
            Some(Ok(messages)) => messages,
            Some(Err(error)) => {
                return refused(JsonRpcResponse::failed(None, &refusal::unreadable_batch(&error)));
            }
            None => return empty(StatusCode::BAD_REQUEST),
        };
        let mut responses = Responses::new(&limits);
        for line in messages {
            // Lets other tasks of this thread run between two messages.
            tokio::task::yield_now().await;
            match Message::receive(line, &limits, Sender::Client) {
                Ok(message) if message.shape() != Shape::Request => {
                    Gateway::receive(&session, &self.namespace, &message).await;
                }
                Ok(message) if responses.is_full() => responses.refuse(message.id()),
                Ok(message) => {
                    let incoming = match self.incoming(&session, message) {
                        Ok(incoming) => incoming,
                        Err(looped) => return *looped,
                    };
                    let id = incoming.id();
                    let Ok(_begun) = session.begin(id, &incoming.cancel) else {
                        tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
                        continue;
                    };
                    if let Some(line) = dispatch(gateway, &incoming).await.into_line() {
                        responses.add(Some(id), &line);
                    }
                }
                Err(refused) => responses.add_unreadable(&refused),
            }
        }
        match responses.finish() {
            Some(array) => bytes(StatusCode::OK, ResponseBody::Whole(array)),
            None => empty(StatusCode::ACCEPTED),
        }
    }
}
