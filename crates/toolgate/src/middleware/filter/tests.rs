//! Filter: one decision for listing and call, by identity, and nothing that fails open.

use std::sync::Arc;

use super::*;
use crate::{
    Call, Chain, Class, Executed, Listing, Middleware, TierRules, Tool,
    random::Random,
    testing::{answering, chain, context, json, session, tool},
};

fn selectors(texts: &[&str]) -> Vec<Selector> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn config(inactive: &[&str], active: &[&str]) -> FilterConfig {
    let (inactive, active) = (selectors(inactive), selectors(active));
    FilterConfig { inactive, active, ..FilterConfig::default() }
}

fn quarantine(active: &[&str]) -> FilterConfig {
    FilterConfig { new_tools: NewTools::Quarantine, ..config(&[], active) }
}

fn filter(config: &FilterConfig) -> Chain {
    chain(Filter::new(config, KnownTools::default()).unwrap())
}

/// A context whose request carries this `_meta`.
fn narrowed(meta: &str) -> Context {
    let (control, _) = Control::extract(&json(meta)).unwrap();
    context().with_control(control)
}

/// Whether the tool is listed and how its call ends; both must say the same.
async fn judge(chain: &Chain, cx: &mut Context, tool: &Arc<Tool>) -> Result<(), Failure> {
    let mut server = answering(json("{}"));
    server.tools = vec![Arc::clone(tool)];
    let explained = chain.explain(cx, &Call::new(Arc::clone(tool), None));
    let explained = explained[0].1.clone().unwrap();
    let outcome = chain.call(cx, Call::new(Arc::clone(tool), None), &server).await;
    let listed = chain.list(cx, Listing::default(), &server).await.unwrap();

    let failure = outcome.failure().cloned();
    assert_eq!(listed.tools().len(), usize::from(failure.is_none()), "listing and call agree");
    assert_eq!(server.calls(), usize::from(failure.is_none()), "a refused call never runs");
    assert_eq!(explained.allowed, failure.is_none(), "explain agrees");
    match failure {
        Some(failure) => {
            assert_eq!((outcome.class(), outcome.executed()), (Class::Denied, Executed::No));
            assert_eq!(
                (explained.rule.as_str(), &*explained.why),
                (failure.rule().unwrap(), failure.message())
            );
            assert_eq!(failure.decided_by(), Some(NAME));
            assert!(failure.is_expected());
            Err(failure)
        }
        None => Ok(()),
    }
}

async fn code(chain: &Chain, cx: &mut Context, name: &str) -> Option<Code> {
    judge(chain, cx, &tool(name, None)).await.err().map(|failure| failure.code())
}

#[tokio::test]
async fn nothing_set_lets_everything_pass() {
    let layer = filter(&FilterConfig::default());
    assert_eq!(code(&layer, &mut context(), "anything").await, None);
    assert!(!layer.needs_tools(), "identity is enough");
    assert!(!layer.sees_request("ping"));
}

#[tokio::test]
async fn an_inactive_tool_is_hidden_and_refused() {
    let layer = filter(&config(&["main/move_file"], &[]));
    let failure = judge(&layer, &mut context(), &tool("move_file", None)).await.unwrap_err();
    assert_eq!(failure.code(), Code::ToolInactive);
    assert_eq!(
        failure.message(),
        "Tool \"move_file\" is currently inactive and disallowed in this namespace"
    );
    assert_eq!(failure.suggestion(), Some("Call tools/list for the tools that are active."));
    assert_eq!(failure.rule(), Some("inactive: main/move_file"));
    assert_eq!(code(&layer, &mut context(), "read_file").await, None);
}

#[tokio::test]
async fn the_message_can_be_replaced() {
    let message = Some("{name} is resting".to_owned());
    let layer = filter(&FilterConfig { message, ..config(&["main/*"], &[]) });
    let failure = judge(&layer, &mut context(), &tool("x", None)).await.unwrap_err();
    assert_eq!((failure.code(), failure.message()), (Code::ToolInactive, "x is resting"));
}

#[tokio::test]
async fn the_caller_reads_the_name_that_it_used() {
    let layer = filter(&config(&["main/move_file"], &[]));
    let renamed = Call::new(tool("move_file", None), None).with_wire_name("relocate");
    let outcome = layer.call(&mut context(), renamed, &answering(json("{}"))).await;
    assert!(outcome.failure().unwrap().message().starts_with("Tool \"relocate\" is"));
}

#[tokio::test]
async fn exact_comes_before_globs_and_inactive_before_active() {
    let layer = filter(&config(&["main/*", "*/b"], &["main/a", "main/?"]));
    assert_eq!(code(&layer, &mut context(), "a").await, None, "named, so active");
    assert_eq!(code(&layer, &mut context(), "b").await, Some(Code::ToolInactive));
    let layer = filter(&config(&["main/a"], &["main/*"]));
    assert_eq!(code(&layer, &mut context(), "a").await, Some(Code::ToolInactive));
}

#[test]
fn contradictions_are_refused_when_built() {
    for text in ["main/a", "main/*"] {
        let error = Filter::new(&config(&[text], &[text]), KnownTools::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`{text}` is set both active and inactive: remove one of them")
        );
    }
    let blank = FilterConfig { message: Some(" ".into()), ..FilterConfig::default() };
    let error = Filter::new(&blank, KnownTools::default()).unwrap_err();
    assert_eq!(error, FilterError::EmptyMessage);
}

#[test]
fn settings_are_read_strictly() {
    let read: FilterConfig = toml::from_str(
        "inactive = [\"a/b\"]\nactive = [\"c/*\"]\nmessage = \"no\"\nnew_tools = \"quarantine\"",
    )
    .unwrap();
    assert_eq!(read.new_tools, NewTools::Quarantine);
    assert_eq!(read.inactive, selectors(&["a/b"]));
    assert_eq!(toml::from_str::<FilterConfig>("").unwrap(), FilterConfig::default());
    for wrong in ["inactive = [\"b\"]", "new_tools = \"ask\"", "inactiv = []"] {
        assert!(toml::from_str::<FilterConfig>(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn new_tools_are_kept_away_until_they_are_known_or_active() {
    let known = KnownTools::default();
    let layer = chain(Filter::new(&quarantine(&["main/trusted_*"]), known.clone()).unwrap());
    let failure = judge(&layer, &mut context(), &tool("wipe", None)).await.unwrap_err();
    assert_eq!(failure.code(), Code::ToolQuarantined);
    assert_eq!(
        failure.message(),
        "Tool \"wipe\" is new and quarantined in this namespace until the operator approves it"
    );
    assert_eq!(
        failure.suggestion(),
        Some(
            "Ask the operator to look at it and to set [namespaces.default.tools.\"main/wipe\"] \
             status = \"active\"."
        )
    );
    assert_eq!(failure.rule(), Some("new_tools: quarantine"));
    assert_eq!(code(&layer, &mut context(), "trusted_one").await, None);

    known.set(vec![ToolId::new("main", "wipe")]);
    assert_eq!(code(&layer, &mut context(), "wipe").await, None, "the chain was not rebuilt");
    assert_eq!(code(&layer, &mut context(), "other").await, Some(Code::ToolQuarantined));
    // Known by the server that has it, not by its name alone.
    known.set(vec![ToolId::new("elsewhere", "wipe")]);
    assert_eq!(code(&layer, &mut context(), "wipe").await, Some(Code::ToolQuarantined));
}

#[tokio::test]
async fn a_known_tool_may_still_be_inactive() {
    let known = KnownTools::default();
    known.set(vec![ToolId::new("main", "a")]);
    let both = FilterConfig { new_tools: NewTools::Quarantine, ..config(&["main/a"], &[]) };
    let layer = chain(Filter::new(&both, known).unwrap());
    assert_eq!(code(&layer, &mut context(), "a").await, Some(Code::ToolInactive));
}

#[tokio::test]
async fn a_request_narrows_itself_and_what_it_calls() {
    let layer = filter(&config(&[], &[]));
    let mut cx = narrowed(r#"{"allowedTools":["read_*","main/list"]}"#);
    assert_eq!(code(&layer, &mut cx, "read_file").await, None);
    assert_eq!(code(&layer, &mut cx, "list").await, None);
    let failure = judge(&layer, &mut cx, &tool("wipe", None)).await.unwrap_err();
    assert_eq!(failure.code(), Code::ToolNotAllowed);
    assert_eq!(
        failure.message(),
        "Access denied: Tool 'wipe' is not in the allowed tools list for this agent."
    );
    assert_eq!(failure.suggestion(), Some("Call one of the tools in `_meta.allowedTools`."));
    assert_eq!(failure.rule(), Some("allowedTools"));

    // A nested call is narrowed by its own list and by its caller's: neither can widen the other.
    let mut nested = cx.nested();
    assert_eq!(code(&layer, &mut nested, "wipe").await, Some(Code::ToolNotAllowed));
    let (mut own, _) = Control::extract(&json(r#"{"allowedTools":["wipe","list"]}"#)).unwrap();
    own.inherit(cx.control());
    let mut nested = context().with_control(own);
    assert_eq!(code(&layer, &mut nested, "wipe").await, Some(Code::ToolNotAllowed));
    assert_eq!(code(&layer, &mut nested, "read_file").await, Some(Code::ToolNotAllowed));
    assert_eq!(code(&layer, &mut nested, "list").await, None);
}

#[tokio::test]
async fn a_list_of_the_wrong_type_allows_nothing() {
    let layer = filter(&FilterConfig::default());
    for meta in [r#"{"allowedTools":"a"}"#, r#"{"allowedTools":null}"#, r#"{"allowedTools":[]}"#] {
        let mut cx = narrowed(meta);
        assert_eq!(code(&layer, &mut cx, "a").await, Some(Code::ToolNotAllowed), "{meta}");
    }
}

#[tokio::test]
async fn allowed_tools_open_nothing_that_the_operator_shut() {
    let layer = filter(&config(&["main/a"], &[]));
    let mut cx = narrowed(r#"{"allowedTools":["a","*/*"]}"#);
    assert_eq!(code(&layer, &mut cx, "a").await, Some(Code::ToolInactive));
    let layer = filter(&quarantine(&[]));
    assert_eq!(code(&layer, &mut cx, "b").await, Some(Code::ToolQuarantined));
}

/// Metamcp's bug 10: an inactive tool stayed callable under the name that an override gave it.
#[tokio::test]
async fn no_name_on_the_wire_makes_an_inactive_tool_callable() {
    let layer = filter(&config(&["main/move_file"], &[]));
    let definition = r#"{"name":"relocate","title":"main/relocate"}"#;
    let published = Arc::new(tool("move_file", None).published(json(definition)));
    let refused = judge(&layer, &mut context(), &published).await.unwrap_err();
    assert_eq!(refused.code(), Code::ToolInactive);
}

/// Metamcp's bug 11: of two servers the wrong one was asked, and its disabled tool passed.
#[tokio::test]
async fn a_status_holds_for_one_server_only() {
    let layer = filter(&config(&["a/x"], &[]));
    let of = |server: &str| {
        Arc::new(Tool::listed(ToolId::new(server, "x"), json("{}"), &TierRules::default()))
    };
    assert!(judge(&layer, &mut context(), &of("a")).await.is_err());
    assert!(judge(&layer, &mut context(), &of("b")).await.is_ok());
    assert!(judge(&layer, &mut context(), &of("A")).await.is_ok());
}

/// Metamcp's bug 13: a disabled tool that was gone for a while came back enabled.
#[tokio::test]
async fn a_status_survives_the_tools_disappearance() {
    let layer = filter(&config(&["main/wipe"], &[]));
    let mut server = answering(json("{}"));
    for listed in [vec![tool("wipe", None)], vec![], vec![tool("wipe", None)]] {
        server.tools = listed;
        let page = layer.list(&mut context(), Listing::default(), &server).await.unwrap();
        assert!(page.tools().is_empty());
        assert_eq!(code(&layer, &mut context(), "wipe").await, Some(Code::ToolInactive));
    }
    let unlisted = Tool::unlisted(ToolId::new("main", "wipe"), &TierRules::default());
    assert!(judge(&layer, &mut context(), &Arc::new(unlisted)).await.is_err());
}

/// Metamcp's filter pushed tools as its queries came back, in another order each time.
#[tokio::test]
async fn a_page_keeps_its_order_and_is_untouched_when_nothing_is_hidden() {
    let layer = filter(&config(&["main/c"], &[]));
    let mut server = answering(json("{}"));
    server.tools = ["d", "c", "b", "a"].map(|name| tool(name, None)).to_vec();
    let page = layer.list(&mut context(), Listing::default(), &server).await.unwrap();
    let names: Vec<&str> = page.tools().iter().map(|tool| tool.id().name()).collect();
    assert_eq!(names, ["d", "b", "a"]);
}

#[test]
fn the_chain_shows_what_it_is_set_to_and_where_it_must_stand() {
    let known = KnownTools::default;
    let all = Filter::new(&FilterConfig::default(), known()).unwrap();
    assert_eq!(
        Middleware::describe(&all),
        "all tools active; new tools are allowed; _meta.allowedTools narrows"
    );
    let some =
        FilterConfig { new_tools: NewTools::Quarantine, ..config(&["a/b", "a/*"], &["c/d"]) };
    let some = Filter::new(&some, known()).unwrap();
    assert!(
        Middleware::describe(&some)
            .starts_with("2 inactive, 1 active by name; new tools are quarantined")
    );

    let retry =
        || crate::middleware::retry::Retry::new(crate::middleware::retry::RetryConfig::default());
    let results = || crate::middleware::error_results::ErrorResults;
    let wrong = Chain::builder().layer(retry()).layer(all.clone()).build().unwrap_err();
    assert!(wrong.to_string().contains("must never be tried again"), "{wrong}");
    assert!(Chain::builder().layer(all.clone()).layer(results()).build().is_err());
    assert!(Chain::builder().layer(results()).layer(all).layer(retry()).build().is_ok());
}

/// Whatever is set, listing, call and explanation agree, and what one of the rules shuts stays shut.
#[tokio::test]
async fn random_settings_agree_and_never_open() {
    let (names, texts) =
        (["a", "ab", "b", "a/b"], ["main/a", "main/*", "*/a*", "x/a", "main/?", "main/a/b"]);
    let metas = [
        r#"{"allowedTools":["a"]}"#,
        r#"{"allowedTools":["main/*"]}"#,
        r#"{"allowedTools":["*b"]}"#,
    ];
    let mut dice = Random::new(10);
    for _ in 0..500 {
        let some = |dice: &mut Random| -> Vec<&str> {
            texts.into_iter().filter(|_| dice.roll(4) == 0).collect()
        };
        let mut set = config(&some(&mut dice), &some(&mut dice));
        set.active.retain(|selector| !set.inactive.contains(selector));
        set.new_tools = *dice.pick(&[NewTools::Allow, NewTools::Quarantine]);
        let known = KnownTools::default();
        known.set(
            names.iter().filter(|_| dice.roll(2) == 0).map(|n| ToolId::new("main", *n)).collect(),
        );
        let layer = chain(Filter::new(&set, known.clone()).unwrap());
        let mut cx = if dice.roll(2) == 0 { context() } else { narrowed(metas[dice.roll(3)]) };
        for name in names {
            let tool = tool(name, None);
            let passes = judge(&layer, &mut cx, &tool).await.is_ok();
            let id = tool.id();
            let covered = |list: &[Selector], exact: bool| {
                list.iter().any(|s| s.covers(id) && (!exact || s.is_exact()))
            };
            let shut = covered(&set.inactive, true)
                || (covered(&set.inactive, false) && !covered(&set.active, true))
                || (set.new_tools == NewTools::Quarantine
                    && !covered(&set.active, false)
                    && !known.is_known(id))
                || !cx
                    .control()
                    .allowed
                    .iter()
                    .all(|list| list.covers(id, &mut Steps::default()) == Some(true));
            assert_eq!(passes, !shut, "{set:?} {id}");
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_clients_namespace() {
    let dev = crate::Session { namespace: "dev".into(), ..(*session()).clone() };
    let layer = Filter::new(&quarantine(&[]), KnownTools::default()).unwrap();
    let cx = Context::new(Arc::new(dev));
    let server = answering(json("{}"));
    let mut cx = cx;
    let outcome = chain(layer).call(&mut cx, Call::new(tool("x", None), None), &server).await;
    let suggestion = outcome.failure().unwrap().suggestion().unwrap();
    assert!(suggestion.contains("[namespaces.dev.tools.\"main/x\"]"), "{suggestion}");
}
