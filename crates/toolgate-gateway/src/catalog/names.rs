//! Assigns the wire names of tools and prompts. A name never passes from one server to another.
//!
//! The order of assignment: names that the operator configured; names with a recorded owner; then all others, in the order
//! of the config. Names that begin with a server's prefix and `__` are reserved for that server.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write as _},
};

use sha2::{Digest as _, Sha256};

use super::name_owners::OwnersByName;
use crate::config::Prefix;

/// The maximum length of a name, because some clients accept no longer names.
const MAX_NAME_LENGTH: usize = 64;
/// The separator between a prefix and a name.
const SEPARATOR: &str = "__";
/// The length of the mark at the end of a shortened name: an underscore and eight hexadecimal digits.
const MARK_LENGTH: usize = 9;

/// A server with the names that it lists, in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerNames {
    pub(crate) server: String,
    /// The prefix of its names.
    pub(crate) prefix: String,
    /// Its own names, each with the name that the operator configured for it, if any.
    pub(crate) names: Vec<(String, Option<String>)>,
}

/// A tool, prompt or URI by its server and the server's own name for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CatalogEntry {
    pub(crate) server: String,
    pub(crate) name: String,
}

/// A name that a tool, prompt or URI does not get because it belongs to another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Collision {
    pub(crate) name: String,
    /// The owner of the name. Its own name is empty if a prefix reserves the name for the server.
    pub(crate) owner: CatalogEntry,
    pub(crate) newcomer: CatalogEntry,
    /// The name that the newcomer gets instead; `None` if it is left out.
    pub(crate) instead: Option<String>,
    /// Whether it is the URI of a resource or a template. These are never renamed.
    pub(crate) is_address: bool,
}

impl Collision {
    /// Whether a tool or a prompt is left out because another server has its name.
    pub(crate) fn leaves_out(&self) -> bool {
        self.instead.is_none() && !self.is_address && self.owner != self.newcomer
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, owner, newcomer, instead, is_address } = self;
        let CatalogEntry { server, name: own } = owner;
        if *is_address {
            return write!(
                f,
                "the address `{name}` of `{}` is left out: it belongs to `{server}`",
                newcomer.server
            );
        }
        if owner == newcomer {
            return write!(f, "server `{server}` lists `{own}` twice: the first one is used");
        }
        let CatalogEntry { server: newcomer, name: its } = newcomer;
        match instead {
            Some(instead) => write!(f, "`{newcomer}/{its}` is listed as `{instead}`: ")?,
            None => write!(f, "`{newcomer}/{its}` is left out: ")?,
        }
        if own.is_empty() {
            write!(f, "`{name}` begins with the prefix of the server `{server}`")?;
        } else {
            write!(f, "`{name}` is the name of `{server}/{own}`")?;
        }
        if instead.is_none() {
            write!(
                f,
                "; set `prefix = \"always\"`, or give one of them a name in \
                 `[namespaces.N.tools.\"{newcomer}/{its}\"]`"
            )?;
        }
        Ok(())
    }
}

/// The URIs of one server that are left out because another server has them.
#[derive(Debug)]
pub(crate) struct AddressGroup<'a> {
    owner: &'a str,
    newcomer: &'a str,
    pub(crate) left_out: Vec<&'a Collision>,
}

impl<'a> AddressGroup<'a> {
    /// Groups the URIs among these collisions by the two servers.
    pub(crate) fn of(collisions: &'a [Collision]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for collision in collisions.iter().filter(|collision| collision.is_address) {
            match groups.iter_mut().find(|group| group.has(collision)) {
                Some(group) => group.left_out.push(collision),
                None => groups.push(Self {
                    owner: &collision.owner.server,
                    newcomer: &collision.newcomer.server,
                    left_out: vec![collision],
                }),
            }
        }
        groups
    }

    /// Whether the collision is between the same two servers.
    pub(crate) fn has(&self, other: &Collision) -> bool {
        other.is_address
            && other.owner.server == self.owner
            && other.newcomer.server == self.newcomer
    }
}

impl fmt::Display for AddressGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, newcomer, left_out } = self;
        match &**left_out {
            [only] => write!(f, "{only}"),
            several => {
                let example = several.first().map_or("", |first| &*first.name);
                let count = several.len();
                write!(
                    f,
                    "{count} addresses of `{newcomer}` are left out: they belong to `{owner}`, such as `{example}`"
                )
            }
        }
    }
}

/// The name of each entry, in the order of the input; `None` for entries that are left out. Also returns the collisions.
pub(crate) fn assign(
    mode: Prefix,
    servers: &[ServerNames],
    held: &OwnersByName,
) -> (Vec<Vec<Option<String>>>, Vec<Collision>) {
    let mut assignment = Assignment::new(mode, servers, held);
    assignment.give(|assignment, _, (_, fixed)| {
        fixed.clone().filter(|name| !assignment.owners.contains_key(name))
    });
    assignment.give(|assignment, number, (own, fixed)| {
        let server = &servers.get(number)?.server;
        let is_own =
            |name: &String| held.get(name.as_str()).is_some_and(|o| o.matches(server, own));
        let mut names = fixed.is_none().then(|| assignment.candidates(number, own))?.into_iter();
        names.find(|name| is_own(name) && !assignment.owners.contains_key(name))
    });
    assignment.give(|assignment, number, (own, fixed)| {
        let mut names = fixed.is_none().then(|| assignment.candidates(number, own))?.into_iter();
        names.find(|name| assignment.obstacle(name, number, own).is_none())
    });
    let collisions = assignment.collisions();
    (assignment.assigned, collisions)
}

/// The state of an assignment.
struct Assignment<'a> {
    mode: Prefix,
    servers: &'a [ServerNames],
    held: &'a OwnersByName,
    present: HashSet<&'a str>,
    /// The prefix of each server with the separator, in lower case.
    prefixes: Vec<String>,
    /// The assigned names, each with the index of its server and the server's own name.
    owners: HashMap<String, (usize, &'a str)>,
    /// The assigned names in lower case, with the index of the first server.
    folded: HashMap<String, usize>,
    assigned: Vec<Vec<Option<String>>>,
}

impl<'a> Assignment<'a> {
    fn new(mode: Prefix, servers: &'a [ServerNames], held: &'a OwnersByName) -> Self {
        let start = |server: &ServerNames| (plain(&server.prefix) + SEPARATOR).to_ascii_lowercase();
        Self {
            mode,
            servers,
            held,
            present: servers.iter().map(|server| server.server.as_str()).collect(),
            prefixes: servers.iter().map(start).collect(),
            owners: HashMap::new(),
            folded: HashMap::new(),
            assigned: servers.iter().map(|server| vec![None; server.names.len()]).collect(),
        }
    }

    /// Assigns names to all entries without one, in order. `choose` gets the index of the server and the entry.
    fn give(&mut self, choose: impl Fn(&Self, usize, &(String, Option<String>)) -> Option<String>) {
        let mut assigned = std::mem::take(&mut self.assigned);
        for (number, (server, names)) in self.servers.iter().zip(&mut assigned).enumerate() {
            let mut seen = HashSet::new();
            for (listed, slot) in server.names.iter().zip(names) {
                // If a server lists an entry twice, the first one counts.
                if !seen.insert(&listed.0) || slot.is_some() {
                    continue;
                }
                let Some(name) = choose(self, number, listed) else { continue };
                self.folded.entry(name.to_ascii_lowercase()).or_insert(number);
                self.owners.insert(name.clone(), (number, &listed.0));
                *slot = Some(name);
            }
        }
        self.assigned = assigned;
    }

    /// The possible names of an entry, the best one first.
    fn candidates(&self, number: usize, own: &str) -> Vec<String> {
        let Some(server) = self.servers.get(number) else { return Vec::new() };
        let own_name = (self.mode != Prefix::Always).then(|| cut(own.to_owned()));
        let is_free = |name: &String| self.reserved_for(name, number).is_none();
        if let (Prefix::Never, Some(name)) = (self.mode, own_name.as_ref().filter(|n| is_free(n))) {
            return vec![name.clone()];
        }
        let prefixed = Some(prefixed(&server.prefix, own)).filter(is_free);
        let prefixed = prefixed.unwrap_or_else(|| distinct(&server.prefix, own));
        own_name.filter(is_free).into_iter().chain([prefixed]).collect()
    }

    /// The other server whose prefix the name begins with. Of several matching prefixes, the longest counts.
    fn reserved_for(&self, name: &str, number: usize) -> Option<usize> {
        let begins = |prefix: &String| {
            let start = name.as_bytes().get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let own = self.prefixes.get(number).filter(|prefix| begins(prefix)).map_or(0, String::len);
        let others = self.prefixes.iter().enumerate();
        let others = others.filter(|(_, prefix)| prefix.len() > own && begins(prefix));
        others.max_by_key(|(_, prefix)| prefix.len()).map(|(other, _)| other)
    }

    /// The entry that prevents this entry from having this name: its server and the server's own name.
    fn obstacle(&self, name: &str, number: usize, own: &str) -> Option<CatalogEntry> {
        let server = self.servers.get(number)?;
        let named = |number: usize| self.servers.get(number).map(|s| s.server.clone());
        if let Some(other) = self.reserved_for(name, number) {
            return Some(CatalogEntry { server: named(other)?, name: String::new() });
        }
        if let Some((other, its)) = self.owners.get(name) {
            return Some(CatalogEntry { server: named(*other)?, name: (*its).to_owned() });
        }
        let held = self.held.get(name).filter(|owner| self.present.contains(&*owner.server));
        if let Some(owner) = held.filter(|owner| !owner.matches(&server.server, own)) {
            return Some(CatalogEntry {
                server: owner.server.to_string(),
                name: owner.own.to_string(),
            });
        }
        // Names that differ only in case would be confused, so they collide.
        let folded = self.folded.get(&name.to_ascii_lowercase()).filter(|other| **other != number);
        folded
            .and_then(|other| Some(CatalogEntry { server: named(*other)?, name: name.to_owned() }))
    }

    /// The entries that did not get their first choice, and why.
    fn collisions(&self) -> Vec<Collision> {
        let mut collisions = Vec::new();
        for (number, (server, assigned)) in self.servers.iter().zip(&self.assigned).enumerate() {
            let mut seen = HashSet::new();
            for ((own, fixed), assigned) in server.names.iter().zip(assigned) {
                let newcomer = CatalogEntry { server: server.server.clone(), name: own.clone() };
                if !seen.insert(own) {
                    let (name, owner) = (own.clone(), newcomer.clone());
                    let collision =
                        Collision { name, owner, newcomer, instead: None, is_address: false };
                    collisions.push(collision);
                    continue;
                }
                let alone = fixed.clone().unwrap_or_else(|| match self.mode {
                    Prefix::Always => prefixed(&server.prefix, own),
                    Prefix::OnCollision | Prefix::Never => cut(own.clone()),
                });
                if assigned.as_ref() == Some(&alone) {
                    continue;
                }
                match (self.obstacle(&alone, number, own), assigned) {
                    (None, Some(_)) => {}
                    (owner, instead) => collisions.push(Collision {
                        name: alone,
                        owner: owner.unwrap_or_else(|| newcomer.clone()),
                        newcomer,
                        instead: instead.clone(),
                        is_address: false,
                    }),
                }
            }
        }
        collisions
    }
}

fn plain(prefix: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    prefix.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// `PREFIX__NAME`, shortened if it is too long.
pub(crate) fn prefixed(prefix: &str, own: &str) -> String {
    cut(plain(prefix) + SEPARATOR + own)
}

/// The name for the case that `PREFIX__NAME` begins with the longer prefix of another server: with a single underscore
/// and a mark.
fn distinct(prefix: &str, own: &str) -> String {
    let mut name = plain(prefix) + SEPARATOR;
    let digest = Sha256::digest((name.clone() + own).as_bytes());
    for c in own.chars() {
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    name.truncate(name.floor_char_boundary(MAX_NAME_LENGTH - MARK_LENGTH));
    if !name.ends_with('_') {
        name.push('_');
    }
    mark(name, &digest)
}

/// A name of at most `MAX_NAME_LENGTH` bytes: a longer name is cut, and a digest of the whole name becomes its mark.
pub(crate) fn cut(mut name: String) -> String {
    if name.len() <= MAX_NAME_LENGTH {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    name.truncate(name.floor_char_boundary(MAX_NAME_LENGTH - MARK_LENGTH));
    name.push('_');
    mark(name, &digest)
}

fn mark(mut name: String, digest: &[u8]) -> String {
    for byte in digest.iter().take((MARK_LENGTH - 1) / 2) {
        // Writing to a string cannot fail.
        let _written = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests;
