//! The owners of the wire names of a namespace. A name keeps its owner while the gateway runs and across restarts, so that
//! a server cannot take over another server's name by listing it later.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};

use crate::{private_file, upstream::manifest::ListName};

/// The version of the file format. Files of other versions are ignored.
const FORMAT_VERSION: u64 = 1;
/// The number of names that stay reserved for a server that no longer lists them. With more, all of them are released.
const MAX_RESERVED: usize = 10_000;
/// The names of the lists in the file.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "templates"];

/// The owner of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameOwner {
    pub(crate) server: Arc<str>,
    /// The server's own name for it.
    pub(crate) own: Arc<str>,
    /// The number of the change that assigned the name: a smaller number is older.
    pub(crate) since: u64,
}

impl NameOwner {
    pub(crate) fn matches(&self, server: &str, own: &str) -> bool {
        *self.server == *server && *self.own == *own
    }
}

/// The owners of the names of one list.
pub(crate) type OwnersByName = HashMap<Box<str>, NameOwner>;

/// A name that a snapshot assigns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) name: Box<str>,
    pub(crate) server: Arc<str>,
    pub(crate) own: Arc<str>,
}

/// The names that a snapshot assigns, for each list in the order of [`ListName`].
pub(crate) type Claims = [Vec<Claim>; 4];

/// The owners of all names of a namespace.
#[derive(Debug, Default)]
pub(crate) struct NameOwners {
    /// The file; `None` keeps the owners in memory only.
    path: Option<PathBuf>,
    /// Whether this is an inspection, which writes no file and logs no collisions.
    is_only_read: bool,
    /// The number of the next change.
    next: u64,
    lists: [OwnersByName; 4],
}

impl NameOwners {
    /// Reads the file. If it cannot be parsed, logs that and begins without owners.
    pub(crate) fn read(path: Option<PathBuf>) -> Self {
        let text = path.as_ref().and_then(|path| std::fs::read(path).ok());
        let read = text.as_ref().map(|text| parse(text));
        if let (Some(path), Some(None)) = (&path, &read) {
            tracing::warn!("`{}` cannot be read: names are assigned anew", path.display());
        }
        let (next, lists) = read.flatten().unwrap_or_default();
        Self { path, next, lists, is_only_read: false }
    }

    /// Reads the file for an inspection: no change is written back.
    pub(crate) fn only_read(path: Option<PathBuf>) -> Self {
        Self { path: None, is_only_read: true, ..Self::read(path) }
    }

    /// Whether this is an inspection.
    pub(crate) fn is_only_read(&self) -> bool {
        self.is_only_read
    }

    /// The owners of one list.
    pub(crate) fn of(&self, list: ListName) -> &OwnersByName {
        let [tools, prompts, resources, templates] = &self.lists;
        match list {
            ListName::Tools => tools,
            ListName::Prompts => prompts,
            ListName::Resources => resources,
            ListName::Templates => templates,
        }
    }

    /// Whether all of these names already have these owners.
    pub(crate) fn has_all(&self, claims: &Claims) -> bool {
        let has = |held: &OwnersByName, claim: &Claim| {
            held.get(&claim.name).is_some_and(|owner| owner.matches(&claim.server, &claim.own))
        };
        self.lists.iter().zip(claims).all(|(held, claims)| claims.iter().all(|c| has(held, c)))
    }

    /// Records the owners of these names and writes the file. A server of the namespace keeps names that it does not list
    /// at present.
    pub(crate) fn record(&mut self, claims: Claims, servers: &HashSet<&str>) {
        let mut is_changed = false;
        for (held, claims) in self.lists.iter_mut().zip(claims) {
            let new = joined(held, claims, servers, self.next);
            if new != *held {
                *held = new;
                is_changed = true;
            }
        }
        if !is_changed {
            return;
        }
        self.next += 1;
        let Some(path) = &self.path else { return };
        if let Err(error) = private_file::write(path, &self.text()) {
            tracing::warn!(%error, "cannot write the owners of names to `{}`", path.display());
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut text = json!({"toolgate": FORMAT_VERSION, "next": self.next});
        for (name, held) in LISTS.into_iter().zip(&self.lists) {
            let entries = held.iter().map(|(name, owner)| {
                let owner = json!([&*owner.server, &*owner.own, owner.since]);
                (name.to_string(), owner)
            });
            if let Some(object) = text.as_object_mut() {
                object.insert(name.to_owned(), Value::Object(entries.collect()));
            }
        }
        text.to_string().into_bytes()
    }
}

/// The new owners, and those old ones whose server still exists and does not list the entry at present.
fn joined(
    old: &OwnersByName,
    claims: Vec<Claim>,
    servers: &HashSet<&str>,
    now: u64,
) -> OwnersByName {
    let listed: HashSet<(Arc<str>, Arc<str>)> =
        claims.iter().map(|claim| (Arc::clone(&claim.server), Arc::clone(&claim.own))).collect();
    let mut new: OwnersByName = HashMap::with_capacity(claims.len());
    for Claim { name, server, own } in claims {
        let before = old.get(&name).filter(|owner| owner.matches(&server, &own));
        let since = before.map_or(now, |owner| owner.since);
        new.insert(name, NameOwner { server, own, since });
    }
    let mut unlisted: HashMap<&str, Vec<(&Box<str>, &NameOwner)>> = HashMap::new();
    for (name, owner) in old {
        let is_listed = listed.contains(&(Arc::clone(&owner.server), Arc::clone(&owner.own)));
        if !is_listed && servers.contains(&*owner.server) && !new.contains_key(name) {
            unlisted.entry(&owner.server).or_default().push((name, owner));
        }
    }
    let kept = unlisted.into_values().filter(|names| names.len() <= MAX_RESERVED).flatten();
    new.extend(kept.map(|(name, owner)| (name.clone(), owner.clone())));
    new
}

fn parse(text: &[u8]) -> Option<(u64, [OwnersByName; 4])> {
    let json: Value = serde_json::from_slice(text).ok()?;
    if json.get("toolgate")?.as_u64()? != FORMAT_VERSION {
        return None;
    }
    let mut lists: [OwnersByName; 4] = Default::default();
    for (name, held) in LISTS.into_iter().zip(&mut lists) {
        for (name, owner) in json.get(name)?.as_object()? {
            let owner = NameOwner {
                server: owner.get(0)?.as_str()?.into(),
                own: owner.get(1)?.as_str()?.into(),
                since: owner.get(2)?.as_u64()?,
            };
            held.insert(name.as_str().into(), owner);
        }
    }
    Some((json.get("next")?.as_u64()?, lists))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(tools: &[(&str, &str, &str)]) -> Claims {
        let claim = |(name, server, own): &(&str, &str, &str)| Claim {
            name: (*name).into(),
            server: (*server).into(),
            own: (*own).into(),
        };
        [tools.iter().map(claim).collect(), Vec::new(), Vec::new(), Vec::new()]
    }

    fn shown(owners: &NameOwners) -> Vec<String> {
        let tools = owners.of(ListName::Tools).iter();
        let mut shown: Vec<String> =
            tools.map(|(n, o)| format!("{n} {}/{} {}", o.server, o.own, o.since)).collect();
        shown.sort();
        shown
    }

    #[test]
    fn a_name_stays_with_its_owner_also_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("names.json"));
        let both = HashSet::from(["a", "b"]);
        let mut owners = NameOwners::read(path.clone());
        owners.record(claims(&[("x", "a", "x"), ("b__x", "b", "x")]), &both);
        assert!(owners.has_all(&claims(&[("x", "a", "x")])));
        // `a` does not list it for a while, and `b` has something new.
        owners.record(claims(&[("b__x", "b", "x"), ("y", "b", "y")]), &both);
        let expected = ["b__x b/x 0", "x a/x 0", "y b/y 1"];
        assert_eq!(shown(&owners), expected);
        assert_eq!(shown(&NameOwners::read(path.clone())), expected);
        // A server that left the namespace owns nothing.
        owners.record(claims(&[("b__x", "b", "x")]), &HashSet::from(["b"]));
        assert_eq!(shown(&owners), ["b__x b/x 0", "y b/y 1"]);
        std::fs::write(path.clone().unwrap(), "{").unwrap();
        assert!(shown(&NameOwners::read(path)).is_empty());
    }

    #[test]
    fn a_server_that_lists_other_names_all_the_time_does_not_fill_the_memory() {
        let mut owners = NameOwners::default();
        for turn in 0..3 {
            let names: Vec<String> = (0..6000).map(|n| format!("{turn}-{n}")).collect();
            let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "a", &**name)).collect();
            owners.record(claims(&tools), &HashSet::from(["a"]));
        }
        assert_eq!(owners.of(ListName::Tools).len(), 6000);
    }
}
