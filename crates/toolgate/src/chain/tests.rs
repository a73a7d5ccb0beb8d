//! The chain: refused when its order is wrong, printed as it is, and run in that order.

use super::*;
use crate::{
    Code, Tier, ToolResult,
    layer::Order,
    middleware::{
        Hooks,
        audit::{Audit, AuditConfig, AuditSink, RedactConfig, Target},
        error_results::ErrorResults,
        response_limit::{ResponseLimit, ResponseLimitConfig},
        retry::{Retry, RetryConfig},
        safety::Safety,
        timeout::Timeout,
    },
    testing::{self, answering, context, failing, json, tool},
};

fn audit() -> Audit {
    let config = AuditConfig { file: Target::Stderr, ..AuditConfig::default() };
    let sink = AuditSink::open(&config, &RedactConfig::default());
    Audit::new(sink.unwrap().unwrap())
}

/// Adds the layer of this name, as it is by default.
fn add(builder: Builder, name: &str) -> Builder {
    match name {
        "response-limit" => builder.layer(ResponseLimit::new(ResponseLimitConfig::default())),
        "errors-to-results" => builder.layer(ErrorResults),
        "audit" => builder.layer(audit()),
        "safety" => builder.layer(Safety::new(Tier::Mutating)),
        "retry" => builder.layer(Retry::new(RetryConfig::default())),
        "timeout" => builder.layer(Timeout::new(crate::middleware::timeout::DEFAULT)),
        other => panic!("no layer {other}"),
    }
}

fn build(names: &[&str]) -> Result<Chain, BadChain> {
    names.iter().fold(Chain::builder(), |b, name| add(b, name)).build()
}

const RENDERED: &str = "it turns failures of the layers inside of it into error results";

/// Every rule between these: who must stand outside of whom, and why.
const RULES: &[(&str, &str, &str)] = &[
    ("response-limit", "errors-to-results", "error results are bounded too"),
    ("errors-to-results", "audit", RENDERED),
    ("errors-to-results", "safety", RENDERED),
    ("errors-to-results", "retry", RENDERED),
    ("errors-to-results", "timeout", RENDERED),
    ("audit", "safety", "denials are recorded too"),
    ("audit", "timeout", "calls that took too long are recorded too"),
    ("audit", "retry", "a call is audited once, however often it is tried"),
    ("safety", "timeout", "a denied call needs no timeout"),
    ("retry", "timeout", "each attempt has its own timeout"),
];

const ALL: [&str; 6] =
    ["response-limit", "errors-to-results", "audit", "safety", "retry", "timeout"];

#[test]
fn each_rule_refuses_its_violation_with_the_sentence_that_explains_it() {
    for (outer, inner, why) in RULES {
        assert!(build(&[outer, inner]).is_ok(), "{outer} outside {inner}");
        let refused = build(&[inner, outer]).unwrap_err();
        let (outer, inner, why) = (*outer, *inner, *why);
        assert_eq!(refused.mistakes(), [ChainMistake::WrongOrder { outer, inner, why }]);
        assert_eq!(
            refused.to_string(),
            format!(
                "`{outer}` must stand outside `{inner}`: {why}; move `{outer}` before `{inner}` in \
                 the chain"
            )
        );
    }
}

#[test]
fn the_table_above_has_every_rule() {
    let chain = build(&ALL).unwrap();
    let mut rules: Vec<_> = chain
        .layers()
        .iter()
        .flat_map(|info| {
            info.order.iter().filter_map(|rule| match *rule {
                Order::Outside(other, why) => Some((info.name, other, why)),
                Order::Inside(other, why) => Some((other, info.name, why)),
                _ => None,
            })
        })
        .collect();
    // A rule about a layer that does not exist would never be broken.
    let exists = |name: &str| layers::default_order().any(|place| place.name == name);
    assert!(rules.iter().all(|(outer, inner, _)| exists(outer) && exists(inner)));
    rules.retain(|(outer, inner, _)| ALL.contains(outer) && ALL.contains(inner));
    let mut table = RULES.to_vec();
    rules.sort_unstable();
    table.sort_unstable();
    assert_eq!(rules, table);
}

#[test]
fn of_all_orders_only_those_that_keep_every_rule_are_built() {
    fn orders(rest: &[&'static str]) -> Vec<Vec<&'static str>> {
        if rest.is_empty() {
            return vec![Vec::new()];
        }
        let firsts = 0..rest.len();
        firsts
            .flat_map(|at| {
                let mut rest = rest.to_vec();
                let first = rest.remove(at);
                orders(&rest).into_iter().map(move |order| [vec![first], order].concat())
            })
            .collect()
    }
    let good: Vec<_> = orders(&ALL).into_iter().filter(|order| build(order).is_ok()).collect();
    let as_libtmux = ["response-limit", "errors-to-results", "audit", "retry", "safety", "timeout"];
    assert_eq!(good, [ALL, as_libtmux], "a denial is never tried again, wherever retry stands");
}

#[test]
fn no_layer_stands_there_twice() {
    for name in ALL {
        let refused = build(&[name, name]).unwrap_err();
        assert_eq!(refused.mistakes(), [ChainMistake::DuplicateLayer(name)]);
    }
    let refused = build(&["audit", "audit"]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`audit` stands in the chain twice: remove one of them, or give one another name with `named`"
    );
}

#[test]
fn a_chain_prints_its_layers_outermost_first() {
    struct Silent;
    impl Middleware for Silent {
        fn name(&self) -> &'static str {
            "silent"
        }
    }
    let chain = ALL.iter().fold(Chain::builder(), |b, name| add(b, name));
    let chain = chain.layer(Silent).build().unwrap();
    assert_eq!(
        chain.to_string(),
        " client
  1  response-limit     at most 1000000 bytes a result, keeps the tail
  2  errors-to-results  a failed call answers with isError, the message and _meta
  3  audit              one record per call to stderr, arguments redacted
  4  safety             up to mutating; a tool without a tier is denied
  5  retry              readonly calls, up to 1 more after a transient error, first after 100ms
  6  timeout            a call is cancelled after 5m
  7  silent
 tool"
    );
    assert_eq!(Chain::builder().build().unwrap().to_string(), " client\n tool");
    let builder = Chain::builder().layer(Safety::new(Tier::Readonly));
    let debug = "[safety (up to readonly; a tool without a tier is denied)]";
    assert_eq!(format!("{builder:?}"), debug);
    assert_eq!(format!("{:?}", builder.build().unwrap()), debug);
}

/// A layer that leaves a mark on the way in and on the way out.
struct Mark(&'static str, Hooks);

#[derive(Default)]
struct Marks(Vec<String>);

impl Mark {
    fn leave(&self, cx: &mut Context, what: &str) {
        let mut marks = cx.extensions_mut().remove::<Marks>().unwrap_or_default();
        marks.0.push(format!("{} {what}", self.0));
        cx.extensions_mut().insert(marks);
    }
}

impl Middleware for Mark {
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        self.1
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        self.leave(cx, "in");
        let outcome = next.call(cx, call).await;
        self.leave(cx, "out");
        outcome
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        self.leave(cx, "lists");
        next.list(cx, listing).await
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        self.leave(cx, &request.method);
        next.request(cx, request).await
    }
}

#[tokio::test]
async fn layers_run_outermost_first_and_only_where_they_take_part() {
    let chain = Chain::builder()
        .layer(Mark("a", Hooks::ALL))
        .layer(Mark("b", Hooks::TOOLS))
        .layer(Mark("c", Hooks::CALL))
        .build();
    let (chain, mut cx) = (chain.unwrap(), context());
    let server = answering(json("{}"));
    chain.call(&mut cx, Call::new(tool("t", None), None), &server).await;
    let marks = cx.extensions_mut().remove::<Marks>().unwrap().0;
    assert_eq!(marks, ["a in", "b in", "c in", "c out", "b out", "a out"]);
    chain.list(&mut cx, Listing::default(), &server).await.unwrap();
    let marks = cx.extensions_mut().remove::<Marks>().unwrap().0;
    assert_eq!(marks, ["a lists", "b lists"]);
    let request = Request { method: "ping".into(), params: None };
    chain.request(&mut cx, request, &server).await.body.unwrap_err();
    assert_eq!(cx.extensions_mut().remove::<Marks>().unwrap().0, ["a ping"]);
    assert!(chain.sees_listings() && chain.sees_request("ping") && !chain.needs_tools());
}

#[tokio::test]
async fn hooks_that_are_left_out_pass_everything_on() {
    struct Nothing;
    impl Middleware for Nothing {
        fn name(&self) -> &'static str {
            "nothing"
        }
    }
    let (chain, mut cx) = (testing::chain(Nothing), context());
    let mut server = answering(json(r#"{"a":1.0}"#));
    server.tools = vec![tool("t", None)];
    let outcome = testing::call(&chain, &tool("t", None), "{}", &server).await;
    assert_eq!(outcome.result().unwrap().json().as_str(), r#"{"a":1.0}"#);
    let list = chain.list(&mut cx, Listing::default(), &server).await.unwrap();
    assert_eq!(list.tools().len(), 1);
    let request = Request { method: "m".into(), params: Some(json("[1.0]")) };
    let answer = chain.request(&mut cx, request, &server).await;
    assert_eq!(answer.body.unwrap().as_str(), "[1.0]");
    assert_eq!(answer.origin.unwrap(), "the line");
}

#[tokio::test]
async fn a_chain_of_no_layers_and_one_of_a_thousand_both_end_at_the_tool() {
    let server = answering(json("{}"));
    let empty = Chain::builder().build().unwrap();
    assert!(testing::call(&empty, &tool("t", None), "{}", &server).await.failure().is_none());
    let names = (0..1000).map(|n| &*format!("layer {n}").leak());
    let long = names.fold(Chain::builder(), |b, name| b.layer(Mark(name, Hooks::CALL)));
    let (long, mut cx) = (long.build().unwrap(), context());
    long.call(&mut cx, Call::new(tool("t", None), None), &server).await;
    assert_eq!(cx.extensions().get::<Marks>().unwrap().0.len(), 2000);
    assert_eq!(server.calls(), 2);
}

#[tokio::test]
async fn only_a_readonly_call_can_be_replayed() {
    struct Thrice;
    impl Middleware for Thrice {
        fn name(&self) -> &'static str {
            "thrice"
        }
        async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
            assert_eq!(format!("{next:?}"), "Next(0 layers)");
            match next.replayable(&call) {
                Ok(replay) => {
                    replay.attempt(cx, call.clone()).await;
                    replay.attempt(cx, call.clone()).await;
                    replay.attempt(cx, call).await
                }
                Err(next) => next.call(cx, call).await,
            }
        }
    }
    for (tier, times) in [
        (Some(Tier::Readonly), 3),
        (Some(Tier::Mutating), 1),
        (Some(Tier::Destructive), 1),
        (None, 1),
    ] {
        let server = answering(json("{}"));
        testing::call(&testing::chain(Thrice), &tool("t", tier), "{}", &server).await;
        assert_eq!(server.calls(), times, "{tier:?}");
    }
}

#[tokio::test]
async fn a_tool_may_call_another_through_the_same_chain() {
    /// Calls `inner` on behalf of `outer`, and tells the ids.
    struct Batch(Chain);
    impl Endpoint for Batch {
        fn call<'a>(&'a self, cx: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
            Box::pin(async move {
                if call.id().name() == "inner" {
                    let parent = cx.parent().unwrap().to_string();
                    return ToolResult::text(&parent).into();
                }
                let mut nested = cx.nested();
                assert_eq!(nested.session().id, cx.session().id);
                let inner = Call::new(tool("inner", Tier::Readonly), None);
                let denied = Call::new(tool("denied", Tier::Destructive), None);
                let mut other = cx.nested();
                let refused = self.0.call(&mut other, denied, self).await;
                assert_eq!(refused.code(), Some(Code::TierDenied));
                self.0.call(&mut nested, inner, self).await
            })
        }
        fn list<'a>(
            &'a self,
            _: &'a mut Context,
            _: Listing,
        ) -> Boxed<'a, Result<ToolList, Failure>> {
            Box::pin(std::future::pending())
        }
        fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
            Box::pin(std::future::pending())
        }
    }
    let (chain, mut cx) = (testing::chain(Safety::new(Tier::Readonly)), context());
    let outer = Call::new(tool("outer", Tier::Readonly), None);
    let outcome = chain.call(&mut cx, outer, &Batch(chain.clone())).await;
    let told = testing::result_value(&outcome)["content"][0]["text"].clone();
    assert_eq!(told, cx.call_id().to_string());
}

#[tokio::test]
async fn a_failed_listing_reaches_the_client() {
    struct Closed;
    impl Middleware for Closed {
        fn name(&self) -> &'static str {
            "closed"
        }
        async fn list(
            &self,
            _: &mut Context,
            _: Listing,
            _: Next<'_>,
        ) -> Result<ToolList, Failure> {
            Err(Failure::new(Code::ServerUnavailable, "closed"))
        }
    }
    let chain = Chain::builder().layer(Safety::new(Tier::Readonly)).layer(Closed);
    let (chain, mut cx) = (chain.build().unwrap(), context());
    let server = failing(Failure::internal("not called"));
    let failure = chain.list(&mut cx, Listing::default(), &server).await.unwrap_err();
    assert_eq!(failure.to_rpc().code, 503);
    assert_eq!(failure.to_string(), "closed");
}
