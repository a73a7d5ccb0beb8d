//! Every method of rmcp's `ServerHandler` stands in our impl: none is left to a default.
//!
//! A method that a later rmcp adds has a default, so forgetting it would compile and lose what the
//! handler inside does. This reads rmcp's source and ours, and compares.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The source of rmcp that this test was built with: the compiler wrote its place beside the test.
/// Asking cargo for it needs crates of every platform in its cache, which a fresh machine has not.
fn rmcp_source(file: &str) -> String {
    let version = locked_version("rmcp");
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let ending = format!("rmcp-{version}/src/{file}");
    let path = fs::read_dir(&deps)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_dep_info(path, "rmcp-"))
        .find_map(|path| source_in(&fs::read_to_string(path).unwrap(), &ending))
        .unwrap_or_else(|| panic!("no dep-info file in {} names {ending}", deps.display()));
    fs::read_to_string(path).unwrap()
}

fn is_dep_info(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.starts_with(prefix) && path.extension().is_some_and(|extension| extension == "d")
}

/// The path in a dep-info file that ends so. Makefile syntax: a space in a path is escaped.
fn source_in(dep_info: &str, ending: &str) -> Option<PathBuf> {
    let escaped = dep_info.replace("\\ ", "\0");
    let path = escaped.split_whitespace().map(|word| word.trim_end_matches(':').replace('\0', " "));
    path.into_iter().find(|path| path.ends_with(ending)).map(PathBuf::from)
}

/// The version of a crate in this workspace's lock file.
fn locked_version(name: &str) -> String {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = fs::read_to_string(lock).unwrap();
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = lock.split(&entry).nth(1).unwrap_or_else(|| panic!("Cargo.lock has no {name}"));
    rest.split('"').next().unwrap().to_owned()
}

fn our_source() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/handler.rs");
    fs::read_to_string(path).unwrap()
}

/// The text from the first line that starts with `head` to the line that closes it.
fn block<'a>(source: &'a str, head: &str) -> &'a str {
    let start = source.find(head).unwrap_or_else(|| panic!("no `{head}`"));
    let rest = &source[start..];
    let end = rest.find("\n}").unwrap_or_else(|| panic!("`{head}` does not end"));
    &rest[..end]
}

/// The names of the functions that are declared in a text, comments left out.
fn functions(text: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("fn ")?;
        Some(rest.split(['(', '<']).next()?.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// The methods of a handler that a text calls.
fn called(text: &str) -> BTreeSet<String> {
    // Method chains break after `self`.
    let joined: String = text.split_whitespace().collect();
    let calls = joined.split("self.").skip(1).filter_map(|rest| rest.split_once('('));
    let names = calls.map(|(name, _)| name.to_owned());
    names.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')).collect()
}

/// What rmcp has and our impl has not.
fn forgotten(rmcp: &str, ours: &str) -> BTreeSet<String> {
    let mut wanted = functions(block(rmcp, "macro_rules! server_handler_methods"));
    assert!(wanted.len() >= 29, "the trait is not where it was: only {wanted:?} found");
    wanted.extend(functions(block(rmcp, "pub trait ServerHandler")));
    // Whatever the service that rmcp makes of every handler calls.
    wanted.extend(called(block(rmcp, "impl<H: ServerHandler> Service<RoleServer> for H")));
    let have = functions(block(ours, "impl<H: ServerHandler> ServerHandler for Governed<H>"));
    wanted.difference(&have).cloned().collect()
}

#[test]
fn no_method_is_left_to_a_default() {
    let forgotten = forgotten(&rmcp_source("handler/server.rs"), &our_source());
    assert!(forgotten.is_empty(), "src/handler.rs must delegate {forgotten:?}");
}

#[test]
fn the_comparison_can_fail() {
    let (rmcp, ours) = (rmcp_source("handler/server.rs"), our_source());
    let later = rmcp.replacen(
        "        fn get_info(&self)",
        "        fn on_brand_new<T>(&self) {}\n        fn get_info(&self)",
        1,
    );
    assert_ne!(later, rmcp);
    assert_eq!(Vec::from_iter(forgotten(&later, &ours)), ["on_brand_new"]);

    let dispatched = rmcp.replacen("self\n                .initialize(", "self.brand_new(", 1);
    assert_ne!(dispatched, rmcp);
    assert_eq!(Vec::from_iter(forgotten(&dispatched, &ours)), ["brand_new"]);

    let careless = ours.replacen("async fn complete(", "async fn incomplete(", 1);
    assert_eq!(Vec::from_iter(forgotten(&rmcp, &careless)), ["complete"]);
}
