//! Overrides: what is shown, what is filled in, and what is refused when it is set.

mod arguments;
mod names;

use serde_json::json as value;

use super::*;
use crate::{
    Chain, Tier, Tool, ToolId,
    testing::{answering, context, defined_tool, json, tool},
};

fn id(text: &str) -> ToolId {
    let (server, name) = text.split_once('/').unwrap();
    ToolId::new(server, name)
}

/// Overrides as an operator or the store would write them.
fn overrides(set: &[(&str, serde_json::Value)]) -> Result<Overrides, OverrideError> {
    let read = |config: &serde_json::Value| serde_json::from_value(config.clone()).unwrap();
    Overrides::new(set.iter().map(|(tool, config)| (id(tool), read(config))).collect())
}

fn layer(set: &[(&str, serde_json::Value)]) -> Chain {
    let current = CurrentOverrides::new(overrides(set).unwrap());
    crate::testing::chain(OverrideTools::new(current))
}

/// What a client sees of the tool `main/t` with this definition, under this override.
async fn shown(definition: &str, config: serde_json::Value) -> String {
    let mut server = answering(json("{}"));
    server.tools = vec![defined_tool("t", None, definition)];
    let layer = layer(&[("main/t", config)]);
    let page = layer.list(&mut context(), Listing::default(), &server).await.unwrap();
    page.tools()[0].definition().unwrap().as_str().to_owned()
}

#[tokio::test]
async fn what_is_overridden_changes_and_all_else_keeps_its_bytes() {
    let own = r#"{"x-first": 1.50, "name": "t", "description": "old", "icons": [ ], "outputSchema":{"type" :"object"},"_meta":{"a":1e400}}"#;
    let config = value!({"name": "new/na-me_1.2", "description": "say \"hi\""});
    assert_eq!(
        shown(own, config).await,
        r#"{"x-first": 1.50,"name": "new/na-me_1.2","description": "say \"hi\"","icons": [ ],"outputSchema":{"type" :"object"},"_meta":{"a":1e400}}"#
    );
}

/// Metamcp's bug 14: every tool with an override lost its title, and always its `annotations.title`.
#[tokio::test]
async fn titles_are_never_lost() {
    let own = r#"{"name":"t","title":"Own","annotations":{"title":"Own too","readOnlyHint":true}}"#;
    for config in
        [value!({"description": "d"}), value!({"name": "n"}), value!({"hidden": {"a": 1}})]
    {
        let seen: serde_json::Value = serde_json::from_str(&shown(own, config).await).unwrap();
        assert_eq!(seen["title"], "Own");
        assert_eq!(seen["annotations"], value!({"title": "Own too", "readOnlyHint": true}));
    }
    let seen = shown(own, value!({"annotations": {"idempotentHint": true}})).await;
    assert_eq!(
        seen,
        r#"{"name":"t","title":"Own","annotations":{"title":"Own too","readOnlyHint":true,"idempotentHint":true}}"#
    );
}

#[tokio::test]
async fn a_new_title_replaces_both() {
    let both = r#"{"name":"t","title":"Own","annotations":{"title":"Own too"}}"#;
    assert_eq!(
        shown(both, value!({"title": "New"})).await,
        r#"{"name":"t","title":"New","annotations":{"title":"New"}}"#
    );
    assert_eq!(
        shown(both, value!({"title": "New", "annotations": {"title": "Other"}})).await,
        r#"{"name":"t","title":"New","annotations":{"title":"Other"}}"#
    );
    assert_eq!(
        shown(r#"{"name":"t"}"#, value!({"title": "New"})).await,
        r#"{"name":"t","title":"New"}"#
    );
}

/// Metamcp took an empty description for none.
#[tokio::test]
async fn an_empty_description_is_shown_empty() {
    let own = r#"{"name":"t","description":"old"}"#;
    assert_eq!(shown(own, value!({"description": ""})).await, r#"{"name":"t","description":""}"#);
}

#[tokio::test]
async fn annotations_are_merged_and_null_removes() {
    let own = r#"{"name":"t","annotations":{"readOnlyHint":true,"x":1}}"#;
    let config = value!({"annotations": {"readOnlyHint": null, "x": 2, "y": {"z": null}}});
    assert_eq!(shown(own, config).await, r#"{"name":"t","annotations":{"x":2,"y":{"z":null}}}"#);
    let nothing = value!({"annotations": {"gone": null}});
    assert_eq!(shown(own, nothing.clone()).await, own);
    assert_eq!(shown(r#"{"name":"t"}"#, nothing).await, r#"{"name":"t"}"#);
    let odd = r#"{"name":"t","annotations":[]}"#;
    assert_eq!(
        shown(odd, value!({"annotations": {"a": 1}})).await,
        r#"{"name":"t","annotations":{"a":1}}"#
    );
}

#[tokio::test]
async fn hidden_arguments_leave_the_schema_and_defaults_enter_it() {
    let own = r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string" },"b":{},"c":true,"d":false,"k\u0065y":{}},"required":["b","a","k\u0065y","c"],"additionalProperties":false}}"#;
    let config =
        value!({"defaults": {"a": "x", "c": null, "d": 1, "new": 1}, "hidden": {"key": 7}});
    assert_eq!(
        shown(own, config).await,
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{},"c":{"default":null},"d":false},"required":["b"],"additionalProperties":false}}"#
    );
    // An empty list is an error to readers of draft 4.
    let one =
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{}},"required":["a"]}}"#;
    assert_eq!(
        shown(one, value!({"hidden": {"a": 1}})).await,
        r#"{"name":"t","inputSchema":{"type":"object","properties":{}}}"#
    );
}

#[tokio::test]
async fn odd_definitions_do_no_harm() {
    let config = value!({"defaults": {"a": 1}, "hidden": {"b": 1}});
    for own in [
        r#"{"name":"t"}"#,
        r#"{"name":"t","inputSchema":7}"#,
        r#"{"name":"t","inputSchema":{"properties":[],"required":"b"}}"#,
        r#"{"name":"t","inputSchema":{"required":[1,null,"\ud800"],"properties":{"a":3}}}"#,
        "[]",
    ] {
        assert_eq!(shown(own, config.clone()).await, own);
    }
}

#[tokio::test]
async fn a_page_without_overridden_tools_is_untouched_and_order_is_kept() {
    let page = |layer: Chain, names: [&'static str; 3]| async move {
        let mut server = answering(json("{}"));
        server.tools = names.map(|name| tool(name, None)).to_vec();
        let page = layer.list(&mut context(), Listing::default(), &server).await.unwrap();
        let names: Vec<String> = page
            .tools()
            .iter()
            .map(|tool| {
                tool.definition().unwrap().get("name").unwrap().text().unwrap().into_owned()
            })
            .collect();
        let same: Vec<bool> =
            page.tools().iter().zip(&server.tools).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
        (names, same)
    };
    let set = [("main/b", value!({"name": "z"})), ("other/a", value!({"name": "y"}))];
    let (names, same) = page(layer(&set), ["c", "b", "a"]).await;
    assert_eq!(names, ["c", "z", "a"]);
    assert_eq!(same, [true, false, true], "tools of other servers stay what they are");
    let (_, same) = page(layer(&set), ["c", "d", "a"]).await;
    assert_eq!(same, [true; 3]);
}

#[tokio::test]
async fn facts_and_identity_never_change() {
    let own = r#"{"name":"t","annotations":{"destructiveHint":true}}"#;
    let mut server = answering(json("{}"));
    server.tools = vec![defined_tool("t", None, own)];
    let config =
        value!({"name": "n", "annotations": {"readOnlyHint": true, "destructiveHint": null}});
    let layer = layer(&[("main/t", config)]);
    let page = layer.list(&mut context(), Listing::default(), &server).await.unwrap();
    let shown = &page.tools()[0];
    assert_eq!(shown.id(), &id("main/t"));
    assert_eq!(shown.tier(), Some(Tier::Destructive), "what is shown opens nothing");
    assert_eq!(shown.hints(), server.tools[0].hints());
    assert_eq!(
        shown.definition().unwrap().as_str(),
        r#"{"name":"n","annotations":{"readOnlyHint":true}}"#
    );
}

#[test]
fn settings_are_read_strictly() {
    let text = r#"
        name = "relocate"
        annotations = { readOnlyHint = true }
        defaults = { depth = 1, ratio = 0.5, list = [1, "a"] }
        hidden = { overwrite = false }
        original = "callable"
    "#;
    let read: OverrideConfig = toml::from_str(text).unwrap();
    assert_eq!(read.original, Original::Callable);
    assert_eq!(read.defaults["list"], value!([1, "a"]));
    assert_eq!(toml::from_str::<OverrideConfig>("").unwrap(), OverrideConfig::default());
    for wrong in ["nam = \"a\"", "original = \"kept\"", "hidden = [\"a\"]"] {
        assert!(toml::from_str::<OverrideConfig>(wrong).is_err(), "{wrong}");
    }
    for date in ["defaults = { since = 2024-01-01 }", "hidden = { a = [{ b = 10:00:00 }] }"] {
        let error = toml::from_str::<OverrideConfig>(date).unwrap_err().to_string();
        assert!(error.contains("a date, which JSON does not have: write it in quotes"), "{error}");
    }
}

#[test]
fn what_cannot_hold_is_refused_with_both_tools_named() {
    let refused = |set: &[(&str, serde_json::Value)]| overrides(set).unwrap_err().to_string();
    let named = |name: &str| value!({ "name": name });
    assert_eq!(
        refused(&[("s/a", named("x")), ("s/b", named("x"))]),
        "`s/a` and `s/b` are both named `x`: give one of them another name"
    );
    let taken = "`s/a` is named `b`, and `s/b` is still called so: choose another name, or rename \
                 `s/b` too, with `original = \"retired\"`";
    assert_eq!(refused(&[("s/a", named("b")), ("s/b", value!({"title": "B"}))]), taken);
    let callable = value!({"name": "c", "original": "callable"});
    assert_eq!(refused(&[("s/b", callable), ("s/a", named("b"))]), taken);
    assert_eq!(
        refused(&[("s/a", named("x")), ("s/a", named("y"))]),
        "`s/a` has two overrides: put them together"
    );
    assert_eq!(
        refused(&[("s/a", value!({"title": " "}))]),
        "the title of `s/a` is empty: write one, or leave it out to keep the tool's own"
    );
    assert_eq!(
        refused(&[("s/a", value!({"hidden": {"k": 1}, "defaults": {"k": 1}}))]),
        "argument `k` of `s/a` is hidden and has a default: keep one of the two, a hidden one always \
         has its value"
    );
    for bad in ["", " ", "a b", "é", "a\n", &"a".repeat(129), "a__b!"] {
        assert!(refused(&[("s/a", named(bad))]).contains("cannot be the name of `s/a`"), "{bad:?}");
    }
    for good in ["a", &"a".repeat(128), "A.b-c_d/0"] {
        assert!(overrides(&[("s/x", named(good))]).is_ok(), "{good:?}");
    }
    // Names of different servers have nothing to do with each other, and two tools may swap theirs.
    assert!(overrides(&[("s/a", named("x")), ("t/b", named("x"))]).is_ok());
    assert!(overrides(&[("s/a", named("b")), ("s/b", named("a"))]).is_ok());
    assert!(overrides(&[("s/odd name", named("odd name"))]).is_ok(), "its own name is no new one");
}

#[test]
fn the_chain_shows_what_it_is_set_to_and_where_it_must_stand() {
    let set = [("s/a", value!({"name": "x"})), ("s/b", value!({"title": "B"}))];
    let renames = layer(&set);
    assert_eq!(renames.layers()[0].describe, "2 tools, 1 of them renamed");
    assert!(renames.needs_tools(), "a new name may be another tool's");
    assert!(!layer(&set[1..]).needs_tools());
    let current = CurrentOverrides::new(overrides(&set).unwrap());
    let wrong = Chain::builder()
        .layer(OverrideTools::new(current))
        .layer(crate::middleware::error_results::ErrorResults)
        .build();
    assert!(wrong.unwrap_err().to_string().contains("must stand outside `overrides`"));
}
