//! Redaction: what arguments look like in a record, and what never does.

use serde_json::json as value;

use super::*;
use crate::random::Random;

fn redactor(config: &RedactConfig) -> Redactor {
    Redactor::new(config).unwrap()
}

fn summary(arguments: &str) -> Value {
    redactor(&RedactConfig::default()).summary(&json(arguments))
}

#[test]
fn a_secret_becomes_its_length_and_the_start_of_its_digest() {
    assert_eq!(
        summary(r#"{"keys":"hello"}"#),
        value!({"keys": {"len": 5, "sha256_prefix": "2cf24dba5fb0"}})
    );
    assert_eq!(
        summary(r#"{"text":""}"#),
        value!({"text": {"len": 0, "sha256_prefix": "e3b0c44298fc"}})
    );
    assert_eq!(summary(r#"{"command":"rm -rf /"}"#)["command"]["len"], 8);
    // Characters are counted, not bytes; however they are spelt.
    assert_eq!(summary(r#"{"value":"caf\u00e9"}"#)["value"]["len"], 4);
    assert_eq!(summary(r#"{"value":"café"}"#), summary(r#"{"value":"caf\u00e9"}"#));
}

#[test]
fn what_is_no_secret_is_told() {
    let plain = r#"{"pane_id":"%1","bracket":true,"n":-1.5,"nothing":null,"l":[1,"a",{}]}"#;
    assert_eq!(summary(plain), json(plain).to_value().unwrap());
}

#[test]
fn a_map_keeps_its_keys() {
    let told =
        summary(r#"{"environment":{"FOO":"bar","DEEP":{"A":"b"},"N":1,"L":["x"],"E":null}}"#);
    let environment = &told["environment"];
    assert_eq!(environment["FOO"], value!({"len": 3, "sha256_prefix": "fcde2b2edba5"}));
    assert_eq!(environment["DEEP"]["A"]["len"], 1);
    assert_eq!(environment["N"], value!({"type": "number", "redacted": true}));
    assert_eq!(environment["L"], value!({"type": "array", "redacted": true}));
    assert_eq!(environment["E"], Value::Null);
    assert!(!told.to_string().contains("bar"));
    // Written as text it is one digest.
    let text = summary(r#"{"environment":"{\"FOO\":\"bar\"}"}"#);
    assert_eq!(text["environment"]["len"], 13);
}

#[test]
fn sensitive_values_that_are_no_text_tell_their_shape_only() {
    for (value, kind) in [("1234", "number"), ("true", "bool"), (r#"["a"]"#, "array")] {
        let told = summary(&format!(r#"{{"password":{value}}}"#));
        assert_eq!(told, value!({"password": {"type": kind, "redacted": true}}));
    }
    // No text, although it is a string.
    let told = summary(r#"{"password":"\ud800secret"}"#);
    assert_eq!(told, value!({"password": {"type": "string", "redacted": true}}));
}

#[test]
fn names_that_sound_like_a_secret_are_found_in_any_case_and_spelling() {
    for name in [
        "password",
        "PASSWORD",
        "dbPassword",
        "passwd",
        "passphrase",
        "client_secret",
        "apiKey",
        "API_KEY",
        "x-api-key",
        "Api Key",
        "AWS_ACCESS_KEY_ID",
        "privateKey",
        "private_key",
        "Authorization",
        "bearer",
        "accessToken",
        "token",
        "Credentials",
        "Set-Cookie",
    ] {
        let told = summary(&format!(r#"{{{name:?}:"hunter2"}}"#));
        assert_eq!(told[name]["len"], 7, "{name}");
    }
    // Payloads go by their exact names: `Text` or `keyspace` is something else.
    for name in ["Text", "keyspace", "contents", "commander", "user", "path"] {
        assert_eq!(summary(&format!(r#"{{{name:?}:"plain"}}"#))[name], "plain");
    }
}

#[test]
fn further_names_can_be_given_and_the_built_in_ones_left_out() {
    let config = RedactConfig { keys: vec!["Query".to_owned()], ..RedactConfig::default() };
    let told = redactor(&config).summary(&json(r#"{"QUERY":"a","keys":"b","q":"c"}"#));
    assert_eq!(told["QUERY"]["len"], 1);
    assert_eq!(told["keys"]["len"], 1);
    assert_eq!(told["q"], "c");
    let config = RedactConfig { defaults: false, ..config };
    let told = redactor(&config).summary(&json(r#"{"query":"a","keys":"b"}"#));
    assert_eq!(told["query"]["len"], 1);
    assert_eq!(told["keys"], "b");
}

#[test]
fn operations_are_walked_like_calls() {
    // send_keys_batch
    let told = summary(
        r#"{"operations":[{"pane_id":"%1","keys":"s3cret","enter":true},"s3cret",7,null]}"#,
    );
    assert_eq!(
        told["operations"],
        value!([
            {"pane_id": "%1", "keys": {"len": 6, "sha256_prefix": "1ec1c26b50d5"}, "enter": true},
            {"type": "string", "redacted": true},
            {"type": "number", "redacted": true},
            {"type": "null", "redacted": true},
        ])
    );
    // Rows of the generic batches keep their tool.
    let told = summary(
        r#"{"operations":[{"tool":"set_environment","arguments":{"name":"A","value":"s3cret"}}]}"#,
    );
    let row = &told["operations"][0];
    assert_eq!(row["tool"], "set_environment");
    assert_eq!(row["arguments"]["name"], "A");
    assert_eq!(row["arguments"]["value"]["len"], 6);
    // What is no list of calls.
    assert_eq!(summary(r#"{"operations":"keys"}"#)["operations"]["len"], 4);
    assert_eq!(summary(r#"{"operations":{"keys":"x"}}"#)["operations"]["redacted"], true);
}

#[test]
fn arguments_within_a_text_are_found() {
    for arguments in [
        r#"{"args":"{\"password\":\"hunter2\"}"}"#,
        r#"{"args":" [1, {\"a\": {\"Api-Key\": \"hunter2\"}}]"}"#,
        r#"{"args":"{\"a\":\"{\\\"token\\\":\\\"hunter2\\\"}\"}"}"#,
        r#"{"args":"{'password': 'hunter2'}"}"#,
        r#"{"args":"{\"keys\": \"hunter2\", cut off"}"#,
    ] {
        let told = summary(arguments);
        assert!(!told.to_string().contains("hunter2"), "{told}");
        assert!(told["args"]["len"].is_number(), "{told}");
    }
    for plain in ["{not json}", "[INFO] it's fine", r#"{"a":1}"#, "{}"] {
        let told = summary(&format!(r#"{{"args":{plain:?}}}"#));
        assert_eq!(told["args"], plain);
    }
}

#[test]
fn long_texts_and_keys_are_cut() {
    let long = "ä".repeat(201);
    let told = summary(&format!(r#"{{"a":{long:?},{long:?}:1}}"#));
    let cut = format!("{}...<truncated>", "ä".repeat(200));
    assert_eq!(told["a"], cut);
    assert_eq!(told[&cut], 1);
    let exact = "ä".repeat(200);
    assert_eq!(summary(&format!(r#"{{"a":{exact:?}}}"#))["a"], exact);
}

#[test]
fn records_are_bounded_whatever_comes() {
    let many = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let told = summary(&format!(r#"{{"a":[{}]}}"#, many(150)));
    assert_eq!(told["a"].as_array().unwrap().len(), 101);
    assert_eq!(told["a"][100], "...<50 more>");

    let members: Vec<String> = (0..150).map(|n| format!("\"{n}\":{n}")).collect();
    let told = summary(&format!("{{{}}}", members.join(",")));
    assert_eq!(told.as_object().unwrap().len(), 101);
    assert_eq!(told["...<50 more>"], Value::Null);

    let row = format!("[{}]", many(99));
    let rows = vec![row.as_str(); 99].join(",");
    let told = summary(&format!(r#"{{"a":[{rows}]}}"#)).to_string();
    assert!(told.len() < 10_000, "{}", told.len());

    let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    let told = summary(&format!(r#"{{"a":{deep}}}"#)).to_string();
    assert!(told.len() < 100, "{told}");
    let number = "9".repeat(10_000);
    let told = summary(&format!(r#"{{"a":{number}}}"#)).to_string();
    assert!(told.len() < 300, "{told}");
}

#[test]
fn a_keyed_digest_cannot_be_guessed_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key");
    let config = |key_file: Option<&std::path::PathBuf>| RedactConfig {
        digest: DigestAlgorithm::Hmac,
        key_file: key_file.cloned(),
        ..RedactConfig::default()
    };
    let arguments = json(r#"{"pin":"x","password":"hello"}"#);
    std::fs::write(&key_file, "a key of at least sixteen bytes").unwrap();
    let told = redactor(&config(Some(&key_file))).summary(&arguments);
    // printf hello | openssl dgst -sha256 -hmac 'a key of at least sixteen bytes'
    assert_eq!(told["password"], value!({"len": 5, "hmac_sha256_prefix": "fc317909ae38"}));
    assert_eq!(told, redactor(&config(Some(&key_file))).summary(&arguments));

    let (one, two) = (redactor(&config(None)), redactor(&config(None)));
    assert_eq!(one.summary(&arguments), one.summary(&arguments));
    assert_ne!(one.summary(&arguments), two.summary(&arguments), "each run has its own");

    std::fs::write(&key_file, "short").unwrap();
    let error = Redactor::new(&config(Some(&key_file))).unwrap_err();
    assert_eq!(error.to_string(), "a key has at least 16 bytes");
    let unheeded = RedactConfig { digest: DigestAlgorithm::Sha256, ..config(Some(&key_file)) };
    let error = Redactor::new(&unheeded).unwrap_err();
    assert_eq!(error.to_string(), "a key needs `redact.digest = \"hmac\"`");
    let missing = config(Some(&folder.path().join("missing")));
    let error = AuditSink::open(&AuditConfig::default(), &missing).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the key file `"), "{error}");
}

/// JSON with secrets below sensitive names, and plain values beside them.
fn with_secrets(dice: &mut Random, depth: usize) -> Value {
    const NAMES: [&str; 8] =
        ["keys", "value", "environment", "Password", "api_key", "accessToken", "shell", "content"];
    let mut map = serde_json::Map::new();
    for n in 0..dice.roll(5) {
        let deeper = |dice: &mut Random| match depth {
            0 => value!(dice.roll(100)),
            _ => with_secrets(dice, depth - 1),
        };
        let (name, value) = match dice.roll(7) {
            0 | 1 => ((*dice.pick(&NAMES)).to_owned(), secret(dice, 3)),
            // What is no call in a list of calls is as secret.
            2 => {
                let stray = value!([secret(dice, 2)]);
                let rows = value!([deeper(dice), stray, "S3CRET", 733_733]);
                ("operations".to_owned(), rows)
            }
            3 => (format!("list{n}"), value!([1, deeper(dice), "plain"])),
            4 => (format!("text{n}"), value!(deeper(dice).to_string())),
            5 => (format!("map{n}"), deeper(dice)),
            _ => (format!("plain{n}"), value!(dice.text(300))),
        };
        map.insert(name, value);
    }
    Value::Object(map)
}

/// Any value, with the secret wherever a text stands in it.
fn secret(dice: &mut Random, depth: usize) -> Value {
    match dice.roll(if depth == 0 { 3 } else { 5 }) {
        0 => value!(format!("{}S3CRET{}", dice.text(5), dice.text(5))),
        1 => value!("S3CRET"),
        2 => value!(733_733),
        3 => value!([secret(dice, depth - 1), secret(dice, depth - 1)]),
        _ => value!({"plain": secret(dice, depth - 1), "user": secret(dice, depth - 1)}),
    }
}

#[test]
fn no_secret_is_in_any_record_at_any_nesting() {
    let mut dice = Random::new(7);
    let mut with_secret = 0;
    for digest in [DigestAlgorithm::Sha256, DigestAlgorithm::Hmac] {
        let redactor = redactor(&RedactConfig { digest, ..RedactConfig::default() });
        for _ in 0..600 {
            let arguments = with_secrets(&mut dice, 4).to_string();
            let told = redactor.summary(&json(arguments.as_str())).to_string();
            with_secret += usize::from(arguments.contains("S3CRET"));
            for secret in ["S3CRET", "733733"] {
                assert!(!told.contains(secret), "{arguments}\nbecame\n{told}");
            }
        }
    }
    assert!(with_secret > 500, "{with_secret}");
}

#[test]
fn any_json_can_be_summed_up() {
    let mut dice = Random::new(11);
    for _ in 0..600 {
        let arguments = dice.json(2000, 14);
        let redactor = redactor(&RedactConfig::default());
        let told = redactor.summary(&json(arguments.as_str()));
        serde_json::to_string(&told).unwrap();
    }
}

#[test]
fn every_word_is_found_wherever_it_stands_and_however_it_is_spaced() {
    let redactor = redactor(&RedactConfig::default());
    let words = "password passwd passphrase secret token api_key access-key private key authorization bearer \
                 credential cookie";
    let words = words.replace("private key", "private_key");
    for word in words.split_ascii_whitespace() {
        for spelt in [word.to_owned(), word.to_uppercase(), word.replace(['_', '-'], " ")] {
            for name in
                [spelt.clone(), format!("x{spelt}"), format!("é_{spelt}s"), format!("{spelt}-p")]
            {
                assert!(redactor.is_sensitive(&name), "{name}");
            }
        }
        let spaced: Vec<String> = word.chars().map(String::from).collect();
        assert!(redactor.is_sensitive(&spaced.join("_")), "{word}");
        let mut shorter = word.replace(['_', '-'], "");
        shorter.pop();
        assert!(!redactor.is_sensitive(&shorter), "{shorter}");
    }
    assert!(redactor.is_sensitive("to\u{212a}en"), "a letter that is lower-cased to one of ours");
}

/// Simple arguments are written without values in between: the result is the same.
#[test]
fn both_ways_to_write_arguments_tell_the_same() {
    let (redactor, mut random) = (redactor(&RedactConfig::default()), Random::new(11));
    let names = [
        "path",
        "text",
        "password",
        "api_key",
        "name",
        "value",
        "header",
        "__confirm",
        "operations",
        "Session",
        "sessionId",
        "PHPSESSID",
        "n",
        "a\"b",
        "key",
        "ghp_0123456789012345678901234567890123456789",
        "keys",
    ];
    let words = [
        "\"plain\"",
        "\"Authorization\"",
        "\"hunter2-hunter2\"",
        "\"with hunter2-hunter2 in it\"",
        "\"\"",
        "\"{\\\"token\\\":1}\"",
        "\" [1\"",
        "\"http://u:hunter22@host/\"",
        "\"tgc1t-0a0a0a0a0a0a0a0a0a0a\"",
        "1",
        "-0",
        "1.50",
        "1e3",
        "12345678901234567890",
        "-17",
        "true",
        "null",
        "[]",
        "{\"a\":1}",
        "\"\\ud800\"",
        "\"caf\\u00e9\"",
    ];
    let mut simple = 0;
    for _ in 0..20_000 {
        let members: Vec<String> = (0..random.roll(4))
            .map(|_| {
                let name = Value::from(*random.pick(&names)).to_string();
                let long = Value::from(random.text(300)).to_string();
                let value = if random.roll(5) == 0 { &*long } else { *random.pick(&words) };
                format!("{name}:{value}")
            })
            .collect();
        let arguments = json(format!("{{{}}}", members.join(",")));
        let mut out = b"before".to_vec();
        if redactor.write_simple(&arguments, &mut out) {
            simple += 1;
            let told: Value = serde_json::from_slice(&out["before".len()..]).unwrap();
            assert_eq!(told, redactor.arguments(&arguments), "{members:?}");
        } else {
            assert_eq!(out, b"before");
        }
    }
    assert!(simple > 4000, "{simple}");
}
