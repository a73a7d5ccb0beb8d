//! The examples do what they say, and are as short as `docs/coming-from.md` says.

use std::{fs, path::Path};

const README: &str = include_str!("../../README.md");
const MANIFEST: &str = include_str!("../../Cargo.toml");
const PAGE: &str = include_str!("../../docs/coming-from.md");

/// The lines of a layer: what stands before the function that shows it, without imports, comments and empty lines.
fn lines_of(example: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/custom_layers");
    let text = fs::read_to_string(path.join(example).with_extension("rs")).unwrap();
    let (layer, _) = text.split_once("pub(crate) async fn show").unwrap();
    let mut is_import = false;
    let counts = |line: &&str| {
        let starts = line.starts_with("use ");
        let skipped = is_import || starts || line.is_empty() || line.trim().starts_with("//");
        is_import = (is_import || starts) && !line.ends_with(';');
        !skipped
    };
    layer.lines().filter(counts).count()
}

#[test]
fn every_example_does_what_it_says() {
    crate::custom_layers::main();
}

#[test]
fn the_page_has_the_lines_of_every_example() {
    let rows = PAGE.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut compared = 0;
    for (example, rest) in rows {
        let mut numbers = rest.split(" | ").map(|cell| cell.trim().parse::<usize>());
        let (theirs, ours) = (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap());
        assert_eq!(ours, lines_of(example), "docs/coming-from.md: the lines of `{example}`");
        assert!(ours < theirs, "`{example}` is not shorter than the original");
        compared += 1;
    }
    assert_eq!(compared, 8, "two transforms and the six layers of MetaMCP's guide");
}

#[test]
fn the_quickstart_has_twenty_lines() {
    let (_, code) = README.split_once("```rust\n").unwrap();
    assert_eq!(code.split_once("```").unwrap().0.lines().count(), 20);
}

#[test]
fn the_readme_has_every_feature() {
    let manifest: toml::Table = MANIFEST.parse().unwrap();
    let features = manifest["features"].as_table().unwrap().keys().map(String::as_str);
    let (_, section) = README.split_once("## Features").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    assert_eq!(rows.map(|(feature, _)| feature).collect::<Vec<_>>(), features.collect::<Vec<_>>());
}
