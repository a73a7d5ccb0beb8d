//! A layer that is not built in works like one that is: by its name in the chain, with settings from a file's text.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use toolgate::{
    Call, Context, LayerSpec, Principal, Session, TierRules, Tool, ToolId,
    settings::{ChainOrder, Settings},
    stack::{self, Parts, Stack, StackError},
};
use toolgate_wire::{Json, Limits};

use super::office_hours::OfficeHoursSpec;

/// A file with a chain and settings of layers.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    chain: ChainOrder,
    #[serde(default)]
    layers: BTreeMap<String, serde_json::Value>,
}

fn layers() -> Vec<Arc<dyn LayerSpec>> {
    vec![Arc::new(OfficeHoursSpec)]
}

fn build(text: &str) -> Result<Stack, StackError> {
    let File { chain, layers: tables } = toml::from_str(text).unwrap();
    let settings = Settings::with(|settings| {
        settings.chain = chain;
        settings.layers = tables;
    });
    stack::build_with(&settings, Parts::with(|parts| parts.layers = layers()))
}

fn refused(text: &str) -> String {
    build(text).unwrap_err().to_string()
}

#[test]
fn it_stands_where_the_chain_names_it_and_shows_its_settings() {
    let text = "chain = [\"errors-to-results\", \"office-hours\", \"timeout\"]\n\
                [layers.office-hours]\nopen = true";
    let chain = build(text).unwrap().chain;
    assert_eq!(
        chain.to_string(),
        " client\n  1  errors-to-results  a failed call answers with isError, the message and _meta\n  \
         2  office-hours       open\n  3  timeout            a call is cancelled after 5m\n tool"
    );
}

#[test]
fn its_decision_counts() {
    let session = Session {
        id: "s-1".into(),
        namespace: "default".into(),
        principal: Principal::Local("me".into()),
    };
    let cx = Context::new(Arc::new(session));
    let json = Json::parse("{}".to_owned(), &Limits::default()).unwrap();
    let tool = Tool::listed(ToolId::new("main", "echo"), json, &TierRules::default());
    let call = Call::new(Arc::new(tool), None);
    for open in [true, false] {
        let text = format!("chain = [\"office-hours\"]\n[layers.office-hours]\nopen = {open}");
        let explained = build(&text).unwrap().chain.explain(&cx, &call).remove(0).1.unwrap();
        assert_eq!(explained.allowed, open);
        assert_eq!(explained.rule, if open { "open" } else { "closed" });
    }
}

#[test]
fn it_is_checked_like_any_other() {
    let table = "[layers.office-hours]\nopen = true";
    for (text, sentence) in [
        (
            format!("chain = [\"office-hours\", \"errors-to-results\"]\n{table}"),
            "the chain is refused: `errors-to-results` must stand outside `office-hours`: denials are \
             rendered too; move `errors-to-results` before `office-hours` in the chain",
        ),
        (
            table.to_owned(),
            "`[layers.office-hours]` is set, but the chain does not name `office-hours`: add it, or \
             remove the setting",
        ),
        (
            "chain = [\"office-hours\"]".to_owned(),
            "the chain names `office-hours`, but there is no `[layers.office-hours]`",
        ),
        (
            "[layers.office-hours]\nopne = true".to_owned(),
            "`office-hours` refuses its settings: unknown field `opne`, expected `open`",
        ),
        (
            "[layers.ofice-hours]\nopen = true".to_owned(),
            "`[layers.ofice-hours]` is set, but the layers of this program's own are `office-hours`",
        ),
    ] {
        assert_eq!(refused(&text), sentence);
    }
    assert!(refused("chain = [\"office\"]").ends_with(", `office-hours`"), "it is offered too");
}

#[cfg(feature = "schema")]
#[test]
fn editors_complete_its_name_and_its_settings() {
    let layers = layers();
    let chain = toolgate::schema::chain_schema(&layers).to_value();
    let names = chain.pointer("/anyOf/1/items/enum").unwrap().as_array().unwrap();
    assert!(names.contains(&"office-hours".into()) && names.contains(&"safety".into()));
    let mut generator = schemars::SchemaGenerator::default();
    let tables = toolgate::schema::layers_schema(&layers, &mut generator).to_value();
    assert_eq!(tables.pointer("/properties/office-hours/$ref").unwrap(), "#/$defs/OfficeHours");
}
