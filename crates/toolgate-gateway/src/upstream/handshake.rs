//! The handshake with a server: finds the era that it speaks, and reads what it declares.

use std::{borrow::Cow, os::fd::OwnedFd, sync::Arc, time::Duration};

use hyper::header::HeaderValue;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{
    Id, Json, Message, Object, Shape,
    mcp::{self, Era, LEGACY, MODERN, code, meta, method},
    notification, request,
};

use crate::{config::Protocol, hops, implementation_info::own_meta, rpc_error::result_of};

use super::{
    connection::{ServerInfo, UpstreamTransport},
    failures::{protocol_violation, unavailable},
    in_flight::InFlightRequest,
    request::{IdRewrite, StartFailure, UpstreamEvent, UpstreamRequest},
};

/// How long a server of unknown era may take to answer `server/discover` after it has read it. The gateway then opens
/// another connection with `initialize`.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The error code of a server that does not speak the version of the request.
const UNSUPPORTED_VERSION: i64 = code::UNSUPPORTED_PROTOCOL_VERSION;

/// How often the gateway checks whether a server has read its input.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How to perform a handshake.
#[derive(Debug)]
pub(crate) struct HandshakeParams {
    pub(crate) protocol: Protocol,
    /// The era that the server spoke last time.
    pub(crate) known: Option<Era>,
    /// The members of `initialize`.
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    pub(crate) timeout: Duration,
    /// The input pipe of a process, to see whether it has read `server/discover`: a process that is still starting gets
    /// more time.
    pub(crate) stdin: Option<OwnedFd>,
}

/// Why a handshake did not succeed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The server has read `server/discover` and does not answer. `initialize` needs another connection: a server may
    /// expect another message after an unanswered request, and a late response could not be told from the other one's.
    Silent(Failure),
    /// The server was legacy last time and has another version now: it may speak 2026-07-28.
    Renewed(Failure),
    Failed(Failure),
}

impl From<Failure> for HandshakeError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl HandshakeError {
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Silent(failure) | Self::Renewed(failure) | Self::Failed(failure) => failure,
        }
    }
}

/// Performs the handshake within its timeout.
pub(crate) async fn perform(
    transport: &UpstreamTransport,
    server: &str,
    params: &HandshakeParams,
) -> Result<ServerInfo, HandshakeError> {
    // On the heap: the future is large, and made once for each start.
    let negotiation = Box::pin(negotiate(transport, server, params));
    let Ok(negotiated) = tokio::time::timeout(params.timeout, negotiation).await else {
        return Err(late(server, params.timeout, "of its start").into());
    };
    negotiated
}

/// Whether the server answered with an error.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    failure.rpc().is_some() || failure.code() == Code::ServerRejected
}

fn late(server: &str, after: Duration, what: &str) -> Failure {
    let after = toolgate::duration::format(after);
    let text = format!("The server `{server}` did not answer within {after} {what}");
    Failure::new(Code::ServerStartTimeout, text).with_executed(Executed::No)
}

async fn negotiate(
    transport: &UpstreamTransport,
    server: &str,
    params: &HandshakeParams,
) -> Result<ServerInfo, HandshakeError> {
    match (params.protocol, params.known) {
        (Protocol::Legacy, _) => Ok(initialize(transport, server, params).await?),
        (Protocol::Modern, _) => {
            let answer = into_failure(discover_with_retry(transport).await, server)?;
            let Some(server_info) = server_info_of(&answer) else {
                let what = "does not speak 2026-07-28: set `protocol = \"auto\"`";
                return Err(protocol_violation(server, what).into());
            };
            Ok(agree_on_modern(transport, server_info))
        }
        (Protocol::Auto, Some(Era::Legacy)) => match initialize(transport, server, params).await {
            // It may have been upgraded to 2026-07-28.
            Err(failure) if is_refusal(&failure) => {
                Box::pin(probe(transport, server, params)).await
            }
            negotiated => Ok(negotiated?),
        },
        (Protocol::Auto, _) => Box::pin(probe(transport, server, params)).await,
    }
}

/// Sends `server/discover` first: any error response means that the server is legacy.
async fn probe(
    transport: &UpstreamTransport,
    server: &str,
    params: &HandshakeParams,
) -> Result<ServerInfo, HandshakeError> {
    let limit = DISCOVER_TIMEOUT.min(params.timeout / 2);
    let asked = tokio::select! {
        biased;
        asked = discover_with_retry(transport) => asked,
        // A server that spoke 2026-07-28 last time gets the whole timeout.
        () = unanswered(params, limit), if params.known != Some(Era::Modern) => {
            return Err(HandshakeError::Silent(late(server, limit, "after it read `server/discover`")));
        }
    };
    match asked {
        Ok(answer) => match server_info_of(&answer) {
            Some(server_info) => Ok(agree_on_modern(transport, server_info)),
            None => Ok(initialize(transport, server, params).await?),
        },
        // Over HTTP, a legacy server may refuse the unknown method with any status.
        Err(StartFailure::Failed(failure)) if failure.code() == Code::ServerUnavailable => {
            Err(failure.into())
        }
        Err(StartFailure::Failed(failure)) if matches!(transport, UpstreamTransport::Pipe(_)) => {
            Err(failure.into())
        }
        Err(StartFailure::Closed(why)) => Err(unavailable(server, &why).into()),
        Err(_) => Ok(initialize(transport, server, params).await?),
    }
}

/// Waits until the server had this much time to answer. The time before the server has read the request does not count.
async fn unanswered(params: &HandshakeParams, limit: Duration) {
    let mut had = Duration::ZERO;
    while had < limit {
        tokio::time::sleep(POLL_INTERVAL).await;
        let unread = params.stdin.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        if unread.unwrap_or_default() == 0 {
            had += POLL_INTERVAL;
        }
    }
}

fn into_failure<T>(asked: Result<T, StartFailure>, server: &str) -> Result<T, Failure> {
    asked.map_err(|not| match not {
        StartFailure::Failed(failure) => failure,
        StartFailure::Closed(why) => unavailable(server, &why),
        StartFailure::SessionLost => {
            unavailable(server, "it has forgotten a session that was just opened")
        }
    })
}

/// The response to `server/discover`. The gateway repeats the request once if the server refuses the version and lists
/// the same one as supported.
async fn discover_with_retry(transport: &UpstreamTransport) -> Result<Message, StartFailure> {
    let answer = discover(transport).await?;
    let code = answer.member("code").filter(|_| answer.shape() == Shape::Error);
    let supported = answer.member("data").and_then(|data| data.get("supported")?.array());
    let is_offered = |version: &Json| version.text().as_deref() == Some(MODERN);
    if code.and_then(|code| code.i64()) == Some(UNSUPPORTED_VERSION)
        && supported.is_some_and(|versions| versions.iter().any(is_offered))
    {
        return discover(transport).await;
    }
    Ok(answer)
}

async fn discover(transport: &UpstreamTransport) -> Result<Message, StartFailure> {
    let mut params = Object::new();
    params.set("_meta", own_meta());
    let params = params.finish();
    match transport {
        UpstreamTransport::Pipe(_) => {
            let outgoing = UpstreamRequest::own(method::SERVER_DISCOVER);
            let compose = |rewrite: IdRewrite| {
                let id = rewrite.id.unwrap_or_else(|| Id::number(0));
                request(&id, method::SERVER_DISCOVER, Some(&params))
            };
            Ok(answer(transport.start(outgoing, None, compose).await?).await?)
        }
        UpstreamTransport::Http(http) => {
            let id = Id::string("toolgate-discover");
            http.discover(request(&id, method::SERVER_DISCOVER, Some(&params)), &id).await
        }
    }
}

async fn answer(mut request: InFlightRequest) -> Result<Message, Failure> {
    loop {
        match request.next().await? {
            UpstreamEvent::Response(message) => return Ok(message),
            UpstreamEvent::SessionLost => {
                return Err(Failure::internal("there was no session to be lost"));
            }
            UpstreamEvent::Notification(_)
            | UpstreamEvent::ServerRequest(_)
            | UpstreamEvent::ServerRequestCancelled(_) => {}
        }
    }
}

/// What a response to `server/discover` declares; `None` if it is an error or does not list 2026-07-28.
fn server_info_of(answer: &Message) -> Option<ServerInfo> {
    if answer.shape() != Shape::Response {
        return None;
    }
    let versions = answer.member("supportedVersions")?.array()?;
    let speaks = versions.iter().any(|version| version.text().as_deref() == Some(MODERN));
    let lists_legacy = versions
        .iter()
        .any(|v| v.text().is_some_and(|v| mcp::VERSIONS.contains(&&*v) && !mcp::is_modern(&v)));
    let text = |json: Json| json.text().map(Cow::into_owned);
    speaks.then(|| ServerInfo {
        era: Era::Modern,
        version: MODERN.into(),
        capabilities: answer.member("capabilities").unwrap_or_else(Json::empty_object),
        info: answer.member("_meta").and_then(|meta| meta.get(meta::SERVER_INFO)),
        instructions: answer.member("instructions").and_then(text).map(Into::into),
        speaks_legacy: lists_legacy.then_some(true),
        legacy_capabilities: None,
    })
}

/// Makes further requests requests of 2026-07-28.
fn agree_on_modern(transport: &UpstreamTransport, server_info: ServerInfo) -> ServerInfo {
    if let UpstreamTransport::Http(http) = transport {
        http.set_negotiated(Era::Modern, MODERN, None);
    }
    server_info
}

async fn initialize(
    transport: &UpstreamTransport,
    server: &str,
    params: &HandshakeParams,
) -> Result<ServerInfo, Failure> {
    let mut members = Object::new();
    members.set("protocolVersion", Json::string(&params.version));
    members.set("capabilities", params.capabilities.clone());
    members.set("clientInfo", params.info.clone());
    let mut meta = Object::new();
    meta.set(hops::META, hops::from_here());
    members.set("_meta", meta.finish());
    let members = members.finish();
    let (answer, session): (Message, Option<HeaderValue>) = match transport {
        UpstreamTransport::Pipe(_) => {
            let compose = |rewrite: IdRewrite| {
                let id = rewrite.id.unwrap_or_else(|| Id::number(0));
                request(&id, method::INITIALIZE, Some(&members))
            };
            let request = into_failure(
                transport.start(UpstreamRequest::own(method::INITIALIZE), None, compose).await,
                server,
            )?;
            (answer(request).await?, None)
        }
        UpstreamTransport::Http(http) => {
            let id = Id::string("toolgate-initialize");
            let line = request(&id, method::INITIALIZE, Some(&members));
            into_failure(http.initialize(line, &id).await, server)?
        }
    };
    result_of(&answer)?;
    let text = |name: &str| answer.member(name).and_then(|json| json.text().map(Cow::into_owned));
    let version = text("protocolVersion").unwrap_or_default();
    if mcp::is_modern(&version) || !mcp::VERSIONS.contains(&version.as_str()) {
        let versions = mcp::VERSIONS.join(", ");
        let what = format!("speaks version `{version}`, and toolgate speaks {versions}");
        return Err(protocol_violation(server, &what));
    }
    let server_info = ServerInfo {
        era: Era::Legacy,
        capabilities: answer.member("capabilities").unwrap_or_else(Json::empty_object),
        info: answer.member("serverInfo"),
        instructions: text("instructions").map(Into::into),
        version: version.as_str().into(),
        speaks_legacy: Some(true),
        legacy_capabilities: None,
    };
    match transport {
        UpstreamTransport::Http(http) => http.set_negotiated(Era::Legacy, &version, session),
        UpstreamTransport::Pipe(pipe) => pipe.set_version(&version),
    }
    transport.send_line(notification(method::NOTIFICATIONS_INITIALIZED, None)).await?;
    Ok(server_info)
}

/// The version of `initialize` requests of the gateway itself.
pub(crate) fn own_version() -> Arc<str> {
    LEGACY.into()
}
