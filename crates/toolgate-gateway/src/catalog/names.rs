//! Which name each tool and each prompt has on the wire. A name never passes from one server to another.
//!
//! In this order: names that an operator gave; names that already have an owner; then, in the order of the config, all
//! others. Names that begin with a server's prefix and `__` are reserved for that server.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write as _},
};

use sha2::{Digest as _, Sha256};

use super::name_owners::Held;
use crate::config::Prefix;

/// The most bytes of a name: some clients take no more.
const LONGEST: usize = 64;
/// Between a prefix and a name.
const SEPARATOR: &str = "__";
/// An underscore and eight digits, at the end of a name that was cut.
const MARK: usize = 9;

/// One server with what it lists, in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerNames {
    pub(crate) server: String,
    /// What its prefixed names begin with.
    pub(crate) prefix: String,
    /// Its own names, each with the name that an operator gave it, if one did.
    pub(crate) names: Vec<(String, Option<String>)>,
}

/// A name that something does not get because another server has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Collision {
    pub(crate) name: String,
    /// A server, and its own name for it; no name where the name is reserved for the server by its prefix.
    pub(crate) first: (String, String),
    pub(crate) second: (String, String),
    /// The name that the second gets instead; without one it is left out.
    pub(crate) instead: Option<String>,
    /// It is the address of a resource, or a template: these are never renamed.
    pub(crate) is_address: bool,
}

impl Collision {
    /// Whether a tool or a prompt is left out because another server has its name.
    pub(crate) fn leaves_out(&self) -> bool {
        self.instead.is_none() && !self.is_address && self.first != self.second
    }
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, first: (server, own), second, instead, is_address } = self;
        if *is_address {
            return write!(
                f,
                "the address `{name}` of `{}` is left out: it belongs to `{server}`",
                second.0
            );
        }
        if self.first == self.second {
            return write!(f, "server `{server}` lists `{own}` twice: the first one is used");
        }
        let (newcomer, its) = second;
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

/// The addresses of one server that are left out because another one has them.
#[derive(Debug)]
pub(crate) struct AddressGroup<'a> {
    owner: &'a str,
    newcomer: &'a str,
    pub(crate) left_out: Vec<&'a Collision>,
}

impl<'a> AddressGroup<'a> {
    /// The addresses among these, by the two servers.
    pub(crate) fn of(collisions: &'a [Collision]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for collision in collisions.iter().filter(|collision| collision.is_address) {
            match groups.iter_mut().find(|group| group.has(collision)) {
                Some(group) => group.left_out.push(collision),
                None => groups.push(Self {
                    owner: &collision.first.0,
                    newcomer: &collision.second.0,
                    left_out: vec![collision],
                }),
            }
        }
        groups
    }

    /// Whether it is about the same two servers.
    pub(crate) fn has(&self, other: &Collision) -> bool {
        other.is_address && other.first.0 == self.owner && other.second.0 == self.newcomer
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

/// The name of each, server by server in the order they came in; `None` for what is left out. And what did not get the
/// name that it would have alone.
pub(crate) fn assign(
    mode: Prefix,
    servers: &[ServerNames],
    held: &Held,
) -> (Vec<Vec<Option<String>>>, Vec<Collision>) {
    let mut assignment = Assignment::new(mode, servers, held);
    assignment.give(|assignment, _, (_, fixed)| {
        fixed.clone().filter(|name| !assignment.owners.contains_key(name))
    });
    assignment.give(|assignment, number, (own, fixed)| {
        let server = &servers.get(number)?.server;
        let is_own = |name: &String| held.get(name.as_str()).is_some_and(|o| o.is(server, own));
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

/// Names while they are given out.
struct Assignment<'a> {
    mode: Prefix,
    servers: &'a [ServerNames],
    held: &'a Held,
    present: HashSet<&'a str>,
    /// What names with the prefix of each server begin with, in lower case.
    prefixes: Vec<String>,
    /// Each name with the number of its server and its own name.
    owners: HashMap<String, (usize, &'a str)>,
    /// Names in lower case, with the server that had one like it first.
    folded: HashMap<String, usize>,
    assigned: Vec<Vec<Option<String>>>,
}

impl<'a> Assignment<'a> {
    fn new(mode: Prefix, servers: &'a [ServerNames], held: &'a Held) -> Self {
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

    /// Gives names to all that have none yet, in order. `choose` gets the number of the server, and what it lists.
    fn give(&mut self, choose: impl Fn(&Self, usize, &(String, Option<String>)) -> Option<String>) {
        let mut assigned = std::mem::take(&mut self.assigned);
        for (number, (server, names)) in self.servers.iter().zip(&mut assigned).enumerate() {
            let mut seen = HashSet::new();
            for (listed, slot) in server.names.iter().zip(names) {
                // Of what is listed twice, the first one counts.
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

    /// The names that something may have, the best one first.
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

    /// The server, other than this one, whose prefix the name begins with. Of several prefixes the longest counts.
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

    /// What keeps this server's own name from having this name on the wire: a server, and its own name for it.
    fn obstacle(&self, name: &str, number: usize, own: &str) -> Option<(String, String)> {
        let server = self.servers.get(number)?;
        let named = |number: usize| self.servers.get(number).map(|s| s.server.clone());
        if let Some(other) = self.reserved_for(name, number) {
            return Some((named(other)?, String::new()));
        }
        if let Some((other, its)) = self.owners.get(name) {
            return Some((named(*other)?, (*its).to_owned()));
        }
        let held = self.held.get(name).filter(|owner| self.present.contains(&*owner.server));
        if let Some(owner) = held.filter(|owner| !owner.is(&server.server, own)) {
            return Some((owner.server.to_string(), owner.own.to_string()));
        }
        // Two names that differ only in case look like one.
        let folded = self.folded.get(&name.to_ascii_lowercase()).filter(|other| **other != number);
        folded.and_then(|other| Some((named(*other)?, name.to_owned())))
    }

    /// What did not get the name that it would have alone, and why.
    fn collisions(&self) -> Vec<Collision> {
        let mut collisions = Vec::new();
        for (number, (server, assigned)) in self.servers.iter().zip(&self.assigned).enumerate() {
            let mut seen = HashSet::new();
            for ((own, fixed), assigned) in server.names.iter().zip(assigned) {
                let second = (server.server.clone(), own.clone());
                if !seen.insert(own) {
                    let (name, first) = (own.clone(), second.clone());
                    let collision =
                        Collision { name, first, second, instead: None, is_address: false };
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
                    (first, instead) => collisions.push(Collision {
                        name: alone,
                        first: first.unwrap_or_else(|| second.clone()),
                        second,
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

/// `PREFIX__NAME`, cut if it is too long.
pub(crate) fn prefixed(prefix: &str, own: &str) -> String {
    cut(plain(prefix) + SEPARATOR + own)
}

/// The same where `PREFIX__NAME` begins with the longer prefix of another server: without a second `__`, and with a mark.
fn distinct(prefix: &str, own: &str) -> String {
    let mut name = plain(prefix) + SEPARATOR;
    let digest = Sha256::digest((name.clone() + own).as_bytes());
    for c in own.chars() {
        if c != '_' || !name.ends_with('_') {
            name.push(c);
        }
    }
    name.truncate(name.floor_char_boundary(LONGEST - MARK));
    if !name.ends_with('_') {
        name.push('_');
    }
    mark(name, &digest)
}

/// A name of at most 64 bytes: one that is longer is cut, with a mark at its end that is the same each time.
pub(crate) fn cut(mut name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    name.truncate(name.floor_char_boundary(LONGEST - MARK));
    name.push('_');
    mark(name, &digest)
}

fn mark(mut name: String, digest: &[u8]) -> String {
    for byte in digest.iter().take((MARK - 1) / 2) {
        // To write to a string does not fail.
        let _written = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests;
