//! Dependencies point one way, and the library stays small: no HTTP, no SQL, no rmcp, and as many
//! crates as its README says.

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

use serde_json::{Value, json};

/// Which crates of the workspace each one may use. Tests may use more.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("toolgate-wire", &[]),
    ("toolgate", &["toolgate-wire"]),
    ("toolgate-rmcp", &["toolgate", "toolgate-wire"]),
    ("toolgate-store", &["toolgate", "toolgate-wire"]),
    ("toolgate-tmux", &["toolgate", "toolgate-rmcp", "toolgate-wire"]),
    ("toolgate-gateway", &["toolgate", "toolgate-wire", "toolgate-store"]),
    (
        "toolgate-cli",
        &[
            "toolgate",
            "toolgate-wire",
            "toolgate-gateway",
            "toolgate-rmcp",
            "toolgate-store",
            "toolgate-tmux",
        ],
    ),
    ("house", &[]),
];

/// What the library must never pull in.
const KEPT_OUT: &[&str] = &[
    "axum",
    "http",
    "hyper",
    "libsqlite3-sys",
    "openssl-sys",
    "redis",
    "reqwest",
    "rmcp",
    "rusqlite",
    "sqlx",
    "tokio-postgres",
    "tower-http",
];

/// The platform that is counted, so that the number is the same on every machine.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// The line of the library's README that the count stands in.
const MARK: &str = "<!-- dependency-count: ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What cargo prints, for this workspace.
fn cargo(args: &[&str]) -> String {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO when it runs tests");
    let output = Command::new(cargo).args(args).current_dir(root()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Edges between crates of the workspace that the table does not allow, in words.
fn wrong_edges(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<_> = packages.iter().map(name).collect();
    let mut found = Vec::new();
    for package in packages {
        let user = name(package);
        let row = DIRECTIONS.iter().find(|(name, _)| *name == user);
        let Some((_, allowed)) = row else {
            found.push(format!("{user} is not in the table: say which crates it may use"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let wanted = name(dependency);
            let test = dependency["kind"] == "dev";
            if !test && ours.contains(&wanted) && !allowed.contains(&wanted.as_str()) {
                found.push(format!("{user} uses {wanted}"));
            }
        }
    }
    found
}

/// The crates that a crate brings with it, itself not counted. Asked of `cargo tree`, because
/// `cargo metadata` adds the features that other crates of the workspace turn on.
fn closure(package: &str) -> BTreeSet<String> {
    let what = ["--package", package, "--target", PLATFORM, "--edges", "normal"];
    let how = ["--prefix", "none", "--format", "{p}"];
    let tree = cargo(&[&["tree", "--locked"], &what[..], &how].concat());
    let itself = format!("{package} v");
    let crates = tree.lines().filter(|line| !line.is_empty() && !line.starts_with(&itself));
    // `name v1.2.3`, perhaps followed by ` (proc-macro)`, a path or ` (*)`.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    crates.map(name).collect()
}

/// Crates of a closure that must not be in it.
fn intruders(closure: &BTreeSet<String>) -> Vec<&str> {
    let names = closure.iter().filter_map(|krate| krate.split(' ').next());
    names.filter(|name| KEPT_OUT.contains(name)).collect()
}

/// The count that a README names, which prose must follow.
fn promised(readme: &str) -> Option<usize> {
    let (_, rest) = readme.split_once(MARK)?;
    let (count, rest) = rest.split_once(" -->\n")?;
    let prose = rest.lines().find(|line| !line.trim().is_empty())?;
    count.parse().ok().filter(|_| prose.contains(count))
}

#[test]
fn dependencies_point_one_way() {
    let text = cargo(&["metadata", "--format-version", "1", "--locked", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let found = wrong_edges(&metadata);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_library_knows_no_http_and_no_sql() {
    let closure = closure("toolgate");
    assert!(closure.iter().any(|krate| krate.starts_with("toolgate-wire ")), "{closure:?}");
    assert_eq!(intruders(&closure), [""; 0]);
}

#[test]
fn the_library_is_as_small_as_its_readme_says() {
    let count = closure("toolgate").len();
    let path = root().join("crates/toolgate/README.md");
    let readme = fs::read_to_string(&path).unwrap_or_default();
    let promised = promised(&readme);
    assert_eq!(
        promised,
        Some(count),
        "crates/toolgate/README.md: write `{MARK}{count} -->`, and under it a sentence with {count}"
    );
}

// What follows shows that the rules can fail.

#[test]
fn an_edge_that_points_the_wrong_way_is_found() {
    let check = |user: &str, used: &str, kind: Value| {
        wrong_edges(&json!({ "packages": [
            { "name": user, "dependencies": [{ "name": used, "kind": kind }] },
            { "name": "toolgate-gateway", "dependencies": [] },
        ]}))
    };
    assert_eq!(
        check("toolgate", "toolgate-gateway", Value::Null),
        ["toolgate uses toolgate-gateway"]
    );
    assert_eq!(check("toolgate", "toolgate-gateway", json!("build")).len(), 1);
    assert_eq!(check("toolgate", "toolgate-gateway", json!("dev")).len(), 0);
    assert_eq!(check("toolgate", "serde", Value::Null).len(), 0);
    assert_eq!(check("toolgate-cli", "toolgate-gateway", Value::Null).len(), 0);
    assert_eq!(check("toolgate-new", "serde", Value::Null).len(), 1);
}

#[test]
fn a_crate_that_is_kept_out_is_found() {
    let sample = |names: &[&str]| names.iter().map(|name| format!("{name} v1.0.0")).collect();
    assert_eq!(intruders(&sample(&["serde", "hyper", "sqlx"])), ["hyper", "sqlx"]);
    assert_eq!(intruders(&sample(&["serde", "hyper-like"])), [""; 0]);
    // A closure that has one, as cargo prints it.
    assert_eq!(intruders(&closure("toolgate-rmcp")), ["rmcp"]);
}

#[test]
fn a_count_without_prose_is_no_count() {
    assert_eq!(promised("<!-- dependency-count: 12 -->\nIt brings 12 crates.\n"), Some(12));
    assert_eq!(promised("<!-- dependency-count: 12 -->\n\n"), None);
    assert_eq!(promised("<!-- dependency-count: 12 -->\nIt brings 13 crates.\n"), None);
    assert_eq!(promised("<!-- dependency-count: few -->\nIt brings few crates.\n"), None);
    assert_eq!(promised("It brings 12 crates.\n"), None);
}
