//! Scopes: what is shown can be called, what is hidden is refused, and nothing but the operator grants.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{
    Chain, Executed, Listing, Middleware, Outcome, Principal, Session, TierRules, ToolId,
    middleware::{error_results::ErrorResults, retry::Retry, retry::RetryConfig, timeout::Timeout},
    registry::Class,
    selector::Selector,
    testing::{answering, call, chain, context, json, result_value, session, tool},
};

fn list(words: &str) -> Vec<Scope> {
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Grants of the namespace, of principals and of the variable; what is empty is not given.
fn granted(namespace: &str, principals: &[(&str, &str)], variable: &str) -> Granted {
    let given = |words: &str| (!words.is_empty()).then(|| list(words));
    let principals: Vec<_> =
        principals.iter().map(|(who, words)| (who.parse().unwrap(), list(words))).collect();
    Granted {
        namespace: given(namespace),
        principals: (!principals.is_empty()).then_some(principals),
        variable: given(variable),
    }
}

fn rule(selector: &str, words: &str) -> (Selector, Vec<Scope>) {
    (selector.parse().unwrap(), list(words))
}

fn layer(granted: Granted, required: Vec<(Selector, Vec<Scope>)>) -> Scopes {
    Scopes::new(ScopesConfig { granted, required })
}

fn passes(layer: &Scopes, tool: &Tool) -> bool {
    layer.check(&context(), tool).is_ok()
}

#[tokio::test]
async fn listing_and_call_agree_on_every_combination() {
    let tools = || {
        [
            tool("show", Tier::Readonly),
            tool("send", Tier::Mutating),
            tool("kill", Tier::Destructive),
            tool("odd", None),
        ]
    };
    // What is granted, and which of the four tools it reaches.
    for (words, reached) in [
        ("*", [true; 4]),
        ("read", [true, false, false, false]),
        ("write", [false, true, false, false]),
        ("destructive", [false, false, true, true]),
        ("read write", [true, true, false, false]),
        ("main", [true; 4]),
        ("main:read", [true, false, false, false]),
        ("main:write main:destructive", [false, true, true, true]),
        ("main:*", [true; 4]),
        ("*:read", [true, false, false, false]),
        ("other", [false; 4]),
        ("other:read", [false; 4]),
        ("Read", [false; 4]),
        ("readonly", [false; 4]),
        ("nothing", [false; 4]),
    ] {
        for source in 0..3 {
            let granted = match source {
                0 => granted(words, &[], ""),
                1 => granted("", &[("local:*", words)], ""),
                _ => granted("", &[], words),
            };
            let layer = chain(layer(granted, Vec::new()));
            let mut server = answering(json("{}"));
            server.tools = tools().to_vec();
            let mut cx = context();
            let listed = layer.list(&mut cx, Listing::default(), &server).await.unwrap();
            let listed: Vec<_> = listed.tools().iter().map(|t| t.id().name().to_owned()).collect();
            for (tool, reached) in tools().iter().zip(reached) {
                let case = format!("{words}, {}, source {source}", tool.id());
                assert_eq!(listed.contains(&tool.id().name().to_owned()), reached, "{case}");
                let before = server.calls();
                let outcome = call(&layer, tool, "{}", &server).await;
                assert_eq!(outcome.code(), (!reached).then_some(Code::ScopeRejected), "{case}");
                assert_eq!(server.calls() - before, usize::from(reached), "{case}");
            }
        }
    }
}

#[test]
fn what_is_granted_is_what_all_grant_that_are_given() {
    let (show, send) = (tool("show", Tier::Readonly), tool("send", Tier::Mutating));
    let reached = |granted: Granted| {
        let layer = layer(granted, Vec::new());
        (passes(&layer, &show), passes(&layer, &send))
    };
    assert_eq!(reached(granted("read write", &[], "read")), (true, false));
    assert_eq!(reached(granted("read", &[], "write")), (false, false));
    assert_eq!(reached(granted("*", &[("local:*", "write")], "read write")), (false, true));
    assert_eq!(
        reached(granted("*", &[("local:me", "read"), ("local:*", "write")], "")),
        (true, true)
    );
    assert_eq!(reached(granted("*", &[("key:*", "*")], "")), (false, false), "whom none covers");
    // Two grants do not make a third.
    assert_eq!(reached(granted("main", &[], "read")), (false, false));
    assert_eq!(reached(granted("main:read", &[], "main:*")), (true, false));
    // Given and empty is not the same as not given.
    let empty = Granted { namespace: Some(Vec::new()), ..Granted::default() };
    assert_eq!(reached(empty), (false, false));
    let nobody = Granted { principals: Some(Vec::new()), ..Granted::default() };
    assert_eq!(reached(nobody), (false, false));
}

#[test]
fn grants_are_those_of_who_really_calls() {
    let layer = layer(granted("", &[("key:ci-*", "read"), ("subject:alice", "*")], ""), vec![]);
    let show = tool("show", Tier::Readonly);
    for (principal, reached) in [
        (Principal::Key("ci-7".into()), true),
        (Principal::Subject("alice".into()), true),
        (Principal::Subject("alicea".into()), false),
        (Principal::Local("alice".into()), false),
        (Principal::Anonymous, false),
    ] {
        let who = Session { principal: principal.clone(), ..(*session()).clone() };
        let decision = layer.check(&Context::new(Arc::new(who)), &show);
        assert_eq!(decision.is_ok(), reached, "{principal}");
    }
}

#[test]
fn explicit_scopes_are_all_needed_and_the_exact_rule_decides_alone() {
    let rules =
        || vec![rule("main/*", "write"), rule("*/kill", "admin write"), rule("main/show", "read")];
    let kill = tool("kill", Tier::Readonly);
    for (words, reached) in [
        ("write", false),
        ("admin", false),
        ("admin write", true),
        ("read main", false),
        ("*", true),
    ] {
        assert_eq!(passes(&layer(granted(words, &[], ""), rules()), &kill), reached, "{words}");
    }
    let show = tool("show", Tier::Destructive);
    let only_read = layer(granted("read", &[], ""), rules());
    assert!(passes(&only_read, &show), "the exact rule replaces the globs");
    assert!(!passes(&only_read, &tool("other", Tier::Readonly)), "a rule replaces what a tool is");
    // Without grants, tools that require scopes are refused and all others pass.
    let none = layer(Granted::default(), vec![rule("main/kill", "write"), rule("main/free", "")]);
    assert!(!passes(&none, &kill));
    assert!(passes(&none, &show) && passes(&none, &tool("free", None)));
    assert!(!Middleware::needs_tools(&none), "identities are enough");
    assert!(Middleware::needs_tools(&layer(granted("read", &[], ""), vec![])));
}

#[test]
fn a_category_of_the_config_stands_for_the_server() {
    let categories = vec![("main/show".parse().unwrap(), "money".into())];
    let rules = TierRules::new(vec![], true).with_categories(categories);
    let definition = json(r#"{"annotations":{"readOnlyHint":true}}"#);
    let tool = Tool::listed(ToolId::new("main", "show"), definition, &rules);
    for (words, reached) in [
        ("money", true),
        ("money:read", true),
        ("main", false),
        ("main:read", false),
        ("read", true),
    ] {
        assert_eq!(passes(&layer(granted(words, &[], ""), vec![]), &tool), reached, "{words}");
    }
}

async fn rendered(layer: Scopes, tool: &Arc<Tool>) -> (Outcome, Value) {
    let both = Chain::builder().layer(ErrorResults).layer(layer).build().unwrap();
    let server = answering(json("{}"));
    let outcome = call(&both, tool, "{}", &server).await;
    assert_eq!(server.calls(), 0);
    let result = result_value(&outcome);
    (outcome, result)
}

#[tokio::test]
async fn the_refusal_names_tool_required_and_granted_and_whom_to_ask() {
    let rules = vec![rule("main/move", "write admin")];
    let (outcome, result) =
        rendered(layer(granted("read", &[], ""), rules.clone()), &tool("move", None)).await;
    assert_eq!((outcome.class(), outcome.executed()), (Class::Denied, Executed::No));
    assert_eq!(
        result["content"][0]["text"],
        "Tool 'move' requires all of the scopes write, admin; granted: read.\nAsk the operator whether \
         you may have it: granted by `scopes` of [namespaces.default]."
    );
    let meta = &result["_meta"];
    assert_eq!((&meta["code"], &meta["expected"]), (&json!("SCOPE_REJECTED"), &json!(true)));
    assert_eq!(meta["required"], json!(["write", "admin"]));
    assert_eq!(meta["granted"], json!(["read"]));
    assert_eq!(meta["rule"], "requires all of the scopes write, admin");

    let (_, result) = rendered(layer(Granted::default(), rules), &tool("move", None)).await;
    assert_eq!(result["_meta"]["granted"], json!([]));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("; granted: none.\n"));

    let granted = granted("* read", &[("local:*", "write")], "write x");
    let (outcome, result) = rendered(layer(granted, vec![]), &tool("show", Tier::Readonly)).await;
    assert_eq!(result["_meta"]["required"], json!(["main", "read", "main:read"]));
    assert_eq!(result["_meta"]["granted"], json!(["write"]));
    assert_eq!(
        outcome.failure().unwrap().suggestion(),
        Some(
            "Ask the operator whether you may have it: granted by `grants` of [namespaces.default] for \
             local:me, and what toolgate is started with in MCP_SCOPES."
        )
    );
}

#[test]
fn a_denied_tool_is_never_taken_for_an_unknown_one() {
    let unlisted = Tool::unlisted(ToolId::new("main", "kill"), &TierRules::default());
    let code = |layer: &Scopes, tool: &Tool| layer.check(&context(), tool).unwrap_err().code();
    let read = layer(granted("read", &[], ""), vec![]);
    assert_eq!(code(&read, &unlisted), Code::UnknownTool);
    assert_eq!(code(&read, &tool("kill", None)), Code::ScopeRejected);
    let ruled = layer(granted("read", &[], ""), vec![rule("main/kill", "write")]);
    assert_eq!(code(&ruled, &unlisted), Code::ScopeRejected);
}

#[test]
fn why_and_the_decision_are_the_same() {
    let layer = layer(granted("read", &[], ""), vec![rule("main/kill", "write")]);
    for (name, tier) in
        [("show", Tier::Readonly), ("send", Tier::Mutating), ("kill", Tier::Readonly)]
    {
        let asked = Call::new(tool(name, tier), None);
        let explained = layer.explain(&context(), &asked).unwrap();
        assert_eq!(explained.allowed, passes(&layer, asked.tool()), "{name}");
        assert!(explained.rule.starts_with("requires "), "{explained:?}");
        assert_eq!(explained.why.is_empty(), explained.allowed);
    }
}

#[test]
fn words_that_are_no_scopes_and_a_variable_that_says_nothing_are_refused() {
    for wrong in ["", "a b", "a,b", "käse", "a?", "a\n", "\"x\""] {
        assert!(wrong.parse::<Scope>().is_err(), "{wrong:?}");
    }
    assert_eq!(from_variable(" read , files:write ,"), Ok(list("read files:write")));
    for empty in ["", " ", ",", " , ,"] {
        assert_eq!(from_variable(empty), Err(BadScopeVariable::Empty), "{empty:?}");
    }
    assert_eq!(
        from_variable("read;write").unwrap_err().to_string(),
        "the variable MCP_SCOPES is refused: `read;write` is no scope: write letters, digits and \
         `_ . : / * -`, as `read` or `files:write`"
    );
}

#[test]
fn its_place_in_the_chain() {
    let some = || layer(granted("read", &[], ""), vec![]);
    assert!(Chain::builder().layer(some()).layer(ErrorResults).build().is_err());
    let retry = Retry::new(RetryConfig::default());
    assert!(Chain::builder().layer(retry).layer(some()).build().is_err());
    let timeout = Timeout::new(std::time::Duration::from_secs(1));
    assert!(Chain::builder().layer(timeout).layer(some()).build().is_err());
    let all = granted("read", &[("local:*", "read x")], "write");
    assert_eq!(
        Middleware::describe(&layer(all, vec![rule("main/*", "x")])),
        "granted read; local:*: read, x; MCP_SCOPES: write; 1 rule for single tools"
    );
    assert_eq!(Middleware::describe(&layer(Granted::default(), vec![])), "none granted");
    assert!(!chain(some()).sees_request("ping"));
}
