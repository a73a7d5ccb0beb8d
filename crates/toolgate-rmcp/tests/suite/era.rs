//! The chain in the era of 2026-07-28.

use serde_json::json;
use toolgate::{
    Chain, Tier,
    middleware::{error_results::ErrorResults, safety::Safety},
};
use toolgate_rmcp::Governed;

use crate::{
    everything::Everything,
    listener::{connect, new_era, old_era},
};

fn readonly() -> Chain {
    Chain::builder().layer(ErrorResults).layer(Safety::new(Tier::Readonly)).build().unwrap()
}

#[tokio::test]
async fn refusals_are_complete_results_of_their_era() {
    let new = connect(Governed::new(Everything::default(), readonly()), new_era()).await;
    let old = connect(Governed::new(Everything::default(), readonly()), old_era()).await;
    assert_eq!(new.tools().await, old.tools().await);
    let mut refused = new.result("wipe", json!({})).await;
    let before = old.result("wipe", json!({})).await;
    assert!(before.get("resultType").is_none(), "{before}");
    assert_eq!(refused["resultType"], "complete");
    refused.as_object_mut().unwrap().remove("resultType");
    assert_eq!(refused, before);
}

#[tokio::test]
async fn a_request_for_input_passes_the_chain_and_so_does_the_answer() {
    let line = connect(Governed::new(Everything::default(), readonly()), new_era()).await;
    let result = line.result("greet", json!({})).await;
    assert_eq!(result["content"][0]["text"], "first \"round\"\n: \"Ferris\"");
}

#[tokio::test]
async fn the_client_names_itself_with_each_request() {
    let line = connect(Governed::new(Everything::default(), readonly()), new_era()).await;
    let arguments = json!({"a": 1, "b": 2, "wait_for_previous": true});
    let result = line.result("add", arguments).await;
    let suggestion = result["_meta"]["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("your client (listener 1.2)"), "{suggestion}");
}
