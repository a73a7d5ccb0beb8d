//! Policies from outside: what is denied is not listed, what is listed can be called, and neither a name
//! nor anything that the caller says about itself changes that.

use serde_json::{Value, json};

use crate::harness::{
    governed::{
        Governed, TOOLS, assert_refused, call_with, code, listed, listed_with, modern, refusal,
    },
    text,
};

const CEDAR: &str = r#"
@id("readers")
permit (principal, action == Action::"call", resource)
  when { resource has readOnlyHint && resource.readOnlyHint };

@id("short words")
permit (principal, action == Action::"call", resource == Tool::"main/spawn")
  when { context.arguments has n && context.arguments.n < 5 };

@id("never in etc")
forbid (principal, action, resource == Tool::"main/echo")
  when { context.arguments has text && context.arguments.text like "/etc/*" };

@id("no pids for locals")
forbid (principal, action, resource == Tool::"main/pid")
  when { context.namespace == "default" };
"#;

/// Configs with the tools that they allow when the arguments are empty, in the listing's order.
fn configs() -> Vec<(&'static str, Vec<&'static str>)> {
    let all = || TOOLS.iter().copied();
    let but = |denied: &[&str]| all().filter(|tool| !denied.contains(tool)).collect();
    vec![
        ("", all().collect()),
        ("[namespaces.default]\npolicy = \"p\"\n[policies.p]\n", vec![]),
        ("[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"*\"]\n", vec![]),
        (
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"*/*\"]\ndeny = [\"*/c*\", \"main/?ig\"]\n",
            but(&["crash", "cancelled", "big"]),
        ),
        (
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"main/e*\", \"other/*\", \"main/pid\"]\n",
            vec!["echo", "pid"],
        ),
        // What means something in other languages of globs means nothing here.
        (
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"main/*\"]\n\
             deny = [\"main/!echo\", \"main/#big\", \"main/FAIL\"]\n",
            all().collect(),
        ),
        (
            "[namespaces.default]\npolicy = \"p\"\n[namespaces.default.principals]\n\"local:*\" = \"q\"\n\"key:*\" = \"none\"\n\
             [policies.p]\nallow = [\"main/*\"]\ndeny = [\"main/big\"]\n\
             [policies.q]\nallow = [\"main/big\", \"main/pid\", \"main/ask\"]\n[policies.none]\n",
            vec!["pid", "ask"],
        ),
        (
            "[namespaces.default.principals]\n\"anonymous\" = \"none\"\n[policies.none]\n",
            all().collect(),
        ),
    ]
}

/// `allow = ["*"]` is no selector: such a config does not start.
fn starts(config: &str) -> bool {
    !config.contains("allow = [\"*\"]")
}

#[test]
fn what_is_listed_can_be_called_and_nothing_else_under_every_policy() {
    for (config, allowed) in configs() {
        let folder = Governed::new(config);
        if !starts(config) {
            assert!(folder.refused().contains("`*`"), "{}", folder.refused());
            continue;
        }
        let mut session = folder.start_with(&["--page-size", "4"]);
        let mut shown = listed(&mut session);
        for tool in TOOLS {
            let refused = refusal(&mut session, tool, json!({}));
            let expected = (!allowed.contains(&tool)).then(|| "POLICY_DENIED".to_owned());
            assert_eq!(refused, expected, "{tool} under {config}");
        }
        shown.sort_unstable();
        let mut allowed = allowed;
        allowed.sort_unstable();
        assert_eq!(shown, allowed, "{config}");
    }
}

#[test]
fn why_says_what_really_happens() {
    for (config, allowed) in configs().into_iter().filter(|(config, _)| starts(config)) {
        let folder = Governed::new(config);
        for tool in ["echo", "big", "pid", "crash", "fail", "ask"] {
            let (runs, told) = folder.why(tool, &[]);
            assert_eq!(runs, allowed.contains(&tool), "{tool} under {config}: {told}");
        }
    }
}

#[test]
fn the_refusal_is_worded_as_documented_in_both_eras() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"team\"\n\
         [policies.team]\nallow = [\"main/*\"]\ndeny = [\"main/crash\"]\n",
    );
    let wording = "Access denied to tool crash by policy team\n\
        Ask the operator to allow it in [policies.team].";
    let mut session = folder.start();
    let denied = session.call("crash", json!({}));
    // An error result, as other refusals. MetaMCP throws here, and answers with a JSON-RPC error.
    assert_refused(&denied, "POLICY_DENIED", false);
    assert_eq!(text(&denied), wording);
    session.finish();
    let record = &folder.audit()[0];
    assert_eq!(
        (&record["code"], &record["rule"], &record["ran"]),
        (&json!("POLICY_DENIED"), &json!("team: deny[0] main/crash"), &json!("no")),
        "{record}"
    );
    let mut session = folder.start_silent(&[]);
    let denied = call_with(&mut session, "crash", json!({}), modern(json!({})));
    assert_refused(&denied, "POLICY_DENIED", true);
    assert_eq!(text(&denied), wording);
    let shown = listed_with(&mut session, modern(json!({})));
    assert!(shown.contains(&"echo".to_owned()) && !shown.contains(&"crash".to_owned()));
}

/// `MetaMCP`'s BUG 6, 7 and 8: there a policy is what the caller names, so one that names none, an unknown
/// one or a laxer one is not bound by any.
#[test]
fn a_policy_that_the_request_names_only_narrows_and_an_unknown_one_denies() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"team\"\n\
         [policies.team]\nallow = [\"main/*\"]\ndeny = [\"main/crash\"]\n\
         [policies.lax]\nallow = [\"*/*\"]\n[policies.words]\nallow = [\"main/echo\", \"main/crash\"]\n",
    );
    let mut session = folder.start();
    let meta = |policy: Value| json!({"policyId": policy});
    for tool in ["crash", "echo", "pid"] {
        let expected = match tool {
            "crash" => (Some("POLICY_DENIED"), Some("POLICY_DENIED")),
            "pid" => (None, Some("POLICY_DENIED")),
            _ => (None, None),
        };
        let lax = refusal(&mut session, tool, meta(json!("lax")));
        let words = refusal(&mut session, tool, meta(json!("words")));
        assert_eq!((lax.as_deref(), words.as_deref()), expected, "{tool}");
        for unknown in [json!("gone"), json!(""), json!(7), json!(null), json!(["lax"]), json!({})]
        {
            let refused = refusal(&mut session, tool, meta(unknown.clone()));
            assert_eq!(refused.as_deref(), Some("POLICY_DENIED"), "{tool} under {unknown}");
        }
    }
    assert_eq!(listed_with(&mut session, meta(json!("words"))), ["echo"]);
    assert_eq!(listed_with(&mut session, meta(json!("gone"))), Vec::<String>::new());
    let denied = call_with(&mut session, "echo", json!({}), meta(json!("gone")));
    assert_eq!(
        text(&denied),
        "Access denied to tool echo by policy gone\n\
         Name a policy that there is in `_meta.policyId`, or none."
    );
    let denied = call_with(&mut session, "echo", json!({}), modern(meta(json!("gone"))));
    assert_refused(&denied, "POLICY_DENIED", true);
    // What narrows is for us: no server sees it, whatever is asked (MetaMCP forwards all of it).
    let passed = call_with(&mut session, "see_line", json!({}), meta(json!("lax")));
    assert!(!text(&passed).contains("policyId"), "{passed}");
    for method in ["vendor/echo", "resources/read"] {
        let params = json!({"uri": "x://y/5", "_meta": {"policyId": "lax", "allowedTools": [],
            "parent_call_uuid": "p", "kept": 1}});
        let answer = session.request(method, params);
        assert!(answer["result"].is_object(), "{answer}");
        if method == "vendor/echo" {
            assert_eq!(answer["result"], json!({"uri": "x://y/5", "_meta": {"kept": 1}}));
        }
    }
}

/// `MetaMCP`'s BUG 9: there a policy judges the name that the client typed, and both names reach the tool.
#[test]
fn a_tool_under_another_name_is_denied_all_the_same() {
    for original in ["retired", "callable"] {
        let folder = Governed::new(&format!(
            "[namespaces.default]\npolicy = \"team\"\n\
             [namespaces.default.tools.\"main/crash\"]\nname = \"harmless\"\noriginal = \"{original}\"\n\
             [namespaces.default.tools.\"main/echo\"]\nname = \"remove\"\noriginal = \"{original}\"\n\
             [policies.team]\nallow = [\"main/*\"]\ndeny = [\"main/crash\", \"main/remove\"]\n"
        ));
        let mut session = folder.start();
        for name in ["crash", "harmless"] {
            let refused = session.call(name, json!({}));
            assert_eq!(code(&refused), "POLICY_DENIED", "{name}: {refused}");
        }
        // And nothing is denied for its new name.
        assert_eq!(text(&session.call("remove", json!({"text": "alive"}))), "alive");
        let shown = listed(&mut session);
        assert!(shown.contains(&"remove".to_owned()), "{shown:?}");
        assert!(!shown.iter().any(|name| name == "harmless" || name == "crash"), "{shown:?}");
    }
}

/// `MetaMCP`'s BUG 5: its globs are paths, so that `srv__*` misses a tool called `srv__dir/read`, and
/// names with a dot in front.
#[test]
fn a_star_stops_at_nothing() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"team\"\n\
         [policies.team]\nallow = [\"main/*\"]\ndeny = [\"main/dir*\", \"main/*hidden\"]\n",
    );
    let extra = ["--extra-tool", "dir/read", "--extra-tool", "dir.a/b", "--extra-tool", ".hidden"];
    let mut session = folder.start_with(&extra);
    for tool in ["dir/read", "dir.a/b", ".hidden"] {
        assert_eq!(code(&session.call(tool, json!({}))), "POLICY_DENIED", "{tool}");
    }
    assert_eq!(listed(&mut session).len(), TOOLS.len());
}

#[test]
fn a_cedar_policy_judges_arguments_and_shows_what_some_of_them_allow() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"careful\"\n[policies.careful]\ncedar = \"careful.cedar\"\n",
    );
    folder.write("careful.cedar", CEDAR);
    let mut session = folder.start();
    let shown = listed(&mut session);
    for (tool, is_shown) in
        [("echo", true), ("spawn", true), ("pid", false), ("crash", false), ("ask", false)]
    {
        assert_eq!(shown.contains(&tool.to_owned()), is_shown, "{tool} in {shown:?}");
    }
    let cases = [
        ("echo", json!({"text": "/tmp/x"}), None),
        ("echo", json!({}), None),
        ("echo", json!({"text": "/etc/passwd"}), Some("never in etc")),
        ("echo", json!({"text": "\u{2f}etc/passwd"}), Some("never in etc")),
        ("spawn", json!({"n": 4}), None),
        ("spawn", json!({"n": 5}), Some("no permit")),
        ("spawn", json!({}), Some("no permit")),
        ("spawn", json!({"n": "4"}), Some("short words failed")),
        ("pid", json!({}), Some("no pids for locals")),
        ("crash", json!({}), Some("no permit")),
    ];
    for (tool, arguments, rule) in &cases {
        let answer = session.call(tool, arguments.clone());
        let denied = rule.map_or("", |_| "POLICY_DENIED");
        assert_eq!(code(&answer), denied, "{tool} with {arguments}: {answer}");
        let (runs, told) = folder.why(tool, &["--args", &arguments.to_string()]);
        assert_eq!(runs, rule.is_none(), "{tool} with {arguments}: {told}");
        assert!(rule.is_none_or(|rule| told.contains(rule)), "{rule:?} is not in {told}");
    }
    session.finish();
    let rules: Vec<Value> = folder.audit().iter().map(|record| record["rule"].clone()).collect();
    let expected = cases.iter().map(|(.., rule)| match rule {
        Some(rule) => json!(format!("careful: {rule}")),
        None => Value::Null,
    });
    assert_eq!(rules, expected.collect::<Vec<_>>());
}

#[test]
fn an_argument_that_is_spelt_twice_or_filled_in_does_not_evade_a_rule() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"careful\"\n\
         [namespaces.default.tools.\"main/see_line\"]\ndefaults = { text = \"/etc/default\" }\n\
         [policies.careful]\ncedar = \"careful.cedar\"\n",
    );
    let rules = CEDAR.replace("resource == Tool::\"main/echo\"", "resource");
    folder.write("careful.cedar", &rules);
    let mut session = folder.start();
    for arguments in [
        r#"{"text":"/tmp/x","text":"/etc/passwd"}"#,
        r#"{"text":"/etc/passwd","text":"/tmp/x"}"#,
        r#"{"t\u0065xt":"/etc/passwd"}"#,
        r#"{"text":"\u002fetc/passwd"}"#,
    ] {
        session.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        ));
        let answer = session.answer(900);
        let refused = code(&answer) == "POLICY_DENIED" || answer.get("error").is_some();
        assert!(refused, "{arguments}: {answer}");
    }
    // What is judged is what the tool gets.
    assert_eq!(code(&session.call("see_line", json!({}))), "POLICY_DENIED");
    assert_eq!(code(&session.call("see_line", json!({"text": "/tmp"}))), "");
}

#[test]
fn a_policy_of_one_principal_holds_for_that_one() {
    let folder = Governed::new(
        "[namespaces.default.principals]\n\"local:*\" = \"most\"\n\"key:ci-*\" = \"few\"\n\
         [policies.most]\nallow = [\"main/*\"]\ndeny = [\"main/crash\"]\n\
         [policies.few]\nallow = [\"main/echo\"]\n",
    );
    for (principal, tool, runs) in [
        ("local:me", "pid", true),
        ("local:me", "crash", false),
        ("key:ci-7", "pid", false),
        ("key:ci-7", "echo", true),
        ("key:other", "crash", true),
    ] {
        let (would_run, told) = folder.why(tool, &["--as", principal]);
        assert_eq!(would_run, runs, "{tool} for {principal}: {told}");
    }
    let mut session = folder.start();
    assert_eq!(code(&session.call("crash", json!({}))), "POLICY_DENIED");
    // Who calls is never what the caller says in `_meta`.
    let meta = json!({"principal": "key:other", "userId": "key:other"});
    let denied = call_with(&mut session, "crash", json!({}), meta);
    assert_eq!(code(&denied), "POLICY_DENIED");
}

#[test]
fn what_cannot_be_a_policy_does_not_start() {
    let bound = "[namespaces.default]\npolicy = \"careful\"\n";
    for (config, cedar, told) in [
        (bound, "", "careful"),
        ("[namespaces.default.principals]\n\"local:*\" = \"nope\"\n", "", "nope"),
        ("[namespaces.default.principals]\n\"user:*\" = \"p\"\n[policies.p]\n", "", "user:*"),
        ("[policies.p]\nallow = [\"main/x\"]\ncedar = \"careful.cedar\"\n", CEDAR, "cedar"),
        ("[policies.p]\nalow = [\"main/x\"]\n", "", "did you mean `allow`?"),
        ("[policies.p]\ncedar = \"no_such.cedar\"\n", "", "no_such.cedar"),
        (
            "[policies.p]\ncedar = \"careful.cedar\"\n",
            "permit (principal, action, resource);\n  forbid (principal, action resource);\n",
            "careful.cedar",
        ),
        (
            "[policies.p]\ncedar = \"careful.cedar\"\n",
            "permit (principal, action, resource)\nwhen { resource has teir };\n",
            "teir",
        ),
    ] {
        let folder = Governed::new(config);
        folder.write("careful.cedar", cedar);
        let refused = folder.refused();
        assert!(refused.contains(told), "{config}{cedar}: {refused}");
        let is_broken = cedar.contains("action resource");
        assert!(!is_broken || refused.contains("careful.cedar:2:29: unexpected"), "{refused}");
        assert!(!refused.contains("fixture is up"), "{refused}");
    }
}

#[test]
fn a_policy_that_changes_holds_for_the_next_call_and_the_next_listing() {
    let config = |deny: &str| {
        format!(
            "[namespaces.default]\npolicy = \"p\"\n[policies.p]\nallow = [\"main/*\"]\ndeny = [\"{deny}\"]\n"
        )
    };
    let folder = Governed::new(&config("main/pid"));
    let mut session = folder.start();
    assert_eq!(code(&session.call("pid", json!({}))), "POLICY_DENIED");
    folder.change(&config("main/echo"));
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(code(&session.call("pid", json!({}))), "");
    assert_eq!(code(&session.call("echo", json!({}))), "POLICY_DENIED");
    assert!(!listed(&mut session).contains(&"echo".to_owned()));
}

#[test]
fn a_cedar_file_that_changes_is_read_again_and_a_broken_one_refused() {
    let folder = Governed::new(
        "[namespaces.default]\npolicy = \"careful\"\n[policies.careful]\ncedar = \"careful.cedar\"\n",
    );
    folder.write("careful.cedar", CEDAR);
    let mut session = folder.start();
    assert_eq!(code(&session.call("pid", json!({}))), "POLICY_DENIED");
    folder.write("careful.cedar", "permit (principal, action, resource);");
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(code(&session.call("pid", json!({}))), "");
    folder.write("careful.cedar", "permit (principal, action, resource");
    let told = session.wait_for_stderr("the changed config is refused");
    assert!(told.contains("careful.cedar:1:"), "{told}");
    assert_eq!(code(&session.call("pid", json!({}))), "");
}
