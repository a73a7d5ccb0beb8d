//! What a namespace offers at one moment: who owns each name, and lists that are ready to be sent. Never changes.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use toolgate::{
    TierRules, Tool, ToolId,
    middleware::overrides::{Overrides, Resolved},
};
use toolgate_wire::{
    Json, Object,
    mcp::{Era, member},
};

use super::{
    header_params::{self, HeaderParam},
    lists::{CacheHints, ListPage, ListPages, definition_for},
    name_owners::{Claim, Claims, Held, NameOwners},
    names::{self, Collision, ServerNames},
    templates::Template,
};
use crate::{
    config::{HttpTransport, Prefix, Start},
    upstream::{
        manifest::{ListName, ServerManifest, error_text},
        server::{Server, ServerState},
    },
};

/// One server of a namespace with what it offers.
#[derive(Clone, Debug)]
pub(crate) struct ServerListing {
    pub(crate) server: Arc<Server>,
    pub(crate) manifest: Option<Arc<ServerManifest>>,
}

/// A tool that can be called.
#[derive(Clone, Debug)]
pub(crate) struct ToolEntry {
    pub(crate) tool: Arc<Tool>,
    pub(crate) server: Arc<Server>,
    /// Arguments that are mirrored in headers.
    pub(crate) mirrors: Arc<[HeaderParam]>,
}

/// What a name or an address belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) server: Arc<Server>,
    /// The server's own name.
    pub(crate) own: Arc<str>,
}

/// A server whose entries are not in a list.
#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) server: Arc<Server>,
    /// What it answered, if it did.
    pub(crate) error: Option<Json>,
}

impl Missing {
    /// Why, for people; `None` if the server is still coming up.
    pub(crate) fn why(&self) -> Option<String> {
        match (&self.error, self.server.state()) {
            (Some(error), _) => Some(error_text(error)),
            (None, ServerState::Failed(why)) => Some(why.to_string()),
            (None, _) => None,
        }
    }
}

/// Everything that a namespace offers.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    /// In the order of the list, as clients see them.
    pub(crate) tools: Vec<Arc<Tool>>,
    by_name: HashMap<Box<str>, ToolEntry>,
    prompts: HashMap<Box<str>, Route>,
    resources: HashMap<Box<str>, Arc<Server>>,
    /// The one that decides first.
    templates: Vec<Listing>,
    pub(crate) lists: ListPages,
    pub(crate) offered: Vec<ServerListing>,
    pub(crate) collisions: Vec<Collision>,
    /// A server that has not answered yet may own some of these names: nothing is called by them until it has.
    pub(crate) is_provisional: bool,
    finished: OnceLock<[ListPage; 2]>,
}

/// A template of a server.
#[derive(Debug)]
struct Listing {
    text: Arc<str>,
    template: Template,
    server: Arc<Server>,
    /// Since when the server has it: an older one decides before a newer one.
    since: u64,
}

impl Listing {
    /// Less decides first: the older one, then the one that says more of an address.
    fn rank(&self) -> (u64, std::cmp::Reverse<usize>) {
        (self.since, std::cmp::Reverse(self.template.literal()))
    }
}

/// What a snapshot is made by.
#[derive(Debug)]
pub(crate) struct SnapshotInputs<'a> {
    pub(crate) generation: u64,
    pub(crate) prefix: Prefix,
    pub(crate) rules: &'a TierRules,
    pub(crate) overrides: &'a Overrides,
    pub(crate) hints_are_private: bool,
    /// Who owns names already.
    pub(crate) owners: &'a NameOwners,
}

impl Snapshot {
    /// Puts together what the servers offer, in their order; and the names that it gives out.
    pub(crate) fn new(offered: Vec<ServerListing>, making: &SnapshotInputs<'_>) -> (Self, Claims) {
        let mut snapshot = Self {
            generation: making.generation,
            tools: Vec::new(),
            by_name: HashMap::new(),
            prompts: HashMap::new(),
            resources: HashMap::new(),
            templates: Vec::new(),
            lists: ListPages::default(),
            offered,
            collisions: Vec::new(),
            is_provisional: false,
            finished: OnceLock::new(),
        };
        let offered = snapshot.offered.clone();
        let tools = snapshot.add_tools(&offered, making);
        let prompts = snapshot.add_prompts(&offered, making);
        let templates = snapshot.add_templates(&offered, making);
        let resources = snapshot.add_resources(&offered, making);
        snapshot.lists.hints = hints(&offered, making.hints_are_private);
        let claims = [tools, prompts, resources, templates];
        snapshot.is_provisional = snapshot.is_incomplete() && !making.owners.has_all(&claims);
        (snapshot, claims)
    }

    fn add_tools(&mut self, offered: &[ServerListing], making: &SnapshotInputs<'_>) -> Vec<Claim> {
        let listed: Vec<Vec<ListedTool>> = offered.iter().map(callable).collect();
        let names: Vec<ServerNames> = offered
            .iter()
            .zip(&listed)
            .map(|(offered, tools)| ServerNames {
                server: offered.server.name.to_string(),
                prefix: prefix(&offered.server),
                names: tools
                    .iter()
                    .map(|tool| tool.fixed(&offered.server, making.overrides))
                    .collect(),
            })
            .collect();
        let held = making.owners.of(ListName::Tools);
        let (assigned, collisions) = names::assign(making.prefix, &names, held);
        let (mut claims, mut renamed) = (Vec::new(), Vec::new());
        for ((offered, tools), names) in offered.iter().zip(listed).zip(assigned) {
            let server = &offered.server;
            for (tool, name) in tools.into_iter().zip(names) {
                let Some(name) = name else { continue };
                let id = ToolId::new(Arc::clone(&server.name), tool.own.as_str());
                let is_given = making.overrides.wire_name(&id) != tool.own;
                let shown = named(&tool.definition, &tool.own, &name);
                let shown = Arc::new(Tool::listed(id, shown, making.rules));
                let entry = ToolEntry {
                    tool: Arc::clone(&shown),
                    server: Arc::clone(server),
                    mirrors: tool.mirrors.into(),
                };
                self.tools.push(shown);
                if is_given {
                    renamed.push(entry.clone());
                } else {
                    claims.push(claim(&name, server, &tool.own));
                }
                self.by_name.insert(name.into_boxed_str(), entry);
            }
        }
        for collision in collisions {
            claims.extend(self.prefixed_alias(&collision));
            self.collisions.push(collision);
        }
        claims.extend(renamed.iter().filter_map(|entry| self.alias(entry, making)));
        claims
    }

    /// A tool whose name another server's tool did not get can be called with its prefix too.
    fn prefixed_alias(&mut self, collision: &Collision) -> Option<Claim> {
        let entry = self.by_name.get(collision.name.as_str()).cloned()?;
        let alias = names::prefixed(&prefix(&entry.server), entry.tool.id().name());
        let is_owner = *entry.server.name == *collision.first.0;
        if !is_owner
            || collision.second.0 == collision.first.0
            || self.by_name.contains_key(&*alias)
        {
            return None;
        }
        let claim = claim(&alias, &entry.server, entry.tool.id().name());
        self.by_name.insert(alias.into_boxed_str(), entry);
        Some(claim)
    }

    /// A tool that was given another name may still be called by its own, unless that is another tool's.
    fn alias(&mut self, entry: &ToolEntry, making: &SnapshotInputs<'_>) -> Option<Claim> {
        let (own, server) = (entry.tool.id().name(), &entry.server);
        if making.overrides.resolve(&server.name, own) != Resolved::Tool(own) {
            return None;
        }
        let alias = match making.prefix {
            Prefix::Always => names::prefixed(&prefix(server), own),
            Prefix::OnCollision | Prefix::Never => names::cut(own.to_owned()),
        };
        let owner = self.owner(making.owners.of(ListName::Tools), &alias);
        let is_another =
            owner.is_some_and(|(owner, its, _)| *owner != server.name || **its != *own);
        if is_another || self.by_name.contains_key(&*alias) {
            return None;
        }
        let claim = claim(&alias, server, own);
        self.by_name.insert(alias.into_boxed_str(), entry.clone());
        Some(claim)
    }

    /// The owner of a name, if its server is here: the server, its own name, and since when.
    fn owner<'a>(&self, held: &'a Held, name: &str) -> Option<(&'a Arc<str>, &'a Arc<str>, u64)> {
        let owner = held.get(name)?;
        let is_here = self.offered.iter().any(|offered| offered.server.name == owner.server);
        is_here.then_some((&owner.server, &owner.own, owner.since))
    }

    fn add_prompts(
        &mut self,
        offered: &[ServerListing],
        making: &SnapshotInputs<'_>,
    ) -> Vec<Claim> {
        let listed: Vec<Vec<(String, Json)>> = offered
            .iter()
            .map(|offered| {
                let entries = offered.manifest.iter().flat_map(|m| m.prompts.entries.iter());
                let mut seen = HashSet::new();
                let named = entries.filter_map(|entry| Some((text(entry, "name")?, entry.clone())));
                named.filter(|(name, _)| seen.insert(name.clone())).collect()
            })
            .collect();
        let names: Vec<ServerNames> = offered
            .iter()
            .zip(&listed)
            .map(|(offered, prompts)| ServerNames {
                server: offered.server.name.to_string(),
                prefix: prefix(&offered.server),
                names: prompts.iter().map(|(own, _)| (own.clone(), None)).collect(),
            })
            .collect();
        let held = making.owners.of(ListName::Prompts);
        let (assigned, collisions) = names::assign(making.prefix, &names, held);
        self.collisions.extend(collisions);
        let mut claims = Vec::new();
        for ((offered, prompts), names) in offered.iter().zip(listed).zip(assigned) {
            for ((own, definition), name) in prompts.into_iter().zip(names) {
                let Some(name) = name else { continue };
                claims.push(claim(&name, &offered.server, &own));
                self.lists.prompts.push(named(&definition, &own, &name));
                let owned = Route { server: Arc::clone(&offered.server), own: own.into() };
                self.prompts.insert(name.into_boxed_str(), owned);
            }
        }
        claims
    }

    /// Addresses are as they are. One that has an owner stays with it, also one that an older template of another
    /// server covers; of two servers that come with the same one, the first has it.
    fn add_resources(
        &mut self,
        offered: &[ServerListing],
        making: &SnapshotInputs<'_>,
    ) -> Vec<Claim> {
        let held = making.owners.of(ListName::Resources);
        let mut claims = Vec::new();
        for ServerListing { server, manifest } in offered {
            let entries = manifest.iter().flat_map(|manifest| manifest.resources.entries.iter());
            for entry in entries {
                let Some(uri) = text(entry, "uri") else { continue };
                let owner = self.owner(held, &uri);
                let since = owner.map_or(u64::MAX, |(.., since)| since);
                let first = self.resources.get(uri.as_str()).map(|first| Arc::clone(&first.name));
                let first = first.or_else(|| owner.map(|(owner, ..)| Arc::clone(owner)));
                match first.or_else(|| self.older_template(&uri, since)) {
                    Some(first) if first != server.name => self.left_out(&uri, &first, server),
                    _ if self.resources.contains_key(uri.as_str()) => {}
                    _ => {
                        claims.push(claim(&uri, server, &uri));
                        self.lists.resources.push(entry.clone());
                        self.resources.insert(uri.into_boxed_str(), Arc::clone(server));
                    }
                }
            }
        }
        claims
    }

    /// The server whose template had this address before.
    fn older_template(&self, uri: &str, since: u64) -> Option<Arc<str>> {
        let mut older = self.templates.iter().take_while(|listing| listing.since < since);
        let covers = |listing: &&Listing| self.applies(listing) && listing.template.matches(uri);
        older.find(covers).map(|listing| Arc::clone(&listing.server.name))
    }

    fn left_out(&mut self, name: &str, first: &str, second: &Server) {
        self.collisions.push(Collision {
            name: name.to_owned(),
            first: (first.to_owned(), name.to_owned()),
            second: (second.name.to_string(), name.to_owned()),
            instead: None,
            is_address: true,
        });
    }

    /// The same for templates.
    fn add_templates(
        &mut self,
        offered: &[ServerListing],
        making: &SnapshotInputs<'_>,
    ) -> Vec<Claim> {
        let held = making.owners.of(ListName::Templates);
        let mut claims: Vec<Claim> = Vec::new();
        for ServerListing { server, manifest } in offered {
            let entries = manifest.iter().flat_map(|manifest| manifest.templates.entries.iter());
            for entry in entries {
                let Some(uri) = text(entry, "uriTemplate") else { continue };
                let owner = self.owner(held, &uri);
                let first = self.templates.iter().find(|listing| *listing.text == *uri);
                let first = first.map(|listing| Arc::clone(&listing.server.name));
                let is_listed = first.is_some();
                match first.or_else(|| owner.map(|(owner, ..)| Arc::clone(owner))) {
                    Some(first) if first != server.name => self.left_out(&uri, &first, server),
                    _ if is_listed => {}
                    _ => {
                        claims.push(claim(&uri, server, &uri));
                        self.lists.templates.push(entry.clone());
                        self.templates.push(Listing {
                            text: uri.as_str().into(),
                            template: Template::parse(&uri),
                            server: Arc::clone(server),
                            since: owner.map_or(u64::MAX, |(.., since)| since),
                        });
                    }
                }
            }
        }
        self.templates.sort_by_key(Listing::rank);
        claims
    }

    /// Whether a template says anything of addresses that its server does not list: one without a scheme would be for
    /// everything that other servers have.
    fn applies(&self, listing: &Listing) -> bool {
        self.offered.len() < 2 || listing.template.has_scheme()
    }

    /// The tool of a name.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolEntry> {
        self.by_name.get(name)
    }

    /// The tool of each wire name, also of names that are not listed.
    pub(crate) fn wire_names(&self) -> HashMap<String, ToolId> {
        self.by_name
            .iter()
            .map(|(name, entry)| (name.to_string(), entry.tool.id().clone()))
            .collect()
    }

    /// The prompt of a name.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Route> {
        self.prompts.get(name)
    }

    /// The server of a resource, or of the template that it fits: the oldest one, and of those the most specific one.
    /// Where two servers have one that is as good as the other's, nobody is asked.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Server>> {
        if let Some(server) = self.resources.get(uri) {
            return Some(server);
        }
        let fits = |listing: &&Listing| self.applies(listing) && listing.template.matches(uri);
        let mut fitting = self.templates.iter().filter(fits);
        let best = fitting.next()?;
        let mut equal = fitting.take_while(|listing| listing.rank() == best.rank());
        let is_only = equal.all(|listing| listing.server.name == best.server.name);
        is_only.then_some(&best.server)
    }

    /// The one server that has addresses of the same scheme, or resources at all.
    pub(crate) fn likely_owner(&self, uri: &str) -> Option<Arc<Server>> {
        let scheme = uri.split_once(':').map(|(scheme, _)| format!("{scheme}:"))?;
        let listed = self.resources.iter().map(|(uri, server)| (&**uri, server));
        let templates = self.templates.iter().map(|listing| (&*listing.text, &listing.server));
        let similar = listed.chain(templates).filter(|(known, _)| known.starts_with(&scheme));
        let mut similar: Vec<&Arc<Server>> = similar.map(|(_, server)| server).collect();
        if similar.is_empty() {
            similar = self.servers_with("resources").collect();
        }
        similar.sort_by(|one, two| one.name.cmp(&two.name));
        similar.dedup_by(|one, two| one.name == two.name);
        match &*similar {
            [only] => Some(Arc::clone(only)),
            _ => None,
        }
    }

    /// The prompt that a name with a server's prefix means, if that server does not list it. Prefixes are reserved: of
    /// those that fit, the longest counts.
    pub(crate) fn by_prefix(&self, name: &str) -> Option<Route> {
        let fitting = self.offered.iter().filter_map(|offered| {
            let own = name.strip_prefix(&names::prefixed(&prefix(&offered.server), ""))?;
            (!own.is_empty())
                .then(|| Route { server: Arc::clone(&offered.server), own: own.into() })
        });
        let found = fitting.min_by_key(|owned| owned.own.len())?;
        // What is listed has one name.
        let is_it =
            |owned: &Route| owned.server.name == found.server.name && owned.own == found.own;
        (!self.prompts.values().any(is_it)).then_some(found)
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.offered.iter().map(|offered| &offered.server).find(|server| *server.name == *name)
    }

    /// The servers whose entries are not in a list, and why.
    pub(crate) fn missing(&self, list: ListName) -> Vec<Missing> {
        let missing = self.offered.iter().filter_map(|ServerListing { server, manifest }| {
            let error = match manifest {
                Some(manifest) if manifest.list(list).entries.is_empty() => {
                    Some(manifest.failure(list)?.clone())
                }
                Some(_) => return None,
                None => None,
            };
            Some(Missing { server: Arc::clone(server), error })
        });
        missing.collect()
    }

    /// The server of a template, as it is written in the list.
    pub(crate) fn template(&self, uri: &str) -> Option<&Arc<Server>> {
        let found = self.templates.iter().find(|listing| *listing.text == *uri);
        found.map(|listing| &listing.server).or_else(|| self.resource(uri))
    }

    /// Servers that have this capability, in order.
    pub(crate) fn servers_with(&self, capability: &str) -> impl Iterator<Item = &Arc<Server>> {
        let has = move |offered: &&ServerListing| {
            offered.manifest.as_ref().is_some_and(|manifest| manifest.offer.has(capability))
        };
        self.offered.iter().filter(has).map(|offered| &offered.server)
    }

    /// The only server, if there is just one.
    pub(crate) fn only_server(&self) -> Option<&Arc<Server>> {
        match &*self.offered {
            [only] => Some(&only.server),
            _ => None,
        }
    }

    /// Whether some server may still turn out to offer something.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.offered.iter().any(|offered| offered.manifest.is_none() && offered.server.may_come())
    }

    /// Servers that failed before anybody knew what they offer, and that nobody starts again unless they are needed.
    pub(crate) fn forgotten(&self) -> impl Iterator<Item = &Arc<Server>> {
        let unknown = self.offered.iter().filter(|offered| offered.manifest.is_none());
        unknown
            .map(|offered| &offered.server)
            .filter(|server| server.config.start == Start::OnDemand)
    }

    /// The finished list of all tools, for clients of an era.
    pub(crate) fn finished(&self, era: Era) -> &ListPage {
        let [legacy, modern] = self.finished.get_or_init(|| {
            [Era::Legacy, Era::Modern].map(|era| {
                let definitions = self.tools.iter().filter_map(|tool| tool.definition());
                let shown: Vec<Json> = definitions.map(|tool| definition_for(tool, era)).collect();
                self.lists.hints.page("tools", Json::list(&shown), era, None, &[])
            })
        });
        match era {
            Era::Legacy => legacy,
            Era::Modern => modern,
        }
    }
}

/// A tool as its server lists it.
struct ListedTool {
    own: String,
    definition: Json,
    mirrors: Vec<HeaderParam>,
}

impl ListedTool {
    fn fixed(&self, server: &Server, overrides: &Overrides) -> (String, Option<String>) {
        let id = ToolId::new(Arc::clone(&server.name), self.own.as_str());
        let name = overrides.wire_name(&id);
        (self.own.clone(), (name != self.own).then(|| name.to_owned()))
    }
}

/// The tools of a server that can be called, each once.
fn callable(offered: &ServerListing) -> Vec<ListedTool> {
    let Some(manifest) = &offered.manifest else { return Vec::new() };
    let server = &offered.server;
    let checks_headers = manifest.offer.era == Era::Modern
        && server.config.url.is_some()
        && server.config.transport != HttpTransport::Sse;
    let mut seen = HashSet::new();
    let listed = manifest.tools.entries.iter().filter_map(|definition| {
        let own = text(definition, "name").filter(|name| !name.is_empty())?;
        let mirrors = match header_params::of(definition) {
            Ok(mirrors) => mirrors,
            // Over HTTP a call of it could not be made as the protocol wants it.
            Err(bad) if checks_headers => {
                tracing::warn!("the tool `{}/{own}` is left out: {}", server.name, bad.0);
                return None;
            }
            Err(_) => Vec::new(),
        };
        seen.insert(own.clone()).then(|| ListedTool {
            own,
            definition: definition.clone(),
            mirrors,
        })
    });
    listed.collect()
}

fn claim(name: &str, server: &Server, own: &str) -> Claim {
    Claim { name: name.into(), server: Arc::clone(&server.name), own: own.into() }
}

fn prefix(server: &Server) -> String {
    server.config.prefix.clone().unwrap_or_else(|| server.name.to_string())
}

fn text(entry: &Json, member: &str) -> Option<String> {
    Some(entry.get(member)?.text()?.into_owned())
}

/// The definition under another name.
fn named(definition: &Json, own: &str, name: &str) -> Json {
    match definition.object() {
        Some(mut object) if own != name => {
            object.set("name", Json::string(name));
            object.finish()
        }
        _ => definition.clone(),
    }
}

/// How long lists may be kept: as long as the shortest, and by nobody else if one is private.
fn hints(offered: &[ServerListing], is_private: bool) -> CacheHints {
    let manifests = || offered.iter().filter_map(|offered| offered.manifest.as_ref());
    let is_whole = offered.iter().all(|offered| offered.manifest.is_some());
    let lists = manifests().flat_map(|m| [&m.tools, &m.prompts, &m.resources, &m.templates]);
    let lists: Vec<_> = lists.filter(|list| !list.entries.is_empty()).collect();
    let least = lists.iter().map(|list| list.ttl_ms).min().unwrap_or_default();
    CacheHints {
        ttl_ms: if is_whole { least } else { 0 },
        is_public: !is_private && !lists.is_empty() && lists.iter().all(|list| list.is_public),
    }
}

/// A list with what comes before and behind it.
impl CacheHints {
    /// One page of a list as the result of a request.
    pub(crate) fn page(
        self,
        member: &str,
        list: Json,
        era: Era,
        next: Option<&str>,
        missing: &[Missing],
    ) -> ListPage {
        let mut result = Object::new();
        if era == Era::Modern {
            result.set(member::RESULT_TYPE, Json::string("complete"));
        }
        result.set(member, list);
        if let Some(next) = next {
            result.set(member::NEXT_CURSOR, Json::string(next));
        }
        let mut meta = Object::new();
        if era == Era::Modern {
            let ttl = if missing.is_empty() { self.ttl_ms } else { 0 };
            result.set("ttlMs", Json::value(&ttl.into()));
            let scope = if self.is_public { "public" } else { "private" };
            result.set("cacheScope", Json::string(scope));
            meta = super::lists::server_meta();
        }
        if !missing.is_empty() {
            meta.set(super::lists::META_MISSING, super::lists::missing_meta(missing));
        }
        if !meta.is_empty() {
            result.set(member::META, meta.finish());
        }
        ListPage(result.finish())
    }
}
