//! A namespace: its servers, its chain, the snapshot of what it offers, and the clients that it notifies.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use toolgate::{
    CallId, Principal, Session, Tool, ToolId, admission::Narrowing,
    middleware::overrides::ResolvedName,
};
use toolgate_wire::Limits;

use super::{live_tools::LiveTools, quarantine::Quarantine};
use crate::{
    active_chain::ActiveChain,
    catalog::{
        name_owners::NameOwners,
        names::{AddressGroup, Collision},
        snapshot::{ServerListing, Snapshot, SnapshotInputs},
    },
    clients::notifications::NotificationQueue,
    config::{ListingStyle, Prefix},
    records::store_records::SeenTools,
    upstream::{events::ListKind, server::Server},
    usage::{PrincipalInNamespace, Usage},
};

/// How long a list waits for servers whose listing is unknown.
const SERVER_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The active chain of a namespace with the state that depends on it.
#[derive(Debug)]
pub(crate) struct NamespaceChain {
    chain: Arc<ActiveChain>,
    /// The tools of an exclusive server, with the tiers that the chain's settings give them.
    pub(crate) live: Option<LiveTools>,
    /// Whether calls of tools that the server does not list are refused, because a setting selects tools by name.
    pub(super) refuses_unlisted: bool,
}

impl std::ops::Deref for NamespaceChain {
    type Target = ActiveChain;

    fn deref(&self) -> &ActiveChain {
        &self.chain
    }
}

impl NamespaceChain {
    fn new(chain: ActiveChain, live: Option<LiveTools>) -> Self {
        let refuses_unlisted = chain.settings.names_tools();
        Self { chain: Arc::new(chain), live, refuses_unlisted }
    }

    /// The successor of this state, with another chain.
    fn with(&self, chain: ActiveChain) -> Self {
        let live = self.live.as_ref().map(|live| live.with_settings(&chain.settings));
        let next = Self::new(chain, live);
        if let Some(live) = &next.live {
            next.settle_names(live);
            if next.quarantines() && !self.quarantines() {
                // List the tools again: without quarantine nothing recorded which of them are known.
                live.mark_outdated();
            }
        }
        next
    }

    /// Settles names on the wire against the tools of an exclusive server.
    pub(super) fn settle_names(&self, live: &LiveTools) {
        for collision in self.stack.overrides.learn(&live.ids()) {
            tracing::error!("{collision}");
        }
    }

    /// Whether every tool of an exclusive server has to be known before any is judged: a name may be that of a tool on a
    /// later page, and what is new depends on what was there at first.
    pub(super) fn needs_all_tools(&self) -> bool {
        self.quarantines() || self.stack.overrides.configured().renames() > 0
    }

    /// The exclusive server's own name of the tool that a name on the wire means; `None` where it means none any more.
    pub(super) fn own_name(&self, live: &LiveTools, name: &str) -> Option<String> {
        match self.stack.overrides.get().resolve(&live.server().name, name) {
            ResolvedName::Tool(own) => Some(own.to_owned()),
            ResolvedName::Gone => None,
        }
    }

    /// The tool that a name on the wire means to an exclusive server; `None` where it means none any more, or none that
    /// the server lists while some setting picks tools by name.
    pub(super) async fn live_tool(
        &self,
        namespace: &Namespace,
        live: &LiveTools,
        name: &str,
        cancel: &CancellationToken,
    ) -> Option<Arc<Tool>> {
        let mut own = self.own_name(live, name)?;
        let is_asking =
            self.refuses_unlisted || self.stack.chain.needs_tools() || self.needs_all_tools();
        if is_asking && live.must_ask(Some(&own)) {
            namespace.refresh_live(self, live, Some(&own), cancel).await;
            // A name may turn out to be another tool's own.
            own = self.own_name(live, name)?;
        }
        match live.listed(&own) {
            None if self.refuses_unlisted => None,
            listed => Some(listed.unwrap_or_else(|| live.unlisted(&own))),
        }
    }
}

/// One namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    pub(crate) style: ListingStyle,
    pub(crate) servers: Vec<Arc<Server>>,
    /// Whether callers are told apart, so that one's list is not another's.
    has_principals: bool,
    current: ArcSwap<NamespaceChain>,
    snapshot: ArcSwap<Snapshot>,
    /// Locked while a snapshot is built.
    names: Mutex<NameState>,
    generation: AtomicU64,
    listeners: Mutex<Vec<Weak<NotificationQueue>>>,
    usage: Arc<Usage>,
    members: RwLock<HashMap<Principal, Arc<PrincipalInNamespace>>>,
    pub(crate) narrowing: Narrowing,
    in_flight: Arc<AtomicUsize>,
    quarantine: Option<Arc<Quarantine>>,
}

/// The state of names that lasts from one snapshot to the next.
#[derive(Debug, Default)]
struct NameState {
    owners: NameOwners,
    /// Collisions that have been logged.
    logged: HashSet<Collision>,
}

/// The number of collisions to log, one line each.
const MAX_LOGGED_COLLISIONS: usize = 200;

/// What a namespace is built from.
#[derive(Debug)]
pub(crate) struct NamespaceParts {
    pub(crate) name: Arc<str>,
    pub(crate) style: ListingStyle,
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) chain: ActiveChain,
    /// Whether clients need tokens, so that there may be several principals.
    pub(crate) has_principals: bool,
    pub(crate) usage: Arc<Usage>,
    pub(crate) owners: NameOwners,
    /// The store of approved tools, if there is one.
    pub(crate) seen_tools: Option<SeenTools>,
}

impl Namespace {
    pub(crate) fn new(parts: NamespaceParts) -> Self {
        let NamespaceParts {
            name,
            style,
            servers,
            chain: current,
            has_principals,
            usage,
            owners,
            seen_tools,
        } = parts;
        let empty = SnapshotInputs {
            generation: 0,
            prefix: style.prefix,
            rules: &current.rules,
            overrides: &current.stack.overrides.get(),
            hints_are_private: true,
            owners: &owners,
        };
        let (snapshot, _) = Snapshot::new(Vec::new(), &empty);
        let quarantine = seen_tools.map(|seen_tools| {
            let servers = servers.iter().map(|server| Arc::clone(&server.name)).collect();
            let known = current.stack.parts().known.clone();
            Arc::new(Quarantine::new(Arc::clone(&name), servers, seen_tools, known))
        });
        let exclusive = servers.first().filter(|server| server.is_exclusive());
        let live = exclusive.map(|server| LiveTools::new(Arc::clone(server), &current.settings));
        let namespace = Self {
            name,
            style,
            servers,
            has_principals,
            current: ArcSwap::from_pointee(NamespaceChain::new(current, live)),
            snapshot: ArcSwap::from_pointee(snapshot),
            names: Mutex::new(NameState { owners, logged: HashSet::new() }),
            generation: AtomicU64::new(0),
            listeners: Mutex::default(),
            usage,
            members: RwLock::default(),
            narrowing: Narrowing::default(),
            in_flight: Arc::default(),
            quarantine,
        };
        namespace.rebuild();
        namespace
    }

    /// The chain for a call that starts now, with its state.
    pub(crate) fn current_chain(&self) -> Arc<NamespaceChain> {
        self.current.load_full()
    }

    /// The chain of a call that starts now.
    pub(super) fn active_chain(&self) -> Arc<ActiveChain> {
        Arc::clone(&self.current.load().chain)
    }

    /// The current snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// A collision that must stop the gateway from starting: two tools or prompts with the same name although the config
    /// forbids prefixes. With prefixes allowed, the snapshot leaves the later one out, so that one server's listing
    /// cannot keep the other servers from starting.
    pub(crate) fn collision(&self) -> Option<String> {
        let snapshot = self.snapshot();
        let found = snapshot.collisions.iter().find(|one| one.leaves_out());
        found.filter(|_| self.style.prefix == Prefix::Never).map(ToString::to_string)
    }

    /// Like `snapshot`, but first starts every server whose listing is unknown and waits up to `SERVER_LIST_TIMEOUT` for
    /// it. Afterwards all names have owners, and the store has the first lists for the quarantine.
    pub(crate) async fn settled(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        for server in snapshot.failed_unlisted() {
            server.retry_in_background();
        }
        if snapshot.is_incomplete() {
            self.wait_for_servers().await;
        }
        if self.snapshot().is_provisional {
            self.rebuild();
        }
        if let Some(quarantine) = self.quarantine() {
            quarantine.wait_recorded(&self.servers).await;
        }
        self.snapshot()
    }

    async fn wait_for_servers(&self) {
        let waiting: Vec<_> = self
            .servers
            .iter()
            .map(|server| {
                let server = Arc::clone(server);
                let control = server.deps.control.clone();
                control.spawn(async move { server.wait_for_manifest().await })
            })
            .collect();
        let all = async {
            for one in waiting {
                let _ = one.await;
            }
        };
        if tokio::time::timeout(SERVER_LIST_TIMEOUT, all).await.is_err() {
            // The gateway waits only once. When a server comes up later, clients are notified.
            self.servers.iter().for_each(Server::mark_late);
            self.rebuild();
        }
    }

    /// The current snapshot if it satisfies the condition, otherwise the settled one.
    pub(crate) async fn snapshot_with(
        &self,
        is_enough: impl Fn(&Snapshot) -> bool,
    ) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        let is_recorded = self.quarantine.as_ref().is_none_or(|q| q.is_recorded());
        if is_recorded && !snapshot.is_provisional && is_enough(&snapshot) {
            return snapshot;
        }
        self.settled().await
    }

    /// The quarantine, if the active settings quarantine new tools.
    fn quarantine(&self) -> Option<&Arc<Quarantine>> {
        self.quarantine.as_ref().filter(|_| self.current_chain().quarantines())
    }

    /// The exclusive server of this namespace, if it has one.
    pub(crate) fn exclusive(&self) -> Option<&Arc<Server>> {
        self.servers.first().filter(|server| server.is_exclusive())
    }

    /// Lists the tools of an exclusive server, and updates what depends on them: names on the wire, and which tools are
    /// new.
    pub(super) async fn refresh_live(
        &self,
        current: &NamespaceChain,
        live: &LiveTools,
        name: Option<&str>,
        cancel: &CancellationToken,
    ) {
        if !live.refresh(name, cancel).await {
            return;
        }
        current.settle_names(live);
        if let Some(quarantine) = self.quarantine() {
            quarantine.note_first_list(&live.server().name, || live.ids());
            quarantine.wait_recorded(&self.servers).await;
            if !quarantine.is_recorded() {
                // Retry with the next request; until then the quarantine hides all tools.
                live.mark_outdated();
            }
        }
    }

    /// Replaces the chain for all calls that start from now on.
    pub(crate) fn set_chain(&self, chain: ActiveChain) {
        let next = self.current_chain().with(chain);
        if next.live.is_some() {
            self.current.store(Arc::new(next));
            return self.notify(|queue| queue.changed(ListKind::Tools));
        }
        {
            let _names = self.names.lock();
            self.current.store(Arc::new(next));
            // A client may see other entries now even if the list itself is the same.
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.rebuild();
        for kind in ListKind::ALL {
            self.notify(|queue| queue.changed(kind));
        }
    }

    /// Builds a new snapshot from the current listings of the servers.
    pub(crate) fn rebuild(&self) {
        if self.exclusive().is_some() {
            // The lists of an exclusive server pass through unchanged.
            return;
        }
        let mut names = self.names.lock();
        let current = self.current_chain();
        let offered: Vec<ServerListing> = self
            .servers
            .iter()
            .map(|server| ServerListing { server: Arc::clone(server), manifest: server.manifest() })
            .collect();
        let given = current.stack.overrides.learn(&listed(&offered));
        for collision in given.iter().filter(|_| !names.owners.is_only_read()) {
            tracing::error!("{collision}");
        }
        let (old, generation) = (self.snapshot(), self.generation.load(Ordering::Relaxed));
        let inputs = SnapshotInputs {
            generation: generation + 1,
            prefix: self.style.prefix,
            rules: &current.rules,
            overrides: &current.stack.overrides.get(),
            hints_are_private: self.has_principals,
            owners: &names.owners,
        };
        let (mut snapshot, claims) = Snapshot::new(offered, &inputs);
        if old.generation == generation && lists_the_same(&old, &snapshot) {
            // Servers often announce changes without changing anything. Cursors of the same list stay valid.
            snapshot.generation = generation;
        }
        self.generation.store(snapshot.generation, Ordering::Relaxed);
        if !snapshot.is_provisional {
            // Record the owners before a call can use the names.
            let servers = self.servers.iter().map(|server| &*server.name).collect();
            names.owners.record(claims, &servers);
            if !names.owners.is_only_read() {
                self.log(&snapshot.collisions, &mut names.logged);
            }
        }
        if current.quarantines()
            && let Some(quarantine) = &self.quarantine
        {
            self.note_first_lists(quarantine, &snapshot);
        }
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Logs each collision once. Two servers that list the same URIs often share many, so one line covers all of them.
    fn log(&self, collisions: &[Collision], logged: &mut HashSet<Collision>) {
        for group in AddressGroup::of(collisions) {
            let is_told = logged.iter().any(|told| group.has(told));
            if !is_told && let Some(first) = group.left_out.first() {
                logged.insert((*first).clone());
                let namespace = &self.name;
                tracing::warn!("in namespace `{namespace}`: {group}; `toolgate status` lists them");
            }
        }
        for collision in collisions.iter().filter(|collision| !collision.is_address) {
            if logged.len() >= MAX_LOGGED_COLLISIONS || !logged.insert(collision.clone()) {
                continue;
            }
            if collision.instead.is_some() {
                tracing::info!("in namespace `{}`: {collision}", self.name);
            } else {
                tracing::error!("in namespace `{}`: {collision}", self.name);
            }
            if logged.len() == MAX_LOGGED_COLLISIONS {
                tracing::error!("in namespace `{}`: further collisions are not logged", self.name);
            }
        }
    }

    /// Hands the first list of each server to the quarantine, and notifies clients once the store has recorded it.
    fn note_first_lists(&self, quarantine: &Arc<Quarantine>, snapshot: &Snapshot) {
        for offered in snapshot.offered.iter().filter(|offered| offered.manifest.is_some()) {
            quarantine
                .note_first_list(&offered.server.name, || listed(std::slice::from_ref(offered)));
        }
        let Some(server) = self.servers.first().filter(|_| !quarantine.is_recorded()) else {
            return;
        };
        let listeners: Vec<Weak<NotificationQueue>> = self.listeners.lock().clone();
        let quarantine = Arc::clone(quarantine);
        server.deps.control.spawn(async move {
            if quarantine.record().await {
                let listening = listeners.iter().filter_map(Weak::upgrade);
                listening.for_each(|queue| queue.changed(ListKind::Tools));
            }
        });
    }

    /// A server failed to start: rebuilds the snapshot, so that requests no longer wait for the server.
    pub(crate) fn server_failed(&self, server: &Server) {
        if self.has(server) && server.manifest().is_none() {
            self.rebuild();
        }
    }

    /// Registers a queue for the notifications of this namespace.
    pub(crate) fn add_listener(&self, queue: &Arc<NotificationQueue>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|queue| queue.strong_count() > 0);
        listeners.push(Arc::downgrade(queue));
    }

    /// Calls `notify` for each registered queue that is still open.
    pub(crate) fn notify(&self, notify: impl Fn(&NotificationQueue)) {
        let listeners = self.listeners.lock();
        listeners.iter().filter_map(Weak::upgrade).for_each(|queue| notify(&queue));
    }

    /// Whether the namespace has several principals (tokens are configured).
    pub(crate) fn has_principals(&self) -> bool {
        self.has_principals
    }

    /// Whether task ids must contain their principal and server, because there may be several.
    pub(crate) fn tells_tasks_apart(&self) -> bool {
        self.has_principals || self.servers.len() > 1
    }

    /// Whether a server belongs to this namespace.
    pub(crate) fn has(&self, server: &Server) -> bool {
        self.servers.iter().any(|own| own.name == server.name)
    }

    /// The state of a principal in this namespace.
    pub(crate) fn principal(&self, principal: &Principal) -> Arc<PrincipalInNamespace> {
        let known = self.members.read();
        if let Some(entry) = known.get(principal) {
            return Arc::clone(entry);
        }
        drop(known);
        let mut known = self.members.write();
        let entry = known.entry(principal.clone()).or_insert_with(|| {
            let session = Session {
                id: CallId::next().to_string().into(),
                namespace: Arc::clone(&self.name),
                principal: principal.clone(),
            };
            let account = self.usage.account(principal);
            Arc::new(PrincipalInNamespace::new(
                session.into(),
                account,
                Arc::clone(&self.in_flight),
            ))
        });
        Arc::clone(entry)
    }

    /// The limits for messages of clients.
    pub(crate) fn message_limits(&self) -> Limits {
        let max_bytes = self.current.load().settings.limits.message_bytes;
        Limits { max_bytes, ..Limits::default() }
    }

    /// How many requests may be in flight in this namespace.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.current.load().settings.limits.in_flight
    }
}

/// Whether both snapshots list the same entries in the same order.
fn lists_the_same(one: &Snapshot, two: &Snapshot) -> bool {
    let same = |(one, two): (&Arc<Tool>, &Arc<Tool>)| {
        one.id() == two.id() && one.definition() == two.definition()
    };
    let (ours, theirs) = (&one.lists, &two.lists);
    one.tools.len() == two.tools.len()
        && one.tools.iter().zip(&two.tools).all(same)
        && ours.prompts == theirs.prompts
        && ours.resources == theirs.resources
        && ours.templates == theirs.templates
}

fn listed(offered: &[ServerListing]) -> Vec<ToolId> {
    let mut listed = Vec::new();
    for ServerListing { server, manifest } in offered {
        let tools = manifest.iter().flat_map(|manifest| manifest.tools.entries.iter());
        listed.extend(tools.filter_map(|tool| {
            let name = tool.get("name")?;
            Some(ToolId::new(Arc::clone(&server.name), name.text()?.as_ref()))
        }));
    }
    listed
}
