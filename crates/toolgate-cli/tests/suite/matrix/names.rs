//! Tools that settings rename, hide or refuse.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Client, Setup},
    matrix::scenario::{Group, brief},
};

/// `safe` has another name, `wipe` is off.
const SETTINGS: &str = "
[namespaces.default]
safety = 'destructive'
policy = 'team'
[namespaces.default.tools.'main/safe']
name = 'visible'
title = 'The visible one'
description = 'Seen by clients.'
[namespaces.default.tools.'main/wipe']
status = 'inactive'
[policies.team]
allow = ['*/*']
deny = ['main/env', 'tmux/list_panes']
";

fn denied(client: &Client) -> &'static str {
    if client.via.is_tmux() { "list_panes" } else { "env" }
}

fn allowed(client: &mut Client, tool: &str, only: &str) -> Value {
    let answer = client.call_with(tool, json!({}), json!({"allowedTools": [only]}));
    answer["result"]["_meta"]["code"].clone()
}

pub fn settings() -> Group {
    Group::new(Setup::new(SETTINGS))
        .everywhere(
            "a renamed tool is listed under its name",
            json!([true, "The visible one", "Seen by clients.", false]),
            |client| {
                let own = client.safe();
                let tool = client.definition("visible");
                let names = client.tools();
                json!([
                    tool["name"] == "visible",
                    tool["title"],
                    tool["description"],
                    names.iter().any(|name| name == own)
                ])
            },
        )
        .everywhere("a renamed tool is called by its name", json!(false), |client| {
            json!(crate::harness::matrix::refused(&client.call("visible", json!({}))))
        })
        .everywhere("a retired name is refused", json!({"refused": "UNKNOWN_TOOL"}), |client| {
            let own = client.safe();
            brief(&client.call(own, json!({})))
        })
        .everywhere("allowedTools takes the name that the client sees", json!(null), |client| {
            allowed(client, "visible", "visible")
        })
        .everywhere(
            "allowedTools does not take the retired name",
            json!("TOOL_NOT_ALLOWED"),
            |client| {
                let own = client.safe();
                allowed(client, "visible", own)
            },
        )
        .everywhere("allowedTools narrows the list", json!(["visible"]), |client| {
            let page =
                client.request("tools/list", json!({"_meta": {"allowedTools": ["visible"]}}));
            let tools = page["result"]["tools"].as_array().cloned().unwrap_or_default();
            json!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>())
        })
        .everywhere(
            "an inactive tool is not listed and refused",
            json!([false, {"refused": "TOOL_INACTIVE"}]),
            |client| {
                let tool = client.wipe();
                let is_listed = client.tools().iter().any(|name| name == tool);
                json!([is_listed, brief(&client.call(tool, json!({})))])
            },
        )
        .everywhere(
            "a tool that a policy denies is not listed and refused",
            json!([false, {"refused": "POLICY_DENIED"}]),
            |client| {
                let tool = denied(client);
                let is_listed = client.tools().iter().any(|name| name == tool);
                json!([is_listed, brief(&client.call(tool, json!({})))])
            },
        )
}

pub fn tiers() -> Group {
    Group::new(Setup::new("[namespaces.default]\nsafety = 'readonly'\n[namespaces.default.tools.'main/env'.hidden]\nsecret = 'marker-h'\n"))
        .everywhere("a tool above the tier is not listed and refused", json!([false, {"refused": "TIER_DENIED"}]), |client| {
            let tool = client.wipe();
            let is_listed = client.tools().iter().any(|name| name == tool);
            json!([is_listed, brief(&client.call(tool, json!({"session_name": "no such"})))])
        })
        .spied("hidden arguments reach the server, whatever the client sends", json!(["env {\"secret\":\"marker-h\"}"]), |client| {
            client.call("env", json!({}));
            json!(client.ran())
        })
}

/// Every call is recorded before it runs.
const INTENTS: &str = "
[audit]
file = 'audit.jsonl'
intents = 'all'
[namespaces.default.tools.'main/safe']
name = 'visible'
";

pub fn audits() -> Group {
    fn records(client: &mut Client, outcome: &str) -> Value {
        let recorded = |client: &mut Client| {
            let text = client.audit_text();
            let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let all = all.map(|record| json!([record["event"], record["outcome"]]));
            all.filter(|record| record[0] != "begin").collect::<Vec<_>>()
        };
        client.until("recorded", |client| recorded(client).iter().any(|one| one[1] == outcome));
        json!(recorded(client))
    }
    Group::new(Setup::new(INTENTS).own_audit())
        .everywhere(
            "a retired name leaves no intent in the audit",
            json!([["call", "denied"]]),
            |client| {
                let own = client.safe();
                client.call(own, json!({}));
                records(client, "denied")
            },
        )
        .everywhere(
            "a call leaves its intent in the audit before its end",
            json!([["call", "denied"], ["intent", null], ["call", "ok"]]),
            |client| {
                client.call("visible", json!({}));
                records(client, "ok")
            },
        )
}
