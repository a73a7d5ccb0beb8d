//! The alert rules of docs/metrics.md name metrics, labels, outcomes and codes that the program has.

use std::collections::BTreeSet;

use serde_json::json;
use toolgate::Code;

use super::{all_blocks, blocks, pages};
use crate::harness::{fixture, gateway::Gateway, http};

/// The words of a text that can be names of metrics and labels.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_')
}

/// What the metrics page of a gateway has after a call, a refused call and a rejected request.
fn exposed() -> String {
    let gateway = Gateway::start(&format!(
        "telemetry = {{ prometheus = \"127.0.0.1:0\" }}\n[servers.fix]\ncommand = {:?}\n\
         [namespaces.default]\nsafety = \"readonly\"\n",
        fixture().display().to_string()
    ));
    let client = gateway.legacy();
    client.call("echo", json!({"text": "x"}));
    client.call("crash", json!({}));
    gateway.exchange("GET", "/elsewhere", &[], "");
    let line = gateway.wait_for_stderr("metrics are at http://");
    let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics");
    http::exchange(address.parse().unwrap(), "GET", "/metrics", &[], b"").text()
}

#[test]
fn alerts_name_metrics_that_the_program_exposes() {
    let exposed = exposed();
    let exposed: BTreeSet<&str> = names(&exposed).collect();
    let rules: Vec<_> = all_blocks()
        .into_iter()
        .filter(|block| {
            block.page == "docs/metrics.md" && ["yaml", "text"].contains(&&*block.language)
        })
        .collect();
    assert_eq!(rules.len(), 3, "alerts, the config of Prometheus, queries");
    let (_, page) = pages().into_iter().find(|(page, _)| page == "docs/metrics.md").unwrap();
    let table = page.split("## Metrics").nth(1).and_then(|rest| rest.split("## Alerts").next());
    let texts = rules.iter().map(|rule| &*rule.text).chain(table);
    let mut seen = 0;
    for text in texts {
        for name in names(text) {
            let is_ours = [
                "mcp_",
                "toolgate_http",
                "http_response",
                "gen_ai_",
                "network_transport",
                "error_type",
            ]
            .iter()
            .any(|start| name.starts_with(start));
            seen += usize::from(is_ours);
            assert!(!is_ours || exposed.contains(name), "the program exposes no `{name}`");
        }
        for (label, known) in [("code", codes()), ("outcome", outcomes(&page))] {
            for value in values(text, label) {
                assert!(known.contains(value), "no {label} `{value}`");
            }
        }
    }
    assert!(seen > 30, "{seen} names");
    assert_eq!(values("x{outcome=\"a\"} y{b=\"c\", code=\"d\"}", "code"), ["d"]);
}

/// The values that a text compares a label with: `{code="OVERLOADED"}`.
fn values<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    let starts = ["{", ",", " "].map(|before| format!("{before}{label}=\""));
    let starts = starts.iter().flat_map(|start| text.split(start.as_str()).skip(1));
    starts.filter_map(|rest| rest.split('"').next()).collect()
}

fn codes() -> BTreeSet<String> {
    Code::ALL.iter().map(|code| code.entry().name.to_owned()).collect()
}

/// The outcomes that the page lists. The page of the audit has the same list, which the audit's own tests check.
fn outcomes(page: &str) -> BTreeSet<String> {
    let audit = super::root().join("crates/toolgate/src/middleware/audit/README.md");
    let audit = std::fs::read_to_string(audit).unwrap();
    let listed = audit.lines().find(|line| line.starts_with("| `outcome` |")).unwrap();
    let quoted =
        |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let of_page = page.split("`outcome` is one of").nth(1).and_then(|rest| rest.split(';').next());
    let of_audit: BTreeSet<String> = quoted(listed).into_iter().skip(1).collect();
    assert_eq!(quoted(of_page.unwrap()).into_iter().collect::<BTreeSet<_>>(), of_audit);
    of_audit
}

#[test]
fn rules_are_one_group_with_expressions_and_summaries() {
    let (page, text) = pages().into_iter().find(|(page, _)| page == "docs/metrics.md").unwrap();
    let rules = blocks(&page, &text).into_iter().find(|block| block.language == "yaml").unwrap();
    let count =
        |start: &str| rules.text.lines().filter(|line| line.trim().starts_with(start)).count();
    let alerts = count("- alert: ");
    assert!(
        alerts > 8 && count("expr: ") == alerts && count("summary: ") == alerts,
        "{}",
        rules.text
    );
}
