//! `toolgate demo`: every layer that it names has really decided, and nothing of it stays.

use serde_json::{Value, json};

use super::{Machine, stderr, stdout};

fn steps(machine: &Machine, variables: &[(&str, &str)]) -> Vec<Value> {
    let mut command = machine.command(&["demo", "--json"]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn calls_are_allowed_masked_refused_limited_and_held() {
    let machine = Machine::new();
    // No setting of the user changes it.
    let variables =
        [("TOOLGATE_SAFETY", "readonly"), ("TOOLGATE_AUDIT", "off"), ("MCP_SCOPES", "none")];
    let steps = steps(&machine, &variables);
    let verdicts: Vec<_> =
        steps.iter().map(|step| json!([step["verdict"], step["layer"]])).collect();
    assert_eq!(
        Value::from(verdicts),
        json!([
            ["allowed", null],
            ["allowed", null],
            ["masked", "sanitize"],
            ["refused", "policy"],
            ["allowed", null],
            ["allowed", null],
            ["limited", "rate-limit"],
            ["held", "preconditions"],
            ["approved", "a person"],
            ["allowed", null],
            ["refused", "safety"],
        ])
    );
    let text = |at: usize| steps[at]["text"].as_str().unwrap();
    assert_eq!(text(0), "3 of 4 tools; hidden: purge");
    assert_eq!(text(2), "GITHUB_TOKEN=[redacted: github-token]");
    assert_eq!(text(9), "ticket 17 is closed");
    assert!(steps[8]["action"].as_str().unwrap().ends_with(steps[7]["approval"].as_str().unwrap()));
    let ids: Vec<_> = steps.iter().filter_map(|step| step["call_id"].as_str()).collect();
    assert_eq!(ids.len(), 9, "every call is a record: {steps:?}");
    for folder in ["home", "project", "tmp"] {
        assert_eq!(machine.names(folder), Vec::<String>::new(), "{folder} is as before");
    }
}

#[test]
fn a_person_reads_the_steps_the_log_and_why() {
    let machine = Machine::new();
    let output = machine.command(&["demo"]).env("COLUMNS", "80").output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let told = stdout(&output);
    for part in [
        "files/read_file deploy.env",
        "masked    by sanitize",
        "refused   by policy",
        "limited   by rate-limit",
        "held      by preconditions",
        "$ toolgate log",
        "TIER_DENIED",
        "$ toolgate why files/read_file",
        "no payroll",
        "the call would be denied by `policy`",
    ] {
        assert!(told.contains(part), "{part:?} is missing:\n{told}");
    }
    let long: Vec<&str> = told.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(long, Vec::<&str>::new(), "no line is longer than a terminal of 80 columns");
    assert!(!told.contains('\u{1b}'), "colours are for terminals");
    assert!(!told.contains("ghp_"), "the token is masked everywhere:\n{told}");
}

#[test]
fn what_is_kept_can_be_looked_at() {
    let machine = Machine::new();
    let output = machine.run(&["demo", "--keep"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let names = machine.names("tmp");
    let [folder] = names.as_slice() else { panic!("one folder is kept, not {names:?}") };
    let kept = machine.path("tmp").join(folder);
    assert!(stdout(&output).contains(&kept.display().to_string()), "{}", stdout(&output));
    let audit = kept.join("state/toolgate/audit.jsonl").display().to_string();
    let verified = machine.run(&["audit", "verify", &audit]);
    assert_eq!(verified.status.code(), Some(0), "{}{}", stdout(&verified), stderr(&verified));
}
