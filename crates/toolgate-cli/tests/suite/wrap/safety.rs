//! Safety from outside: what is listed and what can be called never disagree.

use serde_json::{Value, json};

use crate::harness::{Session, text};

fn listed(session: &mut Session) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = session.request("tools/list", params);
        let tools = page["result"]["tools"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match page["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return names,
        }
    }
}

/// Every tool of the fixture with the tier that its annotations give it.
const TIERS: [(&str, Option<u8>); 14] = [
    ("echo", Some(0)),
    ("see_line", Some(0)),
    ("big", Some(0)),
    ("hang", Some(0)),
    ("pid", Some(0)),
    ("cancelled", Some(0)),
    ("wrong_id", Some(0)),
    ("progress", Some(0)),
    ("ask", Some(1)),
    ("spawn", Some(1)),
    ("crash", Some(2)),
    ("fail", None),
    ("structured", Some(0)),
    ("reject", Some(0)),
];

#[test]
fn listing_and_calls_agree_at_every_tier_and_page_size() {
    for (level, name) in ["readonly", "mutating", "destructive"].into_iter().enumerate() {
        for page in ["1", "3", "1000"] {
            let mut session = Session::fixture(&["--safety", name], &["--page-size", page]);
            session.initialize();
            let allowed: Vec<_> = TIERS
                .iter()
                .filter(|(_, tier)| tier.is_some_and(|t| usize::from(t) <= level))
                .map(|(n, _)| (*n).to_owned())
                .collect();
            assert_eq!(listed(&mut session), allowed, "{name}, pages of {page}");
            for (tool, tier) in TIERS {
                if allowed.contains(&tool.to_owned()) {
                    continue;
                }
                let answer = session.call(tool, json!({}));
                let code = if tier.is_none() { "TIER_UNKNOWN" } else { "TIER_DENIED" };
                assert_eq!(answer["result"]["_meta"]["code"], code, "{tool} at {name}: {answer}");
                assert_eq!(answer["result"]["isError"], true);
                assert_eq!(answer["result"]["_meta"]["expected"], true);
            }
        }
    }
}

#[test]
fn the_refusal_names_both_tiers_and_the_setting_and_is_not_an_unknown_tool() {
    let mut session = Session::fixture(&["--safety", "readonly"], &[]);
    session.initialize();
    let denied = session.call("crash", json!({}));
    assert_eq!(
        text(&denied),
        "Tool 'crash' is not available at the current safety level: it is destructive, and the level is \
         readonly.\nOnly the operator can allow it, with safety = \"destructive\" (or --safety destructive)."
    );
    // The original always says `destructive`, also where mutating is enough.
    let denied = session.call("spawn", json!({}));
    assert!(text(&denied).contains("safety = \"mutating\""), "{denied}");
    let unknown = session.call("no_such_tool", json!({}));
    assert_eq!(unknown["result"]["_meta"]["code"], "UNKNOWN_TOOL");
    assert!(text(&unknown).starts_with("Unknown tool: 'no_such_tool'"));
    // Expected failures are warnings: nothing is shouted at error level.
    session.finish();
    let errors = session.stderr_so_far();
    assert!(
        errors.iter().any(|line| line.starts_with("toolgate: warning: Tool 'crash'")),
        "{errors:?}"
    );
    assert!(!errors.iter().any(|line| line.starts_with("toolgate: error")), "{errors:?}");
}

#[test]
fn a_denied_call_never_reaches_the_server_even_before_any_listing() {
    let mut session = Session::fixture(&["--safety", "mutating"], &["--page-size", "2"]);
    session.initialize();
    assert_eq!(session.call("crash", json!({}))["result"]["_meta"]["code"], "TIER_DENIED");
    assert_eq!(text(&session.call("echo", json!({"text": "alive"}))), "alive");
}

#[test]
fn names_that_only_look_alike_do_not_slip_through() {
    let mut session = Session::fixture(&["--safety", "readonly"], &[]);
    session.initialize();
    for name in ["Crash", "crash ", " crash", "crash\u{0}", "main/crash", "ｃrash"] {
        let answer = session.call(name, json!({}));
        assert_eq!(answer["result"]["_meta"]["code"], "UNKNOWN_TOOL", "{name:?}");
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"echo","name":"crash"}}"#,
        r#"{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"echo","Name":"crash"}}"#,
        r#"{"jsonrpc":"2.0","id":501,"method":"tools/call","params":{"name":"echo","n\u0061me":"crash"}}"#,
        r#"{"jsonrpc":"2.0","id":501,"method":"ping","method":"tools/call","params":{"name":"crash"}}"#,
        r#"{"jsonrpc":"2.0","id":501,"METHOD":"tools/call","method":"ping","params":{"name":"crash"}}"#,
    ] {
        session.send_line(line);
        let answer = session.answer(501);
        assert_eq!(answer["error"]["data"]["code"], "INVALID_REQUEST", "{line} gave {answer}");
    }
    // An escaped spelling of the value is the same name.
    session.send_line(
        r#"{"jsonrpc":"2.0","id":502,"method":"tools/call","params":{"name":"cr\u0061sh"}}"#,
    );
    assert_eq!(session.answer(502)["result"]["_meta"]["code"], "TIER_DENIED");
    assert_eq!(text(&session.call("echo", json!({"text": "alive"}))), "alive");
}

#[test]
fn config_gives_tiers_by_selector_and_over_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("toolgate.toml");
    std::fs::write(
        &config,
        "[namespaces.default]\nsafety = \"readonly\"\n\
         [namespaces.default.tools.\"main/fail\"]\ntier = \"readonly\"\n\
         [namespaces.default.tools.\"main/e*\"]\ntier = \"destructive\"\n\
         [audit]\nfile = \"audit.jsonl\"\n",
    )
    .unwrap();
    let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
    session.initialize();
    let names = listed(&mut session);
    assert!(names.contains(&"fail".to_owned()) && !names.contains(&"echo".to_owned()), "{names:?}");
    assert_eq!(session.call("fail", json!({}))["result"]["content"][0]["text"], "it failed");
    assert_eq!(session.call("echo", json!({}))["result"]["_meta"]["code"], "TIER_DENIED");
    session.finish();
    // A path in the file is meant from where the file is.
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    assert_eq!(crate::harness::outcomes(&audit).len(), 2);
}

#[test]
fn what_the_listing_keeps_it_keeps_exactly() {
    let mut session = Session::fixture(&["--safety", "readonly"], &[]);
    session.initialize();
    let id = session.post("tools/list", json!({}));
    let governed = session.answer(id);
    let mut plain = Session::fixture(&[], &[]);
    plain.initialize();
    let all = plain.request("tools/list", json!({}));
    let kept: Vec<&Value> = all["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["annotations"]["readOnlyHint"] == true)
        .collect();
    assert_eq!(governed["result"]["tools"].as_array().unwrap().iter().collect::<Vec<_>>(), kept);
    assert_eq!(governed["result"]["xVendor"], "kept");
}

#[test]
fn a_server_that_cannot_list_gets_no_calls() {
    // `cat` "answers" with our own requests: there never is a listing.
    let mut session = Session::wrap(
        &["--safety", "destructive", "--timeout", "1s"],
        &["sh", "-c", "cat >/dev/null"],
    );
    let id = session.post_call("anything", json!({}));
    session.notify("notifications/cancelled", json!({"requestId": id}));
    let records = session.records();
    assert!(records.iter().all(|r| r["ran"] == "no"), "{records:?}");
}
