//! What is refused, and how a model reads it.

use std::sync::atomic::Ordering;

use rmcp::{ServerHandler, model::ErrorCode, service::ServiceError};
use serde_json::{Value, json};
use toolgate::{
    Chain, Tier, TierRules,
    middleware::{error_results::ErrorResults, safety::Safety},
};
use toolgate_rmcp::Governed;

use crate::{
    everything::Everything,
    listener::{Line, connect, old_era},
};

fn guarded(tier: Tier) -> Chain {
    Chain::builder().layer(ErrorResults).layer(Safety::new(tier)).build().unwrap()
}

async fn readonly() -> (Everything, Line<Governed<Everything>>) {
    let inner = Everything::default();
    let line = connect(Governed::new(inner.clone(), guarded(Tier::Readonly)), old_era()).await;
    (inner, line)
}

fn text(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.get("structuredContent").is_none(), "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_tool_above_the_tier_is_hidden_and_refused() {
    let (inner, line) = readonly().await;
    let tools = line.tools().await;
    assert!(tools.contains(&"add".to_owned()));
    for (hidden, tier) in [("rename", "mutating"), ("wipe", "destructive")] {
        assert!(!tools.contains(&hidden.to_owned()));
        let result = line.result(hidden, json!({})).await;
        let said = text(&result);
        assert!(said.contains(&format!("it is {tier}, and the level is readonly")), "{said}");
        assert!(said.contains(&format!("with safety = \"{tier}\"")), "{said}");
        assert_eq!(result["_meta"]["code"], "TIER_DENIED");
        assert_eq!(result["_meta"]["error_type"], "TierDenied");
        assert_eq!(result["_meta"]["expected"], true);
    }
    assert_eq!(inner.0.ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_tool_that_says_nothing_of_itself_needs_a_rule() {
    let (_, line) = readonly().await;
    assert!(!line.tools().await.contains(&"silent".to_owned()));
    let result = line.result("silent", json!({})).await;
    assert_eq!(result["_meta"]["code"], "TIER_UNKNOWN");

    let rules = vec![("files/silent".parse().unwrap(), Tier::Readonly)];
    let governed = Governed::new(Everything::default(), guarded(Tier::Readonly));
    let governed = governed.server_name("files").tier_rules(TierRules::new(rules, true));
    let line = connect(governed, old_era()).await;
    assert!(line.tools().await.contains(&"silent".to_owned()));
    assert_eq!(line.result("silent", json!({})).await["isError"], false);
}

#[tokio::test]
async fn an_unknown_tool_is_not_a_denied_one() {
    let (_, line) = readonly().await;
    let guarded = line.result("nonsense", json!({})).await;
    let chain = Chain::builder().layer(ErrorResults).build().unwrap();
    let line = connect(Governed::new(Everything::default(), chain), old_era()).await;
    let plain = line.result("nonsense", json!({})).await;
    for result in [guarded, plain] {
        assert_eq!(result["_meta"]["code"], "UNKNOWN_TOOL", "{result}");
        assert!(text(&result).contains("tools/list"), "{result}");
    }
    // A tool that is there and does not like its arguments is not unknown.
    let picky = line.result("picky", json!({})).await;
    assert_eq!(picky["_meta"]["code"], "INVALID_ARGUMENTS");
}

#[tokio::test]
async fn invalid_arguments_name_names_and_never_values() {
    let (_, line) = readonly().await;
    // By rmcp's router, which answers with a result of its own.
    let arguments = json!({"a": "hunter2-secret", "b": 1});
    let result = line.result("add", arguments).await;
    assert_eq!(result["_meta"]["code"], "INVALID_ARGUMENTS", "{result}");
    assert!(text(&result).contains("expected i64"), "{result}");
    assert!(!result.to_string().contains("hunter2"), "{result}");
    // By a tool, which answers with an error.
    let result = line.result("picky", json!({"x": "hunter2-secret"})).await;
    assert_eq!(result["_meta"]["code"], "INVALID_ARGUMENTS");
    assert!(!result.to_string().contains("hunter2"), "{result}");

    let result = line.result("add", json!({"a": 1, "b": 2, "colour": "red"})).await;
    assert!(text(&result).contains("unrecognized argument(s): colour."), "{result}");
    assert_eq!(result["_meta"]["expected"], true);
    let result = line.result("add", json!({"a": 1, "b": 2, "wait_for_previous": true})).await;
    let suggestion = result["_meta"]["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("scheduling flag your client (listener 1.2)"), "{suggestion}");
    assert!(text(&result).ends_with(suggestion), "{result}");
}

#[tokio::test]
async fn an_error_of_the_handler_becomes_a_result() {
    let (_, line) = readonly().await;
    let result = line.result("reject", json!({})).await;
    assert_eq!(text(&result), "disk on fire");
    assert_eq!(result["_meta"]["error_type"], "McpError");
    assert_eq!(result["_meta"]["expected"], false);
    // One of the protocol's own stays an error: the client acts on its data.
    let Err(ServiceError::McpError(error)) = line.call("visit", json!({})).await else {
        panic!("no error")
    };
    assert_eq!((error.code, error.data), (ErrorCode(-32042), Some(json!({"urls": [0.1]}))));
    let own = line.result("fail", json!({})).await;
    assert_eq!((text(&own), own.get("_meta")), ("no such pane", None));
}

#[tokio::test]
async fn a_panic_is_answered_and_the_line_stays_up() {
    let (_, line) = readonly().await;
    let result = line.result("panic", json!({})).await;
    assert_eq!(text(&result), "Tool 'panic' panicked");
    assert_eq!(result["_meta"]["code"], "INTERNAL");

    let bare = Governed::new(Everything::default(), Chain::builder().build().unwrap());
    let line = connect(bare, old_era()).await;
    let Err(ServiceError::McpError(error)) = line.call("panic", json!({})).await else {
        panic!("no error")
    };
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    assert_eq!(line.result("add", json!({"a": 1, "b": 2})).await["structuredContent"]["sum"], 3);
}

#[tokio::test]
async fn get_tool_agrees_with_the_listing() {
    let inner = Everything::default();
    let governed = Governed::new(inner.clone(), guarded(Tier::Mutating));
    for name in ["add", "rename", "wipe", "silent", "late", "nonsense"] {
        let shown = governed.get_tool(name);
        let hidden = ["wipe", "silent", "late", "nonsense"].contains(&name);
        assert_eq!(shown, inner.get_tool(name).filter(|_| !hidden), "{name}");
    }
}
