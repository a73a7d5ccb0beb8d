//! An immutable snapshot of what a namespace offers: the server of each name and URI, and the finished lists.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use toolgate::{
    TierRules, Tool, ToolId,
    middleware::overrides::{Overrides, ResolvedName},
};
use toolgate_wire::{
    Json, Object,
    mcp::{Era, member},
};

use super::{
    header_params::{self, HeaderParam},
    lists::{
        CacheHints, ListPage, ListPages, META_MISSING, MissingServer, definition_for, missing_meta,
        server_meta,
    },
    name_owners::{Claim, Claims, NameOwners, OwnersByName},
    names::{self, CatalogEntry, Collision, ServerNames},
    templates::Template,
};
use crate::{
    config::{HttpTransport, Prefix, Start},
    upstream::{
        manifest::{ListName, ServerManifest},
        server::Server,
    },
};

/// A server of a namespace with its manifest.
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
    /// The arguments that requests repeat in headers.
    pub(crate) header_params: Arc<[HeaderParam]>,
}

/// Where a request for a name goes.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) server: Arc<Server>,
    /// The server's own name.
    pub(crate) own: Arc<str>,
}

/// What a namespace offers.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    /// The tools in the order of the list, with the names that clients see.
    pub(crate) tools: Vec<Arc<Tool>>,
    by_name: HashMap<Box<str>, ToolEntry>,
    prompts: HashMap<Box<str>, Route>,
    resources: HashMap<Box<str>, Arc<Server>>,
    /// Templates in the order in which they are matched.
    templates: Vec<ListedTemplate>,
    pub(crate) lists: ListPages,
    pub(crate) offered: Vec<ServerListing>,
    pub(crate) collisions: Vec<Collision>,
    /// Whether some server has not answered yet. It may own some of these names, so requests wait for it.
    pub(crate) is_provisional: bool,
    finished: OnceLock<[ListPage; 2]>,
}

/// A template of a server.
#[derive(Debug)]
struct ListedTemplate {
    text: Arc<str>,
    template: Template,
    server: Arc<Server>,
    /// The number of the change that assigned the template: an older template matches before a newer one.
    since: u64,
}

impl ListedTemplate {
    /// The order of matching: older templates first, then those with a longer fixed prefix.
    fn rank(&self) -> (u64, std::cmp::Reverse<usize>) {
        (self.since, std::cmp::Reverse(self.template.literal()))
    }
}

/// The inputs of a snapshot besides the listings.
#[derive(Debug)]
pub(crate) struct SnapshotInputs<'a> {
    pub(crate) generation: u64,
    pub(crate) prefix: Prefix,
    pub(crate) rules: &'a TierRules,
    pub(crate) overrides: &'a Overrides,
    pub(crate) hints_are_private: bool,
    /// The current owners of names.
    pub(crate) owners: &'a NameOwners,
}

impl Snapshot {
    /// Joins the listings of the servers, in their order. Also returns the names that the snapshot assigns.
    pub(crate) fn new(offered: Vec<ServerListing>, inputs: &SnapshotInputs<'_>) -> (Self, Claims) {
        let mut snapshot = Self {
            generation: inputs.generation,
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
        let tools = snapshot.add_tools(&offered, inputs);
        let prompts = snapshot.add_prompts(&offered, inputs);
        let templates = snapshot.add_templates(&offered, inputs);
        let resources = snapshot.add_resources(&offered, inputs);
        snapshot.lists.hints = hints(&offered, inputs.hints_are_private);
        let claims = [tools, prompts, resources, templates];
        snapshot.is_provisional = snapshot.is_incomplete() && !inputs.owners.has_all(&claims);
        (snapshot, claims)
    }

    fn add_tools(&mut self, offered: &[ServerListing], inputs: &SnapshotInputs<'_>) -> Vec<Claim> {
        let listed: Vec<Vec<ListedTool>> = offered.iter().map(callable).collect();
        let names: Vec<ServerNames> = offered
            .iter()
            .zip(&listed)
            .map(|(offered, tools)| ServerNames {
                server: offered.server.name.to_string(),
                prefix: prefix(&offered.server),
                names: tools
                    .iter()
                    .map(|tool| tool.fixed(&offered.server, inputs.overrides))
                    .collect(),
            })
            .collect();
        let held = inputs.owners.of(ListName::Tools);
        let (assigned, collisions) = names::assign(inputs.prefix, &names, held);
        let (mut claims, mut renamed) = (Vec::new(), Vec::new());
        for ((offered, tools), names) in offered.iter().zip(listed).zip(assigned) {
            let server = &offered.server;
            for (tool, name) in tools.into_iter().zip(names) {
                let Some(name) = name else { continue };
                let id = ToolId::new(Arc::clone(&server.name), tool.own.as_str());
                let is_given = inputs.overrides.wire_name(&id) != tool.own;
                let shown = named(&tool.definition, &tool.own, &name);
                let shown = Arc::new(Tool::listed(id, shown, inputs.rules));
                let entry = ToolEntry {
                    tool: Arc::clone(&shown),
                    server: Arc::clone(server),
                    header_params: tool.header_params.into(),
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
        claims.extend(renamed.iter().filter_map(|entry| self.alias(entry, inputs)));
        claims
    }

    /// Gives the tool that keeps a contested name a second name with its prefix, if that one is free.
    fn prefixed_alias(&mut self, collision: &Collision) -> Option<Claim> {
        let entry = self.by_name.get(collision.name.as_str()).cloned()?;
        let alias = names::prefixed(&prefix(&entry.server), entry.tool.id().name());
        let is_owner = *entry.server.name == *collision.owner.server;
        if !is_owner
            || collision.newcomer.server == collision.owner.server
            || self.by_name.contains_key(&*alias)
        {
            return None;
        }
        let claim = claim(&alias, &entry.server, entry.tool.id().name());
        self.by_name.insert(alias.into_boxed_str(), entry);
        Some(claim)
    }

    /// A renamed tool can also be called by its own name, unless that name belongs to another tool.
    fn alias(&mut self, entry: &ToolEntry, inputs: &SnapshotInputs<'_>) -> Option<Claim> {
        let (own, server) = (entry.tool.id().name(), &entry.server);
        if inputs.overrides.resolve(&server.name, own) != ResolvedName::Tool(own) {
            return None;
        }
        let alias = match inputs.prefix {
            Prefix::Always => names::prefixed(&prefix(server), own),
            Prefix::OnCollision | Prefix::Never => names::cut(own.to_owned()),
        };
        let owner = self.owner(inputs.owners.of(ListName::Tools), &alias);
        let is_another =
            owner.is_some_and(|(owner, its, _)| *owner != server.name || **its != *own);
        if is_another || self.by_name.contains_key(&*alias) {
            return None;
        }
        let claim = claim(&alias, server, own);
        self.by_name.insert(alias.into_boxed_str(), entry.clone());
        Some(claim)
    }

    /// The recorded owner of a name, if its server belongs to the namespace: the server, its own name, and the number of the
    /// change.
    fn owner<'a>(
        &self,
        held: &'a OwnersByName,
        name: &str,
    ) -> Option<(&'a Arc<str>, &'a Arc<str>, u64)> {
        let owner = held.get(name)?;
        let is_here = self.offered.iter().any(|offered| offered.server.name == owner.server);
        is_here.then_some((&owner.server, &owner.own, owner.since))
    }

    fn add_prompts(
        &mut self,
        offered: &[ServerListing],
        inputs: &SnapshotInputs<'_>,
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
        let held = inputs.owners.of(ListName::Prompts);
        let (assigned, collisions) = names::assign(inputs.prefix, &names, held);
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

    /// URIs are never renamed. A URI stays with its recorded owner, or with the server whose older template matches it; if
    /// two servers list the same new URI, the first server gets it.
    fn add_resources(
        &mut self,
        offered: &[ServerListing],
        inputs: &SnapshotInputs<'_>,
    ) -> Vec<Claim> {
        let held = inputs.owners.of(ListName::Resources);
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

    /// The server whose older template matches this URI.
    fn older_template(&self, uri: &str, since: u64) -> Option<Arc<str>> {
        let mut older = self.templates.iter().take_while(|listing| listing.since < since);
        let covers =
            |listing: &&ListedTemplate| self.applies(listing) && listing.template.matches(uri);
        older.find(covers).map(|listing| Arc::clone(&listing.server.name))
    }

    fn left_out(&mut self, name: &str, owner: &str, newcomer: &Server) {
        let entry =
            |server: &str| CatalogEntry { server: server.to_owned(), name: name.to_owned() };
        self.collisions.push(Collision {
            name: name.to_owned(),
            owner: entry(owner),
            newcomer: entry(&newcomer.name),
            instead: None,
            is_address: true,
        });
    }

    /// The same as `add_resources` for templates.
    fn add_templates(
        &mut self,
        offered: &[ServerListing],
        inputs: &SnapshotInputs<'_>,
    ) -> Vec<Claim> {
        let held = inputs.owners.of(ListName::Templates);
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
                        self.templates.push(ListedTemplate {
                            text: uri.as_str().into(),
                            template: Template::parse(&uri),
                            server: Arc::clone(server),
                            since: owner.map_or(u64::MAX, |(.., since)| since),
                        });
                    }
                }
            }
        }
        self.templates.sort_by_key(ListedTemplate::rank);
        claims
    }

    /// Whether to match a template against unlisted URIs. A template without a fixed scheme would match the URIs of other
    /// servers, so it counts only if there is one server.
    fn applies(&self, listing: &ListedTemplate) -> bool {
        self.offered.len() < 2 || listing.template.has_scheme()
    }

    /// The tool with this wire name.
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

    /// The prompt with this wire name.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Route> {
        self.prompts.get(name)
    }

    /// The server of a resource, or of the first template that matches it. `None` if equally good templates of two servers
    /// match.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Server>> {
        if let Some(server) = self.resources.get(uri) {
            return Some(server);
        }
        let fits =
            |listing: &&ListedTemplate| self.applies(listing) && listing.template.matches(uri);
        let mut fitting = self.templates.iter().filter(fits);
        let best = fitting.next()?;
        let mut equal = fitting.take_while(|listing| listing.rank() == best.rank());
        let is_only = equal.all(|listing| listing.server.name == best.server.name);
        is_only.then_some(&best.server)
    }

    /// The only server with URIs of the same scheme, or the only server with resources at all.
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

    /// The route for an unlisted prompt whose name begins with a server's prefix. Of several matching prefixes, the longest
    /// counts.
    pub(crate) fn by_prefix(&self, name: &str) -> Option<Route> {
        let fitting = self.offered.iter().filter_map(|offered| {
            let own = name.strip_prefix(&names::prefixed(&prefix(&offered.server), ""))?;
            (!own.is_empty())
                .then(|| Route { server: Arc::clone(&offered.server), own: own.into() })
        });
        let found = fitting.min_by_key(|owned| owned.own.len())?;
        // A listed prompt can only be reached by its wire name.
        let is_it =
            |owned: &Route| owned.server.name == found.server.name && owned.own == found.own;
        (!self.prompts.values().any(is_it)).then_some(found)
    }

    /// The server with this name.
    pub(crate) fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.offered.iter().map(|offered| &offered.server).find(|server| *server.name == *name)
    }

    /// The servers whose entries are missing in a list, and why.
    pub(crate) fn missing(&self, list: ListName) -> Vec<MissingServer> {
        let missing = self.offered.iter().filter_map(|ServerListing { server, manifest }| {
            let error = match manifest {
                Some(manifest) if manifest.list(list).entries.is_empty() => {
                    Some(manifest.failure(list)?.clone())
                }
                Some(_) => return None,
                None => None,
            };
            Some(MissingServer { server: Arc::clone(server), error })
        });
        missing.collect()
    }

    /// The server that lists this template.
    pub(crate) fn template(&self, uri: &str) -> Option<&Arc<Server>> {
        let found = self.templates.iter().find(|listing| *listing.text == *uri);
        found.map(|listing| &listing.server).or_else(|| self.resource(uri))
    }

    /// The servers with this capability, in order.
    pub(crate) fn servers_with(&self, capability: &str) -> impl Iterator<Item = &Arc<Server>> {
        let has = move |offered: &&ServerListing| {
            offered.manifest.as_ref().is_some_and(|manifest| manifest.server_info.has(capability))
        };
        self.offered.iter().filter(has).map(|offered| &offered.server)
    }

    /// The server of a namespace with exactly one server.
    pub(crate) fn only_server(&self) -> Option<&Arc<Server>> {
        match &*self.offered {
            [only] => Some(&only.server),
            _ => None,
        }
    }

    /// Whether some server has not answered yet, so that its listing is unknown.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.offered
            .iter()
            .any(|offered| offered.manifest.is_none() && offered.server.may_list_soon())
    }

    /// Servers that failed before their first listing. The gateway restarts them only on demand.
    pub(crate) fn failed_unlisted(&self) -> impl Iterator<Item = &Arc<Server>> {
        let unknown = self.offered.iter().filter(|offered| offered.manifest.is_none());
        unknown
            .map(|offered| &offered.server)
            .filter(|server| server.config.start == Start::OnDemand)
    }

    /// The finished page with all tools, for clients of an era.
    pub(crate) fn finished(&self, era: Era) -> &ListPage {
        let [legacy, modern] = self.finished.get_or_init(|| {
            [Era::Legacy, Era::Modern].map(|era| {
                let definitions = self.tools.iter().filter_map(|tool| tool.definition());
                let shown: Vec<Json> = definitions.map(|tool| definition_for(tool, era)).collect();
                let entries = Json::list(&shown);
                let content = PageContent { member: "tools", entries, next: None, missing: &[] };
                self.lists.hints.page(era, content)
            })
        });
        match era {
            Era::Legacy => legacy,
            Era::Modern => modern,
        }
    }
}

/// A tool in the list of its server.
struct ListedTool {
    own: String,
    definition: Json,
    header_params: Vec<HeaderParam>,
}

impl ListedTool {
    fn fixed(&self, server: &Server, overrides: &Overrides) -> (String, Option<String>) {
        let id = ToolId::new(Arc::clone(&server.name), self.own.as_str());
        let name = overrides.wire_name(&id);
        (self.own.clone(), (name != self.own).then(|| name.to_owned()))
    }
}

/// The tools of a server that can be called, without duplicates.
fn callable(offered: &ServerListing) -> Vec<ListedTool> {
    let Some(manifest) = &offered.manifest else { return Vec::new() };
    let server = &offered.server;
    let checks_headers = manifest.server_info.era == Era::Modern
        && server.config.url.is_some()
        && server.config.transport != HttpTransport::Sse;
    let mut seen = HashSet::new();
    let listed = manifest.tools.entries.iter().filter_map(|definition| {
        let own = text(definition, "name").filter(|name| !name.is_empty())?;
        let header_params = match header_params::of(definition) {
            Ok(header_params) => header_params,
            // The gateway could not send a valid call of this tool over HTTP.
            Err(bad) if checks_headers => {
                tracing::warn!("the tool `{}/{own}` is left out: {}", server.name, bad.0);
                return None;
            }
            Err(_) => Vec::new(),
        };
        seen.insert(own.clone()).then(|| ListedTool {
            own,
            definition: definition.clone(),
            header_params,
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

/// The definition with another name.
fn named(definition: &Json, own: &str, name: &str) -> Json {
    match definition.object() {
        Some(mut object) if own != name => {
            object.set("name", Json::string(name));
            object.finish()
        }
        _ => definition.clone(),
    }
}

/// The cache hints of the joined lists: the shortest time of all servers, and private if one server's list is private.
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

/// The content of one page of a list.
#[derive(Debug)]
pub(crate) struct PageContent<'a> {
    /// The member of the result that contains the entries.
    pub(crate) member: &'static str,
    pub(crate) entries: Json,
    /// The cursor of the next page.
    pub(crate) next: Option<&'a str>,
    /// The servers whose entries are missing.
    pub(crate) missing: &'a [MissingServer],
}

/// Composes the pages of lists.
impl CacheHints {
    /// One page of a list as a result.
    pub(crate) fn page(self, era: Era, content: PageContent<'_>) -> ListPage {
        let PageContent { member, entries, next, missing } = content;
        let mut result = Object::new();
        if era == Era::Modern {
            result.set(member::RESULT_TYPE, Json::string("complete"));
        }
        result.set(member, entries);
        if let Some(next) = next {
            result.set(member::NEXT_CURSOR, Json::string(next));
        }
        let mut meta = Object::new();
        if era == Era::Modern {
            let ttl = if missing.is_empty() { self.ttl_ms } else { 0 };
            result.set("ttlMs", Json::value(&ttl.into()));
            let scope = if self.is_public { "public" } else { "private" };
            result.set("cacheScope", Json::string(scope));
            meta = server_meta();
        }
        if !missing.is_empty() {
            meta.set(META_MISSING, missing_meta(missing));
        }
        if !meta.is_empty() {
            result.set(member::META, meta.finish());
        }
        ListPage(result.finish())
    }
}
