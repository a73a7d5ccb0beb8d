//! A namespace: some servers, one chain, and what clients of it see and hear.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use toolgate::{
    CallId, Context, Control, Principal, Session, TierRules, Tool, ToolId,
    middleware::filter::NewTools,
    settings::Settings,
    stack::{Stack, StackError},
};

use super::quarantine::Quarantine;
use crate::wrap::governance::RuleFiles;
use crate::{
    catalog::{
        Prefix,
        names::Collision,
        owners::Owners,
        snapshot::{Making, Offered, Snapshot},
    },
    narrowed::Narrowed,
    outbound::{events::Kind, server::Server},
    sessions::{
        outlet::Outlet,
        usage::{Member, Usage},
    },
    wrap::memory::Acquaintances,
};

/// The first list of a namespace waits for servers that nobody knows yet, so long at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// What governs calls at one moment.
#[derive(Debug)]
pub(crate) struct Charter {
    pub(crate) stack: Stack,
    pub(crate) settings: Settings,
    /// What stood in the files that decide besides the settings.
    pub(crate) files: RuleFiles,
    rules: TierRules,
}

impl Charter {
    pub(crate) fn new(stack: Stack, settings: Settings) -> Self {
        let rules = settings.tier_rules();
        let files = settings.rule_files();
        Self { stack, settings, files, rules }
    }

    /// The next one, by new settings.
    pub(crate) fn successor(&self, settings: Settings) -> Result<Self, StackError> {
        let stack = self.stack.successor(&self.settings, &settings)?;
        Ok(Self::new(stack, settings))
    }

    fn quarantines(&self) -> bool {
        self.settings.new_tools == NewTools::Quarantine
    }
}

/// How a namespace names and pages what it offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) prefix: Prefix,
    pub(crate) page_size: usize,
}

/// One namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    pub(crate) style: Style,
    pub(crate) servers: Vec<Arc<Server>>,
    /// Whether callers are told apart, so that one's list is not another's.
    has_principals: bool,
    charter: ArcSwap<Charter>,
    snapshot: ArcSwap<Snapshot>,
    /// Held while a snapshot is made.
    names: Mutex<NameState>,
    generation: AtomicU64,
    outlets: Mutex<Vec<Weak<Outlet>>>,
    usage: Arc<Usage>,
    members: RwLock<HashMap<Principal, Arc<Member>>>,
    narrowed: Mutex<Narrowed>,
    in_flight: Arc<AtomicUsize>,
    quarantine: Option<Arc<Quarantine>>,
}

/// What decides about names, from one snapshot to the next.
#[derive(Debug, Default)]
struct NameState {
    owners: Owners,
    /// Collisions that the log has.
    logged: HashSet<Collision>,
}

/// So many collisions are logged, one line each.
const MOST_LOGGED: usize = 200;

impl Namespace {
    pub(crate) fn new(
        name: Arc<str>,
        style: Style,
        servers: Vec<Arc<Server>>,
        charter: Charter,
        has_principals: bool,
        usage: Arc<Usage>,
        (owners, acquaintances): (Owners, Option<Acquaintances>),
    ) -> Self {
        let empty = Making {
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
        let namespace = Self {
            name,
            style,
            servers,
            has_principals,
            charter: ArcSwap::from_pointee(charter),
            snapshot: ArcSwap::from_pointee(snapshot),
            names: Mutex::new(NameState { owners, logged: HashSet::new() }),
            generation: AtomicU64::new(0),
            outlets: Mutex::default(),
            usage,
            members: RwLock::default(),
            narrowed: Mutex::default(),
            in_flight: Arc::default(),
            quarantine,
        };
        namespace.rebuild();
        namespace
    }

    /// What governs a call that starts now.
    pub(crate) fn charter(&self) -> Arc<Charter> {
        self.charter.load_full()
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
            self.servers.iter().for_each(|server| server.is_late());
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

    /// From here on calls are governed by this.
    pub(crate) fn govern_by(&self, charter: Charter) {
        {
            let _names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            self.charter.store(Arc::new(charter));
            // Who sees what may be another thing now, also where the list is the same.
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.rebuild();
        for kind in Kind::ALL {
            self.tell(|outlet| outlet.changed(kind));
        }
    }

    /// Puts together anew what is offered.
    pub(crate) fn rebuild(&self) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let charter = self.charter();
        let offered: Vec<Offered> = self
            .servers
            .iter()
            .map(|server| Offered { server: Arc::clone(server), manifest: server.manifest() })
            .collect();
        for collision in charter.stack.overrides.learn(&listed(&offered)) {
            tracing::error!("{collision}");
        }
        let (old, generation) = (self.snapshot(), self.generation.load(Ordering::Relaxed));
        let making = Making {
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
            self.log(&snapshot.collisions, &mut names.logged);
        }
        if charter.quarantines()
            && let Some(quarantine) = &self.quarantine
        {
            self.meet(quarantine, &snapshot);
        }
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Logs what did not get the name that it would have alone, once.
    fn log(&self, collisions: &[Collision], logged: &mut HashSet<Collision>) {
        for collision in collisions {
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
        let outlets: Vec<Weak<Outlet>> =
            self.outlets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let quarantine = Arc::clone(quarantine);
        server.surroundings.control.spawn(async move {
            if quarantine.record().await {
                let listening = outlets.iter().filter_map(Weak::upgrade);
                listening.for_each(|outlet| outlet.changed(Kind::Tools));
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
    pub(crate) fn listen(&self, outlet: &Arc<Outlet>) {
        let mut outlets = self.outlets.lock().unwrap_or_else(PoisonError::into_inner);
        outlets.retain(|outlet| outlet.strong_count() > 0);
        outlets.push(Arc::downgrade(outlet));
    }

    /// Tells everybody who listens.
    pub(crate) fn tell(&self, tell: impl Fn(&Outlet)) {
        let outlets = self.outlets.lock().unwrap_or_else(PoisonError::into_inner);
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
        let known = self.members.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(member) = known.get(principal) {
            return Arc::clone(member);
        }
        drop(known);
        let mut known = self.members.write().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) fn most_in_flight(&self) -> usize {
        self.charter.load().settings.limits.in_flight
    }

    /// The narrowing that a call inherits from the one that it is part of, and hands on.
    pub(crate) fn inherit(&self, cx: Context, control: Control) -> Context {
        self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).inherit(cx, control)
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

fn listed(offered: &[Offered]) -> Vec<ToolId> {
    let mut listed = Vec::new();
    for Offered { server, manifest } in offered {
        let tools = manifest.iter().flat_map(|manifest| manifest.tools.entries.iter());
        listed.extend(tools.filter_map(|tool| {
            let name = tool.get("name")?;
            Some(ToolId::new(Arc::clone(&server.name), name.text()?.as_ref()))
        }));
    }
    listed
}
