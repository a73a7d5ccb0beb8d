//! Policy: every bound policy must allow, `_meta` only narrows, and what is hidden is refused.

#[cfg(feature = "cedar")]
mod cedar;
mod properties;

use std::{collections::BTreeMap, path::Path};

use super::{verdict::PolicyArguments, *};
use crate::{
    Call, Chain, Control, Executed, Hooks, Listing, Middleware, Principal, Session, TierRules,
    Tool, ToolId,
    middleware::retry::{Retry, RetryConfig},
    registry::Class,
    testing::{answering, json},
};

fn tool(id: &str) -> Arc<Tool> {
    let (server, name) = id.split_once('/').unwrap();
    let definition = json(format!("{{\"name\":{name:?}}}"));
    Arc::new(Tool::listed(ToolId::new(server, name), definition, &TierRules::default()))
}

fn globs(allow: &[&str], deny: &[&str]) -> PolicyConfig {
    let selectors = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    PolicyConfig { allow: selectors(allow), deny: selectors(deny), cedar: None }
}

fn policies(named: &[(&str, PolicyConfig)]) -> Policies {
    let configs: BTreeMap<_, _> =
        named.iter().map(|(name, config)| ((*name).to_owned(), config.clone())).collect();
    Policies::load(&configs, Path::new("")).unwrap()
}

/// A namespace bound to `namespace`, with principals bound on top.
fn layer(known: &Policies, namespace: Option<&str>, principals: &[(&str, &str)]) -> Policy {
    let principals = principals.iter();
    let bindings = Bindings {
        namespace: namespace.map(str::to_owned),
        principals: principals.map(|(who, to)| (who.parse().unwrap(), (*to).to_owned())).collect(),
    };
    Policy::new(known, &bindings).unwrap()
}

fn surroundings(principal: Principal, meta: &str) -> Context {
    let session = Session { id: "s-1".into(), namespace: "default".into(), principal };
    let lifted = Control::extract(&json(meta)).map(|(control, _)| control);
    Context::new(Arc::new(session)).with_control(lifted.unwrap_or_default())
}

fn me() -> Principal {
    Principal::Local("me".into())
}

/// Calls the tool, and lists it, and sees that both agree.
async fn passes(policy: Policy, mut cx: Context, id: &str) -> Result<(), Failure> {
    let tool = &tool(id);
    let chain = Chain::builder().layer(policy).build().unwrap();
    let mut server = answering(json("{}"));
    server.tools = vec![Arc::clone(tool)];
    let listing = chain.list(&mut cx, Listing::default(), &server).await.unwrap();
    let is_listed = !listing.tools().is_empty();
    let call = Call::new(Arc::clone(tool), Some(json("{}")));
    let explained = chain.explain(&cx, &call).remove(0).1.unwrap();
    let outcome = chain.call(&mut cx, call, &server).await;
    let is_allowed = outcome.failure().is_none();
    assert_eq!(is_listed, is_allowed, "{tool:?}: the listing and the call must agree");
    assert_eq!(explained.allowed, is_allowed, "{tool:?}: {explained:?}");
    assert_eq!(server.calls(), usize::from(is_allowed), "a denied call never reaches the tool");
    match outcome.failure() {
        None => Ok(()),
        Some(failure) => {
            assert_eq!((outcome.class(), outcome.executed()), (Class::Denied, Executed::No));
            assert_eq!(failure.code(), Code::PolicyDenied);
            assert_eq!(failure.rule(), Some(explained.rule.as_str()));
            Err(failure.clone())
        }
    }
}

/// The rule that denies, or `None` if the call passes.
async fn rule(policy: Policy, cx: Context, id: &str) -> Option<String> {
    let denial = passes(policy, cx, id).await.err();
    denial.map(|failure| failure.rule().unwrap().to_owned())
}

#[tokio::test]
async fn deny_wins_then_allow_then_nothing_passes() {
    let known = policies(&[("team", globs(&["x/y", "files/*", "*/delete_draft"], &["*/delete*"]))]);
    let ask =
        |id: &'static str| rule(layer(&known, Some("team"), &[]), surroundings(me(), "{}"), id);
    assert_eq!(ask("files/read").await, None);
    assert_eq!(ask("files/delete").await.as_deref(), Some("team: deny[0] */delete*"));
    assert_eq!(ask("mail/delete_draft").await.as_deref(), Some("team: deny[0] */delete*"));
    assert_eq!(ask("mail/send").await.as_deref(), Some("team: default deny"));
}

#[tokio::test]
async fn the_refusal_says_what_the_seed_documents() {
    let known = policies(&[("team", globs(&["files/*"], &[]))]);
    let asked = passes(layer(&known, Some("team"), &[]), surroundings(me(), "{}"), "mail/send");
    let denial = asked.await.unwrap_err();
    assert_eq!(denial.message(), "Access denied to tool send by policy team");
    assert_eq!(denial.suggestion(), Some("Ask the operator to allow it in [policies.team]."));
    assert_eq!(denial.decided_by(), Some(NAME));
    assert!(denial.is_expected());
}

#[tokio::test]
async fn a_policy_that_allows_nothing_denies_everything() {
    for config in [PolicyConfig::default(), globs(&[], &["other/*"])] {
        let known = policies(&[("none", config)]);
        let denied = rule(layer(&known, Some("none"), &[]), surroundings(me(), "{}"), "files/read");
        assert_eq!(denied.await.as_deref(), Some("none: default deny"));
    }
}

/// metamcp's BUG 6: there a policy is only ever asked if the client names one.
#[tokio::test]
async fn a_bound_policy_decides_whether_or_not_the_call_names_one() {
    let known = policies(&[("team", globs(&["files/*"], &[])), ("lax", globs(&["*/*"], &[]))]);
    for meta in ["{}", r#"{"policyId":"lax"}"#, r#"{"policyId":"team"}"#] {
        let denied = rule(layer(&known, Some("team"), &[]), surroundings(me(), meta), "mail/send");
        assert_eq!(denied.await.as_deref(), Some("team: default deny"), "{meta}");
    }
    let unbound = rule(layer(&known, None, &[]), surroundings(me(), "{}"), "mail/send");
    assert_eq!(unbound.await, None, "nothing is bound and nothing named: nothing is refused");
}

/// metamcp's BUG 7: there an unknown policy is a warning, and the call goes on.
#[tokio::test]
async fn an_unknown_policy_denies() {
    let known = policies(&[("lax", globs(&["*/*"], &[]))]);
    for (meta, id) in [
        (r#"{"policyId":"gone"}"#, "gone"),
        (r#"{"policyId":"Lax"}"#, "Lax"),
        (r#"{"policyId":""}"#, ""),
        // Control data of the wrong type is an unknown policy.
        (r#"{"policyId":["lax"]}"#, ""),
        (r#"{"policyId":null}"#, ""),
    ] {
        for namespace in [None, Some("lax")] {
            let cx = surroundings(me(), meta);
            let asked = passes(layer(&known, namespace, &[]), cx, "files/read");
            let denial = asked.await.unwrap_err();
            assert_eq!(denial.rule(), Some(format!("{id}: unknown policy").as_str()));
            assert_eq!(denial.message(), format!("Access denied to tool read by policy {id}"));
        }
    }
    let none = rule(
        layer(&Policies::default(), None, &[]),
        surroundings(me(), r#"{"policyId":"x"}"#),
        "a/b",
    );
    assert_eq!(none.await.as_deref(), Some("x: unknown policy"));
}

/// metamcp's BUG 8: there the caller chooses the policy, and so may choose a laxer one.
#[tokio::test]
async fn naming_a_policy_only_narrows() {
    let known = policies(&[
        ("team", globs(&["files/*", "mail/*"], &[])),
        ("files", globs(&["files/*"], &[])),
        ("web", globs(&["web/*"], &[])),
    ]);
    let ask = |meta: &'static str, id: &'static str| {
        rule(layer(&known, Some("team"), &[]), surroundings(me(), meta), id)
    };
    assert_eq!(ask("{}", "mail/send").await, None);
    assert_eq!(ask(r#"{"policyId":"files"}"#, "files/read").await, None);
    assert_eq!(
        ask(r#"{"policyId":"files"}"#, "mail/send").await.as_deref(),
        Some("files: default deny")
    );
    assert_eq!(
        ask(r#"{"policyId":"web"}"#, "web/get").await.as_deref(),
        Some("team: default deny")
    );
}

/// metamcp's BUG 8b: there a call made on behalf of a narrowed one escapes.
#[tokio::test]
async fn a_nested_call_is_narrowed_as_its_parent_is() {
    let known = policies(&[("files", globs(&["files/*"], &[]))]);
    let nested = surroundings(me(), r#"{"policyId":"files"}"#).nested();
    let denied = rule(layer(&known, None, &[]), nested, "mail/send");
    assert_eq!(denied.await.as_deref(), Some("files: default deny"));
}

/// metamcp's BUG 9: there the name that the client typed is judged, so an alias evades a deny.
#[tokio::test]
async fn an_alias_evades_nothing() {
    let known = policies(&[("team", globs(&["*/*"], &["files/delete"]))]);
    let chain = Chain::builder().layer(layer(&known, Some("team"), &[])).build().unwrap();
    let server = answering(json("{}"));
    for name in ["rm", "read", "files__delete", "delete"] {
        let call = Call::new(tool("files/delete"), None).with_wire_name(name);
        let outcome = chain.call(&mut surroundings(me(), "{}"), call, &server).await;
        let failure = outcome.failure().unwrap();
        assert_eq!(failure.message(), "Access denied to tool delete by policy team", "{name}");
    }
    // And an alias that looks denied is not.
    let call = Call::new(tool("files/read"), None).with_wire_name("delete");
    assert!(chain.call(&mut surroundings(me(), "{}"), call, &server).await.failure().is_none());
}

/// metamcp's BUG 5: there `*` stops at a slash and at a leading dot, `!` and `#` flip a pattern's meaning.
#[tokio::test]
async fn globs_have_no_surprises() {
    let denied = |deny: &'static str, id: &'static str| async move {
        let known = policies(&[("team", globs(&["*/*"], &[deny]))]);
        rule(layer(&known, Some("team"), &[]), surroundings(me(), "{}"), id).await.is_some()
    };
    assert!(denied("fs/*", "fs/dir/read").await);
    assert!(denied("fs/*", "fs/.hidden").await);
    assert!(denied("fs/*", "fs/a.b").await);
    assert!(!denied("!fs/*", "fs/read").await);
    assert!(!denied("!fs/*", "mail/send").await, "`!` stands for itself");
    assert!(!denied("fs/#read", "fs/read").await);
    assert!(denied("fs/#read", "fs/#read").await, "`#` stands for itself");
    for other in ["fs/{a,b}", "fs/[ab]", "fs/^a$", "fs/a|b"] {
        let refused = other.parse::<crate::Selector>().unwrap_err().to_string();
        assert!(refused.contains("stands for itself, and no name has it"), "{refused}");
    }
    assert!(denied("fs/?", "fs/é").await);
}

#[tokio::test]
async fn principals_are_bound_on_top_of_the_namespace() {
    let known =
        policies(&[("all", globs(&["*/*"], &["*/drop"])), ("ci", globs(&["files/*"], &[]))]);
    let ask = |who: Principal, id: &'static str| {
        let bound = layer(&known, Some("all"), &[("key:ci-*", "ci"), ("subject:*", "ci")]);
        rule(bound, surroundings(who, "{}"), id)
    };
    assert_eq!(ask(me(), "mail/send").await, None);
    let ci = || Principal::Key("ci-7".into());
    assert_eq!(ask(ci(), "files/read").await, None);
    assert_eq!(ask(ci(), "mail/send").await.as_deref(), Some("ci: default deny"));
    assert_eq!(ask(ci(), "files/drop").await.as_deref(), Some("all: deny[0] */drop"));
    assert_eq!(ask(Principal::Key("dev".into()), "mail/send").await, None);
    // A subject cannot call itself a key.
    let subject = Principal::Subject("key:dev".into());
    assert_eq!(ask(subject, "mail/send").await.as_deref(), Some("ci: default deny"));
}

#[test]
fn patterns_that_can_cover_nobody_are_refused() {
    for pattern in
        ["local:*", "key:ci-*", "subject:a:b", "anonymous", "*", "anon*", "*:ci", "k?y:x"]
    {
        assert!(pattern.parse::<PrincipalPattern>().is_ok(), "{pattern}");
    }
    for pattern in ["", "me", "user:*", "Local:*", "local:", "local", "anonymous:x", ":x"] {
        let refused = pattern.parse::<PrincipalPattern>().unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("`{pattern}` can cover no principal: write")),
            "{refused}"
        );
    }
}

#[test]
fn what_does_not_exist_or_contradicts_itself_refuses_to_build() {
    let known = policies(&[("a", globs(&[], &[])), ("b", globs(&[], &[]))]);
    let bound = |bindings: Bindings| Policy::new(&known, &bindings).unwrap_err().to_string();
    let namespace = Bindings { namespace: Some("taem".to_owned()), ..Bindings::default() };
    assert_eq!(
        bound(namespace.clone()),
        "the namespace is bound to the policy `taem`, which does not exist: the policies are `a`, `b`"
    );
    let principals = vec![("key:*".parse().unwrap(), "c".to_owned())];
    assert_eq!(
        bound(Bindings { principals, ..Bindings::default() }),
        "the principal `key:*` is bound to the policy `c`, which does not exist: the policies are `a`, `b`"
    );
    let none = Policy::new(&Policies::default(), &namespace).unwrap_err().to_string();
    assert!(none.ends_with("does not exist: write one as `[policies.taem]`"), "{none}");

    let load = |name: &str, config| {
        Policies::load(&BTreeMap::from([(name.to_owned(), config)]), Path::new("")).unwrap_err()
    };
    let both = PolicyConfig { cedar: Some("x.cedar".into()), ..globs(&[], &["a/b"]) };
    assert_eq!(
        load("team", both).to_string(),
        "policy `team` has `cedar` beside `allow` or `deny`: keep one form"
    );
    assert!(matches!(load("", globs(&["*/*"], &[])), PolicyError::NoName));
    #[cfg(not(feature = "cedar"))]
    assert_eq!(
        load("team", PolicyConfig { cedar: Some("x.cedar".into()), ..PolicyConfig::default() })
            .to_string(),
        "policy `team` is written in Cedar, and this toolgate was built without it: build it with the \
         feature `cedar`, or write `allow` and `deny`"
    );
}

#[test]
fn the_config_is_read_strictly() {
    let read = toml::from_str::<PolicyConfig>;
    assert_eq!(
        read("allow = [\"files/*\"]\ndeny = [\"*/x\"]").unwrap(),
        globs(&["files/*"], &["*/x"])
    );
    assert!(read("alow = []").unwrap_err().to_string().contains("unknown field `alow`"));
    assert!(read("allow = [\"files\"]").unwrap_err().to_string().contains("write `server/tool`"));
    assert!(read("allow = \"files/*\"").is_err());
}

#[test]
fn explaining_tells_every_policy_and_its_rule() {
    let known = policies(&[("all", globs(&["*/*"], &[])), ("ci", globs(&["files/*"], &[]))]);
    let bound = layer(&known, Some("all"), &[("local:*", "ci")]);
    let cx = surroundings(me(), r#"{"policyId":"gone"}"#);
    let explained = bound.explain(&cx, &Call::new(tool("mail/send"), None)).unwrap();
    assert!(!explained.allowed);
    assert_eq!(explained.rule, "ci: default deny");
    assert_eq!(
        explained.why,
        "`all` allows by allow[0] */*; `ci` denies by default deny; `gone` denies by unknown policy"
    );
    let cx = surroundings(me(), "{}");
    let explained = bound.explain(&cx, &Call::new(tool("files/read"), None)).unwrap();
    assert!(explained.allowed);
    assert_eq!(explained.why, "`all` allows by allow[0] */*; `ci` allows by allow[0] files/*");
    let unbound = layer(&known, None, &[]);
    let explained = unbound.explain(&cx, &Call::new(tool("files/read"), None)).unwrap();
    assert_eq!((explained.allowed, explained.rule.as_str()), (true, "no policy"));
    assert_eq!(
        Middleware::describe(&bound),
        "all (1 allowed, 0 denied), local:*: ci (1 allowed, 0 denied)"
    );
    assert_eq!(Middleware::describe(&unbound), "none bound");
}

#[test]
fn a_long_id_is_cut_in_messages() {
    let meta = format!("{{\"policyId\":\"{}\"}}", "é".repeat(120));
    let bound = layer(&Policies::default(), None, &[]);
    let cx = surroundings(me(), &meta);
    let tool = tool("a/b");
    let arguments = PolicyArguments::Known(None);
    let denial = bound.check(PolicyRequest { cx: &cx, tool: &tool, arguments }).unwrap_err();
    assert_eq!(denial.message().chars().count(), "Access denied to tool b by policy ".len() + 101);
    assert!(denial.message().ends_with("é…"));
}

#[test]
fn it_takes_part_in_calls_and_listings_and_stands_where_denials_are_recorded() {
    let bound = layer(&policies(&[("a", globs(&[], &[]))]), Some("a"), &[]);
    assert_eq!(bound.hooks(), Hooks::TOOLS);
    assert!(!Middleware::needs_tools(&bound), "globs need nothing but the identity");
    let retry = || Retry::new(RetryConfig::default());
    let wrong =
        Chain::builder().layer(retry()).layer(layer(&Policies::default(), None, &[])).build();
    let refused = wrong.unwrap_err().to_string();
    assert!(refused.contains("a denied call must never be tried again"), "{refused}");
    let right =
        Chain::builder().layer(layer(&Policies::default(), None, &[])).layer(retry()).build();
    assert!(right.is_ok());
}
