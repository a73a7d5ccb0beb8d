//! Layers in other forms: boxed, shared, missing, renamed, for some tools; and how their decisions agree.

use std::sync::Arc;

use super::*;
use crate::{
    Chain, ChainMistake, Code, Tier, ToolAccess, from_fn, gate,
    middleware::error_results::ErrorResults,
    testing::{self, answering, context, json, tool},
};

fn pass(name: &'static str) -> impl Middleware {
    from_fn(name, async |cx, call, next| next.call(cx, call).await)
}

/// Denies every tool, also in listings.
fn closed(name: &'static str) -> impl Middleware {
    gate(name, |_: &Context, _: &ToolAccess<'_>| Err(Failure::refused("closed")))
}

fn names(chain: &Chain) -> Vec<&'static str> {
    chain.layers().iter().map(|info| info.name).collect()
}

async fn listed(chain: &Chain) -> Vec<String> {
    let mut server = answering(json("{}"));
    server.tools = ["a", "b", "c"].map(|name| tool(name, Tier::Readonly)).to_vec();
    let list = chain.list(&mut context(), Listing::default(), &server).await.unwrap();
    list.tools().iter().map(|tool| tool.id().name().to_owned()).collect()
}

async fn code(chain: &Chain, name: &str) -> Option<Code> {
    testing::call(chain, &tool(name, None), "{}", &answering(json("{}"))).await.code()
}

fn allows(chain: &Chain, name: &str) -> bool {
    chain.allows(&context(), &Call::new(tool(name, None), None))
}

#[tokio::test]
async fn boxed_shared_and_missing_layers_are_layers() {
    let plugins: Vec<Box<dyn DynMiddleware>> = vec![Box::new(pass("one")), Box::new(closed("two"))];
    let shared: Arc<dyn DynMiddleware> = Arc::new(pass("three"));
    let chain = Chain::builder()
        .layers(plugins)
        .layer(shared)
        .layer(Arc::new(pass("four")))
        .layer(Some(pass("five")))
        .layer(None::<Adapted<Arc<dyn DynMiddleware>>>)
        .build()
        .unwrap();
    assert_eq!(names(&chain), ["one", "two", "three", "four", "five"]);
    assert_eq!(code(&chain, "a").await, Some(Code::Refused));
    assert_eq!(listed(&chain).await, [""; 0]);
    assert_eq!(chain.explain(&context(), &Call::new(tool("a", None), None)).len(), 5);
}

#[tokio::test]
async fn a_gate_gives_one_answer_to_calls_listings_and_explanations() {
    let b_only = gate("b-only", |_, access| match access.name() {
        "b" => Ok(()),
        name => Err(Failure::refused(format!("`{name}` is closed"))),
    });
    let chain = testing::chain(b_only);
    assert_eq!(listed(&chain).await, ["b"]);
    for (name, is_allowed) in [("a", false), ("b", true), ("c", false)] {
        assert_eq!(code(&chain, name).await.is_none(), is_allowed, "{name}");
        assert_eq!(allows(&chain, name), is_allowed, "{name}");
    }
    let refused = testing::call(&chain, &tool("a", None), "{}", &answering(json("{}"))).await;
    assert_eq!(refused.failure().unwrap().decided_by(), Some("b-only"));
}

/// Refuses calls and hides tools, but does not explain itself.
struct AdminOnly;

impl Middleware for AdminOnly {
    fn name(&self) -> &'static str {
        "admin-only"
    }

    async fn call(&self, _: &mut Context, _: Call, _: Next<'_>) -> Outcome {
        Failure::refused("only for admins").into()
    }
}

#[test]
fn nothing_promises_a_call_that_a_layer_may_refuse_without_a_word() {
    let allows_with = |layer: Box<dyn DynMiddleware>| {
        let chain = Chain::builder().layer(ErrorResults).layer(layer).build().unwrap();
        allows(&chain, "a")
    };
    assert!(!allows_with(Box::new(AdminOnly)));
    assert!(!allows_with(Box::new(closed("closed"))));
    assert!(allows_with(Box::new(pass("pass").never_refuses())));
    assert!(allows_with(Box::new(gate("open", |_, _| Ok(())))));
}

#[test]
fn a_layer_that_may_refuse_must_stand_where_its_refusal_is_rendered() {
    let build =
        |layer: Box<dyn DynMiddleware>| Chain::builder().layer(layer).layer(ErrorResults).build();
    let refused = build(Box::new(AdminOnly)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`errors-to-results` must stand outside `admin-only`: a refusal outside of it would reach the \
         client as a JSON-RPC error; move `errors-to-results` before `admin-only` in the chain"
    );
    assert!(build(Box::new(AdminOnly.never_refuses())).is_ok());
}

#[tokio::test]
async fn a_layer_for_some_tools_leaves_the_others_alone() {
    let b = "main/b".parse().unwrap();
    let chain = testing::chain(closed("closed").only(b));
    assert_eq!(listed(&chain).await, ["a", "c"]);
    assert_eq!(code(&chain, "a").await, None);
    assert_eq!(code(&chain, "b").await, Some(Code::Refused));
    assert!(allows(&chain, "a") && !allows(&chain, "b"));
}

#[test]
fn order_rules_hold_for_a_layer_under_another_name() {
    let named = || crate::middleware::safety::Safety::new(Tier::Readonly).named("mine");
    let refused = Chain::builder().layer(named()).layer(ErrorResults).build().unwrap_err();
    let [ChainMistake::WrongOrder { outer, inner, .. }] = refused.mistakes() else {
        panic!("{refused}")
    };
    assert_eq!((*outer, *inner), ("errors-to-results", "mine"));
    let both = Chain::builder().layer(named()).layer(named().named("other")).build().unwrap();
    assert_eq!(names(&both), ["mine", "other"]);
}

/// Names a layer that does not exist.
struct Tenants(&'static [Order]);

impl Middleware for Tenants {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn order(&self) -> &'static [Order] {
        self.0
    }
}

#[test]
fn a_misspelt_order_rule_is_reported_and_a_layer_of_another_program_is_not() {
    let build = |order| Chain::builder().layer(Tenants(order)).build();
    let refused = build(&[Order::Inside("precondition", "paid for")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "an order rule of `tenants` names `precondition`, which no layer is called: did you mean \
         `preconditions`?"
    );
    for known in ["preconditions", "billing", "logs-of-mine"] {
        let rule: &'static [Order] = Box::leak(Box::new([Order::Inside(known, "paid for")]));
        assert!(build(rule).is_ok(), "{known}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let chain = Chain::builder()
        .layer(crate::middleware::timeout::Timeout::new(crate::middleware::timeout::DEFAULT))
        .layer(AdminOnly)
        .layer(AdminOnly)
        .layer(ErrorResults);
    let refused = chain.build().unwrap_err();
    let text = refused.to_string();
    assert_eq!(refused.mistakes().len(), 3, "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("`admin-only` stands in the chain twice"), "{text}");
}
