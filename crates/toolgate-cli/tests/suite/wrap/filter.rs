//! Filter and flags from outside: tools that are switched off, new, or not on the list that a request
//! brings are hidden and refused.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{
        Governed, TOOLS, assert_refused, call_with, code, listed, listed_with, modern, refusal,
        uuid,
    },
    text,
};

const STORE: &str = "store = \"sqlite:x.db\"\n";
const QUARANTINE: &str =
    "store = \"sqlite:x.db\"\n[namespaces.default]\nnew_tools = \"quarantine\"\n";

fn has(session: &mut Session, tool: &str) -> bool {
    listed(session).iter().any(|name| name == tool)
}

#[test]
fn an_inactive_tool_is_hidden_and_refused_with_the_documented_text() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/crash\"]\nstatus = \"inactive\"\n\
         [namespaces.default.tools.\"main/*_*\"]\nstatus = \"inactive\"\n\
         [namespaces.default.tools.\"main/see_line\"]\nstatus = \"active\"\n",
    );
    let mut session = folder.start_with(&["--page-size", "3"]);
    let shown = listed(&mut session);
    for tool in TOOLS {
        let is_off = ["crash", "wrong_id"].contains(&tool);
        assert_eq!(shown.contains(&tool.to_owned()), !is_off, "{tool} in {shown:?}");
        let refused = refusal(&mut session, tool, json!({}));
        assert_eq!(refused.as_deref(), is_off.then_some("TOOL_INACTIVE"), "{tool}");
    }
    let refused = session.call("crash", json!({}));
    assert_refused(&refused, "TOOL_INACTIVE", false);
    let wording = "Tool \"crash\" is currently inactive and disallowed in this namespace\n\
        Call tools/list for the tools that are active.";
    assert_eq!(text(&refused), wording);
    let refused = call_with(&mut session, "crash", json!({}), modern(json!({})));
    assert_refused(&refused, "TOOL_INACTIVE", true);
    assert_eq!(text(&refused), wording);
    for tool in ["crash", "wrong_id", "see_line"] {
        let (runs, told) = folder.why(tool, &[]);
        assert_eq!(runs, tool == "see_line", "{told}");
    }
}

#[test]
fn the_operator_may_word_the_refusal() {
    let folder = Governed::new(
        "[namespaces.default]\ninactive_message = \"Ask Ada about {name}\"\n\
         [namespaces.default.tools.\"main/crash\"]\nstatus = \"inactive\"\nname = \"bang\"\n",
    );
    let mut session = folder.start();
    let refused = session.call("bang", json!({}));
    assert_refused(&refused, "TOOL_INACTIVE", false);
    assert!(text(&refused).starts_with("Ask Ada about bang\n"), "{refused}");
    let empty = Governed::new("[namespaces.default]\ninactive_message = \" \"\n");
    assert!(empty.refused().contains("message for inactive tools is empty"));
}

/// `MetaMCP`'s BUG 10: there an inactive tool stays callable through its new name, because the filter looks
/// for the status of a tool of that name and finds none.
#[test]
fn an_inactive_tool_is_inactive_under_every_name() {
    for original in ["retired", "callable"] {
        let folder = Governed::new(&format!(
            "[namespaces.default.tools.\"main/crash\"]\nstatus = \"inactive\"\nname = \"bang\"\n\
             original = \"{original}\"\n"
        ));
        let mut session = folder.start();
        assert_eq!(code(&session.call("bang", json!({}))), "TOOL_INACTIVE");
        assert_ne!(code(&session.call("crash", json!({}))), "", "{original}");
        assert_eq!(text(&session.call("echo", json!({"text": "alive"}))), "alive");
        assert!(!has(&mut session, "bang") && !has(&mut session, "crash"));
    }
}

/// `MetaMCP`'s BUG 13: there a disabled tool that its server does not list for a while comes back enabled.
#[test]
fn a_status_outlives_the_disappearance_of_its_tool() {
    let folder = Governed::new(&format!(
        "{STORE}[namespaces.default.tools.\"main/wipe\"]\nstatus = \"inactive\"\ntitle = \"Wipe\"\n"
    ));
    for options in [&["--extra-tool", "wipe"][..], &[], &["--extra-tool", "wipe"]] {
        let mut session = folder.start_with(options);
        assert!(!has(&mut session, "wipe"));
        assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_INACTIVE");
        session.finish();
    }
}

/// In `MetaMCP` the order of a listing is the order in which database queries return.
#[test]
fn a_listing_keeps_the_servers_order_every_time() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/big\"]\nstatus = \"inactive\"\n\
         [namespaces.default.tools.\"main/pid\"]\nname = \"zz\"\n",
    );
    let mut session = folder.start();
    let mut plain = Session::fixture(&[], &[]);
    plain.initialize();
    let own = listed(&mut plain).into_iter().filter(|name| name != "big");
    let own: Vec<String> =
        own.map(|name| if name == "pid" { "zz".to_owned() } else { name }).collect();
    for _ in 0..20 {
        assert_eq!(listed(&mut session), own);
    }
}

#[test]
fn a_request_narrows_itself_on_calls_and_listings() {
    let folder = Governed::new("[namespaces.default.tools.\"main/big\"]\nstatus = \"inactive\"\n");
    let mut session = folder.start();
    let meta = json!({"allowedTools": ["echo", "main/p*", "other/fail", "big"]});
    assert_eq!(listed_with(&mut session, meta.clone()), ["echo", "pid", "progress"]);
    for tool in TOOLS {
        let refused = refusal(&mut session, tool, meta.clone());
        let expected = match tool {
            "echo" | "pid" | "progress" => None,
            // What the operator says comes first: a list can only narrow.
            "big" => Some("TOOL_INACTIVE"),
            _ => Some("TOOL_NOT_ALLOWED"),
        };
        assert_eq!(refused.as_deref(), expected, "{tool}");
    }
    let wording = "Access denied: Tool 'fail' is not in the allowed tools list for this agent.\n\
        Call one of the tools in `_meta.allowedTools`.";
    let refused = call_with(&mut session, "fail", json!({}), meta.clone());
    assert_refused(&refused, "TOOL_NOT_ALLOWED", false);
    assert_eq!(text(&refused), wording);
    let refused = call_with(&mut session, "fail", json!({}), modern(meta));
    assert_refused(&refused, "TOOL_NOT_ALLOWED", true);
    let meta = json!({"allowedTools": ["see_line"], "other": 1});
    let passed = call_with(&mut session, "see_line", json!({}), meta);
    let seen: Value = serde_json::from_str(text(&passed)).unwrap();
    assert_eq!(seen["params"]["_meta"], json!({"other": 1}), "the list is not for the server");
}

/// `MetaMCP` ignores a list that is no list.
#[test]
fn a_list_that_is_no_list_allows_nothing() {
    let mut session = Governed::new("").start();
    for list in [
        json!("echo"),
        json!(null),
        json!({"echo": true}),
        json!([["echo"]]),
        json!([7]),
        json!([""]),
        json!([]),
        json!(true),
    ] {
        let meta = json!({"allowedTools": list});
        let refused = refusal(&mut session, "echo", meta.clone());
        assert_eq!(refused.as_deref(), Some("TOOL_NOT_ALLOWED"), "{meta}");
        assert_eq!(listed_with(&mut session, meta.clone()), Vec::<String>::new(), "{meta}");
    }
    assert_eq!(refusal(&mut session, "echo", json!({"allowedTools": [7, "echo"]})), None);
}

/// `MetaMCP`'s BUG 8b: there a caller that is narrowed escapes by having another tool make its calls.
#[test]
fn a_nested_call_is_narrowed_by_the_calls_that_it_is_part_of() {
    let folder = Governed::new(&format!(
        "{STORE}[policies.words]\nallow = [\"main/echo\", \"main/pid\", \"main/fail\"]\n"
    ));
    let mut session = folder.start();
    let meta = json!({"allowedTools": ["echo", "pid"], "policyId": "words"});
    let parent = uuid(&call_with(&mut session, "echo", json!({}), meta));
    let child_meta = json!({"parent_call_uuid": parent});
    let child = call_with(&mut session, "pid", json!({}), child_meta.clone());
    assert_eq!(code(&child), "");
    let grandchild = json!({"parent_call_uuid": uuid(&child), "allowedTools": ["*/*"]});
    for meta in [child_meta, grandchild] {
        let refused = refusal(&mut session, "fail", meta.clone());
        assert_eq!(refused.as_deref(), Some("TOOL_NOT_ALLOWED"), "{meta}");
        assert_eq!(listed_with(&mut session, meta), ["echo", "pid"]);
    }
    // A refused call hands on what it was narrowed to as well.
    let meta = json!({"policyId": "words"});
    let refused = call_with(&mut session, "big", json!({}), meta);
    assert_eq!(code(&refused), "POLICY_DENIED");
    let meta = json!({"parent_call_uuid": uuid(&refused), "policyId": "words"});
    assert_eq!(refusal(&mut session, "big", meta).as_deref(), Some("POLICY_DENIED"));
    assert_eq!(refusal(&mut session, "big", json!({"parent_call_uuid": "invented"})), None);
}

#[test]
fn quarantine_trusts_what_it_met_first_and_keeps_away_what_comes_later() {
    let folder = Governed::new(QUARANTINE);
    let mut session = folder.start();
    assert_eq!(listed(&mut session).len(), TOOLS.len(), "the first listing is trusted");
    assert_eq!(text(&session.call("echo", json!({"text": "old"}))), "old");
    session.finish();
    let with_new = ["--extra-tool", "wipe"];
    for list_first in [true, false] {
        // State survives the restart.
        let mut session = folder.start_with(&with_new);
        if list_first {
            assert_eq!(listed(&mut session).len(), TOOLS.len());
        }
        let refused = session.call("wipe", json!({}));
        assert_refused(&refused, "TOOL_QUARANTINED", false);
        assert_eq!(
            text(&refused),
            "Tool \"wipe\" is new and quarantined in this namespace until the operator approves it\n\
             Ask the operator to look at it and to set [namespaces.default.tools.\"main/wipe\"] \
             status = \"active\"."
        );
        let refused = call_with(&mut session, "wipe", json!({}), modern(json!({})));
        assert_refused(&refused, "TOOL_QUARANTINED", true);
        assert_eq!(text(&session.call("echo", json!({"text": "old"}))), "old");
        assert_eq!(listed(&mut session).len(), TOOLS.len());
        session.finish();
    }
    folder.change(&format!(
        "{QUARANTINE}[namespaces.default.tools.\"main/wipe\"]\nstatus = \"active\"\n"
    ));
    let mut session = folder.start_with(&["--extra-tool", "wipe", "--extra-tool", "other"]);
    assert!(text(&session.call("wipe", json!({}))).contains("wipe"));
    assert!(has(&mut session, "wipe") && !has(&mut session, "other"));
}

#[test]
fn a_call_before_any_listing_meets_the_tools_first() {
    let folder = Governed::new(QUARANTINE);
    let mut session = folder.start();
    assert_eq!(text(&session.call("echo", json!({"text": "first"}))), "first");
    assert_eq!(code(&session.call("never_heard_of", json!({}))), "TOOL_QUARANTINED");
    session.finish();
    let mut session = folder.start_with(&["--extra-tool", "wipe"]);
    assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_QUARANTINED");
    assert_eq!(text(&session.call("echo", json!({"text": "second"}))), "second");
}

#[test]
fn a_modern_client_meets_the_tools_too() {
    let folder = Governed::new(QUARANTINE);
    let mut session = folder.start_silent(&[]);
    assert_eq!(listed_with(&mut session, modern(json!({}))).len(), TOOLS.len());
    let answer = call_with(&mut session, "echo", json!({"text": "new"}), modern(json!({})));
    assert_eq!(text(&answer), "new");
}

#[test]
fn quarantine_that_is_switched_on_while_running_trusts_what_is_there() {
    let folder = Governed::new(STORE);
    let mut session = folder.start();
    assert_eq!(listed(&mut session).len(), TOOLS.len());
    folder.change(QUARANTINE);
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(text(&session.call("echo", json!({"text": "known"}))), "known");
    assert_eq!(listed(&mut session).len(), TOOLS.len());
    session.finish();
    let mut session = folder.start_with(&["--extra-tool", "wipe"]);
    assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_QUARANTINED");
}

#[test]
fn a_tool_that_grows_while_running_is_quarantined_announced_or_not() {
    for announced in [true, false] {
        let folder = Governed::new(QUARANTINE);
        let mut session = folder.start();
        assert_eq!(listed(&mut session).len(), TOOLS.len());
        session.request("vendor/grow", json!({"name": "wipe", "announced": announced}));
        if announced {
            session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
        }
        assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_QUARANTINED");
        assert_eq!(listed(&mut session).len(), TOOLS.len());
        assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_QUARANTINED");
        assert_eq!(text(&session.call("echo", json!({"text": "old"}))), "old");
    }
}

#[test]
fn quarantine_cannot_be_switched_on_without_a_store() {
    let folder = Governed::new("");
    let mut session = folder.start();
    folder.change("[namespaces.default]\nnew_tools = \"quarantine\"\n");
    let told = session.wait_for_stderr("the changed config is refused");
    assert!(told.contains("store = "), "{told}");
    assert_eq!(text(&session.call("echo", json!({"text": "as before"}))), "as before");
}

/// In `MetaMCP` every failure of the database opens the filter.
#[test]
fn a_store_that_is_no_store_does_not_start() {
    let folder = Governed::new(QUARANTINE);
    folder.write("x.db", &"this is no database ".repeat(500));
    assert!(folder.refused().contains("the store cannot be used"), "{}", folder.refused());
}

#[test]
fn layers_in_company_agree_with_each_other_and_with_why() {
    let folder = Governed::new(
        "store = \"sqlite:x.db\"\n[namespaces.default]\nsafety = \"mutating\"\npolicy = \"p\"\n\
         new_tools = \"quarantine\"\n\
         [namespaces.default.tools.\"main/big\"]\nstatus = \"inactive\"\nname = \"large\"\n\
         [namespaces.default.tools.\"main/fail\"]\ntier = \"readonly\"\nhidden = { x = 1 }\n\
         [namespaces.default.tools.\"main/pid\"]\nname = \"number\"\n\
         [policies.p]\nallow = [\"main/*\"]\ndeny = [\"main/spawn\", \"main/number\"]\n\
         [flags]\ndisabled = [\"main/progress\"]\n[sanitize]\nsecrets = true\n[log]\nlistings = true\n",
    );
    let refusals = [
        ("large", "TOOL_INACTIVE"),
        ("progress", "TOOL_DISABLED"),
        ("spawn", "POLICY_DENIED"),
        ("crash", "TIER_DENIED"),
    ];
    let mut session = folder.start_with(&["--page-size", "5"]);
    let shown = listed(&mut session);
    let meta = json!({"allowedTools": ["*/*"], "policyId": "p"});
    let wire_names = TOOLS.iter().map(|tool| match *tool {
        "big" => "large",
        "pid" => "number",
        other => other,
    });
    for tool in wire_names {
        let refused = refusal(&mut session, tool, meta.clone());
        let expected = refusals.iter().find(|(name, _)| *name == tool).map(|(_, code)| *code);
        assert_eq!(refused.as_deref(), expected, "{tool}");
        assert_eq!(shown.contains(&tool.to_owned()), expected.is_none(), "{tool} in {shown:?}");
        let (runs, told) = folder.why(tool, &[]);
        assert_eq!(runs, expected.is_none(), "{tool}: {told}");
    }
}

#[test]
fn why_knows_which_tools_are_known() {
    let folder = Governed::new(QUARANTINE);
    let mut session = folder.start();
    listed(&mut session);
    session.finish();
    let (runs, told) = folder.why("echo", &[]);
    assert!(runs, "{told}");
    let (runs, told) = folder.why("wipe", &[]);
    assert!(!runs && told.contains("quarantine"), "{told}");
    // Asking why is not looking at a tool: nothing is known afterwards that was not before.
    let mut session = folder.start_with(&["--extra-tool", "wipe"]);
    assert_eq!(code(&session.call("wipe", json!({}))), "TOOL_QUARANTINED");
}

#[test]
fn quarantine_without_a_store_does_not_start() {
    let folder = Governed::new("[namespaces.default]\nnew_tools = \"quarantine\"\n");
    let told = folder.refused();
    assert!(told.contains("quarantine") && told.contains("store = "), "{told}");
    let folder = Governed::new("store = \"mysql:x\"\n");
    assert!(folder.refused().contains("`mysql:` is no store"), "{}", folder.refused());
    // The config file is no folder.
    let folder = Governed::new("store = \"sqlite:toolgate.toml/x.db\"\n");
    assert!(folder.refused().contains("the store cannot be used"), "{}", folder.refused());
}

#[test]
fn a_disabled_tool_is_refused_for_maintenance_and_listed_only_if_asked_for() {
    for is_listed in [false, true] {
        let folder = Governed::new(&format!(
            "[flags]\ndisabled = [\"main/crash\", \"main/s*\"]\nlisted = {is_listed}\n\
             [namespaces.default.tools.\"main/crash\"]\nname = \"bang\"\n"
        ));
        let mut session = folder.start();
        let shown = listed(&mut session);
        for tool in ["bang", "see_line", "spawn", "structured"] {
            assert_eq!(shown.contains(&tool.to_owned()), is_listed, "{tool} in {shown:?}");
            let refused = session.call(tool, json!({}));
            assert_refused(&refused, "TOOL_DISABLED", false);
            let refused = call_with(&mut session, tool, json!({}), modern(json!({})));
            assert_refused(&refused, "TOOL_DISABLED", true);
            assert_eq!(
                text(&refused),
                format!(
                    "Tool '{tool}' is currently disabled for maintenance\n\
                     Use another tool, or call again later."
                )
            );
        }
        assert_eq!(text(&session.call("echo", json!({"text": "x"}))), "x");
        let (runs, told) = folder.why("spawn", &[]);
        assert!(!runs && told.contains("disabled: main/s*"), "{told}");
        folder.change("[flags]\n");
        session.reload();
        session.wait_for_stderr("the config has changed");
        assert_eq!(code(&session.call("see_line", json!({}))), "");
        session.finish();
        assert!(folder.audit().iter().take(8).all(|record| record["ran"] == "no"));
    }
}
