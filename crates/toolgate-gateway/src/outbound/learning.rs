//! Learning what a server offers when it comes up, and again whenever it says that something changed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use toolgate_wire::{Json, Message, Object, Sender};

use super::{
    connection::{Connection, Era, Wire},
    events::Kind,
    flight::{Ask, Flight, Hop, NotStarted, Step},
    learn,
    server::{Server, State},
    streamable::Streamable,
    subscriptions,
};

/// How long to wait before a stream that broke off is opened again, at first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// So long the stream before is read beside a new one.
const OVERLAP: Duration = Duration::from_millis(500);

/// A server that says that its lists changed is asked for them after this long again, and at most so long.
const BREATH: Duration = Duration::from_millis(100);
const LONGEST_BREATH: Duration = Duration::from_secs(5);

/// Bits of lists that may have changed stand so far behind those that did.
const SUSPECTED: u8 = 4;

/// Which lists have to be asked for again.
#[derive(Debug, Default)]
pub(super) struct Learning {
    outdated: AtomicU8,
    is_running: AtomicBool,
    /// One at a time asks, so that nobody writes over what another has learnt since.
    turn: tokio::sync::Mutex<()>,
}

const fn bit(kind: Kind) -> u8 {
    match kind {
        Kind::Tools => 1,
        Kind::Prompts => 2,
        Kind::Resources => 4,
    }
}

/// A connection came up: what it offers is learnt, and from then on followed.
pub(super) fn came_up(server: &Arc<Server>, connection: &Arc<Connection>, is_owned: bool) {
    let (server, connection) = (Arc::clone(server), Arc::clone(connection));
    let (control, partings) =
        (server.surroundings.control.clone(), server.surroundings.partings.clone());
    let following = async move {
        if is_owned {
            // What it lists is known already; what it says is heard of all the same.
            server.is(State::Ready);
            return follow(&server, &connection).await;
        }
        Box::pin(learn_all(&server, &connection)).await;
        if server.is_private() && server.manifest().is_some() {
            // It was there to be asked. Each session gets its own.
            if let Wire::Http(http) = connection.wire() {
                http.leave().await;
            }
            connection.close("what it offers is known");
            return;
        }
        if connection.era() == Era::Legacy {
            renew_level(&server, &connection).await;
            subscriptions::renew(&server, &connection).await;
        }
        follow(&server, &connection).await;
    };
    partings.spawn_on(following, &control);
}

/// A new connection is as loud as the one before.
async fn renew_level(server: &Server, connection: &Connection) {
    if let Some(level) = server.loudness().filter(|_| connection.offer.has("logging")) {
        let mut params = Object::new();
        params.set("level", Json::string(level.name()));
        if let Err(not) = connection.ask("logging/setLevel", params).await {
            tracing::debug!("the level of `{}` is not set: {not:?}", server.name);
        }
    }
}

async fn learn_all(server: &Arc<Server>, connection: &Arc<Connection>) {
    let _turn = server.learning.turn.lock().await;
    let old = server.manifest();
    match Box::pin(learn::everything(connection, &server.name)).await {
        Ok(new) => {
            let changed: Vec<Kind> = match &old {
                Some(old) if old.lists_the_same(&new) => Vec::new(),
                _ => Kind::ALL.to_vec(),
            };
            server.offers(new, &changed);
            server.is(State::Ready);
        }
        Err(failure) => {
            tracing::error!("cannot learn what `{}` offers: {failure}", server.name);
            if old.is_some() {
                // What is remembered holds until it can be asked.
                server.is(State::Ready);
                for kind in Kind::ALL {
                    suspect(server, kind);
                }
            } else {
                server.is(State::Failed(failure.message().into()));
                connection.close(failure.message());
            }
        }
    }
}

/// The server says that a list changed.
pub(super) fn changed(server: &Arc<Server>, kind: Kind) {
    note(server, bit(kind));
}

/// A list may have changed while nobody could say so.
pub(super) fn suspect(server: &Arc<Server>, kind: Kind) {
    note(server, bit(kind) << SUSPECTED);
}

fn note(server: &Arc<Server>, bits: u8) {
    server.learning.outdated.fetch_or(bits, Ordering::AcqRel);
    if server.learning.is_running.swap(true, Ordering::AcqRel) {
        // Whoever asks sees it.
        return;
    }
    let server = Arc::clone(server);
    let control = server.surroundings.control.clone();
    control.spawn(async move {
        let mut pause = BREATH;
        loop {
            let outdated = server.learning.outdated.swap(0, Ordering::AcqRel);
            if outdated == 0 {
                server.learning.is_running.store(false, Ordering::Release);
                // One may have come between the two.
                if server.learning.outdated.load(Ordering::Acquire) == 0
                    || server.learning.is_running.swap(true, Ordering::AcqRel)
                {
                    return;
                }
                continue;
            }
            for kind in Kind::ALL {
                let is_announced = outdated & bit(kind) != 0;
                if is_announced || outdated & bit(kind) << SUSPECTED != 0 {
                    learn_again(&server, kind, is_announced).await;
                }
            }
            // One that says so again and again is asked less and less often.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = server.stop.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_BREATH);
        }
    });
}

async fn learn_again(server: &Arc<Server>, kind: Kind, is_announced: bool) {
    let Ok(connection) = server.connection(None).await else { return };
    let _turn = server.learning.turn.lock().await;
    let Some(old) = server.manifest() else { return };
    match learn::again(&connection, &server.name, &old, kind).await {
        // What was announced is told also where nothing is new: the server wants its clients to know.
        Ok(new) if is_announced || !old.lists_the_same(&new) => server.offers(new, &[kind]),
        Ok(_) => {}
        Err(failure) => {
            tracing::warn!(
                "cannot learn what `{}` offers, and is asked again: {failure}",
                server.name
            );
            let bits = if is_announced { bit(kind) } else { bit(kind) << SUSPECTED };
            server.learning.outdated.fetch_or(bits, Ordering::AcqRel);
        }
    }
}

/// Hears what the server says that belongs to no request, as long as the connection lasts.
async fn follow(server: &Arc<Server>, connection: &Arc<Connection>) {
    let following = async {
        match (connection.wire(), connection.era()) {
            (Wire::Http(http), Era::Legacy) => follow_stream(server, connection, http).await,
            (_, Era::Modern) => follow_listen(server, connection).await,
            (Wire::Pipe(_), Era::Legacy) => connection.closed().await,
        }
    };
    tokio::select! {
        () = following => connection.closed().await,
        () = connection.closed() => {}
        () = server.stop.cancelled() => {}
    }
    if let Wire::Http(http) = connection.wire()
        && !connection.is_forgotten()
    {
        let _ = tokio::time::timeout(Duration::from_secs(2), http.leave()).await;
    }
}

async fn follow_stream(server: &Arc<Server>, connection: &Connection, http: &Arc<Streamable>) {
    let mut last = None;
    let mut pause = PAUSE;
    let mut has_missed = false;
    loop {
        match http.listen(last.as_ref()).await {
            Ok(None) => return,
            Ok(Some(mut stream)) => {
                if std::mem::take(&mut has_missed) {
                    for kind in Kind::ALL {
                        suspect(server, kind);
                    }
                }
                while let Ok(Some(event)) = stream.next().await {
                    pause = event.retry.map_or(PAUSE, Duration::from_millis).min(LONGEST_PAUSE);
                    let id = event.id.as_ref();
                    last =
                        id.and_then(|id| hyper::header::HeaderValue::from_bytes(id).ok()).or(last);
                    let limits = &server.surroundings.limits;
                    match Message::receive(event.data, limits, Sender::Server) {
                        Ok(message) => http.take(message).await,
                        Err(refused) => {
                            let (server, why) = (&server.name, refused.error);
                            tracing::debug!(%server, "an event that is no message is dropped: {why}");
                        }
                    }
                }
                has_missed = last.is_none();
            }
            // Whoever needs it opens a new one, and learns what is new.
            Err(NotStarted::SessionLost) => return connection.forget(),
            Err(not) => {
                tracing::debug!("the stream of `{}` is not there: {not:?}", server.name);
                has_missed = true;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn follow_listen(server: &Arc<Server>, connection: &Arc<Connection>) {
    let mut pause = PAUSE;
    let mut has_missed = false;
    let mut changes = server.subscriptions.changes();
    let mut older: Option<Flight> = None;
    loop {
        let version = *changes.borrow_and_update();
        let Some(params) = filter(connection, &server.subscriptions.all()) else {
            let _ = changes.changed().await;
            continue;
        };
        match listen(connection, params).await {
            Ok(flight) => {
                server.subscriptions.listened_to(version);
                older.take().into_iter().for_each(let_go);
                if std::mem::take(&mut has_missed) {
                    for kind in Kind::ALL {
                        suspect(server, kind);
                    }
                }
                match read(flight, &mut changes, &mut pause).await {
                    Heard::Enough(flight) => {
                        older = Some(flight);
                        continue;
                    }
                    Heard::Refused => return,
                    Heard::Broken => {}
                }
            }
            Err(not) => tracing::debug!("nothing is heard of `{}`: {not:?}", server.name),
        }
        has_missed = true;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The stream before is read for a moment longer: what was said on it while the new one began is not missed.
fn let_go(mut older: Flight) {
    tokio::spawn(tokio::time::timeout(OVERLAP, async move {
        while let Ok(Step::Notice(_) | Step::Question(_)) = older.next().await {}
    }));
}

async fn listen(connection: &Connection, params: Object) -> Result<Flight, NotStarted> {
    let params = connection.own_params(params).finish();
    let compose = |hop: Hop| {
        let id = hop.id.unwrap_or_else(|| toolgate_wire::Id::number(0));
        toolgate_wire::request(&id, "subscriptions/listen", Some(&params))
    };
    connection.start(Ask::own("subscriptions/listen"), None, compose).await
}

/// Why a stream is read no more.
enum Heard {
    /// Something else is to be listened to.
    Enough(Flight),
    /// The server does not offer it.
    Refused,
    Broken,
}

/// Whether an answer says that the server knows nothing of it.
fn is_unknown(answer: &Message) -> bool {
    answer.shape() == toolgate_wire::Shape::Error
        && answer.member("code").and_then(|code| code.i64()) == Some(-32601)
}

async fn read(
    mut flight: Flight,
    changes: &mut tokio::sync::watch::Receiver<u64>,
    pause: &mut Duration,
) -> Heard {
    let began = tokio::time::Instant::now();
    loop {
        if began.elapsed() > LONGEST_PAUSE {
            *pause = PAUSE;
        }
        tokio::select! {
            biased;
            step = flight.next() => match step {
                Ok(Step::Answer(answer)) if is_unknown(&answer) => return Heard::Refused,
                Ok(Step::Answer(_) | Step::SessionLost) | Err(_) => return Heard::Broken,
                Ok(Step::Notice(_) | Step::Question(_)) => *pause = PAUSE,
            },
            _ = changes.changed() => return Heard::Enough(flight),
        }
    }
}

/// What to listen to; `None` if there is nothing.
fn filter(connection: &Connection, uris: &[Arc<str>]) -> Option<Object> {
    let offer = &connection.offer;
    let mut wanted = Object::new();
    for (capability, name) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        if offer.can(capability, "listChanged") {
            wanted.set(name, Json::value(&true.into()));
        }
    }
    if !uris.is_empty() {
        let uris: Vec<Json> = uris.iter().map(|uri| Json::string(uri)).collect();
        wanted.set("resourceSubscriptions", Json::list(&uris));
    }
    if wanted.is_empty() {
        return None;
    }
    let mut params = Object::new();
    params.set("notifications", wanted.finish());
    Some(params)
}
