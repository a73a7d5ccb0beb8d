//! Asking servers for their lists again: after `cache_ttl`, and when the operator says so. Clients never wait for it: what
//! they list is what was learnt last, and they are notified if that changes.

use std::{sync::Arc, time::Duration};

use super::{Gateway, running_gateway::RunningGateway};
use crate::upstream::server::Server;

/// A server that each session starts for itself is asked again at the earliest after this long, if its list failed.
const RETRY: Duration = Duration::from_secs(30);

impl Gateway {
    /// Asks every server for its lists again.
    pub(super) fn refresh(&self) {
        self.servers().iter().for_each(Server::refresh);
        for namespace in self.namespaces() {
            if let Some(live) = &namespace.charter().live {
                live.outdated();
            }
        }
    }

    /// How long the lists of a server hold: the shortest `cache_ttl` of its namespaces.
    fn cache_ttl(&self, server: &Server) -> Option<Duration> {
        let namespaces = self.namespaces().filter(|namespace| namespace.has(server));
        namespaces.filter_map(|namespace| namespace.charter().settings.cache_ttl.get()).min()
    }

    /// Asks the servers whose lists have been kept long enough, and tells how long the others' hold.
    fn refresh_expired(&self) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        for server in self.servers() {
            // Starting a process for nobody is left to those who list.
            let ttl = self.cache_ttl(server).filter(|_| !server.is_private());
            let Some(ttl) = ttl else { continue };
            let age = server.asked().map_or(Duration::ZERO, |asked| asked.elapsed());
            if age >= ttl {
                server.refresh();
            }
            let left = Some(ttl.saturating_sub(age)).filter(|left| !left.is_zero()).unwrap_or(ttl);
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        next
    }

    /// Somebody lists: a server that each session starts for itself is asked again if its lists have expired or failed.
    pub(super) fn refresh_private(&self, servers: &[Arc<Server>]) {
        for server in servers.iter().filter(|server| server.is_private()) {
            let failed =
                server.manifest().is_some_and(|manifest| manifest.failures().next().is_some());
            let age = self.cache_ttl(server).into_iter().chain(failed.then_some(RETRY)).min();
            if let Some(age) = age {
                server.refresh_after(age);
            }
        }
    }
}

impl RunningGateway {
    /// Keeps lists as young as `cache_ttl` says.
    pub(super) fn keep_fresh(&self) {
        let gateway = Arc::downgrade(&self.gateway);
        let stopping = self.gateway.stopping.clone();
        tokio::spawn(async move {
            // Settings that change are noticed this soon.
            const LOOK: Duration = Duration::from_secs(10);
            loop {
                let Some(next) = gateway.upgrade().map(|gateway| gateway.refresh_expired()) else {
                    return;
                };
                let pause = next.map_or(LOOK, |next| next.min(LOOK));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stopping.cancelled() => return,
                }
            }
        });
    }
}
