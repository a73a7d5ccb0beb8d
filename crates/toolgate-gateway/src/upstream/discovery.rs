//! Learning what a server offers when it comes up, and again whenever it says that something changed.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use toolgate_wire::{Json, Message, Object, Sender, mcp::Era};

use super::{
    connection::{Connection, Wire},
    events::ListKind,
    in_flight::{IdRewrite, InFlightRequest, StartFailure, UpstreamEvent, UpstreamRequest},
    listing,
    manifest::{ListName, ServerManifest, error_text},
    resume::Resume,
    server::{Server, ServerState},
    streamable_http::StreamableHttp,
    subscriptions,
};
use crate::backoff::Backoff;

/// How long the gateway reads the previous stream beside its successor.
const OVERLAP: Duration = Duration::from_millis(500);

/// A server that says that its lists changed is asked for them after this long again, and at most so long.
const BREATH: Duration = Duration::from_millis(100);
const LONGEST_BREATH: Duration = Duration::from_secs(5);

/// A list that a server failed to give is asked for again after so long at most.
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// Bits of lists that may have changed stand so far behind those that did.
const SUSPECTED: u8 = 4;

/// Which lists have to be asked for again.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    outdated: AtomicU8,
    is_running: AtomicBool,
    /// One at a time asks, so that nobody writes over what another has learnt since.
    turn: tokio::sync::Mutex<()>,
    /// Ends the pause before the next attempt.
    wake: tokio::sync::Notify,
    /// When the lists were asked for last.
    asked: Mutex<Option<Instant>>,
    /// What the log has of lists that cannot be had: the reason, and how often it was met.
    told: Mutex<HashMap<&'static str, (String, u64)>>,
}

impl Discovery {
    /// When the lists were asked for last.
    pub(super) fn asked(&self) -> Option<Instant> {
        *self.asked.lock()
    }

    fn asks_now(&self) {
        *self.asked.lock() = Some(Instant::now());
    }

    /// Logs why a list of a server cannot be had: once, until the reason changes.
    fn report(&self, server: &str, what: &'static str, why: Option<String>) {
        let mut told = self.told.lock();
        let Some(why) = why else {
            if let Some((_, times)) = told.remove(what) {
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                tracing::info!(
                    "the server `{server}` lists its {what} again, after it failed {times}"
                );
            }
            return;
        };
        match told.get_mut(what) {
            Some((known, times)) if *known == why => {
                *times += 1;
                tracing::debug!(
                    "the server `{server}` still cannot list its {what} ({times} times): {why}"
                );
            }
            _ => {
                tracing::warn!(
                    "the server `{server}` cannot list its {what}; toolgate asks again in the background: {why}"
                );
                let times = told.get(what).map_or(0, |(_, times)| *times);
                told.insert(what, (why, times + 1));
            }
        }
    }

    /// Logs which of these lists of a server fail, and which do so no more.
    fn report_all(&self, server: &str, manifest: &ServerManifest, kinds: &[ListKind]) {
        for list in ListName::ALL.into_iter().filter(|list| kinds.contains(&kind_of(*list))) {
            self.report(server, list.name(), manifest.failure(list).map(error_text));
        }
    }

    /// Whoever has it writes what is known of the server.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

const fn bit(kind: ListKind) -> u8 {
    match kind {
        ListKind::Tools => 1,
        ListKind::Prompts => 2,
        ListKind::Resources => 4,
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
            server.is(ServerState::Ready);
            if !server.is_private() && connection.era() == Era::Legacy {
                renew_level(&server, &connection).await;
                subscriptions::renew(&server, &connection, &server.subscriptions.mirrored).await;
            }
            return follow(&server, &connection).await;
        }
        let is_stream =
            connection.era() == Era::Legacy && matches!(connection.wire(), Wire::Http(_));
        if is_stream && !server.is_private() {
            // Its notifications are read from the start: requests of clients do not wait for its lists.
            let learning = async {
                Box::pin(learn_all(&server, &connection)).await;
                renew_level(&server, &connection).await;
                subscriptions::renew(&server, &connection, &server.subscriptions.shared).await;
            };
            tokio::join!(learning, follow(&server, &connection));
            return;
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
            subscriptions::renew(&server, &connection, &server.subscriptions.shared).await;
        }
        follow(&server, &connection).await;
    };
    partings.spawn_on(following, &control);
}

/// A new connection is as loud as the one before.
async fn renew_level(server: &Server, connection: &Connection) {
    if connection.offer.has("logging") {
        server.set_level(connection, || server.loudness()).await;
    }
}

async fn learn_all(server: &Arc<Server>, connection: &Arc<Connection>) {
    let _turn = server.learning.turn.lock().await;
    let old = server.manifest();
    server.learning.asks_now();
    match Box::pin(listing::everything(connection, &server.name, old.as_deref())).await {
        Ok(mut new) => {
            // What was found out by trying holds for the same version of the server.
            let same = old.as_ref().filter(|old| old.offer.info == new.offer.info);
            let tried = same.and_then(|old| old.offer.speaks_legacy);
            new.offer.speaks_legacy = new.offer.speaks_legacy.or(tried);
            new.offer.legacy_capabilities =
                same.and_then(|old| old.offer.legacy_capabilities.clone());
            let changed: Vec<ListKind> = match &old {
                Some(old) if old.lists_the_same(&new) => Vec::new(),
                _ => ListKind::ALL.to_vec(),
            };
            server.learning.report_all(&server.name, &new, &ListKind::ALL);
            let failing: Vec<ListKind> = new.failures().map(|(list, _)| kind_of(list)).collect();
            server.offers(new, &changed);
            server.is(ServerState::Ready);
            // One that is started for each session is asked again when somebody lists.
            for kind in failing.into_iter().filter(|_| !server.is_private()) {
                suspect(server, kind);
            }
        }
        Err(failure) => {
            server.learning.report(&server.name, "tools", Some(failure.to_string()));
            if old.is_some() {
                // What is remembered holds until it can be asked.
                server.is(ServerState::Ready);
                for kind in ListKind::ALL {
                    suspect(server, kind);
                }
            } else {
                server.is(ServerState::Failed(failure.message().into()));
                connection.close(failure.message());
            }
        }
    }
}

/// The server says that a list changed.
pub(super) fn changed(server: &Arc<Server>, kind: ListKind) {
    note(server, bit(kind));
}

/// A list may have changed while nobody could say so.
pub(super) fn suspect(server: &Arc<Server>, kind: ListKind) {
    note(server, bit(kind) << SUSPECTED);
}

fn note(server: &Arc<Server>, bits: u8) {
    server.learning.outdated.fetch_or(bits, Ordering::AcqRel);
    if server.learning.is_running.swap(true, Ordering::AcqRel) {
        // Whoever asks sees it.
        server.learning.wake.notify_one();
        return;
    }
    let server = Arc::clone(server);
    let control = server.surroundings.control.clone();
    control.spawn(async move {
        let mut backoff = Backoff::between(BREATH, LONGEST_BREATH);
        let mut retry = Backoff::between(BREATH, LONGEST_RETRY);
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
            let (mut has_failed, started) = (false, Instant::now());
            for kind in ListKind::ALL {
                let is_announced = outdated & bit(kind) != 0;
                if is_announced || outdated & bit(kind) << SUSPECTED != 0 {
                    has_failed |= !learn_again(&server, kind, is_announced).await;
                }
            }
            let took = started.elapsed();
            // One that says so again and again is asked less and less often.
            tokio::select! {
                () = tokio::time::sleep(backoff.wait()) => {}
                () = server.stop.cancelled() => return,
            }
            if !has_failed {
                retry = Backoff::between(BREATH, LONGEST_RETRY);
                continue;
            }
            // So is one that fails, unless it says that something changed.
            tokio::select! {
                () = tokio::time::sleep(retry.wait_after(took)) => {}
                () = server.learning.wake.notified() => {}
                () = server.stop.cancelled() => return,
            }
        }
    });
}

/// Asks for a list again; `false`: it has to be asked for once more.
async fn learn_again(server: &Arc<Server>, kind: ListKind, is_announced: bool) -> bool {
    // A server that nobody needs is not started for it: it is asked when it comes up.
    let Some(connection) = server.connection_to_ask(is_announced).await else { return true };
    let _turn = server.learning.turn.lock().await;
    let Some(old) = server.manifest() else { return true };
    server.learning.asks_now();
    match listing::again(&connection, &server.name, &old, kind).await {
        Ok(new) => {
            server.learning.report_all(&server.name, &new, &[kind]);
            let is_whole = new.failures().all(|(list, _)| kind_of(list) != kind);
            // What was announced is told also where nothing is new, or the list fails: the server wants its clients to
            // know. It is told once: from here on the list is only asked for.
            if is_announced || !old.lists_the_same(&new) {
                server.offers(new, &[kind]);
            }
            if !is_whole {
                server.learning.outdated.fetch_or(bit(kind) << SUSPECTED, Ordering::AcqRel);
            }
            is_whole
        }
        Err(failure) => {
            server.learning.report(&server.name, name_of(kind), Some(failure.to_string()));
            let bits = if is_announced { bit(kind) } else { bit(kind) << SUSPECTED };
            server.learning.outdated.fetch_or(bits, Ordering::AcqRel);
            false
        }
    }
}

/// The notification that tells of changes of a list.
fn kind_of(list: ListName) -> ListKind {
    match list {
        ListName::Tools => ListKind::Tools,
        ListName::Prompts => ListKind::Prompts,
        ListName::Resources | ListName::Templates => ListKind::Resources,
    }
}

fn name_of(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => ListName::Tools.name(),
        ListKind::Prompts => ListName::Prompts.name(),
        ListKind::Resources => ListName::Resources.name(),
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

async fn follow_stream(server: &Arc<Server>, connection: &Connection, http: &Arc<StreamableHttp>) {
    let mut resume = Resume::default();
    let mut has_missed = false;
    loop {
        match http.listen(resume.last_event()).await {
            Ok(None) => return,
            Ok(Some(mut stream)) => {
                resume.opened();
                if std::mem::take(&mut has_missed) {
                    for kind in ListKind::ALL {
                        suspect(server, kind);
                    }
                }
                while let Ok(Some(event)) = stream.next().await {
                    resume.note(&event);
                    let limits = &server.surroundings.limits;
                    match Message::receive(event.data, limits, Sender::Server) {
                        Ok(message) => http.take(message).await,
                        Err(refused) => {
                            let (server, why) = (&server.name, refused.error);
                            tracing::debug!(%server, "an event that is no message is dropped: {why}");
                        }
                    }
                }
                has_missed = resume.last_event().is_none();
                tokio::time::sleep(resume.wait()).await;
            }
            // Whoever needs it opens a new one, and learns what is new.
            Err(StartFailure::SessionLost) => return connection.forget(),
            Err(not) => {
                tracing::debug!("the stream of `{}` is not there: {not:?}", server.name);
                has_missed = true;
                tokio::time::sleep(resume.wait_after_failure()).await;
            }
        }
    }
}

async fn follow_listen(server: &Arc<Server>, connection: &Arc<Connection>) {
    let mut backoff = Backoff::new();
    let mut has_missed = false;
    let mut changes = server.subscriptions.changes();
    server.subscriptions.refuse(false);
    let mut older: Option<InFlightRequest> = None;
    loop {
        let version = *changes.borrow_and_update();
        let Some(params) = filter(connection, &server.subscriptions.shared.all()) else {
            let _ = changes.changed().await;
            continue;
        };
        match listen(connection, params).await {
            Ok(flight) => {
                backoff.started();
                server.subscriptions.listened_to(version);
                older.take().into_iter().for_each(let_go);
                if std::mem::take(&mut has_missed) {
                    for kind in ListKind::ALL {
                        suspect(server, kind);
                    }
                }
                match read(flight, &mut changes, &mut backoff).await {
                    StreamEnd::Enough(flight) => {
                        older = Some(flight);
                        continue;
                    }
                    StreamEnd::Refused => return server.subscriptions.refuse(true),
                    StreamEnd::Broken => {}
                }
            }
            Err(not) => tracing::debug!("nothing is heard of `{}`: {not:?}", server.name),
        }
        has_missed = true;
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// The stream before is read for a moment longer: what was said on it while the new one began is not missed.
fn let_go(mut older: InFlightRequest) {
    tokio::spawn(tokio::time::timeout(OVERLAP, async move {
        while let Ok(
            UpstreamEvent::Notice(_) | UpstreamEvent::Question(_) | UpstreamEvent::Withdrawn(_),
        ) = older.next().await
        {}
    }));
}

async fn listen(connection: &Connection, params: Object) -> Result<InFlightRequest, StartFailure> {
    let params = connection.own_params(params).finish();
    let compose = |hop: IdRewrite| {
        let id = hop.id.unwrap_or_else(|| toolgate_wire::Id::number(0));
        toolgate_wire::request(&id, "subscriptions/listen", Some(&params))
    };
    connection.start(UpstreamRequest::own("subscriptions/listen"), None, compose).await
}

/// Why a stream is read no more.
enum StreamEnd {
    /// Something else is to be listened to.
    Enough(InFlightRequest),
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
    mut flight: InFlightRequest,
    changes: &mut tokio::sync::watch::Receiver<u64>,
    backoff: &mut Backoff,
) -> StreamEnd {
    loop {
        tokio::select! {
            biased;
            step = flight.next() => match step {
                Ok(UpstreamEvent::Answer(answer)) if is_unknown(&answer) => return StreamEnd::Refused,
                Ok(UpstreamEvent::Answer(_) | UpstreamEvent::SessionLost) | Err(_) => return StreamEnd::Broken,
                Ok(UpstreamEvent::Notice(_) | UpstreamEvent::Question(_) | UpstreamEvent::Withdrawn(_)) => *backoff = Backoff::new(),
            },
            _ = changes.changed() => return StreamEnd::Enough(flight),
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
