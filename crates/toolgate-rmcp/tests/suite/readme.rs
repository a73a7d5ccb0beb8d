//! The example on the README: the very file, and it does what it says.

use serde_json::json;
use toolgate::middleware::audit::Target;

use crate::{
    listener::{connect, old_era},
    three_tools,
};

const README: &str = include_str!("../../README.md");
const EXAMPLE: &str = include_str!("../../examples/three_tools.rs");

#[test]
fn the_readme_shows_the_example_as_it_is() {
    assert!(README.contains(&format!("```rust,no_run\n{EXAMPLE}```\n")), "copy the example over");
}

#[test]
fn its_own_middleware_fits_in_fifteen_lines() {
    let start = EXAMPLE.find("struct Budget").unwrap();
    let end = start + EXAMPLE[start..].find("\n}\n").unwrap() + 2;
    assert!(EXAMPLE[start..end].lines().count() <= 15);
}

#[tokio::test]
async fn it_hides_refuses_records_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let (server, audit) = three_tools::governed(Target::File(file.clone())).unwrap();
    let line = connect(server, old_era()).await;
    assert_eq!(line.tools().await, ["read_notes", "write_note"]);
    assert_eq!(line.result("delete_notes", json!({})).await["_meta"]["code"], "TIER_DENIED");
    let note = json!({"title": "door", "text": "is open"});
    assert_eq!(line.result("write_note", note).await["isError"], false);
    for _ in 0..99 {
        let read = line.result("read_notes", json!({})).await;
        assert_eq!(read["content"][0]["text"], "door: is open");
    }
    let spent = line.result("read_notes", json!({})).await;
    assert_eq!(spent["content"][0]["text"], "this server has used up its calls");
    line.hang_up().await;
    audit.close(std::time::Duration::from_secs(10));
    // And the record that the chain begins with.
    let records = std::fs::read_to_string(file).unwrap();
    assert_eq!(records.lines().count(), 1 + 102);
    let last: serde_json::Value = serde_json::from_str(records.lines().last().unwrap()).unwrap();
    let (kind, outcome) = (&last["kind"], &last["outcome"]);
    assert_eq!((kind, outcome, &last["ran"]), (&json!("decision"), &json!("denied"), &json!("no")));
}
