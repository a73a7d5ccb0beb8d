//! Saying hello to a server: finding out which era it speaks, and what it offers.

use std::{borrow::Cow, os::fd::OwnedFd, sync::Arc, time::Duration};

use hyper::header::HeaderValue;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{
    Id, Json, Message, Object, Shape,
    mcp::{self, Era, LEGACY, MODERN, meta},
    notification, request,
};

use crate::{config::Protocol, hops, implementation_info::own_meta, response::result_of};

use super::{
    connection::{ServerInfo, Wire},
    in_flight::{
        IdRewrite, InFlightRequest, StartFailure, UpstreamEvent, UpstreamRequest, nonsense,
        unavailable,
    },
};

/// A server of which nothing is known and that does not answer `server/discover` for so long after it has read it is
/// opened again with `initialize`.
const PROBE: Duration = Duration::from_secs(10);

/// A server does not speak the version that a request says.
const UNSUPPORTED_VERSION: i64 = -32022;

/// How often the gateway looks whether a server has read what was written to it.
const LOOK: Duration = Duration::from_millis(100);

/// How to say hello.
#[derive(Debug)]
pub(crate) struct HandshakeMode {
    pub(crate) protocol: Protocol,
    /// What the server spoke last time.
    pub(crate) known: Option<Era>,
    /// What a session is opened with.
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    pub(crate) patience: Duration,
    /// The pipe to a process, to see whether it has read: one that is still starting is waited for.
    pub(crate) stdin: Option<OwnedFd>,
}

/// Why a handshake did not succeed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The server has read `server/discover` and does not answer. `initialize` needs another connection: behind an
    /// unanswered request, a server may take it for the wrong thing, and a late answer for either could not be told.
    Silent(Failure),
    /// The server spoke only the older era last time and has another version now: it may have learnt the newer one.
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

/// Says hello, within the time that the server has for it.
pub(crate) async fn greet(
    wire: &Wire,
    server: &str,
    hello: &HandshakeMode,
) -> Result<ServerInfo, HandshakeError> {
    // On the heap: it is large, and made once for each start.
    let greeting = Box::pin(hello_to(wire, server, hello));
    let Ok(greeted) = tokio::time::timeout(hello.patience, greeting).await else {
        return Err(late(server, hello.patience, "of its start").into());
    };
    greeted
}

/// Whether the server answered, and with an error.
pub(crate) fn is_refusal(failure: &Failure) -> bool {
    failure.rpc().is_some() || failure.code() == Code::ServerRejected
}

fn late(server: &str, after: Duration, what: &str) -> Failure {
    let after = toolgate::duration::format(after);
    let text = format!("The server `{server}` did not answer within {after} {what}");
    Failure::new(Code::ServerStartTimeout, text).with_executed(Executed::No)
}

async fn hello_to(
    wire: &Wire,
    server: &str,
    hello: &HandshakeMode,
) -> Result<ServerInfo, HandshakeError> {
    match (hello.protocol, hello.known) {
        (Protocol::Legacy, _) => Ok(legacy(wire, server, hello).await?),
        (Protocol::Modern, _) => {
            let answer = plain(discovered(wire).await, server)?;
            let Some(offer) = offer_of(&answer) else {
                let what = "does not speak 2026-07-28: set `protocol = \"auto\"`";
                return Err(nonsense(server, what).into());
            };
            Ok(settled(wire, offer))
        }
        (Protocol::Auto, Some(Era::Legacy)) => match legacy(wire, server, hello).await {
            // It may have learnt since.
            Err(failure) if is_refusal(&failure) => Box::pin(probe(wire, server, hello)).await,
            greeted => Ok(greeted?),
        },
        (Protocol::Auto, _) => Box::pin(probe(wire, server, hello)).await,
    }
}

/// Asks as of 2026-07-28 first: a server that does not know that says so, whatever it says.
async fn probe(
    wire: &Wire,
    server: &str,
    hello: &HandshakeMode,
) -> Result<ServerInfo, HandshakeError> {
    let limit = PROBE.min(hello.patience / 2);
    let asked = tokio::select! {
        biased;
        asked = discovered(wire) => asked,
        // What it spoke last time it speaks still, however long it takes.
        () = unanswered(hello, limit), if hello.known != Some(Era::Modern) => {
            return Err(HandshakeError::Silent(late(server, limit, "after it read `server/discover`")));
        }
    };
    match asked {
        Ok(answer) => match offer_of(&answer) {
            Some(offer) => Ok(settled(wire, offer)),
            None => Ok(legacy(wire, server, hello).await?),
        },
        // An answer that is none in MCP's words comes from a server that does not know the question.
        Err(StartFailure::Failed(failure)) if failure.code() == Code::ServerUnavailable => {
            Err(failure.into())
        }
        Err(StartFailure::Failed(failure)) if matches!(wire, Wire::Pipe(_)) => Err(failure.into()),
        Err(StartFailure::Closed(why)) => Err(unavailable(server, &why).into()),
        Err(_) => Ok(legacy(wire, server, hello).await?),
    }
}

/// Waits until the server had so much time for an answer. The time in which it has not read the question does not count.
async fn unanswered(hello: &HandshakeMode, limit: Duration) {
    let mut had = Duration::ZERO;
    while had < limit {
        tokio::time::sleep(LOOK).await;
        let unread = hello.stdin.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        if unread.unwrap_or_default() == 0 {
            had += LOOK;
        }
    }
}

fn plain<T>(asked: Result<T, StartFailure>, server: &str) -> Result<T, Failure> {
    asked.map_err(|not| match not {
        StartFailure::Failed(failure) => failure,
        StartFailure::Closed(why) => unavailable(server, &why),
        StartFailure::SessionLost => {
            unavailable(server, "it has forgotten a session that was just opened")
        }
    })
}

/// The answer to `server/discover`. One that refuses the version and offers the very same is asked once more.
async fn discovered(wire: &Wire) -> Result<Message, StartFailure> {
    let answer = discover(wire).await?;
    let code = answer.member("code").filter(|_| answer.shape() == Shape::Error);
    let supported = answer.member("data").and_then(|data| data.get("supported")?.array());
    let is_offered = |version: &Json| version.text().as_deref() == Some(MODERN);
    if code.and_then(|code| code.i64()) == Some(UNSUPPORTED_VERSION)
        && supported.is_some_and(|versions| versions.iter().any(is_offered))
    {
        return discover(wire).await;
    }
    Ok(answer)
}

async fn discover(wire: &Wire) -> Result<Message, StartFailure> {
    let mut params = Object::new();
    params.set("_meta", own_meta());
    let params = params.finish();
    match wire {
        Wire::Pipe(_) => {
            let ask = UpstreamRequest::own("server/discover");
            let compose = |hop: IdRewrite| {
                let id = hop.id.unwrap_or_else(|| Id::number(0));
                request(&id, "server/discover", Some(&params))
            };
            Ok(answer(wire.start(ask, None, compose).await?).await?)
        }
        Wire::Http(http) => {
            let id = Id::string("toolgate-discover");
            http.discover(request(&id, "server/discover", Some(&params)), &id).await
        }
    }
}

async fn answer(mut flight: InFlightRequest) -> Result<Message, Failure> {
    loop {
        match flight.next().await? {
            UpstreamEvent::Answer(message) => return Ok(message),
            UpstreamEvent::SessionLost => {
                return Err(Failure::internal("there was no session to be lost"));
            }
            UpstreamEvent::Notice(_) | UpstreamEvent::Question(_) | UpstreamEvent::Withdrawn(_) => {
            }
        }
    }
}

/// What an answer to `server/discover` offers; `None` if it is none that we understand.
fn offer_of(answer: &Message) -> Option<ServerInfo> {
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

/// From here on requests are of 2026-07-28.
fn settled(wire: &Wire, offer: ServerInfo) -> ServerInfo {
    if let Wire::Http(http) = wire {
        http.agree(true, MODERN, None);
    }
    offer
}

async fn legacy(wire: &Wire, server: &str, hello: &HandshakeMode) -> Result<ServerInfo, Failure> {
    let mut params = Object::new();
    params.set("protocolVersion", Json::string(&hello.version));
    params.set("capabilities", hello.capabilities.clone());
    params.set("clientInfo", hello.info.clone());
    let mut meta = Object::new();
    meta.set(hops::META, hops::from_here());
    params.set("_meta", meta.finish());
    let params = params.finish();
    let (answer, session): (Message, Option<HeaderValue>) = match wire {
        Wire::Pipe(_) => {
            let compose = |hop: IdRewrite| {
                let id = hop.id.unwrap_or_else(|| Id::number(0));
                request(&id, "initialize", Some(&params))
            };
            let flight =
                plain(wire.start(UpstreamRequest::own("initialize"), None, compose).await, server)?;
            (answer(flight).await?, None)
        }
        Wire::Http(http) => {
            let id = Id::string("toolgate-initialize");
            let line = request(&id, "initialize", Some(&params));
            plain(http.initialize(line, &id).await, server)?
        }
    };
    result_of(&answer)?;
    let text = |name: &str| answer.member(name).and_then(|json| json.text().map(Cow::into_owned));
    let version = text("protocolVersion").unwrap_or_default();
    if mcp::is_modern(&version) || !mcp::VERSIONS.contains(&version.as_str()) {
        let versions = mcp::VERSIONS.join(", ");
        let what = format!("speaks version `{version}`, and toolgate speaks {versions}");
        return Err(nonsense(server, &what));
    }
    let offer = ServerInfo {
        era: Era::Legacy,
        capabilities: answer.member("capabilities").unwrap_or_else(Json::empty_object),
        info: answer.member("serverInfo"),
        instructions: text("instructions").map(Into::into),
        version: version.as_str().into(),
        speaks_legacy: Some(true),
        legacy_capabilities: None,
    };
    match wire {
        Wire::Http(http) => http.agree(false, &version, session),
        Wire::Pipe(pipe) => pipe.agree(&version),
    }
    wire.tell(notification("notifications/initialized", None)).await?;
    Ok(offer)
}

/// The version that a session is opened with on our own account.
pub(crate) fn own_version() -> Arc<str> {
    LEGACY.into()
}
