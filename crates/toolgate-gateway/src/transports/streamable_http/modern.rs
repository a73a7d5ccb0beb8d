//! Requests of 2026-07-28 and later: each belongs to no session, and its headers repeat parts of its content.

use std::sync::Arc;

use hyper::{Response, StatusCode, header::HeaderName};
use tokio_util::sync::CancellationToken;
use toolgate::Transport;
use toolgate_wire::{
    Message, Shape, headers,
    mcp::{MODERN, code},
};

use super::{HttpExchange, VERSION, empty, meta_version, only, responder};
use crate::{
    clients::{
        caller::{self, Caller, CallerProtocol},
        side_channel::SideChannel,
    },
    gateway::{Gateway, handshake, incoming_request::IncomingRequest, response::JsonRpcResponse},
    hops::Hops,
    transports::http::{accept::Accepts, body::ResponseBody},
};

const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);

/// The error code for headers that contradict the body.
const MISMATCH: i64 = code::HEADER_MISMATCH;

impl HttpExchange<'_> {
    pub(super) async fn modern(self, message: Message, accepts: Accepts) -> Response<ResponseBody> {
        match message.shape() {
            Shape::Request => {}
            Shape::Notification => return self.notification(&message).await,
            Shape::Response | Shape::Error => {
                let refusal = JsonRpcResponse::refused(
                    None,
                    code::INVALID_REQUEST,
                    "the gateway has sent no request: from 2026-07-28 on, send answers with the next call",
                );
                return responder::json(StatusCode::BAD_REQUEST, refusal);
            }
        }
        let meta = match self.checked(&message) {
            Ok(meta) => meta,
            Err(refused) => return responder::json(StatusCode::BAD_REQUEST, refused),
        };
        let hops = match self.hops(None, &message) {
            Ok(hops) => hops,
            Err(why) => return responder::looped(message.id(), why),
        };
        let caller = self.caller(meta, hops);
        let Some(id) = message.id().cloned() else { return empty(StatusCode::BAD_REQUEST) };
        let incoming = IncomingRequest {
            namespace: self.namespace,
            caller,
            id,
            message,
            side: SideChannel::None,
            cancel: CancellationToken::new(),
            headers: Some(self.head.headers.clone()),
        };
        responder::respond(Arc::clone(&self.handler.gateway), incoming, accepts, None).await
    }

    fn caller(&self, meta: caller::RequestMeta, hops: Option<Hops>) -> Caller {
        let principal = self.namespace.principal(&self.principal);
        Caller {
            session: Arc::clone(&principal.session),
            principal,
            transport: Transport::Http,
            hops,
            speaks: CallerProtocol::Modern(meta),
        }
    }

    /// A client cancels a request by closing its stream, so that only notifications of vendors have an effect.
    async fn notification(self, message: &Message) -> Response<ResponseBody> {
        let hops = match self.hops(None, message) {
            Ok(hops) => hops,
            Err(why) => return responder::looped(None, why),
        };
        let meta = caller::RequestMeta::lenient(MODERN, message.member("_meta").as_ref());
        let caller = self.caller(meta, hops);
        Gateway::receive_sessionless(&caller, &self.namespace, message).await;
        empty(StatusCode::ACCEPTED)
    }

    /// The request's metadata, if the headers agree with the request.
    fn checked(&self, message: &Message) -> Result<caller::RequestMeta, JsonRpcResponse> {
        let id = message.id();
        let mismatch = |why: String| JsonRpcResponse::refused(id, MISMATCH, why);
        let meta = caller::RequestMeta::of(message.member("_meta").as_ref());
        let headers = &self.head.headers;
        let version = only(headers, &VERSION)
            .map_err(|()| mismatch("`MCP-Protocol-Version` occurs twice".to_owned()))?;
        if let (Some(version), Some(declared)) = (version, meta_version(message))
            && version != declared.as_bytes()
        {
            return Err(mismatch(
                "`MCP-Protocol-Version` is not the version that `_meta` says".to_owned(),
            ));
        }
        let meta = meta.map_err(|missing| {
            JsonRpcResponse::refused(
                id,
                code::INVALID_PARAMS,
                format!("`_meta` must have `{missing}`"),
            )
        })?;
        if version.is_none() {
            return Err(mismatch("the header `MCP-Protocol-Version` is missing".to_owned()));
        }
        if let Some(unsupported) = handshake::unsupported(id, &meta.version) {
            return Err(unsupported);
        }
        self.mirrored(message).map_err(mismatch)?;
        Ok(meta)
    }

    fn mirrored(&self, message: &Message) -> Result<(), String> {
        let value = |name: &HeaderName, shown: &str| match only(&self.head.headers, name) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(format!("the header `{shown}` is missing")),
            Err(()) => Err(format!("`{shown}` occurs twice")),
        };
        if value(&METHOD, "Mcp-Method")? != message.method().as_bytes() {
            return Err("`Mcp-Method` is not the method of the request".to_owned());
        }
        if let Some(name) = headers::name_of(message) {
            let header = headers::decode(value(&NAME, "Mcp-Name")?);
            if header.is_none_or(|header| header != name) {
                return Err("`Mcp-Name` is not what the request names".to_owned());
            }
        }
        Ok(())
    }
}
