//! Keeps the manifest of a server current: lists everything when a connection opens, and again after each change.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use toolgate_wire::{
    Json, Message, Object, Sender,
    mcp::{Era, code, method},
};

use super::{
    connection::{Connection, UpstreamTransport},
    events::ListKind,
    in_flight::InFlightRequest,
    listing,
    manifest::{ListName, ServerManifest, error_text},
    request::{IdRewrite, StartFailure, UpstreamEvent, UpstreamRequest},
    resume::Resume,
    server::{ConnectionScope, Server, ServerState},
    streamable_http::StreamableHttp,
};
use crate::backoff::Backoff;

/// How long the gateway still reads the previous stream after the next one has opened.
const STREAM_OVERLAP: Duration = Duration::from_millis(500);

/// How long a server may take to accept the end of a session.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The limits of the interval between two requests for the lists of a server that reports changes.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(100);
const MAX_REFRESH_INTERVAL: Duration = Duration::from_secs(5);

/// The longest wait before the gateway requests a failed list again.
const MAX_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// The bit of a list that may have changed is this far left of the bit of a list that did change.
const STALE_SHIFT: u8 = 4;

/// Which lists of a server have to be requested again.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    outdated: AtomicU8,
    is_running: AtomicBool,
    /// Held while lists are requested and the manifest is replaced: an older result must not replace a newer one.
    manifest_lock: tokio::sync::Mutex<()>,
    /// Ends the pause before the next attempt.
    wake: tokio::sync::Notify,
    /// When the lists were requested last.
    last_listed: Mutex<Option<Instant>>,
    /// The failures in the log: the reason for each list, and how often it occurred.
    logged: Mutex<HashMap<&'static str, (String, u64)>>,
}

impl Discovery {
    /// When the lists were requested last.
    pub(super) fn last_listed(&self) -> Option<Instant> {
        *self.last_listed.lock()
    }

    fn note_listed_now(&self) {
        *self.last_listed.lock() = Some(Instant::now());
    }

    /// Logs why a server cannot give a list: once, until the reason changes.
    fn report(&self, server: &str, what: &'static str, why: Option<String>) {
        let mut logged = self.logged.lock();
        let Some(why) = why else {
            if let Some((_, times)) = logged.remove(what) {
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                tracing::info!(
                    "the server `{server}` lists its {what} again, after it failed {times}"
                );
            }
            return;
        };
        match logged.get_mut(what) {
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
                let times = logged.get(what).map_or(0, |(_, times)| *times);
                logged.insert(what, (why, times + 1));
            }
        }
    }

    /// Logs which of these lists fail, and which work again.
    fn report_all(&self, server: &str, manifest: &ServerManifest, kinds: &[ListKind]) {
        for list in ListName::ALL.into_iter().filter(|list| kinds.contains(&kind_of(*list))) {
            self.report(server, list.name(), manifest.failure(list).map(error_text));
        }
    }

    /// Waits for the right to replace the manifest.
    pub(super) async fn lock_manifest(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.manifest_lock.lock().await
    }
}

const fn bit(kind: ListKind) -> u8 {
    match kind {
        ListKind::Tools => 1,
        ListKind::Prompts => 2,
        ListKind::Resources => 4,
    }
}

/// Starts the task of a connection that has opened: it lists what the server offers, and follows its notifications.
pub(super) fn connection_opened(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    scope: &ConnectionScope,
) {
    let is_shared = matches!(scope, ConnectionScope::Shared);
    let (server, connection) = (Arc::clone(server), Arc::clone(connection));
    let (control, session_ends) = (server.deps.control.clone(), server.deps.session_ends.clone());
    let following = async move {
        if !is_shared {
            // The lists are known already; only the notifications matter.
            server.set_state(ServerState::Ready);
            if !server.is_per_session() && connection.era() == Era::Legacy {
                restore_log_level(&server, &connection).await;
                server.subscriptions.legacy.resubscribe(&server.name, &connection).await;
            }
            return follow(&server, &connection).await;
        }
        let is_stream = connection.era() == Era::Legacy
            && matches!(connection.transport(), UpstreamTransport::Http(_));
        if is_stream && !server.is_per_session() {
            // Listing and reading run concurrently, because legacy HTTP servers send notifications on a separate
            // stream; requests of clients do not wait for the listing.
            let listing = async {
                Box::pin(list_all(&server, &connection)).await;
                restore_log_level(&server, &connection).await;
                server.subscriptions.shared.resubscribe(&server.name, &connection).await;
            };
            tokio::join!(listing, follow(&server, &connection));
            return;
        }
        Box::pin(list_all(&server, &connection)).await;
        if server.is_per_session() && server.manifest().is_some() {
            // The connection was opened only to list. Each session gets its own.
            if let UpstreamTransport::Http(http) = connection.transport() {
                http.end_session().await;
            }
            connection.close("what it offers is known");
            return;
        }
        if connection.era() == Era::Legacy {
            restore_log_level(&server, &connection).await;
            server.subscriptions.shared.resubscribe(&server.name, &connection).await;
        }
        follow(&server, &connection).await;
    };
    session_ends.spawn_on(following, &control);
}

/// Sets the log level of the previous connection on a new one.
async fn restore_log_level(server: &Server, connection: &Connection) {
    if connection.server_info.has("logging") {
        server.set_log_level(connection, || server.wanted_log_level()).await;
    }
}

async fn list_all(server: &Arc<Server>, connection: &Arc<Connection>) {
    let _lock = server.discovery.lock_manifest().await;
    let old = server.manifest();
    server.discovery.note_listed_now();
    match Box::pin(listing::list_all(connection, &server.name, old.as_deref())).await {
        Ok(mut new) => {
            // The result of an earlier `initialize` holds for the same version of the server.
            let same = old.as_ref().filter(|old| old.server_info.info == new.server_info.info);
            let tried = same.and_then(|old| old.server_info.speaks_legacy);
            new.server_info.speaks_legacy = new.server_info.speaks_legacy.or(tried);
            new.server_info.legacy_capabilities =
                same.and_then(|old| old.server_info.legacy_capabilities.clone());
            let changed: Vec<ListKind> = match &old {
                Some(old) if old.lists_the_same(&new) => Vec::new(),
                _ => ListKind::ALL.to_vec(),
            };
            server.discovery.report_all(&server.name, &new, &ListKind::ALL);
            let failing: Vec<ListKind> = new.failures().map(|(list, _)| kind_of(list)).collect();
            server.set_manifest(new, &changed);
            server.set_state(ServerState::Ready);
            // A private server is listed again when a client lists.
            for kind in failing.into_iter().filter(|_| !server.is_per_session()) {
                mark_stale(server, kind);
            }
        }
        Err(failure) => {
            server.discovery.report(&server.name, "tools", Some(failure.to_string()));
            if old.is_some() {
                // The cached manifest stays in use until the server can be listed.
                server.set_state(ServerState::Ready);
                for kind in ListKind::ALL {
                    mark_stale(server, kind);
                }
            } else {
                server.set_state(ServerState::Failed(failure.message().into(), failure.code()));
                connection.close(failure.message());
            }
        }
    }
}

/// The server reports that a list changed.
pub(super) fn list_changed(server: &Arc<Server>, kind: ListKind) {
    schedule_refresh(server, bit(kind));
}

/// A list may have changed without a notification.
pub(super) fn mark_stale(server: &Arc<Server>, kind: ListKind) {
    schedule_refresh(server, bit(kind) << STALE_SHIFT);
}

fn schedule_refresh(server: &Arc<Server>, bits: u8) {
    server.discovery.outdated.fetch_or(bits, Ordering::AcqRel);
    if server.discovery.is_running.swap(true, Ordering::AcqRel) {
        // The running task sees the new bits.
        server.discovery.wake.notify_one();
        return;
    }
    let server = Arc::clone(server);
    let control = server.deps.control.clone();
    control.spawn(async move {
        let mut backoff = Backoff::between(MIN_REFRESH_INTERVAL, MAX_REFRESH_INTERVAL);
        let mut retry = Backoff::between(MIN_REFRESH_INTERVAL, MAX_RETRY_INTERVAL);
        loop {
            let outdated = server.discovery.outdated.swap(0, Ordering::AcqRel);
            if outdated == 0 {
                server.discovery.is_running.store(false, Ordering::Release);
                // A bit may have been set between the two lines above.
                if server.discovery.outdated.load(Ordering::Acquire) == 0
                    || server.discovery.is_running.swap(true, Ordering::AcqRel)
                {
                    return;
                }
                continue;
            }
            let (mut has_failed, started) = (false, Instant::now());
            for kind in ListKind::ALL {
                let is_announced = outdated & bit(kind) != 0;
                if is_announced || outdated & bit(kind) << STALE_SHIFT != 0 {
                    let change =
                        if is_announced { ListChange::Announced } else { ListChange::Possible };
                    has_failed |= !refresh(&server, kind, change).await;
                }
            }
            let took = started.elapsed();
            // The more often a server reports changes, the longer the gateway waits.
            tokio::select! {
                () = tokio::time::sleep(backoff.wait()) => {}
                () = server.stop.cancelled() => return,
            }
            if !has_failed {
                retry = Backoff::between(MIN_REFRESH_INTERVAL, MAX_RETRY_INTERVAL);
                continue;
            }
            // A failing server gets longer and longer waits, until it reports a change.
            tokio::select! {
                () = tokio::time::sleep(retry.wait_after(took)) => {}
                () = server.discovery.wake.notified() => {}
                () = server.stop.cancelled() => return,
            }
        }
    });
}

/// Why a list is requested again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListChange {
    /// The server reported a change.
    Announced,
    /// The list may have changed without a notification.
    Possible,
}

/// Requests a list again; `false`: it has to be requested once more.
async fn refresh(server: &Arc<Server>, kind: ListKind, change: ListChange) -> bool {
    // The gateway does not start an idle server for this: it lists everything when the server starts.
    let Some(connection) = server.connection_to_list(change).await else { return true };
    let _lock = server.discovery.lock_manifest().await;
    let Some(old) = server.manifest() else { return true };
    server.discovery.note_listed_now();
    match listing::list_again(&connection, &server.name, &old, kind).await {
        Ok(new) => {
            server.discovery.report_all(&server.name, &new, &[kind]);
            let is_whole = new.failures().all(|(list, _)| kind_of(list) != kind);
            // Clients get a reported change even if the list is the same or fails: the server wants them to know. They
            // get it once: after a failure the gateway only requests the list again.
            if change == ListChange::Announced || !old.lists_the_same(&new) {
                server.set_manifest(new, &[kind]);
            }
            if !is_whole {
                server.discovery.outdated.fetch_or(bit(kind) << STALE_SHIFT, Ordering::AcqRel);
            }
            is_whole
        }
        Err(failure) => {
            server.discovery.report(&server.name, name_of(kind), Some(failure.to_string()));
            let bits = match change {
                ListChange::Announced => bit(kind),
                ListChange::Possible => bit(kind) << STALE_SHIFT,
            };
            server.discovery.outdated.fetch_or(bits, Ordering::AcqRel);
            false
        }
    }
}

/// The kind of notification that reports changes of a list.
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

/// Follows the notifications that belong to no request until the connection closes.
async fn follow(server: &Arc<Server>, connection: &Arc<Connection>) {
    let following = async {
        match (connection.transport(), connection.era()) {
            (UpstreamTransport::Http(http), Era::Legacy) => {
                follow_stream(server, connection, http).await;
            }
            (_, Era::Modern) => follow_listen(server, connection).await,
            (UpstreamTransport::Pipe(_), Era::Legacy) => connection.closed().await,
        }
    };
    tokio::select! {
        () = following => connection.closed().await,
        () = connection.closed() => {}
        () = server.stop.cancelled() => {}
    }
    if let UpstreamTransport::Http(http) = connection.transport()
        && !connection.is_forgotten()
    {
        let _ = tokio::time::timeout(END_SESSION_TIMEOUT, http.end_session()).await;
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
                        mark_stale(server, kind);
                    }
                }
                while let Ok(Some(event)) = stream.next().await {
                    resume.note(&event);
                    let limits = &server.deps.limits;
                    match Message::receive(event.data, limits, Sender::Server) {
                        Ok(message) => http.handle_message(message).await,
                        Err(refused) => {
                            let (server, why) = (&server.name, refused.error);
                            tracing::debug!(%server, "an event that is no message is dropped: {why}");
                        }
                    }
                }
                has_missed = resume.last_event().is_none();
                tokio::time::sleep(resume.wait()).await;
            }
            // The next call opens a new connection, which lists everything again.
            Err(StartFailure::SessionLost) => return connection.forget(),
            Err(error) => {
                tracing::debug!("the stream of `{}` is not there: {error:?}", server.name);
                has_missed = true;
                tokio::time::sleep(resume.wait_after_failure()).await;
            }
        }
    }
}

async fn follow_listen(server: &Arc<Server>, connection: &Arc<Connection>) {
    let mut backoff = Backoff::new();
    let mut has_missed = false;
    let mut versions = server.subscriptions.versions();
    server.subscriptions.set_refused(false);
    let mut previous: Option<InFlightRequest> = None;
    loop {
        let version = *versions.borrow_and_update();
        let Some(params) = filter(connection, &server.subscriptions.shared.all()) else {
            let _ = versions.changed().await;
            continue;
        };
        match listen(connection, params).await {
            Ok(stream) => {
                backoff.started();
                server.subscriptions.set_covered(version);
                previous.take().into_iter().for_each(drain_previous);
                if std::mem::take(&mut has_missed) {
                    for kind in ListKind::ALL {
                        mark_stale(server, kind);
                    }
                }
                match read(stream, &mut versions, &mut backoff).await {
                    StreamEnd::Replaced(stream) => {
                        previous = Some(stream);
                        continue;
                    }
                    StreamEnd::Unsupported => return server.subscriptions.set_refused(true),
                    StreamEnd::Broken => {}
                }
            }
            Err(error) => {
                tracing::debug!("the stream of `{}` is not there: {error:?}", server.name);
            }
        }
        has_missed = true;
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Reads the previous stream a little longer: notifications that came on it while the new one opened are not lost.
fn drain_previous(mut previous: InFlightRequest) {
    tokio::spawn(tokio::time::timeout(STREAM_OVERLAP, async move {
        while let Ok(
            UpstreamEvent::Notification(_)
            | UpstreamEvent::ServerRequest(_)
            | UpstreamEvent::ServerRequestCancelled(_),
        ) = previous.next().await
        {}
    }));
}

async fn listen(connection: &Connection, params: Object) -> Result<InFlightRequest, StartFailure> {
    let params = connection.own_params(params).finish();
    let compose = |rewrite: IdRewrite| {
        let id = rewrite.id.unwrap_or_else(|| toolgate_wire::Id::number(0));
        toolgate_wire::request(&id, method::SUBSCRIPTIONS_LISTEN, Some(&params))
    };
    connection.start(UpstreamRequest::own(method::SUBSCRIPTIONS_LISTEN), None, compose).await
}

/// Why the gateway stopped reading a stream.
enum StreamEnd {
    /// The set of subscriptions changed: a new stream replaces this one.
    Replaced(InFlightRequest),
    /// The server does not know `subscriptions/listen`.
    Unsupported,
    Broken,
}

/// Whether the response is the error for an unknown method.
fn is_unknown(answer: &Message) -> bool {
    answer.shape() == toolgate_wire::Shape::Error
        && answer.member("code").and_then(|code| code.i64()) == Some(code::METHOD_NOT_FOUND)
}

async fn read(
    mut stream: InFlightRequest,
    versions: &mut tokio::sync::watch::Receiver<u64>,
    backoff: &mut Backoff,
) -> StreamEnd {
    loop {
        tokio::select! {
            biased;
            event = stream.next() => match event {
                Ok(UpstreamEvent::Response(answer)) if is_unknown(&answer) => return StreamEnd::Unsupported,
                Ok(UpstreamEvent::Response(_) | UpstreamEvent::SessionLost) | Err(_) => return StreamEnd::Broken,
                Ok(UpstreamEvent::Notification(_) | UpstreamEvent::ServerRequest(_) | UpstreamEvent::ServerRequestCancelled(_)) => *backoff = Backoff::new(),
            },
            _ = versions.changed() => return StreamEnd::Replaced(stream),
        }
    }
}

/// The params of `subscriptions/listen`; `None` if there is nothing to listen to.
fn filter(connection: &Connection, uris: &[Arc<str>]) -> Option<Object> {
    let server_info = &connection.server_info;
    let mut wanted = Object::new();
    for (capability, name) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        if server_info.can(capability, "listChanged") {
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
