//! Names: by example, and for whatever servers may list.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::catalog::name_owners::NameOwner;

fn server(name: &str, names: &[&str]) -> ServerNames {
    let names = names.iter().map(|own| match own.split_once('=') {
        Some((own, fixed)) => (own.to_owned(), Some(fixed.to_owned())),
        None => ((*own).to_owned(), None),
    });
    ServerNames { server: name.to_owned(), prefix: name.to_owned(), names: names.collect() }
}

/// What each is called, as `SERVER/OWN NAME`; without what is left out.
fn named(mode: Prefix, servers: &[ServerNames]) -> Vec<String> {
    named_with(mode, servers, &OwnersByName::new())
}

fn named_with(mode: Prefix, servers: &[ServerNames], held: &OwnersByName) -> Vec<String> {
    let (assigned, _) = assign(mode, servers, held);
    let of_server = |(server, assigned): (&ServerNames, Vec<Option<String>>)| {
        let named = server.names.iter().zip(assigned);
        let shown = named.filter_map(|((own, _), name)| {
            name.map(|name| format!("{}/{own} {name}", server.server))
        });
        shown.collect::<Vec<_>>()
    };
    servers.iter().zip(assigned).flat_map(of_server).collect()
}

/// Owners, as `SERVER/OWN NAME`.
fn held(owners: &[&str]) -> OwnersByName {
    let owner = |text: &&str| {
        let (owner, name) = text.split_once(' ').unwrap();
        let (server, own) = owner.split_once('/').unwrap();
        (name.into(), NameOwner { server: server.into(), own: own.into(), since: 0 })
    };
    owners.iter().map(owner).collect()
}

fn told(mode: Prefix, servers: &[ServerNames], held: &OwnersByName) -> Vec<String> {
    assign(mode, servers, held).1.iter().map(ToString::to_string).collect()
}

#[test]
fn the_mode_says_who_gets_a_prefix() {
    let servers = [server("a", &["x", "y"]), server("b", &["y", "z"])];
    assert_eq!(named(Prefix::Always, &servers), ["a/x a__x", "a/y a__y", "b/y b__y", "b/z b__z"]);
    assert_eq!(named(Prefix::OnCollision, &servers), ["a/x x", "a/y y", "b/y b__y", "b/z z"]);
    assert_eq!(named(Prefix::Never, &servers), ["a/x x", "a/y y", "b/z z"]);
    assert_eq!(
        told(Prefix::OnCollision, &servers, &OwnersByName::new()),
        ["`b/y` is listed as `b__y`: `y` is the name of `a/y`"]
    );
    assert_eq!(
        told(Prefix::Never, &servers, &OwnersByName::new()),
        [
            "`b/y` is left out: `y` is the name of `a/y`; set `prefix = \"always\"`, or give one of them a \
             name in `[namespaces.N.tools.\"b/y\"]`"
        ]
    );
}

#[test]
fn whoever_has_a_name_keeps_it() {
    let servers = [server("a", &["x", "y"]), server("b", &["x", "y"])];
    let owners = held(&["b/x x", "b/gone y"]);
    let expected = ["a/x a__x", "a/y a__y", "b/x x", "b/y b__y"];
    assert_eq!(named_with(Prefix::OnCollision, &servers, &owners), expected);
    assert_eq!(named_with(Prefix::Never, &servers, &owners), ["b/x x"]);
    // A server that is not here any more owns nothing; a prefix that was needed once stays.
    let owners = held(&["c/x x", "a/y a__y"]);
    let expected = ["a/x x", "a/y a__y", "b/x b__x", "b/y y"];
    assert_eq!(named_with(Prefix::OnCollision, &servers, &owners), expected);
    // Another mode gives other names.
    let owners = held(&["b/x x", "a/y y"]);
    let expected = ["a/x a__x", "a/y a__y", "b/x b__x", "b/y b__y"];
    assert_eq!(named_with(Prefix::Always, &servers, &owners), expected);
}

#[test]
fn a_prefix_is_reserved_for_its_server() {
    let servers =
        [server("calc", &["read", "files__read", "FILES__x"]), server("files", &["read"])];
    for mode in [Prefix::OnCollision, Prefix::Never] {
        let named = named(mode, &servers);
        assert_eq!(
            named[..3],
            [
                "calc/read read",
                "calc/files__read calc__files__read",
                "calc/FILES__x calc__FILES__x"
            ]
        );
        assert_eq!(
            named.get(3).is_some_and(|n| n == "files/read files__read"),
            mode != Prefix::Never
        );
    }
    assert_eq!(
        told(Prefix::OnCollision, &servers, &OwnersByName::new())[0],
        "`calc/files__read` is listed as `calc__files__read`: `files__read` begins with the prefix of the server \
         `files`"
    );
    // Also where it was given out before the server was there.
    let owners = held(&["calc/files__read files__read"]);
    let named = named_with(Prefix::OnCollision, &servers, &owners);
    assert!(!named.contains(&"calc/files__read files__read".to_owned()), "{named:?}");
}

#[test]
fn of_two_prefixes_the_longer_one_counts() {
    for (short, long, own, whole) in [
        ("a", "a__b", "b__x", "a__b__x"),
        ("a", "a_", "_x", "a___x"),
        ("A", "a__B", "b__x", "A__b__x"),
    ] {
        let servers = [server(short, &[own]), server(long, &["x"])];
        for mode in [Prefix::Always, Prefix::OnCollision] {
            let named = named(mode, &servers);
            assert!(!named[0].ends_with(&format!(" {whole}")), "{named:?}");
            assert!(
                mode != Prefix::Always || named[0].contains(&format!(" {short}__")),
                "{named:?}"
            );
            assert_eq!(named.len(), 2);
        }
    }
    let servers = [server("a", &["____"]), server("a_", &["x"]), server("a__", &["y"])];
    assert_eq!(named(Prefix::Always, &servers)[0], "a/____ a__30daf421");
}

#[test]
fn names_that_differ_in_case_only_are_one_for_another_server() {
    let servers = [server("a", &["Read", "read"]), server("b", &["READ"])];
    assert_eq!(
        named(Prefix::OnCollision, &servers),
        ["a/Read Read", "a/read read", "b/READ b__READ"]
    );
}

#[test]
fn a_given_name_is_used_as_it_is_and_comes_first() {
    let servers = [server("a", &["x", "y=find"]), server("b", &["y", "find"])];
    assert_eq!(
        named(Prefix::Always, &servers),
        ["a/x a__x", "a/y find", "b/y b__y", "b/find b__find"]
    );
    // What has another name leaves its own to others; and the name it was given is taken.
    assert_eq!(
        named(Prefix::OnCollision, &servers),
        ["a/x x", "a/y find", "b/y y", "b/find b__find"]
    );
    let servers = [server("a", &["find"]), server("b", &["x=find", "z=find"])];
    assert_eq!(named_with(Prefix::Never, &servers, &held(&["a/find find"])), ["b/x find"]);
    let (_, collisions) = assign(Prefix::Never, &servers, &OwnersByName::new());
    let newcomers: Vec<_> = collisions.iter().map(|collision| collision.newcomer.clone()).collect();
    assert_eq!(newcomers, [entry("a", "find"), entry("b", "z")]);
    assert!(collisions.iter().all(|collision| collision.owner == entry("b", "x")));
}

fn entry(server: &str, name: &str) -> CatalogEntry {
    CatalogEntry { server: server.to_owned(), name: name.to_owned() }
}

#[test]
fn what_still_collides_is_reported_with_both_owners() {
    // Two prefixes that become one.
    let mut servers = [server("a b", &["x"]), server("a/b", &["x"])];
    assert_eq!(named(Prefix::Always, &servers), ["a b/x a_b__x"]);
    let (_, collisions) = assign(Prefix::Always, &servers, &OwnersByName::new());
    assert!(matches!(&*collisions, [one] if one.leaves_out() && one.newcomer.server == "a/b"));
    servers[1].prefix = "other".to_owned();
    assert_eq!(named(Prefix::Always, &servers), ["a b/x a_b__x", "a/b/x other__x"]);
    // One server that lists a name twice.
    let twice = [server("a", &["x", "x"])];
    let (names, collisions) = assign(Prefix::OnCollision, &twice, &OwnersByName::new());
    assert_eq!(names, [[Some("x".to_owned()), None]]);
    assert_eq!(collisions[0].to_string(), "server `a` lists `x` twice: the first one is used");
    assert!(!collisions[0].leaves_out());
}

#[test]
fn long_names_are_cut_with_a_mark_that_stays() {
    let fits = prefixed("files", &"x".repeat(57));
    assert_eq!((fits.len(), fits.ends_with("xx")), (64, true));
    let cut = prefixed("files", &"x".repeat(58));
    assert_eq!(cut, format!("files__{}_efd8a93d", "x".repeat(48)));
    assert_eq!(cut.len(), 64);
    assert_ne!(cut, prefixed("files", &"x".repeat(59)));
    // No character is cut in two.
    let wide = prefixed("ff", &"ä".repeat(40));
    assert!(wide.starts_with(&format!("ff__{}_", "ä".repeat(25))), "{wide}");
    assert_eq!(wide.len(), 63);
    // Without a prefix too, and two that begin alike stay two.
    let long = ["y".repeat(64) + "1", "y".repeat(64) + "2"];
    let servers = [server("a", &[&long[0], &long[1], &"z".repeat(64)])];
    for mode in [Prefix::OnCollision, Prefix::Never] {
        let (names, collisions) = assign(mode, &servers, &OwnersByName::new());
        let names: BTreeSet<&String> = names[0].iter().flatten().collect();
        assert!(names.len() == 3 && collisions.is_empty(), "{names:?}");
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
    }
}

#[test]
fn prefixes_have_plain_characters_only() {
    assert_eq!(prefixed("my server/ü.1-x_", "ä b"), "my_server__.1-x___ä b");
}

fn any_servers() -> impl Strategy<Value = Vec<ServerNames>> {
    let own = prop_oneof!["[a-c]{1,2}", "[ab]__[a-c]", "[a-c]{60,70}", "\\PC{0,3}",];
    let listed = (own, prop::option::weighted(0.15, "[a-c]{1,2}"));
    let names = prop::collection::vec(listed, 0..8);
    prop::collection::vec(("[ab/ _]{1,2}", names), 0..5).prop_map(|servers| {
        let numbered = servers.into_iter().enumerate();
        numbered.map(|(n, (prefix, names))| named_alike(n, prefix, names)).collect()
    })
}

/// What a server lists twice has one given name, if any.
fn named_alike(n: usize, prefix: String, names: Vec<(String, Option<String>)>) -> ServerNames {
    let given: BTreeMap<_, _> = names.iter().cloned().collect();
    let names = names.into_iter().map(|(own, _)| (own.clone(), given[&own].clone())).collect();
    ServerNames { server: format!("s{n}"), prefix, names }
}

fn any_mode() -> impl Strategy<Value = Prefix> {
    prop_oneof![Just(Prefix::Always), Just(Prefix::OnCollision), Just(Prefix::Never)]
}

/// Owners as they are after these names were given out.
fn recorded(servers: &[ServerNames], assigned: &[Vec<Option<String>>]) -> OwnersByName {
    let mut held = OwnersByName::new();
    for (server, assigned) in servers.iter().zip(assigned) {
        for ((own, fixed), name) in server.names.iter().zip(assigned) {
            if let (None, Some(name)) = (fixed, name) {
                let (server, own) = (server.server.as_str().into(), own.as_str().into());
                held.insert(name.as_str().into(), NameOwner { server, own, since: 0 });
            }
        }
    }
    held
}

proptest! {
    #[test]
    fn no_two_have_one_name_and_all_that_have_none_are_reported(
        servers in any_servers(),
        mode in any_mode(),
    ) {
        let (assigned, collisions) = assign(mode, &servers, &OwnersByName::new());
        let names: Vec<_> = assigned.iter().flatten().flatten().collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(names.len(), distinct.len());
        let left_out = assigned.iter().flatten().filter(|name| name.is_none()).count();
        let told = collisions.iter().filter(|collision| collision.instead.is_none()).count();
        prop_assert_eq!(left_out, told);
        for (server, assigned) in servers.iter().zip(&assigned) {
            prop_assert_eq!(server.names.len(), assigned.len());
            for ((_, fixed), name) in server.names.iter().zip(assigned) {
                let Some(name) = name else { continue };
                match fixed {
                    Some(fixed) => prop_assert_eq!(name, fixed),
                    None => prop_assert!(name.len() <= MAX_NAME_LENGTH),
                }
            }
        }
    }

    /// Whatever the servers list next, and whichever server is added: no name passes to another owner, and what is
    /// still listed keeps its name. Except that a name that begins with another server's prefix is given up.
    #[test]
    fn a_name_never_changes_its_owner(
        before in any_servers(),
        after in any_servers(),
        mode in any_mode(),
    ) {
        let unfixed = |mut servers: Vec<ServerNames>| {
            servers.iter_mut().flat_map(|server| &mut server.names).for_each(|name| name.1 = None);
            servers
        };
        let (before, mut after) = (unfixed(before), unfixed(after));
        for (old, new) in before.iter().zip(&mut after) {
            new.prefix.clone_from(&old.prefix);
        }
        for old in before.iter().skip(after.len()) {
            after.push(ServerNames { names: Vec::new(), ..old.clone() });
        }
        let (assigned, _) = assign(mode, &before, &OwnersByName::new());
        let owners = recorded(&before, &assigned);
        let (assigned, _) = assign(mode, &after, &owners);
        let assignment = Assignment::new(mode, &after, &owners);
        for (number, (server, assigned)) in after.iter().zip(&assigned).enumerate() {
            for ((own, _), name) in server.names.iter().zip(assigned) {
                if let Some(owner) = name.as_ref().and_then(|name| owners.get(name.as_str())) {
                    prop_assert!(owner.matches(&server.server, own), "{:?} {}", name, owner.own);
                }
            }
            for (name, owner) in owners.iter().filter(|(_, owner)| *owner.server == server.server) {
                let place = server.names.iter().position(|(own, _)| **own == *owner.own);
                let is_reserved = assignment.reserved_for(name, number).is_some();
                if let Some(place) = place.filter(|_| !is_reserved) {
                    prop_assert_eq!(assigned[place].as_deref(), Some(&**name));
                }
            }
        }
    }

    /// A name with a server's prefix is that server's.
    #[test]
    fn nobody_else_has_a_name_with_a_servers_prefix(servers in any_servers(), mode in any_mode()) {
        let (assigned, _) = assign(mode, &servers, &OwnersByName::new());
        let nothing = OwnersByName::new();
        let assignment = Assignment::new(mode, &servers, &nothing);
        for (number, (server, assigned)) in servers.iter().zip(&assigned).enumerate() {
            for ((_, fixed), name) in server.names.iter().zip(assigned) {
                if let (None, Some(name)) = (fixed, name) {
                    prop_assert!(assignment.reserved_for(name, number).is_none(), "{}", name);
                }
            }
        }
    }
}
