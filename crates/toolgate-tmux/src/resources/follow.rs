//! Notifies a client when a resource changes. tmux's notifications wake it; only a resource that does not exist is
//! polled.

use std::{
    future::{Future, ready},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};
use toolgate::Failure;

use super::{
    read::{checked, read},
    tail::{self, TailPositions},
    uri::{Resource, ResourceAddress},
};
use crate::{
    call::ToolContext,
    engine::{ListTarget, Wake, Watch},
    target::{self, is_id},
};

/// The minimum time between two notifications: at most ten a second. A later notification covers the changes in
/// between.
const MIN_NOTIFICATION_INTERVAL: Duration = Duration::from_millis(100);
/// How often a resource that does not exist is checked.
const MISSING_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A hash of the content of a resource that was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentHash(u64);

impl ContentHash {
    async fn now(cx: &ToolContext, address: &ResourceAddress) -> Self {
        let mut hasher = DefaultHasher::new();
        match look(cx, address).await {
            Ok(text) => text.hash(&mut hasher),
            Err(failure) => failure.message().hash(&mut hasher),
        }
        Self(hasher.finish())
    }
}

/// Reads a resource without moving the client's position: new lines in a pane stay new until the client reads them.
pub(super) async fn look(cx: &ToolContext, address: &ResourceAddress) -> Result<String, Failure> {
    match &address.resource {
        Resource::Tail(id) => {
            let server = cx.server(address.socket_name.as_deref())?;
            tail::stamp(&server, checked(id)?).await
        }
        _ => read(cx, address, &TailPositions::default()).await,
    }
}

/// A watched resource.
pub(super) struct ResourceWatch {
    following: WatchedResource,
    place: Option<String>,
    watch: Option<Watch>,
}

impl ResourceWatch {
    /// Starts to watch: changes from now on are reported.
    pub(super) async fn new(cx: ToolContext, address: ResourceAddress) -> Self {
        let mut following =
            WatchedResource { cx, address, seen: ContentHash(0), next: Instant::now() };
        // The watch starts before the content is read, so that no change in between is missed.
        let place = following.place().await;
        let watch = following.watch(place.as_deref()).await;
        following.seen = ContentHash::now(&following.cx, &following.address).await;
        Self { following, place, watch }
    }

    /// Calls `tell` after each change, until `tell` returns `false`.
    pub(super) async fn run<F, Sent>(self, tell: F)
    where
        F: Fn() -> Sent + Send,
        Sent: Future<Output = bool> + Send,
    {
        let Self { mut following, mut place, mut watch } = self;
        loop {
            if let Some(watch) = watch.take() {
                if !following.until_gone(watch, place, &tell).await {
                    return;
                }
            } else {
                sleep(MISSING_CHECK_INTERVAL).await;
            }
            place = following.place().await;
            watch = following.watch(place.as_deref()).await;
            if !following.told_if_changed(false, &tell).await {
                return;
            }
        }
    }
}

struct WatchedResource {
    cx: ToolContext,
    address: ResourceAddress,
    seen: ContentHash,
    /// The earliest time of the next notification.
    next: Instant,
}

impl WatchedResource {
    /// The session to watch; `None` if the resource does not exist.
    async fn place(&self) -> Option<String> {
        let server = self.cx.server(self.address.socket_name.as_deref()).ok()?;
        let row = match &self.address.resource {
            Resource::Session(name) | Resource::Windows(name) | Resource::Window(name, _) => {
                target::session(&server, None, Some(name), target::SESSION).await.ok()?
            }
            Resource::Pane(id) | Resource::Content(id) | Resource::Tail(id) if is_id(id, '%') => {
                server.list(ListTarget::Pane(id), &["pane_id", "session_id"]).await.ok()?.pop()?
            }
            _ => return None,
        };
        Some(row.text("session_id"))
    }

    async fn watch(&self, place: Option<&str>) -> Option<Watch> {
        let server = self.cx.server(self.address.socket_name.as_deref()).ok()?;
        match (&self.address.resource, place) {
            (Resource::Sessions, _) => server.watch_all().await.ok()?,
            (Resource::Pane(id) | Resource::Content(id) | Resource::Tail(id), Some(session)) => {
                server.watch(session, id).await.ok()
            }
            (_, Some(session)) => server.watch(session, "").await.ok(),
            (_, None) => None,
        }
    }

    /// Reports changes until tmux closes the watch or the resource moves to another session. `false` if `tell` returned
    /// `false`.
    async fn until_gone<F, Sent>(
        &mut self,
        mut watch: Watch,
        place: Option<String>,
        tell: &F,
    ) -> bool
    where
        F: Fn() -> Sent + Send,
        Sent: Future<Output = bool> + Send,
    {
        loop {
            let first = watch.next_of_all().await;
            sleep_until(self.next).await;
            let woken = WakeReasons::with(&first).and_all_that_waits(&mut watch).await;
            if woken.gone {
                return true;
            }
            if !self.told_if_changed(woken.output, tell).await {
                return false;
            }
            if woken.changed && place.is_some() && self.place().await != place {
                return true;
            }
        }
    }

    async fn told_if_changed<F, Sent>(&mut self, output: bool, tell: &F) -> bool
    where
        F: Fn() -> Sent + Send,
        Sent: Future<Output = bool> + Send,
    {
        let now = ContentHash::now(&self.cx, &self.address).await;
        // For a tail, output is a change even if the screen looks the same.
        let is_news = output && matches!(self.address.resource, Resource::Tail(_));
        if now == self.seen && !is_news {
            return true;
        }
        self.seen = now;
        self.next = Instant::now() + MIN_NOTIFICATION_INTERVAL;
        tell().await
    }
}

#[derive(Default)]
struct WakeReasons {
    output: bool,
    changed: bool,
    gone: bool,
}

impl WakeReasons {
    fn with(wake: &Wake) -> Self {
        let mut woken = Self::default();
        woken.add(wake);
        woken
    }

    fn add(&mut self, wake: &Wake) {
        match wake {
            Wake::Output(_) => self.output = true,
            Wake::Changed => self.changed = true,
            Wake::Missed => (self.output, self.changed) = (true, true),
            Wake::Gone => self.gone = true,
        }
    }

    async fn and_all_that_waits(mut self, watch: &mut Watch) -> Self {
        while !self.gone {
            tokio::select! {
                biased;
                wake = watch.next_of_all() => self.add(&wake),
                () = ready(()) => break,
            }
        }
        self
    }
}
