//! Saying hello to a server: finding out which era it speaks, and what it offers.

use std::{borrow::Cow, sync::Arc, time::Duration};

use hyper::header::HeaderValue;
use toolgate::{Code, Failure, Ran};
use toolgate_wire::{Id, Json, Message, Object, Shape, era, notification, request};

use crate::hops;

use super::{
    connection::{Era, LEGACY, MODERN, Offer, Wire, own_meta, result_of},
    flight::{Ask, Flight, Hop, NotStarted, Step, nonsense, unavailable},
};

/// A server on pipes that says nothing for so long to a question of 2026-07-28 is said hello to as of old, too.
const PROBE: Duration = Duration::from_secs(3);

/// What is spoken to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// 2026-07-28 if the server speaks it, else the newest version before.
    #[default]
    Auto,
    /// 2025-11-25 and before.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// How to say hello.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) protocol: Protocol,
    /// What the server spoke last time.
    pub(crate) known: Option<Era>,
    /// What a session is opened with.
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    pub(crate) patience: Duration,
}

/// Says hello, within the time that the server has for it.
pub(crate) async fn greet(wire: &Wire, server: &str, hello: &Greeting) -> Result<Offer, Failure> {
    // On the heap: it is large, and made once for each start.
    let greeting = Box::pin(hello_to(wire, server, hello));
    let Ok(greeted) = tokio::time::timeout(hello.patience, greeting).await else {
        let after = toolgate::duration::format(hello.patience);
        let text = format!("The server `{server}` did not answer within {after} of its start");
        return Err(Failure::new(Code::ServerStartTimeout, text).ran(Ran::No));
    };
    greeted
}

async fn hello_to(wire: &Wire, server: &str, hello: &Greeting) -> Result<Offer, Failure> {
    match (hello.protocol, hello.known) {
        (Protocol::Legacy, _) => legacy(wire, server, hello).await,
        (Protocol::Modern, _) => {
            let answer = plain(discover(wire).await, server)?;
            match offer_of(&answer) {
                Some(offer) => Ok(settled(wire, offer)),
                None => {
                    Err(nonsense(server, "does not speak 2026-07-28: set `protocol = \"auto\"`"))
                }
            }
        }
        (Protocol::Auto, Some(Era::Legacy)) => match legacy(wire, server, hello).await {
            // It may have learnt since.
            Err(failure) if failure.code() == Code::ServerRejected => {
                Box::pin(probe(wire, server, hello)).await
            }
            greeted => greeted,
        },
        (Protocol::Auto, _) => Box::pin(probe(wire, server, hello)).await,
    }
}

/// Asks as of 2026-07-28 first: a server that does not know that says so, whatever it says.
async fn probe(wire: &Wire, server: &str, hello: &Greeting) -> Result<Offer, Failure> {
    let asking = discover(wire);
    tokio::pin!(asking);
    let Ok(asked) = tokio::time::timeout(PROBE, &mut asking).await else {
        // Neither answer is known to come: whichever does first counts.
        let greeting = legacy(wire, server, hello);
        tokio::pin!(greeting);
        return tokio::select! {
            greeted = &mut greeting => greeted,
            asked = &mut asking => match asked.ok().as_ref().and_then(offer_of) {
                Some(offer) => Ok(settled(wire, offer)),
                None => greeting.await,
            },
        };
    };
    match asked {
        Ok(answer) => match offer_of(&answer) {
            Some(offer) => Ok(settled(wire, offer)),
            None => legacy(wire, server, hello).await,
        },
        // An answer that is none in MCP's words comes from a server that does not know the question.
        Err(NotStarted::Failed(failure)) if failure.code() == Code::ServerUnavailable => {
            Err(failure)
        }
        Err(NotStarted::Failed(failure)) if matches!(wire, Wire::Pipe(_)) => Err(failure),
        Err(NotStarted::Closed(why)) => Err(unavailable(server, &why)),
        Err(_) => legacy(wire, server, hello).await,
    }
}

fn plain<T>(asked: Result<T, NotStarted>, server: &str) -> Result<T, Failure> {
    asked.map_err(|not| match not {
        NotStarted::Failed(failure) => failure,
        NotStarted::Closed(why) => unavailable(server, &why),
        NotStarted::SessionLost => {
            unavailable(server, "it has forgotten a session that was just opened")
        }
    })
}

async fn discover(wire: &Wire) -> Result<Message, NotStarted> {
    let mut params = Object::new();
    params.set("_meta", own_meta());
    let params = params.finish();
    match wire {
        Wire::Pipe(_) => {
            let ask = Ask::own("server/discover");
            let compose = |hop: Hop| {
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

async fn answer(mut flight: Flight) -> Result<Message, Failure> {
    loop {
        match flight.next().await? {
            Step::Answer(message) => return Ok(message),
            Step::SessionLost => return Err(Failure::internal("there was no session to be lost")),
            Step::Notice(_) | Step::Question(_) => {}
        }
    }
}

/// What an answer to `server/discover` offers; `None` if it is none that we understand.
fn offer_of(answer: &Message) -> Option<Offer> {
    if answer.shape() != Shape::Response {
        return None;
    }
    let versions = answer.member("supportedVersions")?.array()?;
    let speaks = versions.iter().any(|version| version.text().as_deref() == Some(MODERN));
    let text = |json: Json| json.text().map(Cow::into_owned);
    speaks.then(|| Offer {
        era: Era::Modern,
        version: MODERN.into(),
        capabilities: answer.member("capabilities").unwrap_or_else(Json::empty_object),
        info: answer.member("_meta").and_then(|meta| meta.get(era::META_SERVER_INFO)),
        instructions: answer.member("instructions").and_then(text).map(Into::into),
        speaks_legacy: versions.iter().any(|version| {
            version.text().is_some_and(|v| era::VERSIONS.contains(&&*v) && !era::is_modern(&v))
        }),
    })
}

/// From here on requests are of 2026-07-28.
fn settled(wire: &Wire, offer: Offer) -> Offer {
    if let Wire::Http(http) = wire {
        http.agree(true, MODERN, None);
    }
    offer
}

async fn legacy(wire: &Wire, server: &str, hello: &Greeting) -> Result<Offer, Failure> {
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
            let compose = |hop: Hop| {
                let id = hop.id.unwrap_or_else(|| Id::number(0));
                request(&id, "initialize", Some(&params))
            };
            let flight = plain(wire.start(Ask::own("initialize"), None, compose).await, server)?;
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
    if era::is_modern(&version) || !era::VERSIONS.contains(&version.as_str()) {
        let versions = era::VERSIONS.join(", ");
        let what = format!("speaks version `{version}`, and toolgate speaks {versions}");
        return Err(nonsense(server, &what));
    }
    let offer = Offer {
        era: Era::Legacy,
        capabilities: answer.member("capabilities").unwrap_or_else(Json::empty_object),
        info: answer.member("serverInfo"),
        instructions: text("instructions").map(Into::into),
        version: version.as_str().into(),
        speaks_legacy: true,
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
