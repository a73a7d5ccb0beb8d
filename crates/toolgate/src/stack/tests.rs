//! The stack: tests that it builds the chain that the settings describe, or refuses to start.

use super::*;
use crate::{
    Tier,
    middleware::{
        audit::{self, AuditConfig, Intents, Target},
        breaker,
        error_results::ErrorResults,
        flags, log, preconditions,
        response_limit::Keep,
        retry::RetryConfig,
        safety::Safety,
        telemetry,
    },
    settings::Switch,
    settings::ToolSettings,
    testing::{self, answering, json, tool},
};

fn names(stack: &Stack) -> Vec<&'static str> {
    stack.chain.layers().iter().map(|info| info.name).collect()
}

fn listed(layers: &[&str]) -> ChainOrder {
    ChainOrder::Listed(layers.iter().map(|&name| name.to_owned()).collect())
}

fn to_stderr() -> AuditConfig {
    AuditConfig { file: Target::Stderr, ..AuditConfig::default() }
}

/// Everything is on.
fn everything() -> Settings {
    let renamed = ToolSettings {
        name: Some("other".to_owned()),
        scopes: Some(vec!["read".parse().unwrap()]),
        ..ToolSettings::default()
    };
    Settings {
        safety: Some(Tier::Mutating),
        breaker: Some(breaker::BreakerConfig::default()),
        retry: Some(RetryConfig::default()),
        audit: to_stderr(),
        tools: vec![("main/t".parse().unwrap(), renamed)],
        flags: Some(flags::FlagsConfig::default()),
        confirm: Some(preconditions::ConfirmConfig {
            when: vec![crate::Selection::Glob("main/*".parse().unwrap())],
            ..Default::default()
        }),
        #[cfg(feature = "validate")]
        validate: Some(crate::middleware::validate::ValidateConfig {
            input_schema: true,
            ..Default::default()
        }),
        #[cfg(feature = "rate-limit")]
        limits: crate::settings::LimitsConfig {
            rate: vec![
                serde_json::from_str(r#"{"tools": "main/*", "per": "principal", "limit": "10/s"}"#)
                    .unwrap(),
            ],
            ..Default::default()
        },
        sanitize: Some(crate::middleware::sanitize::SanitizeConfig {
            secrets: true,
            ..Default::default()
        }),
        ..Settings::default()
    }
}

fn instruments() -> LayerInputs {
    #[cfg_attr(not(feature = "telemetry"), expect(unused_mut, reason = "nothing to set"))]
    let mut inputs = LayerInputs::default();
    #[cfg(feature = "telemetry")]
    inputs.set(telemetry::Instruments::silent());
    inputs
}

fn with_log() -> Parts {
    let redactor = audit::Redactor::new(&audit::RedactConfig::default()).unwrap();
    let (sink, _) = LogSink::channel(&log::LogConfig::default(), redactor);
    Parts { log: Some(sink.clone()), trail: Some(sink), inputs: instruments(), ..Parts::default() }
}

/// The default order, less what this build does not have.
fn order() -> Vec<&'static str> {
    let here = LAYERS.iter().filter(|spec| spec.missing_feature().is_none());
    here.map(|spec| spec.name()).collect()
}

fn refused(settings: &Settings) -> String {
    build(settings).expect_err("must be refused").to_string()
}

#[test]
fn the_default_chain_limits_results_renders_errors_and_cancels_calls() {
    let stack = build(&Settings::default()).unwrap();
    let expected =
        ["response-limit", "errors-to-results", "filter", "policy", "preconditions", "timeout"];
    assert_eq!(names(&stack), expected);
    assert!(stack.audit.is_none());
}

#[test]
fn the_default_order_is_the_order_in_the_table() {
    let stack = build_with(&everything(), with_log()).unwrap();
    assert_eq!(names(&stack), order());
    assert!(stack.audit.is_some());
    assert!(stack.chain.needs_tools());
}

#[test]
fn a_chain_from_config_is_the_chain_from_code() {
    let from_list = Settings { chain: listed(&order()), ..everything() };
    let built = |settings: &Settings| build_with(settings, with_log()).unwrap();
    let (one, two) = (built(&everything()), built(&from_list));
    assert_eq!(one.chain.to_string(), two.chain.to_string());
    let by_hand = Chain::builder().layer(ErrorResults).layer(Safety::new(Tier::Mutating)).build();
    let some = Settings {
        chain: listed(&["errors-to-results", "safety"]),
        safety: Some(Tier::Mutating),
        ..Settings::default()
    };
    let some = build(&some).unwrap();
    assert_eq!(some.chain.to_string(), by_hand.unwrap().to_string());
}

#[test]
fn a_listed_chain_is_checked_like_any_other() {
    let wrong = Settings {
        chain: listed(&["safety", "audit"]),
        safety: Some(Tier::Mutating),
        audit: to_stderr(),
        ..Settings::default()
    };
    assert_eq!(
        refused(&wrong),
        "the chain is refused: `audit` must stand outside `safety`: denials are recorded too; move \
         `audit` before `safety` in the chain"
    );
    let twice = Settings { chain: listed(&["timeout", "timeout"]), ..Settings::default() };
    assert_eq!(
        refused(&twice),
        "the chain is refused: `timeout` stands in the chain twice: remove one of them, or give one \
         another name with `named`"
    );
}

#[test]
fn an_unknown_layer_is_refused_with_the_names_there_are() {
    let unknown = Settings { chain: listed(&["telemetri"]), ..Settings::default() };
    let names: Vec<String> = default_order().map(|place| format!("`{}`", place.name)).collect();
    assert_eq!(
        refused(&unknown),
        format!(
            "the chain names an unknown layer `telemetri` (did you mean `telemetry`?): the layers are {}",
            names.join(", ")
        )
    );
}

#[test]
fn a_listed_layer_that_is_off_is_refused() {
    let off = Settings {
        limits: crate::settings::LimitsConfig {
            response_bytes: Switch::Off,
            timeout: Switch::Off,
            ..Default::default()
        },
        ..Settings::default()
    };
    for (layer, missing) in [
        ("response-limit", "`limits.response_bytes` is off"),
        ("audit", "`audit.file` is off"),
        ("audit-intent", "`audit.file` is off"),
        ("safety", "no `safety` tier is set"),
        ("scopes", "no scopes are granted, and no tool requires any"),
        ("breaker", "there is no `[breaker]`"),
        ("retry", "there is no `[retry]`"),
        ("timeout", "`limits.timeout` is off"),
    ] {
        let settings = Settings { chain: listed(&[layer]), ..off.clone() };
        assert_eq!(refused(&settings), format!("the chain names `{layer}`, but {missing}"));
    }
    assert_eq!(
        names(&build(&off).unwrap()),
        ["errors-to-results", "filter", "policy", "preconditions"]
    );
}

#[test]
fn a_setting_without_its_layer_is_refused() {
    let selector = || "main/*".parse().unwrap();
    let limited = ToolSettings { response_bytes: Some(5000), ..ToolSettings::default() };
    let scoped = ToolSettings { scopes: Some(Vec::new()), ..ToolSettings::default() };
    let plain = Settings::default;
    for (settings, sentence) in [
        (
            Settings { safety: Some(Tier::Readonly), ..plain() },
            "`safety` is set, but the chain does not name `safety`",
        ),
        (
            Settings { audit: to_stderr(), ..plain() },
            "`audit.file` is set, but the chain does not name `audit`",
        ),
        (
            Settings { audit: AuditConfig { intents: Intents::All, ..to_stderr() }, ..plain() },
            "`audit.file` is set, but the chain does not name `audit`",
        ),
        (
            Settings { breaker: Some(breaker::BreakerConfig::default()), ..plain() },
            "`[breaker]` is set, but the chain does not name `breaker`",
        ),
        (
            Settings { retry: Some(RetryConfig::default()), ..plain() },
            "`[retry]` is set, but the chain does not name `retry`",
        ),
        (
            Settings { tools: vec![(selector(), scoped)], ..plain() },
            "`scopes`, `grants` or `MCP_SCOPES` is set, but the chain does not name `scopes`",
        ),
        (
            Settings { tools: vec![(selector(), limited)], ..plain() },
            "`response_bytes` of a tool is set, but the chain does not name `response-limit`",
        ),
    ] {
        let settings = Settings { chain: listed(&["errors-to-results"]), ..settings };
        let sentence = format!("{sentence}: add it, or remove the setting");
        assert_eq!(refused(&settings), sentence);
    }
}

#[test]
fn an_audit_that_cannot_be_opened_refuses_to_start() {
    let nowhere = Settings {
        audit: AuditConfig {
            file: Target::File("/dev/null/audit.jsonl".into()),
            ..AuditConfig::default()
        },
        ..Settings::default()
    };
    let sentence = refused(&nowhere);
    assert!(
        sentence.starts_with("cannot open the audit file `/dev/null/audit.jsonl`: "),
        "{sentence}"
    );
}

#[tokio::test]
async fn the_limit_of_a_single_tool_holds_where_all_others_are_unlimited() {
    let limited = ToolSettings {
        response_bytes: Some(2000),
        keep: Some(Keep::Head),
        ..ToolSettings::default()
    };
    let settings = Settings {
        tools: vec![("main/cat".parse().unwrap(), limited)],
        limits: crate::settings::LimitsConfig { response_bytes: Switch::Off, ..Default::default() },
        ..Settings::default()
    };
    let chain = build(&settings).unwrap().chain;
    let described = &chain.layers()[0].describe;
    assert_eq!(described, "single tools only, 1 rules, keeps the tail");
    let text = "x".repeat(2_000_000);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let server = answering(json(result));
    for (name, is_limited) in [("cat", true), ("other", false)] {
        let outcome = testing::call(&chain, &tool(name, None), "{}", &server).await;
        let length = outcome.result().unwrap().json().len();
        assert_eq!(length <= 2000, is_limited, "{name}: {length}");
    }
}

#[test]
fn tiers_come_from_the_settings_of_tools() {
    let worst = ToolSettings { tier: Some(Tier::Destructive), ..ToolSettings::default() };
    let settings = Settings {
        tools: vec![("main/show".parse().unwrap(), worst)],
        annotations: crate::settings::Annotations::Ignore,
        ..Settings::default()
    };
    let rules = settings.tier_rules();
    let listed = |name| {
        let annotated = json(r#"{"annotations":{"readOnlyHint":true}}"#);
        crate::Tool::listed(crate::ToolId::new("main", name), annotated, &rules).tier()
    };
    assert_eq!(listed("show"), Some(Tier::Destructive));
    assert_eq!(listed("other"), None, "annotations are ignored");
}

#[cfg(all(feature = "telemetry", feature = "validate"))]
#[test]
fn telemetry_stands_outside_layers_that_refuse_and_is_not_left_out() {
    let chain = |layers: &[&str]| {
        let settings = Settings { chain: listed(layers), ..everything() };
        let parts = Parts { log: None, trail: None, ..with_log() };
        build_with(&settings, parts).expect_err("must be refused").to_string()
    };
    let rest = order().into_iter().filter(|name| !["log", "audit-trail", "call-id"].contains(name));
    let rest: Vec<_> = rest.collect();
    let without: Vec<_> = rest.iter().copied().filter(|name| *name != telemetry::NAME).collect();
    assert_eq!(
        chain(&without),
        "`[telemetry]` is set, but the chain does not name `telemetry`: add it, or remove the setting"
    );
    for at in 1..=without.len() {
        let mut wrong = without.clone();
        wrong.insert(at, telemetry::NAME);
        let sentence = chain(&wrong);
        assert!(sentence.contains("`telemetry` must stand outside"), "{at}: {sentence}");
    }
}

#[test]
fn an_audit_with_intents_needs_the_layer_audit_intent() {
    let listed = listed(&["errors-to-results", "audit"]);
    let with = |audit| build(&Settings { chain: listed.clone(), audit, ..Settings::default() });
    assert!(with(to_stderr()).is_ok(), "by default it is a matter of the chain");
    for (audit, setting) in [
        (AuditConfig { intents: Intents::All, ..to_stderr() }, "`audit.intents`"),
        (AuditConfig { required: true, ..to_stderr() }, "`audit.required`"),
    ] {
        let refused = with(audit).unwrap_err().to_string();
        let sentence = format!("{setting} is set, but the chain does not name `audit-intent`");
        assert!(refused.starts_with(&sentence), "{refused}");
    }
    let off = AuditConfig { intents: Intents::Off, ..to_stderr() };
    let settings = Settings { audit: off, ..Settings::default() };
    assert!(!names(&build(&settings).unwrap()).contains(&"audit-intent"));
}

#[test]
fn no_layer_that_refuses_stands_inside_audit_intent() {
    let moved = |before: &str| {
        let mut order = order();
        order.retain(|name| *name != "audit-intent");
        let at = order.iter().position(|name| *name == before).unwrap_or(order.len());
        order.insert(at, "audit-intent");
        let wrong = Settings { chain: listed(&order), ..everything() };
        build_with(&wrong, with_log()).expect_err("must be refused").to_string()
    };
    for inner in ["safety", "policy", "filter", "flags", "overrides", "audit"] {
        let sentence = moved(inner);
        assert!(sentence.contains(" must stand outside `audit-intent`: "), "{inner}: {sentence}");
    }
    let sentence = moved("at the end");
    assert!(sentence.contains("`audit-intent` must stand outside `"), "{sentence}");
}

fn gate(name: &'static str) -> impl Middleware {
    crate::gate(name, |_: &crate::Context, _: &crate::ToolAccess<'_>| Ok(()))
}

/// Everything that calls write to, so that the chain has audit-intent and retry.
fn with_gates(
    place: impl FnOnce(StackBuilder<'_>) -> StackBuilder<'_>,
) -> Result<Vec<&'static str>, String> {
    let settings =
        Settings { retry: Some(RetryConfig::default()), audit: to_stderr(), ..Settings::default() };
    let stack = place(builder(&settings, Parts::default()).unwrap()).build();
    stack.map(|stack| names(&stack)).map_err(|refused| refused.to_string())
}

#[test]
fn a_layer_of_the_program_stands_beside_those_of_the_settings() {
    let order = with_gates(|builder| {
        builder
            .before("audit-intent", gate("tenants"))
            .after("preconditions", gate("billing"))
            .before("tenants", gate("first").named("outermost"))
            .layer(Middleware::never_refuses(crate::from_fn("inside", async |cx, call, next| {
                next.call(cx, call).await
            })))
    });
    assert_eq!(
        order.unwrap(),
        [
            "response-limit",
            "errors-to-results",
            "audit",
            "filter",
            "policy",
            "preconditions",
            "billing",
            "outermost",
            "tenants",
            "audit-intent",
            "retry",
            "timeout",
            "inside",
        ]
    );
    // A layer that is off marks its place.
    let order = with_gates(|builder| builder.after("safety", gate("tenants"))).unwrap();
    assert_eq!(order[3..6], ["filter", "policy", "tenants"]);
}

#[test]
fn a_wrong_place_is_refused_with_all_mistakes_and_the_place_to_use() {
    let refused = with_gates(|builder| {
        builder.before("errors-to-results", gate("tenants")).layer(gate("late"))
    });
    let refused = refused.unwrap_err();
    for part in [
        "`errors-to-results` must stand outside `tenants`: ",
        "`audit` must stand outside `tenants`: denials are recorded too",
        "`late` must stand outside `audit-intent`: an intent is recorded only for a permitted call",
        "`late` must stand outside `retry`: a refused call must never be tried again",
        "place `late` with `.before(\"audit-intent\", …)`",
        "place `tenants` with `.after(\"errors-to-results\", …)`",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let unknown = with_gates(|builder| builder.before("audit-intnt", gate("tenants"))).unwrap_err();
    let start = "`tenants` cannot be placed beside `audit-intnt`, which no layer is called (did you mean \
                 `audit-intent`?): the layers are ";
    assert!(unknown.starts_with(start), "{unknown}");
}

#[test]
fn placed_and_registered_layers_stay_when_the_settings_change() {
    let parts =
        Parts::default().register(gate("tenants")).register(gate("tenants").named("billing"));
    let old = Settings {
        chain: listed(&["errors-to-results", "tenants", "billing"]),
        ..Settings::default()
    };
    let stack = builder(&old, parts).unwrap().layer(gate("inner")).build().unwrap();
    assert_eq!(names(&stack), ["errors-to-results", "tenants", "billing", "inner"]);
    let new = Settings { chain: listed(&["errors-to-results", "billing"]), ..Settings::default() };
    assert_eq!(
        names(&stack.successor(&old, &new).unwrap()),
        ["errors-to-results", "billing", "inner"]
    );
}
