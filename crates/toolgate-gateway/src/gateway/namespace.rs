//! A namespace: some servers, one chain, and what clients of it see and hear.

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
    CallId, Principal, Session, Tool, ToolId, admission::Narrowing, middleware::overrides::Resolved,
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
    usage::{Member, Usage},
};

/// The first list of a namespace waits for servers that nobody knows yet, so long at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// The chain of a namespace, with what belongs to it.
#[derive(Debug)]
pub(crate) struct NamespaceChain {
    chain: Arc<ActiveChain>,
    /// The tools of an exclusive server, as the chain's settings judge them.
    pub(crate) live: Option<LiveTools>,
    /// Whether a name that an exclusive server does not list is refused: some setting picks tools by name.
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

    /// The same with another chain.
    fn with(&self, chain: ActiveChain) -> Self {
        let live = self.live.as_ref().map(|live| live.judged_by(&chain.settings));
        let next = Self::new(chain, live);
        if let Some(live) = &next.live {
            next.settle_names(live);
            if next.quarantines() && !self.quarantines() {
                // Which of the tools are known was of no interest before.
                live.outdated();
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
            Resolved::Tool(own) => Some(own.to_owned()),
            Resolved::Gone => None,
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
    charter: ArcSwap<NamespaceChain>,
    snapshot: ArcSwap<Snapshot>,
    /// Held while a snapshot is made.
    names: Mutex<NameState>,
    generation: AtomicU64,
    outlets: Mutex<Vec<Weak<NotificationQueue>>>,
    usage: Arc<Usage>,
    members: RwLock<HashMap<Principal, Arc<Member>>>,
    pub(crate) narrowing: Narrowing,
    in_flight: Arc<AtomicUsize>,
    quarantine: Option<Arc<Quarantine>>,
}

/// What decides about names, from one snapshot to the next.
#[derive(Debug, Default)]
struct NameState {
    owners: NameOwners,
    /// Collisions that the log has.
    logged: HashSet<Collision>,
}

/// So many collisions are logged, one line each.
const MOST_LOGGED: usize = 200;

impl Namespace {
    pub(crate) fn new(
        name: Arc<str>,
        style: ListingStyle,
        servers: Vec<Arc<Server>>,
        charter: ActiveChain,
        has_principals: bool,
        usage: Arc<Usage>,
        (owners, acquaintances): (NameOwners, Option<SeenTools>),
    ) -> Self {
        let empty = SnapshotInputs {
            generation: 0,
            prefix: style.prefix,
            rules: &charter.rules,
            overrides: &charter.stack.overrides.get(),
            hints_are_private: true,
            owners: &owners,
        };
        let (snapshot, _) = Snapshot::new(Vec::new(), &empty);
        let quarantine = acquaintances.map(|acquaintances| {
            let servers = servers.iter().map(|server| Arc::clone(&server.name)).collect();
            let known = charter.stack.parts().known.clone();
            Arc::new(Quarantine::new(Arc::clone(&name), servers, acquaintances, known))
        });
        let exclusive = servers.first().filter(|server| server.is_exclusive());
        let live = exclusive.map(|server| LiveTools::new(Arc::clone(server), &charter.settings));
        let namespace = Self {
            name,
            style,
            servers,
            has_principals,
            charter: ArcSwap::from_pointee(NamespaceChain::new(charter, live)),
            snapshot: ArcSwap::from_pointee(snapshot),
            names: Mutex::new(NameState { owners, logged: HashSet::new() }),
            generation: AtomicU64::new(0),
            outlets: Mutex::default(),
            usage,
            members: RwLock::default(),
            narrowing: Narrowing::default(),
            in_flight: Arc::default(),
            quarantine,
        };
        namespace.rebuild();
        namespace
    }

    /// What governs a call that starts now.
    pub(crate) fn charter(&self) -> Arc<NamespaceChain> {
        self.charter.load_full()
    }

    /// The chain of a call that starts now.
    pub(super) fn active_chain(&self) -> Arc<ActiveChain> {
        Arc::clone(&self.charter.load().chain)
    }

    /// What is offered now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Names that collide where no prefix may tell them apart. Elsewhere the later one is left out, as it is while
    /// running: what a server lists must not keep the others from starting.
    pub(crate) fn collision(&self) -> Option<String> {
        let snapshot = self.snapshot();
        let found = snapshot.collisions.iter().find(|one| one.leaves_out());
        found.filter(|_| self.style.prefix == Prefix::Never).map(ToString::to_string)
    }

    /// The same, once it is known what servers offer that have not answered yet: they are started for that, and given
    /// some time. Names then have their owners, and what is quarantined is recorded.
    pub(crate) async fn settled(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        for server in snapshot.forgotten() {
            server.try_again();
        }
        if snapshot.is_incomplete() {
            self.wait_for_servers().await;
        }
        if self.snapshot().is_provisional {
            self.rebuild();
        }
        if let Some(quarantine) = self.quarantine() {
            quarantine.recorded(&self.servers).await;
        }
        self.snapshot()
    }

    async fn wait_for_servers(&self) {
        let waiting: Vec<_> = self
            .servers
            .iter()
            .map(|server| {
                let server = Arc::clone(server);
                let control = server.surroundings.control.clone();
                control.spawn(async move { server.settled().await })
            })
            .collect();
        let all = async {
            for one in waiting {
                let _ = one.await;
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            // The gateway waits for them once; clients are notified when one comes up later.
            self.servers.iter().for_each(Server::is_late);
            self.rebuild();
        }
    }

    /// What is offered now, if that is enough; else once everything is known.
    pub(crate) async fn knowing(&self, is_enough: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        let is_recorded = self.quarantine.as_ref().is_none_or(|q| q.is_recorded());
        if is_recorded && !snapshot.is_provisional && is_enough(&snapshot) {
            return snapshot;
        }
        self.settled().await
    }

    /// The quarantine, if new tools are quarantined now.
    fn quarantine(&self) -> Option<&Arc<Quarantine>> {
        self.quarantine.as_ref().filter(|_| self.charter().quarantines())
    }

    /// The server that the one client of this namespace has to itself.
    pub(crate) fn exclusive(&self) -> Option<&Arc<Server>> {
        self.servers.first().filter(|server| server.is_exclusive())
    }

    /// Asks an exclusive server for its tools, and settles what depends on which there are: names on the wire, and which
    /// tools are new.
    pub(super) async fn refresh_live(
        &self,
        charter: &NamespaceChain,
        live: &LiveTools,
        name: Option<&str>,
        cancel: &CancellationToken,
    ) {
        if !live.refresh(name, cancel).await {
            return;
        }
        charter.settle_names(live);
        if let Some(quarantine) = self.quarantine() {
            quarantine.meet(&live.server().name, || live.ids());
            quarantine.recorded(&self.servers).await;
            if !quarantine.is_recorded() {
                // Until then all of them are kept away.
                live.outdated();
            }
        }
    }

    /// From here on calls are governed by this.
    pub(crate) fn govern_by(&self, chain: ActiveChain) {
        let next = self.charter().with(chain);
        if next.live.is_some() {
            self.charter.store(Arc::new(next));
            return self.tell(|outlet| outlet.changed(ListKind::Tools));
        }
        {
            let _names = self.names.lock();
            self.charter.store(Arc::new(next));
            // Who sees what may be another thing now, also where the list is the same.
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.rebuild();
        for kind in ListKind::ALL {
            self.tell(|outlet| outlet.changed(kind));
        }
    }

    /// Puts together anew what is offered.
    pub(crate) fn rebuild(&self) {
        if self.exclusive().is_some() {
            // Its lists are its own, and pass as they are.
            return;
        }
        let mut names = self.names.lock();
        let charter = self.charter();
        let offered: Vec<ServerListing> = self
            .servers
            .iter()
            .map(|server| ServerListing { server: Arc::clone(server), manifest: server.manifest() })
            .collect();
        let given = charter.stack.overrides.learn(&listed(&offered));
        for collision in given.iter().filter(|_| !names.owners.is_only_read()) {
            tracing::error!("{collision}");
        }
        let (old, generation) = (self.snapshot(), self.generation.load(Ordering::Relaxed));
        let making = SnapshotInputs {
            generation: generation + 1,
            prefix: self.style.prefix,
            rules: &charter.rules,
            overrides: &charter.stack.overrides.get(),
            hints_are_private: self.has_principals,
            owners: &names.owners,
        };
        let (mut snapshot, claims) = Snapshot::new(offered, &making);
        if old.generation == generation && lists_the_same(&old, &snapshot) {
            // Servers like to say that something changed: whoever turns pages is not disturbed by that.
            snapshot.generation = generation;
        }
        self.generation.store(snapshot.generation, Ordering::Relaxed);
        if !snapshot.is_provisional {
            // Before anything is called by them.
            let servers = self.servers.iter().map(|server| &*server.name).collect();
            names.owners.record(claims, &servers);
            if !names.owners.is_only_read() {
                self.log(&snapshot.collisions, &mut names.logged);
            }
        }
        if charter.quarantines()
            && let Some(quarantine) = &self.quarantine
        {
            self.meet(quarantine, &snapshot);
        }
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Logs what did not get the name that it would have alone, once. Two servers that have the same addresses often have
    /// many: one line tells of all of them.
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
            if logged.len() >= MOST_LOGGED || !logged.insert(collision.clone()) {
                continue;
            }
            if collision.instead.is_some() {
                tracing::info!("in namespace `{}`: {collision}", self.name);
            } else {
                tracing::error!("in namespace `{}`: {collision}", self.name);
            }
            if logged.len() == MOST_LOGGED {
                tracing::error!("in namespace `{}`: further collisions are not logged", self.name);
            }
        }
    }

    /// The first list of each server is approved; clients are notified once that is recorded.
    fn meet(&self, quarantine: &Arc<Quarantine>, snapshot: &Snapshot) {
        for offered in snapshot.offered.iter().filter(|offered| offered.manifest.is_some()) {
            quarantine.meet(&offered.server.name, || listed(std::slice::from_ref(offered)));
        }
        let Some(server) = self.servers.first().filter(|_| !quarantine.is_recorded()) else {
            return;
        };
        let outlets: Vec<Weak<NotificationQueue>> = self.outlets.lock().clone();
        let quarantine = Arc::clone(quarantine);
        server.surroundings.control.spawn(async move {
            if quarantine.record().await {
                let listening = outlets.iter().filter_map(Weak::upgrade);
                listening.for_each(|outlet| outlet.changed(ListKind::Tools));
            }
        });
    }

    /// A server is known to be away: what waited for it need not wait any more.
    pub(crate) fn without(&self, server: &Server) {
        if self.has(server) && server.manifest().is_none() {
            self.rebuild();
        }
    }

    /// Somebody wants to hear what happens here.
    pub(crate) fn listen(&self, outlet: &Arc<NotificationQueue>) {
        let mut outlets = self.outlets.lock();
        outlets.retain(|outlet| outlet.strong_count() > 0);
        outlets.push(Arc::downgrade(outlet));
    }

    /// Tells everybody who listens.
    pub(crate) fn tell(&self, tell: impl Fn(&NotificationQueue)) {
        let outlets = self.outlets.lock();
        outlets.iter().filter_map(Weak::upgrade).for_each(|outlet| tell(&outlet));
    }

    /// Whether callers are told apart.
    pub(crate) fn has_principals(&self) -> bool {
        self.has_principals
    }

    /// Whether names of tasks say whose they are, and at which server.
    pub(crate) fn tells_tasks_apart(&self) -> bool {
        self.has_principals || self.servers.len() > 1
    }

    /// Whether a server is one of this namespace.
    pub(crate) fn has(&self, server: &Server) -> bool {
        self.servers.iter().any(|own| own.name == server.name)
    }

    /// A principal in this namespace.
    pub(crate) fn member(&self, principal: &Principal) -> Arc<Member> {
        let known = self.members.read();
        if let Some(member) = known.get(principal) {
            return Arc::clone(member);
        }
        drop(known);
        let mut known = self.members.write();
        let member = known.entry(principal.clone()).or_insert_with(|| {
            let session = Session {
                id: CallId::next().to_string().into(),
                namespace: Arc::clone(&self.name),
                principal: principal.clone(),
            };
            let account = self.usage.account(principal);
            Arc::new(Member::new(session.into(), account, Arc::clone(&self.in_flight)))
        });
        Arc::clone(member)
    }

    /// How many requests may be in flight here.
    /// What one message of a client may be.
    pub(crate) fn message_limits(&self) -> Limits {
        let max_bytes = self.charter.load().settings.limits.message_bytes;
        Limits { max_bytes, ..Limits::default() }
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.charter.load().settings.limits.in_flight
    }
}

/// Whether both have the same entries in the same order.
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
