//! ARCHITECTURE.md is a map: every path that it names exists.

use std::{fs, path::Path};

/// The paths in backticks: those of our crates, relative to `crates/`, and those of the workspace.
fn paths(page: &str) -> Vec<&str> {
    let tokens = page.split('`').skip(1).step_by(2);
    let is_path = |token: &&str| {
        let first = token.split('/').next().unwrap_or_default();
        (first.starts_with("toolgate") || matches!(first, "house" | "docs" | "benches" | "crates"))
            && token.contains('/')
            && !token.contains([' ', ':'])
    };
    tokens.filter(is_path).collect()
}

#[test]
fn every_path_of_the_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let paths = paths(&page);
    assert!(paths.len() > 80, "only {} paths", paths.len());
    let exists = |path: &&&str| root.join(path).exists() || root.join("crates").join(path).exists();
    let missing: Vec<_> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names what is not there: {missing:#?}");
}

#[test]
fn paths_are_told_from_other_words() {
    let page =
        "`toolgate/src/chain.rs` `tools/list` `toolgate why` `docs/a.md` `toolgate/confirm: x`";
    assert_eq!(paths(page), ["toolgate/src/chain.rs", "docs/a.md"]);
}
