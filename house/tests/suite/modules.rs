//! Modules of a crate use each other in one direction: no import cycles between the modules of a folder,
//! neither at the top of a crate nor further down. Tests may use anything.
//!
//! `cargo test -p house modules:: -- --nocapture` prints every cycle with the files that make it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Module, Source, child, crates, sources};

/// Cycles that are known, by crate, folder and members; none at the top of a crate. The list only shrinks: a cycle that
/// is gone or has other members fails the test too.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("toolgate-gateway", "upstream", &["connect", "discovery", "server"]),
    ("toolgate", "middleware/policy", &["cedar", "policies"]),
    ("toolgate", "middleware/preconditions", &["confirm", "person", "preview"]),
    ("toolgate", "middleware/response_limit", &["shrink", "structured"]),
    ("toolgate", "middleware/validate", &["names", "schema"]),
    (
        "toolgate",
        "middleware",
        &[
            "audit",
            "error_results",
            "filter",
            "flags",
            "log",
            "overrides",
            "policy",
            "preconditions",
            "rate_limit",
            "response_limit",
            "retry",
            "safety",
            "sanitize",
            "scopes",
            "timeout",
            "trail",
            "validate",
        ],
    ),
];

/// A crate: its files, and what each module makes available under names of its own.
struct Crate {
    sources: Vec<Source>,
    modules: BTreeSet<Module>,
    imports: BTreeMap<(Module, String), Module>,
}

/// Modules of one folder that import each other in a circle, with the files that do.
struct Cycle {
    folder: String,
    members: Vec<String>,
    edges: Vec<String>,
}

/// The paths that a list of tokens names: those of `use`, with the name each gets, and those that stand in code.
fn paths(tokens: &[String]) -> Vec<(Vec<String>, Option<String>)> {
    let mut found = Vec::new();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let after = tokens.get(index + 1).map(String::as_str);
        // `impl … + use<'a>` is no import.
        if token == "use" && after != Some("<") {
            let end = tokens[index..].iter().position(|token| token == ";").unwrap();
            tree(&tokens[index + 1..index + end], &[], &mut found);
            index += end;
        } else if ["crate", "super", "self"].contains(&token.as_str()) && after == Some("::") {
            // `pub(in crate::a)` names what surrounds the module.
            let visibility = index > 0 && tokens[index - 1] == "in" && tokens[index - 2] == "(";
            let length = path_length(&tokens[index..]);
            let path = &tokens[index..index + length];
            let path: Vec<_> = path.iter().filter(|part| *part != "::").cloned().collect();
            found.extend((!visibility).then_some((path, None)));
            index += length;
        } else {
            index += 1;
        }
    }
    found
}

/// How many tokens belong to the path that tokens start with.
fn path_length(tokens: &[String]) -> usize {
    let word = |token: &String| token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut length = 1;
    while tokens.get(length).is_some_and(|token| token == "::")
        && tokens.get(length + 1).is_some_and(word)
    {
        length += 2;
    }
    length
}

/// The paths of a tree of imports, each with the name that it gets.
fn tree(tokens: &[String], before: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) {
    let mut depth = 0_usize;
    let branches = tokens.split(|token| {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => (),
        }
        token == "," && depth == 0
    });
    for branch in branches.filter(|branch| !branch.is_empty()) {
        let open = branch.iter().position(|token| token == "{");
        let renamed = branch.iter().position(|token| token == "as").filter(|_| open.is_none());
        let end = open.or(renamed).unwrap_or(branch.len());
        let words = branch[..end].iter().filter(|token| *token != "::").cloned();
        let mut path: Vec<_> = before.iter().cloned().chain(words).collect();
        if let Some(open) = open {
            tree(&branch[open + 1..branch.len() - 1], &path, found);
            continue;
        }
        // `a::{self}` is `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = if renamed.is_some() { branch.last() } else { path.last() };
        let name = name.cloned();
        found.push((path, name));
    }
}

impl Crate {
    /// A crate of these files, given by their paths below `src`.
    fn new(files: &[(String, String)]) -> Self {
        let sources = sources(files);
        let modules = sources.iter().map(|source| source.module.clone()).collect();
        let mut new = Self { sources, modules, imports: BTreeMap::new() };
        let mut imports = BTreeMap::new();
        for source in &new.sources {
            for (path, name) in paths(&source.tokens) {
                let Some(name) = name.filter(|name| name != "*") else { continue };
                let target = new.absolute(&source.module, &path);
                imports.extend(target.map(|target| ((source.module.clone(), name), target)));
            }
        }
        new.imports = imports;
        new
    }

    /// The path from the root of the crate; nothing for the paths of other crates.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut base = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => base.clear(),
            "self" | "super" => (),
            name if self.modules.contains(&child(module, name)) => {
                return Some([&base, rest].concat());
            }
            _ => return None,
        }
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" | "self" => (),
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = &rest[1..];
        }
        Some([&base, rest].concat())
    }

    /// The modules that a path goes to: the one that it names, and if that one only passes the name on, where it has it from.
    fn targets(&self, path: &[String]) -> Vec<Module> {
        let mut found = Vec::new();
        let mut path = path.to_vec();
        // A name that is passed on in a circle does not compile; the bound is for texts that do not.
        for _ in 0..10 {
            let depth = (0..=path.len()).rev().find(|depth| self.modules.contains(&path[..*depth]));
            let Some(depth) = depth else { break };
            let module = path[..depth].to_vec();
            let name = path.get(depth).cloned();
            found.push(module.clone());
            let passed = name.and_then(|name| self.imports.get(&(module, name)));
            let Some(passed) = passed else { break };
            path = [passed, &path[depth + 1..]].concat();
        }
        found
    }

    /// Which modules of each folder use which others, with the files where they do.
    fn edges(&self) -> BTreeMap<Module, BTreeMap<(String, String), BTreeSet<&str>>> {
        let mut edges: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for source in &self.sources {
            for (path, _) in paths(&source.tokens) {
                let Some(path) = self.absolute(&source.module, &path) else { continue };
                for target in self.targets(&path) {
                    let shared =
                        source.module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                    let (Some(from), Some(to)) = (source.module.get(shared), target.get(shared))
                    else {
                        continue;
                    };
                    let folder = edges.entry(target[..shared].to_vec()).or_default();
                    let files = folder.entry((from.clone(), to.clone())).or_default();
                    files.insert(source.path.as_str());
                }
            }
        }
        edges
    }

    fn cycles(&self) -> Vec<Cycle> {
        let mut found = Vec::new();
        for (folder, edges) in self.edges() {
            let mut left: BTreeSet<&String> = edges.keys().map(|(user, _)| user).collect();
            while let Some(first) = left.pop_first() {
                let from = |start| reached(&edges, start);
                let ahead = from(first);
                let members: Vec<String> =
                    ahead.iter().filter(|other| from(other).contains(first)).cloned().collect();
                if members.is_empty() {
                    continue;
                }
                left.retain(|name| !members.contains(name));
                let inside = edges
                    .iter()
                    .filter(|((user, used), _)| members.contains(user) && members.contains(used));
                let words = inside.map(|((user, used), files)| {
                    let files: Vec<_> = files.iter().copied().collect();
                    format!("{user} -> {used}: {}", files.join(", "))
                });
                let edges = words.collect();
                found.push(Cycle { folder: folder.join("/"), members, edges });
            }
        }
        found
    }
}

/// The modules that one reaches, itself only by a circle.
fn reached(edges: &BTreeMap<(String, String), BTreeSet<&str>>, start: &String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![start];
    while let Some(next) = left.pop() {
        let used = edges.keys().filter(|(user, _)| user == next).map(|(_, used)| used);
        left.extend(used.filter(|used| found.insert((*used).clone())));
    }
    found
}

/// What differs between the cycles that are there and those that are known, in words.
fn complaints(name: &str, cycles: &[Cycle], known: &[(&str, &str, &[&str])]) -> Vec<String> {
    let known = known.iter().filter(|(krate, _, _)| *krate == name);
    let expected: BTreeSet<(String, Vec<String>)> = known
        .map(|(_, folder, members)| {
            ((*folder).to_owned(), members.iter().map(|m| (*m).to_owned()).collect())
        })
        .collect();
    let mut found = Vec::new();
    for cycle in cycles {
        if !expected.contains(&(cycle.folder.clone(), cycle.members.clone())) {
            found.push(format!("{name}: {}", described(cycle)));
        }
    }
    for (folder, members) in expected {
        if !cycles.iter().any(|cycle| cycle.folder == folder && cycle.members == members) {
            found.push(format!(
                "{name}: no cycle in `{folder}` of {} any more: take it off the list",
                members.join(", ")
            ));
        }
    }
    found
}

fn described(cycle: &Cycle) -> String {
    let Cycle { folder, members, edges } = cycle;
    format!("a cycle in `{folder}` of {}\n    {}", members.join(", "), edges.join("\n    "))
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (name, files) in crates() {
        let cycles = Crate::new(&files).cycles();
        for cycle in &cycles {
            println!("{name}: {}", described(cycle));
        }
        found.extend(complaints(&name, &cycles, KNOWN));
        names.insert(name);
    }
    assert!(names.contains("toolgate-gateway"), "{names:?}");
    assert!(KNOWN.iter().all(|(_, folder, _)| !folder.is_empty()), "no exceptions at the top");
    found.extend(
        KNOWN
            .iter()
            .filter(|(name, _, _)| !names.contains(*name))
            .map(|(name, _, _)| format!("no crate {name}")),
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

// What follows shows that the rule can fail.

/// The cycles of a crate of these files, as words.
fn check(files: &[(&str, &str)]) -> Vec<String> {
    let owned: Vec<_> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let cycles = Crate::new(&owned).cycles();
    cycles.iter().map(|cycle| format!("{}: {}", cycle.folder, cycle.members.join(" "))).collect()
}

#[test]
fn a_cycle_is_found_however_it_is_written() {
    let one_way = ("b.rs", "use crate::a::A;");
    for text in [
        "use crate::b::B;",
        "use crate::{c::C, b::{D, B}};",
        "pub(crate) use super::b;",
        "fn f() -> crate::b::B { crate::b::g() }",
        "use crate::B;",
        "use crate::{self as us, B as Other};",
        "impl super::b::B for u8 {}",
        "const TEXT: &str = \"// \\\" /*\"; use crate::b::B; const LAST: char = '\"';",
        "fn f<'a>(x: &'a str) -> impl Fn() + use<'a> { super::b::g(x) }",
        "fn f() -> &str { r#\"a \" b\"# } use super::b;",
    ] {
        let root = ("lib.rs", "mod a; mod b; mod c; pub use b::B; pub use crate::a::A;");
        assert_eq!(check(&[root, one_way, ("c.rs", ""), ("a.rs", text)]), [": a b"], "{text}");
    }
}

#[test]
fn a_cycle_of_three_is_found_once() {
    let files = [
        ("main.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b;"),
        ("b/mod.rs", "mod inner;"),
        ("b/inner.rs", "use crate::c::C;"),
        ("c.rs", "use super::a;"),
        ("d.rs", "use super::a;"),
    ];
    assert_eq!(check(&files), [": a b c"]);
}

#[test]
fn cycles_inside_a_folder_are_found() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; mod c; use c::C; pub struct A;"),
        ("a/b.rs", "use super::C;"),
        ("a/c/mod.rs", "mod d;"),
        ("a/c/d.rs", "use super::super::b::B;"),
    ];
    assert_eq!(check(&files), ["a: b c"]);
}

#[test]
fn one_direction_parents_tests_and_comments_are_no_cycles() {
    for text in [
        "use std::b::B; use tokio::b;",
        "// use crate::b::B;\n/* crate::b */ const A: &str = \"crate::b::B\";",
        "pub(in crate::b) struct A;",
        "#[cfg(test)] mod tests { use crate::b::B; fn f() { { crate::b::g(); } } }",
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)] mod tests;",
        "use crate::Root; use super::Root as Other;",
        "struct A { #[cfg(test)] seen: crate::b::B, }",
    ] {
        let root = ("lib.rs", "mod a; mod b; use a::A; pub struct Root;");
        let tests = ("a/tests.rs", "use crate::b::B;");
        let tests = if text.ends_with("mod tests;") { tests } else { ("b/c.rs", "use super::B;") };
        assert_eq!(
            check(&[root, ("a.rs", text), tests, ("b.rs", "use crate::a::A;")]),
            [""; 0],
            "{text}"
        );
    }
}

#[test]
fn known_cycles_must_be_exact() {
    let cycle =
        Cycle { folder: String::new(), members: vec!["a".into(), "b".into()], edges: vec![] };
    let check = |known| complaints("x", std::slice::from_ref(&cycle), known).len();
    assert_eq!(check(&[("x", "", &["a", "b"])]), 0);
    assert_eq!(check(&[]), 1);
    assert_eq!(check(&[("y", "", &["a", "b"])]), 1);
    assert_eq!(check(&[("x", "", &["a", "b", "c"])]), 2);
    assert_eq!(check(&[("x", "", &["a", "b"]), ("x", "f", &["a", "b"])]), 1);
}
