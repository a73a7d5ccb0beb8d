//! Safety: what is shown can be called, what is hidden is refused, and the refusal says why.

use std::sync::Arc;

use super::*;
use crate::{
    Call, Executed, Listing, TierRules, ToolId, ToolList,
    registry::Class,
    testing::{CapturedLog, ScriptedServer, answering, call, chain, context, json, session, tool},
};

/// What each allowed tier (column) does with a tool of each tier (row).
const TABLE: [(Option<Tier>, [bool; 3]); 4] = [
    (Some(Tier::Readonly), [true, true, true]),
    (Some(Tier::Mutating), [false, true, true]),
    (Some(Tier::Destructive), [false, false, true]),
    (None, [false, false, false]),
];

async fn denial(allowed: Tier, tool: &Arc<Tool>) -> Failure {
    let server = answering(json("{}"));
    let outcome = call(&chain(Safety::new(allowed)), tool, "{}", &server).await;
    assert_eq!(server.calls(), 0, "a denied call never reaches the tool");
    assert_eq!(outcome.class(), Class::Denied);
    assert_eq!(outcome.executed(), Executed::No);
    outcome.failure().unwrap().clone()
}

#[tokio::test]
async fn listing_and_call_agree_on_every_combination() {
    for (tier, row) in TABLE {
        for (allowed, passes) in Tier::ALL.into_iter().zip(row) {
            let layer = chain(Safety::new(allowed));
            let tool = tool("t", tier);
            let mut server = answering(json("{}"));
            server.tools = vec![Arc::clone(&tool)];

            let mut cx = context();
            let listing = layer.list(&mut cx, Listing::default(), &server);
            let listed = !listing.await.unwrap().tools().is_empty();
            let outcome = call(&layer, &tool, "{}", &server).await;

            let case = format!("tool {tier:?}, allowed {allowed}");
            assert_eq!(listed, passes, "{case}");
            assert_eq!(outcome.failure().is_none(), passes, "{case}");
            assert_eq!(server.calls(), usize::from(passes), "{case}");
        }
    }
}

#[tokio::test]
async fn the_refusal_names_both_tiers_and_the_setting_that_suffices() {
    let failure = denial(Tier::Readonly, &tool("send_keys", Tier::Mutating)).await;
    assert_eq!(failure.code(), Code::TierDenied);
    assert_eq!(
        failure.message(),
        "Tool 'send_keys' is not available at the current safety level: it is mutating, and the \
         level is readonly."
    );
    // Not `destructive`, which would open more than the call needs.
    assert_eq!(
        failure.suggestion(),
        Some("Only the operator can allow it, with safety = \"mutating\" (or --safety mutating).")
    );
    assert!(failure.is_expected());
    assert_eq!(failure.decided_by(), Some(NAME));
    assert_eq!(failure.rule(), Some("mutating > readonly"));
}

#[tokio::test]
async fn a_tool_without_a_tier_is_refused_at_every_level() {
    for allowed in Tier::ALL {
        let failure = denial(allowed, &tool("mystery", None)).await;
        assert_eq!(failure.code(), Code::TierUnknown);
        assert_eq!(
            failure.message(),
            format!(
                "Tool 'mystery' is not available at the current safety level: it has no \
                 tier, and the level is {allowed}."
            )
        );
        assert_eq!(
            failure.suggestion(),
            Some(
                "Only the operator can give it one: [namespaces.default.tools.\"main/mystery\"] tier = \
                 \"readonly\", \"mutating\" or \"destructive\"."
            )
        );
        assert!(failure.is_expected());
        assert_eq!(failure.rule(), Some("tier unknown"));
    }
}

#[tokio::test]
async fn the_refusal_names_the_namespace_that_the_client_is_in() {
    let dev = crate::Session { namespace: "dev".into(), ..(*session()).clone() };
    let server = answering(json("{}"));
    let asked = Call::new(tool("mystery", None), None);
    let layer = chain(Safety::new(Tier::Readonly));
    let mut cx = Context::new(Arc::new(dev));
    let outcome = layer.call(&mut cx, asked, &server).await;
    let suggestion = outcome.failure().unwrap().suggestion().unwrap();
    assert!(suggestion.contains("[namespaces.dev.tools."), "{suggestion}");
}

#[tokio::test]
async fn a_denied_tool_is_never_taken_for_an_unknown_one() {
    let rules = TierRules::default();
    let unlisted = |name| Arc::new(Tool::unlisted(ToolId::new("main", name), &rules));
    let unknown = denial(Tier::Readonly, &unlisted("kill_server")).await;
    assert_eq!(unknown.code(), Code::UnknownTool);
    assert_eq!(unknown.message(), "Unknown tool: 'kill_server'");

    let denied = denial(Tier::Readonly, &tool("kill_server", Tier::Destructive)).await;
    assert_eq!(denied.code(), Code::TierDenied);
    assert!(!denied.message().contains("Unknown"));

    // A tool that was never listed has the tier that the config gives it, and no other.
    let destructive = vec![("main/kill_server".parse().unwrap(), Tier::Destructive)];
    let id = ToolId::new("main", "kill_server");
    let known = Arc::new(Tool::unlisted(id, &TierRules::new(destructive, true)));
    assert_eq!(denial(Tier::Mutating, &known).await.code(), Code::TierDenied);
}

#[tokio::test]
async fn a_denial_is_logged_as_a_warning_and_told_as_expected() {
    let log = CapturedLog::default();
    let _guard = log.start();
    let both = crate::Chain::builder()
        .layer(crate::middleware::error_results::ErrorResults)
        .layer(Safety::new(Tier::Readonly));
    let both = both.build().unwrap();
    let server = answering(json("{}"));
    let outcome = call(&both, &tool("kill", Tier::Destructive), "{}", &server).await;
    let result = crate::testing::result_value(&outcome);
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["expected"], true);
    assert_eq!(result["_meta"]["code"], "TIER_DENIED");
    assert_eq!(result["_meta"]["rule"], "destructive > readonly");
    let levels: Vec<_> = log.lines().iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [tracing::Level::WARN]);
}

#[tokio::test]
async fn a_page_keeps_what_it_has_beside_its_tools() {
    let tools = vec![tool("show", Tier::Readonly), tool("kill", Tier::Destructive)];
    let wire = r#"{"tools":[{"name":"show"},{"name":"kill"}],"nextCursor":"x","_meta":{"a":1.0}}"#;
    let page = ToolList::from_wire(tools, json(wire).object().unwrap(), Some("line".into()));
    let mut server = answering(json("{}"));
    server.page = Some(page);
    let server = &server;
    let listed = |allowed| {
        let layer = chain(Safety::new(allowed));
        async move { layer.list(&mut context(), Listing::default(), server).await }
    };
    let all = listed(Tier::Destructive).await.unwrap();
    assert!(all.origin().is_some(), "nothing hidden, nothing changed");
    let some = listed(Tier::Mutating).await.unwrap();
    assert!(some.origin().is_none());
    assert_eq!(
        some.into_result().as_str(),
        r#"{"tools":[{"name":"show"}],"nextCursor":"x","_meta":{"a":1.0}}"#
    );
}

#[tokio::test]
async fn other_requests_pass_by() {
    let layer = chain(Safety::new(Tier::Readonly));
    assert!(!layer.sees_request("ping"));
    assert!(layer.sees_listings());
    assert!(layer.needs_tools());
    let server = ScriptedServer::new(|_| Failure::internal("not called").into());
    let request = crate::Request { method: "ping".into(), params: Some(json("{}")) };
    assert!(layer.request(&mut context(), request, &server).await.body.is_ok());
}
