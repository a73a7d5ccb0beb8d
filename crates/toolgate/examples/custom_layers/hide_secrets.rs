//! A layer that removes secrets from results. It reaches the structured content and the messages of failures too.

use regex::Regex;
use toolgate::{
    Call, Context, Middleware, Outcome,
    testing::{Harness, text},
    transform_response,
};

fn hide_secrets() -> Result<impl Middleware, regex::Error> {
    let secrets = Regex::new(r"(?i)(api_key|password)=\w+")?;
    Ok(transform_response("hide-secrets", move |outcome: Outcome, _: &Call, _: &mut Context| {
        outcome.map_texts(|text| secrets.replace_all(text, "$1=***"))
    }))
}

/// The client reads stars.
pub(crate) async fn show() {
    let harness = Harness::new(hide_secrets().unwrap()).answers("user=eve API_KEY=0123 password=x");
    assert_eq!(text(&harness.call("env", ()).await), "user=eve API_KEY=*** password=***");
}
