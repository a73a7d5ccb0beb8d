//! Sanitizing from outside: what must not stand in answers stands in none, nor in any record of them.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{Governed, call_with, listed, modern},
    text,
};

const GITHUB: &str = "ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5";

#[test]
fn patterns_and_the_documented_defaults_are_replaced() {
    let folder = Governed::new(
        "[sanitize]\ndefaults = true\n\
         [[sanitize.patterns]]\npattern = '(?i)ssn: \\d{3}-\\d{2}-(\\d{4})'\nreplace = \"ssn: ***-**-$1\"\n\
         [[sanitize.patterns]]\npattern = 'zebra'\n",
    );
    let mut session = folder.start();
    for (message, read) in [
        ("SSN: 123-45-6789", "ssn: ***-**-6789"),
        ("a zebra, a ZEBRA", "a ***, a ZEBRA"),
        ("api_key=abc123&x=1 API_KEY=Q", "api_key=***&x=1 API_KEY=***"),
        ("Password=hunter2;", "Password=***;"),
    ] {
        let answer = session.call("echo", json!({"text": message}));
        assert!(text(&answer).eq_ignore_ascii_case(read), "{message}: {answer}");
        let meta = modern(json!({}));
        let answer = call_with(&mut session, "echo", json!({"text": message}), meta);
        assert!(text(&answer).eq_ignore_ascii_case(read), "{message}: {answer}");
        assert_eq!(answer["result"]["resultType"], "complete");
    }
    // Errors are answers too.
    let answer = session.call("reject", json!({"code": -32000, "message": "no zebra here"}));
    assert!(text(&answer).starts_with("no *** here"), "{answer}");
    // What goes in reaches the tool as it is.
    assert_eq!(text(&session.call("echo", json!({"text": "plain"}))), "plain");
    let answer = session.request("resources/read", json!({"uri": "x://zebra/5"}));
    assert!(!answer["result"].to_string().contains("zebra"), "{answer}");
}

#[test]
fn secrets_of_known_kinds_reach_nobody() {
    // What goes in is the subject of `[redact]`; what comes out is not hidden by any name.
    let folder = Governed::new(
        "store = \"sqlite:x.db\"\n[sanitize]\nsecrets = true\n[redact]\nkeys = [\"message\"]\n",
    );
    let mut session = folder.start();
    let secrets = [
        (GITHUB, "github-token"),
        ("AKIAQX7MZKPLWZZ5K2LT", "aws-access-key"),
        ("postgres://me:s3cretw0rd@db/x", "url-password"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "authorization-header"),
    ];
    for (secret, kind) in secrets {
        let message = format!("it is {secret} indeed");
        let answer = session.call("echo", json!({"text": message}));
        assert!(text(&answer).contains(&format!("[redacted: {kind}]")), "{answer}");
        assert!(text(&answer).starts_with("it is ") && text(&answer).ends_with(" indeed"));
        let answer = session.call("reject", json!({"code": -32000, "message": message}));
        assert!(!answer.to_string().contains(secret), "{answer}");
    }
    session.finish();
    let told = session.stderr_so_far().join("\n");
    assert!(!told.contains(GITHUB), "{told}");
    for record in folder.log(&[]).iter().filter(|record| record["tool"] == "echo") {
        assert!(record["result"].to_string().contains("redacted"), "{record}");
    }
    for (what, bytes) in [("log", folder.bytes("x.db")), ("audit", folder.bytes("audit.jsonl"))] {
        for part in
            [GITHUB, "AKIAQX7MZKPLWZZ5K2LT", "s3cretw0rd", "abcdefghijklmnopqrstuvwxyz012345"]
        {
            let found = bytes.windows(part.len()).any(|window| window == part.as_bytes());
            assert!(!found, "{part} is in the {what}");
        }
    }
}

#[test]
fn what_is_clean_leaves_as_the_bytes_that_came() {
    let folder = Governed::new("[sanitize]\nsecrets = true\ndefaults = true\n");
    let lines = |session: &mut Session| -> Vec<String> {
        let mut lines = Vec::new();
        for params in [
            json!({"name": "echo", "arguments": {"text": "a\u{e4}\n\u{1f511} password: none"}}),
            json!({"name": "structured", "arguments": {"rows": 20}}),
            json!({"name": "fail"}),
            json!({"name": "big", "arguments": {"lines": 1000}}),
        ] {
            session.post("tools/call", params);
            lines.push(session.line());
        }
        session.post("resources/read", json!({"uri": "x://y/20"}));
        lines.push(session.line());
        lines
    };
    let mut plain = Session::fixture(&[], &[]);
    plain.initialize();
    assert_eq!(lines(&mut folder.start()), lines(&mut plain));
}

#[test]
fn only_the_answers_of_the_named_tools_are_cleaned() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/echo\"]\nname = \"say\"\n\
         [sanitize]\ntools = [\"main/echo\"]\n[[sanitize.patterns]]\npattern = 'zebra'\nreplace = \"horse\"\n",
    );
    let mut session = folder.start();
    assert_eq!(text(&session.call("say", json!({"text": "zebra"}))), "horse");
    let answer = session.call("see_line", json!({"text": "zebra"}));
    assert!(text(&answer).contains("zebra"), "{answer}");
    assert!(listed(&mut session).contains(&"say".to_owned()));
}

#[test]
fn a_secret_that_the_limit_would_cut_in_two_is_cleaned_before() {
    let folder = Governed::new("[limits]\nresponse_bytes = 2000\n[sanitize]\nsecrets = true\n");
    let mut session = folder.start();
    for filler in 1850..1990 {
        let message = format!("{GITHUB}{}", " x".repeat(filler / 2));
        let answer = session.call("echo", json!({"text": message}));
        let told: Value = answer["result"].clone();
        assert!(!told.to_string().contains(&GITHUB[20..]), "{filler}: {told}");
    }
}

#[test]
fn a_pattern_that_cannot_be_heeded_does_not_start() {
    for (config, told) in [
        ("[sanitize]\n", "sanitize"),
        ("[[sanitize.patterns]]\npattern = 'key=('\n", "the pattern `key=(`"),
        ("[[sanitize.patterns]]\npattern = 'x*'\n", "x*"),
        ("[[sanitize.patterns]]\npattern = 'x(y)'\nreplace = \"$2\"\n", "x(y)"),
        ("[sanitize]\nsecrets = true\ntools = [\"nonsense\"]\n", "nonsense"),
    ] {
        let refused = Governed::new(config).refused();
        assert!(refused.contains(told), "{config}: {refused}");
        assert!(!refused.contains("fixture is up"), "{refused}");
    }
}
