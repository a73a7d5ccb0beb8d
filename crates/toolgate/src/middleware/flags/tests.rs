//! Flags: what is disabled is refused and hidden, and only that.

use std::sync::Arc;

use super::*;
use crate::{
    Call, Chain, Class, Executed, Listing, Tool,
    testing::{answering, call, chain, context, json, tool},
};

fn flags(text: &str) -> Flags {
    Flags::new(toml::from_str(text).unwrap())
}

async fn listed(chain: &Chain, tools: &[Arc<Tool>]) -> Vec<String> {
    let mut server = answering(json("{}"));
    server.tools = tools.to_vec();
    let page = chain.list(&mut context(), Listing::default(), &server).await.unwrap();
    page.tools().iter().map(|tool| tool.id().name().to_owned()).collect()
}

#[tokio::test]
async fn a_disabled_tool_is_refused_with_the_text_of_the_original() {
    let layer = chain(flags("disabled = [\"main/dangerous_tool\"]"));
    let server = answering(json("{}"));
    let outcome = call(&layer, &tool("dangerous_tool", None), "{}", &server).await;
    assert_eq!(
        (server.calls(), outcome.class(), outcome.executed()),
        (0, Class::Denied, Executed::No)
    );
    let failure = outcome.failure().unwrap();
    assert_eq!(failure.code(), Code::ToolDisabled);
    assert_eq!(failure.message(), "Tool 'dangerous_tool' is currently disabled for maintenance");
    assert_eq!(failure.suggestion(), Some("Use another tool, or call again later."));
    assert_eq!(failure.decided_by(), Some(NAME));
    assert_eq!(failure.rule(), Some("disabled: main/dangerous_tool"));
    let other = call(&layer, &tool("safe_tool", None), "{}", &server).await;
    assert!(other.failure().is_none());
}

#[tokio::test]
async fn listing_call_and_explanation_agree() {
    let layer = chain(flags("disabled = [\"main/d*\", \"other/*\"]"));
    let tools = [tool("drop", None), tool("keep", None), tool("d", None)];
    assert_eq!(listed(&layer, &tools).await, ["keep"]);
    for tool in &tools {
        let server = answering(json("{}"));
        let passes = call(&layer, tool, "{}", &server).await.failure().is_none();
        assert_eq!(passes, tool.id().name() == "keep");
        let explained = layer.explain(&context(), &Call::new(Arc::clone(tool), None));
        let explained = explained[0].1.as_ref().unwrap();
        assert_eq!(explained.allowed, passes);
        assert_eq!(explained.rule, if passes { "not disabled" } else { "disabled: main/d*" });
    }
}

#[tokio::test]
async fn disabled_tools_stay_listed_if_set_so() {
    let layer = chain(flags("disabled = [\"main/d\"]\nlisted = true"));
    assert!(!layer.sees_listings(), "a listing passes by");
    let tools = [tool("d", None), tool("e", None)];
    assert_eq!(listed(&layer, &tools).await, ["d", "e"]);
    let outcome = call(&layer, &tools[0], "{}", &answering(json("{}"))).await;
    assert_eq!(outcome.code(), Some(Code::ToolDisabled));
}

#[tokio::test]
async fn a_new_name_does_not_enable_a_tool() {
    let layer = chain(flags("disabled = [\"main/d\"]"));
    let renamed = Call::new(tool("d", None), None).with_wire_name("e");
    let outcome = layer.call(&mut context(), renamed, &answering(json("{}"))).await;
    assert_eq!(outcome.code(), Some(Code::ToolDisabled));
    let message = outcome.failure().unwrap().message();
    assert_eq!(message, "Tool 'e' is currently disabled for maintenance");
}

#[test]
fn settings_are_read_strictly_and_shown() {
    for wrong in ["disabled = [\"tool\"]", "disabled = \"main/a\"", "enabled = []"] {
        assert!(toml::from_str::<FlagsConfig>(wrong).is_err(), "{wrong}");
    }
    assert_eq!(flags("").describe(), "nothing is disabled");
    let two = flags("disabled = [\"main/a\", \"b/*\"]");
    assert_eq!(two.describe(), "disabled and hidden: main/a, b/*");
    let wrong = Chain::builder()
        .layer(two)
        .layer(crate::middleware::error_results::ErrorResults)
        .build()
        .unwrap_err();
    assert!(
        wrong.to_string().contains("`errors-to-results` must stand outside `flags`"),
        "{wrong}"
    );
}
