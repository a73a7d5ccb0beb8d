//! Confirmation in front of a handler: the client of either era asks its user, and the tool runs once.

use std::sync::atomic::Ordering;

use serde_json::json;
use toolgate::{
    Facts, Selection, Tier,
    middleware::preconditions::{ConfirmConfig, Mode},
    settings, stack,
};
use toolgate_rmcp::Governed;

use crate::{
    everything::Everything,
    listener::{connect, new_era, old_era},
};

/// Tools of this tier, and `greet`, need a confirmation.
fn confirmed(is_preview: bool) -> toolgate::Chain {
    let destructive = Facts { tier: Some(Tier::Destructive), ..Facts::default() };
    let greet = Selection::Glob("main/greet".parse().unwrap());
    let confirm = ConfirmConfig::with(|config| {
        config.when = vec![Selection::Facts(destructive), greet];
        config.mode = Some(if is_preview { Mode::Preview } else { Mode::Ask });
    });
    let settings = settings::Settings::with(|settings| settings.confirm = Some(confirm));
    stack::build(&settings).unwrap().chain
}

#[tokio::test]
async fn the_user_is_asked_in_both_eras() {
    for era in [old_era(), new_era()] {
        let inner = Everything::default();
        let line = connect(Governed::new(inner.clone(), confirmed(false)), era).await;
        let result = line.result("wipe", json!({})).await;
        assert_eq!(result["isError"], false, "{result}");
        assert_eq!(inner.0.ran.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_dry_deployment_runs_nothing() {
    for era in [old_era(), new_era()] {
        let inner = Everything::default();
        let line = connect(Governed::new(inner.clone(), confirmed(true)), era).await;
        let result = line.result("wipe", json!({})).await;
        assert_eq!(result["_meta"]["code"], "DRY_RUN_PREVIEW", "{result}");
        assert_eq!(inner.0.ran.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn a_tool_that_asks_itself_gets_its_own_state_back() {
    let line = connect(Governed::new(Everything::default(), confirmed(false)), new_era()).await;
    let result = line.result("greet", json!({})).await;
    assert_eq!(result["content"][0]["text"], "first \"round\"\n: \"Ferris\"", "{result}");
}
