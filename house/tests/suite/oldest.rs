//! `tests/oldest` checks the library with the oldest compiler and the oldest rmcp that the manifests promise.

use std::{fs, path::Path};

use toml::{Table, Value};

fn manifest(path: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(path).unwrap().parse().unwrap()
}

fn text<'a>(table: &'a Table, keys: [&str; 3]) -> Option<&'a str> {
    let mut values = keys.iter().filter(|key| !key.is_empty());
    let first = table.get(*values.next()?)?;
    values.try_fold(first, |value, key| value.get(*key)).and_then(Value::as_str)
}

#[test]
fn the_oldest_versions_are_those_of_the_manifests() {
    let oldest = manifest("tests/oldest/Cargo.toml");
    let compiler = text(&oldest, ["package", "rust-version", ""]).unwrap();
    for krate in ["toolgate-wire", "toolgate", "toolgate-rmcp"] {
        let own = manifest(&format!("crates/{krate}/Cargo.toml"));
        assert_eq!(text(&own, ["package", "rust-version", ""]), Some(compiler), "{krate}");
    }
    let workspace = manifest("Cargo.toml");
    let dependencies = &workspace["workspace"]["dependencies"];
    let rmcp = dependencies["rmcp"]["version"].as_str().unwrap();
    assert_eq!(text(&oldest, ["dependencies", "rmcp", "version"]), Some(&*format!("={rmcp}")));
}
