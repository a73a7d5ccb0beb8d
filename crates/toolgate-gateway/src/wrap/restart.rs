//! Starting a server again, and bringing it to where the client believes it to be.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use toolgate::Failure;
use toolgate_wire::{Json, Shape, notification};

use super::{
    hub::{Hub, Link},
    upstream::exchange_through,
};
use crate::outbox::Outbox;

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);
/// A server that ran this long starts from the first wait again.
const HEALTHY: Duration = Duration::from_mins(1);

/// How long to wait before the next start.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    started: Instant,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST, started: Instant::now() }
    }

    /// The server is started now.
    pub(super) fn started(&mut self) {
        self.started = Instant::now();
    }

    /// The server ended: how long to wait.
    pub(super) fn wait(&mut self) -> Duration {
        if self.started.elapsed() > HEALTHY {
            self.next = FIRST;
        }
        let wait = self.next;
        self.next = (self.next * 2).min(LONGEST);
        wait
    }
}

/// Says `initialize` to a new server on behalf of the client, which has done so already, and opens the
/// way to it.
pub(super) async fn resume(hub: &Arc<Hub>, outbox: &Arc<Outbox>) -> Result<(), Failure> {
    let (initialize, initialized) = {
        let facts = hub.client_facts();
        (facts.initialize.clone(), facts.initialized.clone())
    };
    let mut listens = false;
    if let (Some(initialize), Some(initialized)) = (initialize, initialized) {
        let id = hub.own_id();
        let line = initialize.with_id(&id);
        let never = CancellationToken::new();
        let exchange = exchange_through(hub, outbox, &never, id, line, false);
        let late = || hub.crashed("it did not answer initialize in time", toolgate::Ran::No);
        let answer =
            tokio::time::timeout(hub.start_timeout, exchange).await.map_err(|_| late())??;
        if answer.shape() == Shape::Error {
            return Err(hub.crashed("it refused initialize", toolgate::Ran::No));
        }
        outbox.push(initialized).await;
        let capability = |json: Json| json.get("tools")?.get("listChanged")?.bool();
        listens = answer.member("capabilities").and_then(capability) == Some(true);
    }
    hub.governance().tools.outdated();
    hub.set_link(Link::Up(Arc::clone(outbox)));
    if listens {
        hub.to_client.push(notification("notifications/tools/list_changed", None)).await;
    }
    Ok(())
}
