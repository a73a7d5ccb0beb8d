//! Refreshes the servers' lists: after `cache_ttl`, and when the operator reloads. Clients never wait for a refresh: they
//! get the last known lists, and a notification if a list changes.

use std::{sync::Arc, time::Duration};

use super::{Gateway, running_gateway::RunningGateway};
use crate::upstream::server::Server;

/// The minimum time before a failed list of a private server (one process per session) is requested again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

impl Gateway {
    /// Refreshes the lists of all servers.
    pub(super) fn refresh(&self) {
        self.servers().iter().for_each(Server::refresh);
        for namespace in self.namespaces() {
            if let Some(live) = &namespace.current_chain().live {
                live.mark_outdated();
            }
        }
    }

    /// How long the lists of a server stay valid: the shortest `cache_ttl` of its namespaces.
    fn cache_ttl(&self, server: &Server) -> Option<Duration> {
        let namespaces = self.namespaces().filter(|namespace| namespace.has(server));
        namespaces.filter_map(|namespace| namespace.current_chain().settings.cache_ttl.get()).min()
    }

    /// Refreshes the lists that have expired. Returns the time until the next one expires.
    fn refresh_expired(&self) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for server in self.servers() {
            // A private server is refreshed when a client lists: no process is started without a client.
            let ttl = self.cache_ttl(server).filter(|_| !server.is_per_session());
            let Some(ttl) = ttl else { continue };
            let age = server.last_listed().map_or(Duration::ZERO, |listed| listed.elapsed());
            if age >= ttl {
                server.refresh();
            }
            let left = Some(ttl.saturating_sub(age)).filter(|left| !left.is_zero()).unwrap_or(ttl);
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    }

    /// Called when a client lists: refreshes the private servers whose lists have expired or failed.
    pub(super) fn refresh_private(&self, servers: &[Arc<Server>]) {
        for server in servers.iter().filter(|server| server.is_per_session()) {
            let failed =
                server.manifest().is_some_and(|manifest| manifest.failures().next().is_some());
            let retry = failed.then_some(RETRY_INTERVAL);
            let age = self.cache_ttl(server).into_iter().chain(retry).min();
            if let Some(age) = age {
                server.refresh_after(age);
            }
        }
    }
}

impl RunningGateway {
    /// Starts the task that refreshes lists when their `cache_ttl` has passed.
    pub(super) fn keep_fresh(&self) {
        let gateway = Arc::downgrade(&self.gateway);
        let stopping = self.gateway.stopping.clone();
        tokio::spawn(async move {
            // The maximum pause, so that a changed `cache_ttl` takes effect soon.
            const MAX_PAUSE: Duration = Duration::from_secs(10);
            loop {
                let Some(next) = gateway.upgrade().map(|gateway| gateway.refresh_expired()) else {
                    return;
                };
                let pause = next.map_or(MAX_PAUSE, |next| next.min(MAX_PAUSE));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stopping.cancelled() => return,
                }
            }
        });
    }
}
