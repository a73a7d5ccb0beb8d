//! A namespace: some servers, one chain, and what clients of it see and hear.

use std::{
    collections::HashMap,
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

use crate::wrap::governance::RuleFiles;
use crate::{
    catalog::{
        Prefix,
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
    making: Mutex<()>,
    generation: AtomicU64,
    outlets: Mutex<Vec<Weak<Outlet>>>,
    usage: Arc<Usage>,
    members: RwLock<HashMap<Principal, Arc<Member>>>,
    narrowed: Mutex<Narrowed>,
    in_flight: Arc<AtomicUsize>,
    acquaintances: Option<Acquaintances>,
}

impl Namespace {
    pub(crate) fn new(
        name: Arc<str>,
        style: Style,
        servers: Vec<Arc<Server>>,
        charter: Charter,
        has_principals: bool,
        usage: Arc<Usage>,
        acquaintances: Option<Acquaintances>,
    ) -> Self {
        let empty = Making {
            generation: 0,
            prefix: style.prefix,
            rules: &charter.rules,
            overrides: &charter.stack.overrides.get(),
            hints_are_private: true,
        };
        let snapshot = Snapshot::new(Vec::new(), &empty);
        let namespace = Self {
            name,
            style,
            servers,
            has_principals,
            charter: ArcSwap::from_pointee(charter),
            snapshot: ArcSwap::from_pointee(snapshot),
            making: Mutex::default(),
            generation: AtomicU64::new(0),
            outlets: Mutex::default(),
            usage,
            members: RwLock::default(),
            narrowed: Mutex::default(),
            in_flight: Arc::default(),
            acquaintances,
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
        let found = snapshot.collisions.iter().find(|one| one.first != one.second);
        found.filter(|_| self.style.prefix == Prefix::Never).map(ToString::to_string)
    }

    /// The same, once it is known what servers offer that nobody knows yet: they are started for that, and given
    /// some time.
    pub(crate) async fn settled(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        for server in snapshot.forgotten() {
            server.try_again();
        }
        if !snapshot.is_incomplete() {
            return snapshot;
        }
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
            // They are waited for once: whoever comes up later is told of.
            self.servers.iter().for_each(|server| server.is_late());
            self.meet(&self.charter());
        }
        self.snapshot()
    }

    /// What is offered now, if that is enough; else once everything is known.
    pub(crate) async fn knowing(&self, is_enough: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let snapshot = self.snapshot();
        if is_enough(&snapshot) { snapshot } else { self.settled().await }
    }

    /// From here on calls are governed by this.
    pub(crate) fn govern_by(&self, charter: Charter) {
        {
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
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
        let making_now = self.making.lock().unwrap_or_else(PoisonError::into_inner);
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
        };
        let mut snapshot = Snapshot::new(offered, &making);
        if old.generation == generation && lists_the_same(&old, &snapshot) {
            // Servers like to say that something changed: whoever turns pages is not disturbed by that.
            snapshot.generation = generation;
        }
        self.generation.store(snapshot.generation, Ordering::Relaxed);
        for collision in snapshot.collisions.iter().filter(|one| !old.collisions.contains(one)) {
            tracing::error!("in namespace `{}`: {collision}", self.name);
        }
        self.snapshot.store(Arc::new(snapshot));
        drop(making_now);
        self.meet(&charter);
    }

    /// New tools are kept away until somebody has looked at them.
    fn meet(&self, charter: &Arc<Charter>) {
        let Some(acquaintances) = self.acquaintances.clone().filter(|_| charter.quarantines())
        else {
            return;
        };
        let snapshot = self.snapshot();
        // The first time all are trusted: as long as some server is not known, that is not now.
        let is_whole = !snapshot.is_incomplete();
        let listed = listed(&snapshot.offered);
        let (charter, name) = (Arc::clone(charter), Arc::clone(&self.name));
        let outlets: Vec<Weak<Outlet>> =
            self.outlets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(server) = self.servers.first() else { return };
        server.surroundings.control.spawn(async move {
            if acquaintances.meet_when(&name, charter.stack.parts(), listed, is_whole).await {
                let listening = outlets.iter().filter_map(Weak::upgrade);
                listening.for_each(|outlet| outlet.changed(Kind::Tools));
            }
        });
    }

    /// A server is known to be away: what waited for it need not wait any more.
    pub(crate) fn without(&self, server: &Server) {
        if self.has(server) && server.manifest().is_none() {
            self.meet(&self.charter());
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
