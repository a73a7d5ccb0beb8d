//! Cedar: facts and arguments decide, a rule that fails denies, and a tool is listed if some call may pass.

use std::fmt::Write as _;

use tempfile::TempDir;

use super::*;
use crate::{Tier, testing::client};

/// The policy `p`, read from a file with these rules.
fn read(rules: &str) -> Result<Policies, PolicyError> {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("p.cedar"), rules).unwrap();
    let config = PolicyConfig { cedar: Some("p.cedar".into()), ..PolicyConfig::default() };
    Policies::load(&BTreeMap::from([("p".to_owned(), config)]), folder.path())
}

fn bound(rules: &str) -> Policy {
    layer(&read(rules).unwrap(), Some("p"), &[])
}

fn permit_when(condition: &str) -> Policy {
    bound(&format!("permit (principal, action, resource) when {{ {condition} }};"))
}

fn annotated(annotations: &str, tier: Option<Tier>) -> Arc<Tool> {
    let definition = json(format!("{{\"name\":\"t\",\"annotations\":{annotations}}}"));
    let rule = tier.map(|tier| ("files/t".parse().unwrap(), tier));
    let rules = TierRules::new(rule.into_iter().collect(), false);
    Arc::new(Tool::listed(ToolId::new("files", "t"), definition, &rules))
}

/// What is decided about a call with these arguments: the rule that denies, if one does.
fn denies(policy: &Policy, cx: &Context, tool: &Tool, arguments: &str) -> Option<String> {
    let arguments = json(arguments);
    let asked = PolicyRequest { cx, tool, arguments: PolicyArguments::Known(Some(&arguments)) };
    // Twice: found, and kept.
    let [first, again] = [policy.check(asked), policy.check(asked)];
    let rule = |decided: Result<(), Failure>| decided.err().map(|f| f.rule().unwrap().to_owned());
    let (first, again) = (rule(first), rule(again));
    assert_eq!(first, again);
    first
}

fn lists(policy: &Policy, cx: &Context, tool: &Tool) -> bool {
    policy.check(PolicyRequest { cx, tool, arguments: PolicyArguments::Unknown }).is_ok()
}

fn here() -> Context {
    surroundings(me(), "{}")
}

#[tokio::test]
async fn forbid_beats_permit_and_what_nothing_permits_is_denied() {
    let rules = r#"
        @id("readers") permit (principal, action == Action::"call", resource)
          when { resource.server == "files" };
        permit (principal == Principal::"local:me", action, resource == Tool::"mail/send");
        @id("no deletes") forbid (principal, action, resource) when { resource.name like "delete*" };
        forbid (principal, action, resource == Tool::"files/format");
    "#;
    let known = read(rules).unwrap();
    let ask = |who: Principal, id: &'static str| {
        rule(layer(&known, Some("p"), &[]), surroundings(who, "{}"), id)
    };
    assert_eq!(ask(me(), "files/read").await, None);
    assert_eq!(ask(me(), "mail/send").await, None);
    assert_eq!(ask(Principal::Anonymous, "mail/send").await.as_deref(), Some("p: no permit"));
    assert_eq!(ask(me(), "files/delete_all").await.as_deref(), Some("p: no deletes"));
    assert_eq!(ask(me(), "files/format").await.as_deref(), Some("p: policy3"));
    assert_eq!(ask(me(), "web/get").await.as_deref(), Some("p: no permit"));
    let denial = passes(layer(&known, Some("p"), &[]), here(), "web/get").await.unwrap_err();
    assert_eq!(denial.message(), "Access denied to tool get by policy p");
    assert!(
        Middleware::needs_tools(&layer(&known, None, &[])),
        "`_meta` may name it, so tools must be known"
    );
    let bound = layer(&known, Some("p"), &[]);
    let explained = bound.explain(&here(), &Call::new(tool("files/x"), None));
    assert_eq!(explained.unwrap().why, "`p` allows by readers");
    assert_eq!(Middleware::describe(&bound), "p (4 rules of Cedar)");
}

#[test]
fn the_page_shows_rules_that_load() {
    let (_, page) = include_str!("../README.md").split_once("```text\n@id").unwrap();
    let (rules, _) = page.split_once("```").unwrap();
    let policy = bound(&format!("@id{rules}"));
    let (tool, elsewhere) = (tool("files/t"), r#"{"path":"/etc/a"}"#);
    assert_eq!(denies(&policy, &here(), &tool, r#"{"path":"/tmp/a"}"#), None);
    assert_eq!(denies(&policy, &here(), &tool, elsewhere).as_deref(), Some("p: no permit"));
    let key = surroundings(Principal::Key("ci".into()), "{}");
    let forbidden = denies(&policy, &key, &annotated("{}", Some(Tier::Destructive)), "{}");
    assert_eq!(forbidden.as_deref(), Some("p: nothing destructive for keys"));
}

#[test]
fn facts_about_the_tool_and_the_caller_decide() {
    let readonly =
        annotated(r#"{"readOnlyHint":true,"openWorldHint":false}"#, Some(Tier::Readonly));
    let plain = annotated("{}", None);
    let cx = here().with_client(client("editor", "1"));
    for (condition, on_readonly, on_plain) in [
        ("resource.tier == \"readonly\"", true, false),
        ("resource has tier && resource.tier == \"readonly\"", true, false),
        ("resource.readOnlyHint && !resource.openWorldHint", true, false),
        ("!(resource has destructiveHint)", true, true),
        ("resource has idempotentHint && resource.idempotentHint", false, false),
        ("resource.server == \"files\" && resource.name == \"t\"", true, true),
        ("context.namespace == \"default\"", true, true),
        ("context.namespace == \"other\"", false, false),
        ("context has client && context.client == \"editor\"", true, true),
        ("principal == Principal::\"local:me\"", true, true),
        ("principal is Principal && resource is Tool && action == Action::\"call\"", true, true),
        ("context.arguments == {}", true, true),
    ] {
        let policy = permit_when(condition);
        for (tool, expected) in [(&readonly, on_readonly), (&plain, on_plain)] {
            let denied = denies(&policy, &cx, tool, "{}");
            assert_eq!(denied.is_none(), expected, "{condition} on {tool:?}: {denied:?}");
            assert_eq!(lists(&policy, &cx, tool), expected, "{condition} on {tool:?}");
        }
    }
}

#[test]
fn an_answer_that_was_kept_is_never_given_to_somebody_else() {
    let policy = bound(
        r#"permit (principal == Principal::"local:me", action, resource)
             when { context.namespace == "default" && context has client && context.client == "a" };
           permit (principal, action, resource) when { resource has tier && resource.tier == "readonly" };"#,
    );
    let plain = annotated("{}", None);
    let of = |principal, namespace: &str, name: &str| {
        let session = Session { id: "s".into(), namespace: namespace.into(), principal };
        Context::new(Arc::new(session)).with_client(client(name, "1"))
    };
    let you = || Principal::Local("you".into());
    for _ in 0..2 {
        assert!(lists(&policy, &of(me(), "default", "a"), &plain));
        assert!(!lists(&policy, &of(you(), "default", "a"), &plain));
        assert!(!lists(&policy, &of(me(), "other", "a"), &plain));
        assert!(!lists(&policy, &of(me(), "default", "b"), &plain));
        assert!(!lists(&policy, &of(me(), "default", "a").with_client(None), &plain));
        // The same tool, of which more is known by now.
        let readonly = annotated("{}", Some(Tier::Readonly));
        assert!(lists(&policy, &of(you(), "default", "a"), &readonly));
        assert!(!lists(&policy, &of(you(), "default", "a"), &plain));
    }
}

#[test]
fn arguments_decide() {
    let cases = [
        ("context.arguments.path like \"/tmp/*\"", r#"{"path":"/tmp/a"}"#, r#"{"path":"/etc/a"}"#),
        ("context.arguments.count < 10", r#"{"count":5.0}"#, r#"{"count":50e0}"#),
        ("context.arguments.dry", r#"{"dry":true}"#, r#"{"dry":false}"#),
        ("context.arguments.to.contains(\"a\")", r#"{"to":["b","a"]}"#, r#"{"to":["b"]}"#),
        ("context.arguments.at.line == 7", r#"{"at":{"line":7}}"#, r#"{"at":{"line":8}}"#),
        ("!(context.arguments has force)", r#"{"force":null}"#, r#"{"force":false}"#),
        ("context.arguments.x == decimal(\"1.5\")", r#"{"x":15e-1}"#, r#"{"x":1.25}"#),
        ("context.arguments.x.lessThan(decimal(\"2.0\"))", r#"{"x":1.9}"#, r#"{"x":2.1}"#),
        (
            "ip(context.arguments.host).isLoopback()",
            r#"{"host":"127.0.0.1"}"#,
            r#"{"host":"8.8.8.8"}"#,
        ),
        ("context.arguments == {\"a\": 1}", r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
        ("context.arguments[\"odd name\"] == 1", r#"{"odd name":1}"#, r#"{"odd name":2}"#),
    ];
    let tool = tool("files/t");
    for (condition, good, bad) in cases {
        let permit = permit_when(condition);
        assert!(lists(&permit, &here(), &tool), "{condition}: some call may pass, so it is shown");
        assert_eq!(denies(&permit, &here(), &tool, good), None, "{condition}");
        assert_eq!(
            denies(&permit, &here(), &tool, bad).as_deref(),
            Some("p: no permit"),
            "{condition}"
        );

        let forbid = bound(&format!(
            "permit (principal, action, resource);
             @id(\"f\") forbid (principal, action, resource) when {{ {condition} }};"
        ));
        assert!(lists(&forbid, &here(), &tool), "{condition}");
        assert_eq!(denies(&forbid, &here(), &tool, good).as_deref(), Some("p: f"), "{condition}");
        assert_eq!(denies(&forbid, &here(), &tool, bad), None, "{condition}");
    }
}

#[test]
fn a_rule_that_fails_denies_and_is_named() {
    let all = "permit (principal, action, resource);";
    let tool = tool("files/t");
    for effect in ["permit", "forbid"] {
        for (condition, arguments) in [
            ("context.arguments.path like \"/etc/*\"", "{}"),
            ("context.arguments.path like \"/etc/*\"", r#"{"path":["/etc/x"]}"#),
            ("context.arguments.count > 10", r#"{"count":"11"}"#),
            ("context.arguments.count > 10", r#"{"count":11.5}"#),
            ("context.arguments.count > 10", r#"{"count":1e30}"#),
            ("context.arguments.count * 9223372036854775807 > 1", r#"{"count":9}"#),
            ("ip(context.arguments.host).isLoopback()", r#"{"host":"no address"}"#),
            // What partial evaluation brings with it is no way to leave a rule open for good.
            ("unknown(\"x\")", "{}"),
        ] {
            let rules = format!(
                "{all} @id(\"r\") {effect} (principal, action, resource) when {{ {condition} }};"
            );
            let policy = bound(&rules);
            let denied = denies(&policy, &here(), &tool, arguments);
            assert_eq!(
                denied.as_deref(),
                Some("p: r failed"),
                "{effect} when {condition}, {arguments}"
            );
        }
        // Where it fails whatever the arguments, no call can pass, and the tool is not shown.
        let rules = format!(
            "{all} {effect} (principal, action, resource) when {{ resource.tier == \"x\" }};"
        );
        let policy = bound(&rules);
        assert_eq!(denies(&policy, &here(), &tool, "{}").as_deref(), Some("p: policy1 failed"));
        assert!(!lists(&policy, &here(), &tool));
        let why = policy.explain(&here(), &Call::new(Arc::clone(&tool), None)).unwrap().why;
        assert!(why.starts_with("`p` denies by policy1 failed (") && why.contains("tier"), "{why}");
    }
    let guarded =
        permit_when("context.arguments has path && context.arguments.path like \"/tmp/*\"");
    assert_eq!(denies(&guarded, &here(), &tool, "{}").as_deref(), Some("p: no permit"));
}

#[test]
fn the_refusal_of_a_failed_rule_quotes_no_argument() {
    let policy = permit_when("ip(context.arguments.host).isLoopback()");
    let arguments = json(r#"{"host":"s3cret"}"#);
    let (tool, cx) = (tool("files/t"), here());
    let asked =
        PolicyRequest { cx: &cx, tool: &tool, arguments: PolicyArguments::Known(Some(&arguments)) };
    let denial = policy.check(asked).unwrap_err();
    let told = format!("{} {:?} {:?}", denial.message(), denial.rule(), denial.suggestion());
    assert!(!told.contains("s3cret"), "{told}");
    assert!(told.contains("could not be judged"), "{told}");
}

#[test]
fn arguments_that_are_in_doubt_deny_if_a_rule_looks_at_them() {
    let tool = tool("files/t");
    let path = bound(
        r#"permit (principal, action, resource);
           forbid (principal, action, resource)
             when { context.arguments has path && context.arguments.path like "/etc/*" };"#,
    );
    for doubtful in [
        r#"{"path":"/tmp/a","path":"/etc/shadow"}"#,
        r#"{"path":"/etc/shadow","path":null}"#,
        r#"{"path":null,"\u0070ath":"/etc/shadow"}"#,
        r#"{"path":"\ud800"}"#,
        r#"["path"]"#,
        "null",
    ] {
        let denied = denies(&path, &here(), &tool, doubtful);
        assert_eq!(denied.as_deref(), Some("p: unreadable arguments"), "{doubtful}");
    }
    // What no rule looks at is the tool's business.
    assert_eq!(denies(&path, &here(), &tool, r#"{"text":"\ud800","x":1,"x":2}"#), None);
    let escaped = r#"{"\u0070ath":"\/etc\/shadow"}"#;
    assert_eq!(denies(&path, &here(), &tool, escaped).as_deref(), Some("p: policy1"));
    let cx = here();
    let none = PolicyRequest { cx: &cx, tool: &tool, arguments: PolicyArguments::Known(None) };
    assert!(path.check(none).is_ok(), "no arguments are an empty record");
}

#[test]
fn a_tool_is_hidden_only_if_no_call_can_pass() {
    let tool = tool("files/t");
    for (rules, is_listed) in [
        ("", false),
        ("permit (principal, action, resource) when { context.arguments has a };", true),
        ("permit (principal, action, resource == Tool::\"mail/x\") when { context.arguments has a };", false),
        ("permit (principal, action, resource) when { context.arguments has a && false };", true),
        ("permit (principal, action, resource) when { false && context.arguments has a };", false),
        ("permit (principal, action, resource) when { resource.server == \"m\" && context.arguments.a };", false),
        ("forbid (principal, action, resource) when { context.arguments has a };", false),
        (
            "permit (principal, action, resource);
             forbid (principal, action, resource) unless { context.arguments has a };",
            true,
        ),
        (
            "permit (principal, action, resource);
             forbid (principal, action, resource) when { resource.name == \"t\" || context.arguments.a };",
            false,
        ),
    ] {
        assert_eq!(lists(&bound(rules), &here(), &tool), is_listed, "{rules}");
    }
}

#[test]
fn a_file_that_does_not_parse_is_refused_with_its_place() {
    for (rules, place) in [
        ("permit (principal, action, resource);\n\nforbid (principal, action) ;", "p.cedar:3:"),
        ("permit (principal, action, resource) when { résource.x = 1 };", "p.cedar:1:"),
        ("allow (principal, action, resource);", "p.cedar:1:1: "),
        ("permit (principal, action, resource)", "p.cedar:1:37: "),
    ] {
        let refused = read(rules).unwrap_err();
        assert!(matches!(refused, PolicyError::Syntax { .. }));
        let told = refused.to_string();
        assert!(told.starts_with("policy `p`: ") && told.contains(place), "{told}");
    }
    let config = PolicyConfig { cedar: Some("no/such.cedar".into()), ..PolicyConfig::default() };
    let missing = Policies::load(&BTreeMap::from([("p".to_owned(), config)]), Path::new("/x"));
    let told = missing.unwrap_err().to_string();
    assert!(told.starts_with("policy `p`: cannot read `/x/no/such.cedar`: "), "{told}");
}

#[test]
fn a_rule_that_could_never_do_what_it_says_is_refused() {
    for (rule, told) in [
        (r#"forbid (principal == User::"bob", action, resource);"#, r#"names `User::"bob"`"#),
        (
            r#"forbid (principal == Principal::"bob", action, resource);"#,
            r#"`Principal::"local:…"`"#,
        ),
        (r#"forbid (principal, action == Action::"list", resource);"#, r#"names `Action::"list"`"#),
        (r#"forbid (principal, action, resource == Tool::"delete");"#, r#"`Tool::"server/name"`"#),
        (r#"forbid (principal, action, resource in Server::"files");"#, "cannot be there"),
        ("forbid (principal is User, action, resource);", "the type `User`"),
        ("forbid (principal, action, resource) when { resource has teir };", "`resource.teir`"),
        ("forbid (principal, action, resource) when { context has args };", "`context.args`"),
        ("permit (principal == ?principal, action, resource);", "has slots"),
        ("@id(\"\") permit (principal, action, resource);", "an empty `@id`"),
    ] {
        let refused = read(&format!("permit (principal, action, resource);{rule}")).unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, PolicyError::Rule { .. }), "{message}");
        assert!(message.contains(told), "{rule}: {message}");
    }
    let twice = read(
        "@id(\"a\") permit (principal,action,resource); @id(\"a\") permit (principal,action,resource);",
    );
    assert!(twice.unwrap_err().to_string().contains("rule `a` occurs twice"));
    let number = read(
        "permit (principal,action,resource); @id(\"policy0\") permit (principal,action,resource);",
    );
    assert!(number.is_err(), "an `@id` that is another rule's number");
}

#[test]
fn tools_that_nobody_listed_are_judged_and_not_remembered() {
    let policy = permit_when("!(resource has tier) && context.arguments has a");
    for at in 0..3 {
        let id = ToolId::new("files", format!("made-up-{at}"));
        let unlisted = Tool::unlisted(id, &TierRules::default());
        assert_eq!(denies(&policy, &here(), &unlisted, r#"{"a":1}"#), None);
        assert_eq!(denies(&policy, &here(), &unlisted, "{}").as_deref(), Some("p: no permit"));
    }
}

/// A cached partial decision agrees with Cedar's decision about the whole request, and a tool with an allowed call is
/// listed.
#[test]
fn any_rules_and_any_arguments_agree_with_cedar_itself() {
    use crate::random::Random;
    const CONDITIONS: [&str; 12] = [
        "context.arguments has a",
        "context.arguments.a == 1",
        "context.arguments.a < 2",
        "context.arguments has b && context.arguments.b like \"x*\"",
        "context.arguments == {}",
        "context has client",
        "resource.server == \"files\"",
        "resource has tier && resource.tier == \"readonly\"",
        "principal == Principal::\"local:me\"",
        "resource.tier == \"readonly\"",
        "context.arguments.a || resource.name == \"t\"",
        "if context.arguments has a then resource.name == \"t\" else resource.readOnlyHint",
    ];
    const ARGUMENTS: [&str; 7] = [
        "{}",
        r#"{"a":1}"#,
        r#"{"a":3}"#,
        r#"{"a":true}"#,
        r#"{"b":"xy"}"#,
        r#"{"a":"","b":1}"#,
        r#"{"c":[1.5]}"#,
    ];
    let tools =
        [annotated("{}", None), annotated(r#"{"readOnlyHint":true}"#, Some(Tier::Readonly))];
    let mut decided = [0, 0];
    for seed in 0..100 {
        let dice = &mut Random::new(seed);
        let mut rules = String::new();
        for _ in 0..=dice.roll(4) {
            let effect = dice.pick(&["permit", "permit", "forbid"]);
            let (one, two) = (dice.pick(&CONDITIONS), dice.pick(&CONDITIONS));
            let joined = dice.pick(&["&&", "||"]);
            let when = format!("({one}) {joined} !({two})");
            writeln!(rules, "{effect} (principal, action, resource) when {{ {when} }};").unwrap();
        }
        let policy = bound(&rules);
        let set: cedar_policy::PolicySet = rules.parse().unwrap();
        let cx = if dice.roll(2) == 0 { here() } else { here().with_client(client("x", "1")) };
        for (tool, arguments) in tools.iter().flat_map(|tool| ARGUMENTS.map(|text| (tool, text))) {
            let is_allowed = denies(&policy, &cx, tool, arguments).is_none();
            let expected = plainly(&set, &cx, tool, arguments);
            assert_eq!(is_allowed, expected, "seed {seed}: {arguments} of {tool:?}\n{rules}");
            assert!(
                !is_allowed || lists(&policy, &cx, tool),
                "seed {seed}: allowed and hidden\n{rules}"
            );
            decided[usize::from(is_allowed)] += 1;
        }
    }
    assert!(decided.iter().all(|count| *count > 100), "both must come about: {decided:?}");
}

/// What Cedar says at once about a whole request, built from JSON as its documentation does.
fn plainly(set: &cedar_policy::PolicySet, cx: &Context, tool: &Tool, arguments: &str) -> bool {
    let mut attributes =
        serde_json::json!({ "server": tool.id().server(), "name": tool.id().name() });
    if let Some(tier) = tool.tier() {
        attributes["tier"] = tier.name().into();
    }
    if let Some(hint) = tool.hints().read_only {
        attributes["readOnlyHint"] = hint.into();
    }
    let uid = serde_json::json!({ "type": "Tool", "id": tool.id().to_string() });
    let entity = serde_json::json!([{ "uid": uid, "attrs": attributes, "parents": [] }]);
    let entities = cedar_policy::Entities::from_json_value(entity, None).unwrap();
    let arguments = arguments.replace("1.5", r#"{"__extn":{"fn":"decimal","arg":"1.5"}}"#);
    let arguments: serde_json::Value = serde_json::from_str(&arguments).unwrap();
    let mut facts = serde_json::json!({ "namespace": "default", "arguments": arguments });
    if let Some(client) = cx.client() {
        facts["client"] = client.name.as_str().into();
    }
    let facts = cedar_policy::Context::from_json_value(facts, None).unwrap();
    let uid = |text: &str| text.parse().unwrap();
    let (principal, action) = (uid(r#"Principal::"local:me""#), uid(r#"Action::"call""#));
    let resource = uid(&format!("Tool::{:?}", tool.id().to_string()));
    let request = cedar_policy::Request::new(principal, action, resource, facts, None).unwrap();
    let response = cedar_policy::Authorizer::new().is_authorized(&request, set, &entities);
    let failed = response.diagnostics().errors().next().is_some();
    response.decision() == cedar_policy::Decision::Allow && !failed
}
