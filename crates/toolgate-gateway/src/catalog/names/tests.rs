//! Names: by example, and for whatever servers may list.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn server(name: &str, names: &[&str]) -> Names {
    let names = names.iter().map(|own| match own.split_once('=') {
        Some((own, fixed)) => (own.to_owned(), Some(fixed.to_owned())),
        None => ((*own).to_owned(), None),
    });
    Names { server: name.to_owned(), prefix: name.to_owned(), names: names.collect() }
}

/// What each is called, as `SERVER/OWN NAME`; without what is left out.
fn named(mode: Prefix, servers: &[Names]) -> Vec<String> {
    let (assigned, _) = assign(mode, servers);
    let of_server = |(server, assigned): (&Names, Vec<Option<String>>)| {
        let named = server.names.iter().zip(assigned);
        let shown = named.filter_map(|((own, _), name)| {
            name.map(|name| format!("{}/{own} {name}", server.server))
        });
        shown.collect::<Vec<_>>()
    };
    servers.iter().zip(assigned).flat_map(of_server).collect()
}

#[test]
fn the_mode_says_who_gets_a_prefix() {
    let servers = [server("a", &["x", "y"]), server("b", &["y", "z"])];
    assert_eq!(named(Prefix::Always, &servers), ["a/x a__x", "a/y a__y", "b/y b__y", "b/z b__z"]);
    assert_eq!(named(Prefix::OnCollision, &servers), ["a/x x", "a/y a__y", "b/y b__y", "b/z z"]);
    assert_eq!(named(Prefix::Never, &servers), ["a/x x", "a/y y", "b/z z"]);
    let (_, collisions) = assign(Prefix::Never, &servers);
    assert_eq!(
        collisions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "`y` would be the name of `a/y` and of `b/y`, which is left out: set `prefix = \"always\"`, or give one \
          of them a name in `[namespaces.N.tools.\"b/y\"]`"
        ]
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
    assert_eq!(named(Prefix::Never, &servers), ["b/x find"]);
    let (_, collisions) = assign(Prefix::Never, &servers);
    let second = |collision: &Collision| collision.second.clone();
    let seconds: Vec<_> = collisions.iter().map(second).collect();
    assert_eq!(seconds, [owned(("b", "z")), owned(("a", "find"))]);
    assert!(collisions.iter().all(|collision| collision.first == owned(("b", "x"))));
}

#[test]
fn what_still_collides_is_reported_with_both_owners() {
    let servers = [server("a", &["x", "b__y"]), server("b", &["x", "y"]), server("c", &["y"])];
    let (_, collisions) = assign(Prefix::OnCollision, &servers);
    let [collision] = &*collisions else { panic!("{collisions:?}") };
    assert_eq!(collision.name, "b__y");
    assert_eq!((&collision.first, &collision.second), (&owned(("a", "b__y")), &owned(("b", "y"))));
    // Two prefixes that become one.
    let mut servers = [server("a b", &["x"]), server("a/b", &["x"])];
    assert_eq!(named(Prefix::Always, &servers), ["a b/x a_b__x"]);
    servers[1].prefix = "other".to_owned();
    assert_eq!(named(Prefix::Always, &servers), ["a b/x a_b__x", "a/b/x other__x"]);
    // One server that lists a name twice.
    let (names, collisions) = assign(Prefix::OnCollision, &[server("a", &["x", "x"])]);
    assert_eq!(names, [[Some("x".to_owned()), None]]);
    assert_eq!(collisions[0].to_string(), "server `a` lists `x` twice: the first one is used");
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
    // A name without a prefix is its server's, however long.
    let long = "y".repeat(100);
    assert_eq!(named(Prefix::OnCollision, &[server("a", &[&long])]), [format!("a/{long} {long}")]);
}

#[test]
fn prefixes_have_plain_characters_only() {
    assert_eq!(prefixed("my server/ü.1-x_", "ä b"), "my_server__.1-x___ä b");
}

fn any_servers() -> impl Strategy<Value = Vec<Names>> {
    let own = prop_oneof!["[a-c]{1,2}", "[ab]__[a-c]", "[a-c]{60,70}", "\\PC{0,3}",];
    let listed = (own, prop::option::weighted(0.15, "[a-c]{1,2}"));
    let names = prop::collection::vec(listed, 0..8);
    prop::collection::vec(("[ab/ _]{1,2}", names), 0..5).prop_map(|servers| {
        let numbered = servers.into_iter().enumerate();
        numbered.map(|(n, (prefix, names))| named_alike(n, prefix, names)).collect()
    })
}

/// What a server lists twice has one given name, if any.
fn named_alike(n: usize, prefix: String, names: Vec<(String, Option<String>)>) -> Names {
    let given: BTreeMap<_, _> = names.iter().cloned().collect();
    let names = names.into_iter().map(|(own, _)| (own.clone(), given[&own].clone())).collect();
    Names { server: format!("s{n}"), prefix, names }
}

fn any_mode() -> impl Strategy<Value = Prefix> {
    prop_oneof![Just(Prefix::Always), Just(Prefix::OnCollision), Just(Prefix::Never)]
}

/// Each pair of server and own name, with its name.
fn by_owner(
    servers: &[Names],
    assigned: &[Vec<Option<String>>],
) -> BTreeMap<(String, String), Option<String>> {
    let mut all = BTreeMap::new();
    for (server, assigned) in servers.iter().zip(assigned) {
        for ((own, _), name) in server.names.iter().zip(assigned) {
            // Of what is listed twice, the first one counts.
            let entry = all.entry((server.server.clone(), own.clone())).or_insert(None);
            *entry = entry.take().or_else(|| name.clone());
        }
    }
    all
}

proptest! {
    #[test]
    fn no_two_have_one_name_and_all_that_have_none_are_reported(
        servers in any_servers(),
        mode in any_mode(),
    ) {
        let (assigned, collisions) = assign(mode, &servers);
        let names: Vec<_> = assigned.iter().flatten().flatten().collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(names.len(), distinct.len());
        let left_out = assigned.iter().flatten().filter(|name| name.is_none()).count();
        prop_assert_eq!(left_out, collisions.len());
        for collision in &collisions {
            prop_assert!(distinct.contains(&&collision.name), "the first one keeps it");
        }
        for (server, assigned) in servers.iter().zip(&assigned) {
            prop_assert_eq!(server.names.len(), assigned.len());
            for ((own, fixed), name) in server.names.iter().zip(assigned) {
                let Some(name) = name else { continue };
                match fixed {
                    Some(fixed) => prop_assert_eq!(name, fixed),
                    None => prop_assert!(name == own || name.len() <= LONGEST),
                }
            }
        }
    }

    #[test]
    fn on_collision_all_who_share_a_name_get_a_prefix(servers in any_servers()) {
        let (assigned, _) = assign(Prefix::OnCollision, &servers);
        let shared = shared(&servers);
        for (server, assigned) in servers.iter().zip(&assigned) {
            for ((own, fixed), name) in server.names.iter().zip(assigned) {
                if let (None, Some(name)) = (fixed, name) {
                    let expected =
                        if shared.contains(&**own) { prefixed(&server.prefix, own) } else { own.clone() };
                    prop_assert_eq!(name, &expected);
                }
            }
        }
    }

    /// As long as nothing has to be left out, who came first does not matter.
    #[test]
    fn the_order_does_not_matter(
        (servers, shuffled) in any_servers().prop_flat_map(|servers| {
            let shuffled = Just(servers.clone()).prop_shuffle();
            (Just(servers), shuffled)
        }),
        mode in any_mode(),
    ) {
        let (assigned, collisions) = assign(mode, &servers);
        prop_assert_eq!(&(assigned.clone(), collisions.clone()), &assign(mode, &servers));
        let mut reversed = shuffled;
        for server in &mut reversed {
            server.names.reverse();
        }
        let (other, _) = assign(mode, &reversed);
        if collisions.is_empty() {
            prop_assert_eq!(by_owner(&servers, &assigned), by_owner(&reversed, &other));
        }
    }
}
