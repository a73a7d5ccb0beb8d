//! What a namespace offers at one moment: who owns each name, and lists that are ready to be sent. Never changes.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use toolgate::{
    TierRules, Tool, ToolId,
    middleware::overrides::{Overrides, Resolved},
};
use toolgate_wire::{Json, Object};

use super::{
    Prefix,
    lists::{Hints, Page, Pages, definition_for},
    manifest::Manifest,
    mirrors::{self, Mirror},
    names::{self, Collision, Names},
    templates::Template,
};
use crate::{
    config::{HttpTransport, Start},
    outbound::{connection::Era, server::Server},
};

/// One server of a namespace with what it offers.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) server: Arc<Server>,
    pub(crate) manifest: Option<Arc<Manifest>>,
}

/// A tool that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) tool: Arc<Tool>,
    pub(crate) server: Arc<Server>,
    /// Arguments that are mirrored in headers.
    pub(crate) mirrors: Arc<[Mirror]>,
}

/// What a name or an address belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) server: Arc<Server>,
    /// The server's own name.
    pub(crate) own: Arc<str>,
}

/// Everything that a namespace offers.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    /// In the order of the list, as clients see them.
    pub(crate) tools: Vec<Arc<Tool>>,
    by_name: HashMap<Box<str>, Entry>,
    prompts: HashMap<Box<str>, Owned>,
    resources: HashMap<Box<str>, Arc<Server>>,
    templates: Vec<(Arc<str>, Template, Arc<Server>)>,
    pub(crate) lists: Pages,
    pub(crate) offered: Vec<Offered>,
    pub(crate) collisions: Vec<Collision>,
    finished: OnceLock<[Page; 2]>,
}

/// What a snapshot is made by.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    pub(crate) generation: u64,
    pub(crate) prefix: Prefix,
    pub(crate) rules: &'a TierRules,
    pub(crate) overrides: &'a Overrides,
    pub(crate) hints_are_private: bool,
}

impl Snapshot {
    /// Puts together what the servers offer, in their order.
    pub(crate) fn new(offered: Vec<Offered>, making: &Making<'_>) -> Self {
        let mut snapshot = Self {
            generation: making.generation,
            tools: Vec::new(),
            by_name: HashMap::new(),
            prompts: HashMap::new(),
            resources: HashMap::new(),
            templates: Vec::new(),
            lists: Pages::default(),
            offered,
            collisions: Vec::new(),
            finished: OnceLock::new(),
        };
        let offered = snapshot.offered.clone();
        snapshot.add_tools(&offered, making);
        snapshot.add_prompts(&offered, making);
        snapshot.add_resources(&offered);
        snapshot.lists.hints = hints(&offered, making.hints_are_private);
        snapshot
    }

    fn add_tools(&mut self, offered: &[Offered], making: &Making<'_>) {
        let listed: Vec<Vec<Listed>> = offered.iter().map(callable).collect();
        let names: Vec<Names> = offered
            .iter()
            .zip(&listed)
            .map(|(offered, tools)| Names {
                server: offered.server.name.to_string(),
                prefix: prefix(&offered.server),
                names: tools
                    .iter()
                    .map(|tool| tool.fixed(&offered.server, making.overrides))
                    .collect(),
            })
            .collect();
        let (assigned, collisions) = names::assign(making.prefix, &names);
        self.collisions.extend(collisions);
        for ((offered, tools), names) in offered.iter().zip(listed).zip(assigned) {
            let server = &offered.server;
            for (tool, name) in tools.into_iter().zip(names) {
                let Some(name) = name else { continue };
                let id = ToolId::new(Arc::clone(&server.name), tool.own.as_str());
                let shown = named(&tool.definition, &tool.own, &name);
                let shown = Arc::new(Tool::listed(id, shown, making.rules));
                let entry = Entry {
                    tool: Arc::clone(&shown),
                    server: Arc::clone(server),
                    mirrors: tool.mirrors.into(),
                };
                self.tools.push(shown);
                self.alias(&entry, &name, making);
                self.by_name.insert(name.into_boxed_str(), entry);
            }
        }
    }

    /// A tool that was given another name may still be called by its own.
    fn alias(&mut self, entry: &Entry, name: &str, making: &Making<'_>) {
        let own = entry.tool.id().name();
        let is_renamed = making.overrides.wire_name(entry.tool.id()) != own && own != name;
        let kept = making.overrides.resolve(&entry.server.name, own) == Resolved::Tool(own);
        if !is_renamed || !kept {
            return;
        }
        let alias = match making.prefix {
            Prefix::Always => names::prefixed(&prefix(&entry.server), own),
            Prefix::OnCollision | Prefix::Never => own.to_owned(),
        };
        self.by_name.entry(alias.into_boxed_str()).or_insert_with(|| entry.clone());
    }

    fn add_prompts(&mut self, offered: &[Offered], making: &Making<'_>) {
        let listed: Vec<Vec<(String, Json)>> = offered
            .iter()
            .map(|offered| {
                let entries = offered.manifest.iter().flat_map(|m| m.prompts.entries.iter());
                let mut seen = std::collections::HashSet::new();
                let named = entries.filter_map(|entry| Some((text(entry, "name")?, entry.clone())));
                named.filter(|(name, _)| seen.insert(name.clone())).collect()
            })
            .collect();
        let names: Vec<Names> = offered
            .iter()
            .zip(&listed)
            .map(|(offered, prompts)| Names {
                server: offered.server.name.to_string(),
                prefix: prefix(&offered.server),
                names: prompts.iter().map(|(own, _)| (own.clone(), None)).collect(),
            })
            .collect();
        let (assigned, collisions) = names::assign(making.prefix, &names);
        self.collisions.extend(collisions);
        for ((offered, prompts), names) in offered.iter().zip(listed).zip(assigned) {
            for ((own, definition), name) in prompts.into_iter().zip(names) {
                let Some(name) = name else { continue };
                self.lists.prompts.push(named(&definition, &own, &name));
                let owned = Owned { server: Arc::clone(&offered.server), own: own.into() };
                self.prompts.insert(name.into_boxed_str(), owned);
            }
        }
    }

    /// Addresses are as they are: of two servers with the same one, the first has it.
    fn add_resources(&mut self, offered: &[Offered]) {
        for Offered { server, manifest } in offered {
            let Some(manifest) = manifest else { continue };
            for entry in manifest.resources.entries.iter() {
                let Some(uri) = text(entry, "uri") else { continue };
                match self.resources.get(uri.as_str()) {
                    Some(first) if first.name != server.name => {
                        tracing::warn!(
                            "`{}` and `{}` both have the resource `{uri}`: the first one is read",
                            first.name,
                            server.name
                        );
                    }
                    Some(_) => {}
                    None => {
                        self.lists.resources.push(entry.clone());
                        self.resources.insert(uri.into_boxed_str(), Arc::clone(server));
                    }
                }
            }
            for entry in manifest.templates.entries.iter() {
                let Some(uri) = text(entry, "uriTemplate") else { continue };
                let is_taken = self.templates.iter().any(|(known, ..)| **known == *uri);
                if is_taken {
                    continue;
                }
                self.lists.templates.push(entry.clone());
                self.templates.push((
                    uri.as_str().into(),
                    Template::parse(&uri),
                    Arc::clone(server),
                ));
            }
        }
    }

    /// The tool of a name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }

    /// The prompt of a name.
    pub(crate) fn prompt(&self, name: &str) -> Option<&Owned> {
        self.prompts.get(name)
    }

    /// The server of a resource, or of a template that it fits.
    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Server>> {
        self.resources.get(uri).or_else(|| {
            let fitting = self.templates.iter().find(|(_, template, _)| template.matches(uri));
            fitting.map(|(.., server)| server)
        })
    }

    /// The one server that has addresses of the same scheme, or resources at all.
    pub(crate) fn likely_owner(&self, uri: &str) -> Option<Arc<Server>> {
        let scheme = uri.split_once(':').map(|(scheme, _)| format!("{scheme}:"))?;
        let listed = self.resources.iter().map(|(uri, server)| (&**uri, server));
        let templates = self.templates.iter().map(|(uri, _, server)| (&**uri, server));
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

    /// The server of a template, as it is written in the list.
    pub(crate) fn template(&self, uri: &str) -> Option<&Arc<Server>> {
        let found = self.templates.iter().find(|(known, ..)| **known == *uri);
        found.map(|(.., server)| server).or_else(|| self.resource(uri))
    }

    /// Servers that have this capability, in order.
    pub(crate) fn servers_with(&self, capability: &str) -> impl Iterator<Item = &Arc<Server>> {
        let has = move |offered: &&Offered| {
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
    pub(crate) fn finished(&self, era: Era) -> &Page {
        let [legacy, modern] = self.finished.get_or_init(|| {
            [Era::Legacy, Era::Modern].map(|era| {
                let definitions = self.tools.iter().filter_map(|tool| tool.definition());
                let shown: Vec<Json> = definitions.map(|tool| definition_for(tool, era)).collect();
                self.lists.hints.page("tools", Json::list(&shown), era, None)
            })
        });
        match era {
            Era::Legacy => legacy,
            Era::Modern => modern,
        }
    }
}

/// A tool as its server lists it.
struct Listed {
    own: String,
    definition: Json,
    mirrors: Vec<Mirror>,
}

impl Listed {
    fn fixed(&self, server: &Server, overrides: &Overrides) -> (String, Option<String>) {
        let id = ToolId::new(Arc::clone(&server.name), self.own.as_str());
        let name = overrides.wire_name(&id);
        (self.own.clone(), (name != self.own).then(|| name.to_owned()))
    }
}

/// The tools of a server that can be called, each once.
fn callable(offered: &Offered) -> Vec<Listed> {
    let Some(manifest) = &offered.manifest else { return Vec::new() };
    let server = &offered.server;
    let checks_headers = manifest.offer.era == Era::Modern
        && server.config.url.is_some()
        && server.config.transport != HttpTransport::Sse;
    let mut seen = std::collections::HashSet::new();
    let listed = manifest.tools.entries.iter().filter_map(|definition| {
        let own = text(definition, "name")?;
        let mirrors = match mirrors::of(definition) {
            Ok(mirrors) => mirrors,
            // Over HTTP a call of it could not be made as the protocol wants it.
            Err(bad) if checks_headers => {
                tracing::warn!("the tool `{}/{own}` is left out: {}", server.name, bad.0);
                return None;
            }
            Err(_) => Vec::new(),
        };
        seen.insert(own.clone()).then(|| Listed { own, definition: definition.clone(), mirrors })
    });
    listed.collect()
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
fn hints(offered: &[Offered], is_private: bool) -> Hints {
    let manifests = || offered.iter().filter_map(|offered| offered.manifest.as_ref());
    let is_whole = offered.iter().all(|offered| offered.manifest.is_some());
    let lists = manifests().flat_map(|m| [&m.tools, &m.prompts, &m.resources, &m.templates]);
    let lists: Vec<_> = lists.filter(|list| !list.entries.is_empty()).collect();
    let least = lists.iter().map(|list| list.ttl_ms).min().unwrap_or_default();
    Hints {
        ttl_ms: if is_whole { least } else { 0 },
        is_public: !is_private && !lists.is_empty() && lists.iter().all(|list| list.is_public),
    }
}

/// A list with what comes before and behind it.
impl Hints {
    /// One page of a list as the result of a request.
    pub(crate) fn page(self, member: &str, list: Json, era: Era, next: Option<&str>) -> Page {
        let mut result = Object::new();
        if era == Era::Modern {
            result.set("resultType", Json::string("complete"));
        }
        result.set(member, list);
        if let Some(next) = next {
            result.set("nextCursor", Json::string(next));
        }
        if era == Era::Modern {
            result.set("ttlMs", Json::value(&self.ttl_ms.into()));
            let scope = if self.is_public { "public" } else { "private" };
            result.set("cacheScope", Json::string(scope));
            result.set("_meta", super::lists::server_meta());
        }
        Page(result.finish())
    }
}
