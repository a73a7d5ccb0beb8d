//! Which name each tool and each prompt has on the wire. The same for the same servers, whoever was asked first.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::{self, Write as _},
};

use sha2::{Digest as _, Sha256};

use super::Prefix;

/// The most bytes of a name with a prefix: some clients take no more.
const LONGEST: usize = 64;
/// Between a prefix and a name.
const SEPARATOR: &str = "__";
/// An underscore and eight digits, at the end of a name that was cut.
const MARK: usize = 9;

/// One server with what it lists, in its order.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the names are what it is about")]
pub(crate) struct Names {
    pub(crate) server: String,
    /// What its prefixed names begin with.
    pub(crate) prefix: String,
    /// Its own names, each with the name that an operator gave it, if one did.
    pub(crate) names: Vec<(String, Option<String>)>,
}

/// Two that would have the same name. The first has it, the second is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collision {
    pub(crate) name: String,
    /// A server, and its own name for it.
    pub(crate) first: (String, String),
    pub(crate) second: (String, String),
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, first, second } = self;
        if first == second {
            return write!(
                f,
                "server `{}` lists `{}` twice: the first one is used",
                first.0, first.1
            );
        }
        write!(
            f,
            "`{name}` would be the name of `{}/{}` and of `{}/{}`, which is left out: set `prefix = \"always\"`, or \
             give one of them a name in `[namespaces.N.tools.\"{}/{}\"]`",
            first.0, first.1, second.0, second.1, second.0, second.1
        )
    }
}

/// The name of each, server by server in the order they came in; `None` for what is left out. And why it is.
///
/// A name that an operator gave is used as it is, and before all others: what a server lists cannot take it away.
pub(crate) fn assign(
    mode: Prefix,
    servers: &[Names],
) -> (Vec<Vec<Option<String>>>, Vec<Collision>) {
    let shared = match mode {
        Prefix::OnCollision => shared(servers),
        Prefix::Always | Prefix::Never => HashSet::new(),
    };
    let wanted = |server: &Names, (own, fixed): &(String, Option<String>)| match fixed {
        Some(fixed) => fixed.clone(),
        None if mode == Prefix::Always || shared.contains(own.as_str()) => {
            prefixed(&server.prefix, own)
        }
        None => own.clone(),
    };
    let mut taken: HashMap<String, (&str, &str)> = HashMap::new();
    let mut collisions = Vec::new();
    let mut assigned: Vec<Vec<_>> =
        servers.iter().map(|server| vec![None; server.names.len()]).collect();
    for is_fixed in [true, false] {
        for (server, assigned) in servers.iter().zip(&mut assigned) {
            let listed = server.names.iter().zip(assigned);
            for (listed, assigned) in listed.filter(|(one, _)| one.1.is_some() == is_fixed) {
                let name = wanted(server, listed);
                let owner = (server.server.as_str(), listed.0.as_str());
                match taken.entry(name) {
                    Entry::Vacant(free) => {
                        *assigned = Some(free.key().clone());
                        free.insert(owner);
                    }
                    Entry::Occupied(taken) => collisions.push(Collision {
                        name: taken.key().clone(),
                        first: owned(*taken.get()),
                        second: owned(owner),
                    }),
                }
            }
        }
    }
    (assigned, collisions)
}

fn owned((server, own): (&str, &str)) -> (String, String) {
    (server.to_owned(), own.to_owned())
}

/// Names that more than one server would have without a prefix. What an operator named does not need its own name, but
/// keeps others from the one it was given.
fn shared(servers: &[Names]) -> HashSet<&str> {
    let mut first = HashMap::new();
    let mut shared = HashSet::new();
    for (number, server) in servers.iter().enumerate() {
        for (own, fixed) in &server.names {
            match fixed {
                Some(fixed) => {
                    shared.insert(fixed.as_str());
                }
                None if *first.entry(own.as_str()).or_insert(number) != number => {
                    shared.insert(own.as_str());
                }
                None => {}
            }
        }
    }
    shared
}

/// `PREFIX__NAME`, cut with a mark at its end if it is too long: the same one each time.
pub(crate) fn prefixed(prefix: &str, own: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut name: String = prefix.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    name.push_str(SEPARATOR);
    name.push_str(own);
    if name.len() <= LONGEST {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    name.truncate(name.floor_char_boundary(LONGEST - MARK));
    name.push('_');
    for byte in digest.iter().take((MARK - 1) / 2) {
        // To write to a string does not fail.
        let _written = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests;
