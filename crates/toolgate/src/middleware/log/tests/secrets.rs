//! No secret reaches a record: not by its own name, and not by what a tool says about it.

use super::*;
use crate::random::Random;

fn everything(record: &CallRecord) -> String {
    format!("{record:?} {}", serde_json::to_string(record).unwrap())
}

async fn text_of(arguments: &str, result: &str) -> String {
    let record = logged(&LogConfig::default(), arguments, &answering(json(result))).await;
    record.result.unwrap()
}

#[tokio::test]
async fn structured_content_is_redacted_by_its_names_and_so_is_the_text_that_repeats_it() {
    let result = r#"{
        "content": [
            {"type":"text","text":"{\"api_key\": \"hunter2hunter2\", \"n\": 1}"},
            {"type":"text","text":"the key is hunter2hunter2, and \u0070lain words stay"}],
        "structuredContent": {"api_key": "hunter2hunter2", "n": 1}}"#;
    let told = text_of("{}", result).await;
    assert!(!told.contains("hunter2"), "{told}");
    assert!(told.contains("plain words stay") && told.contains("\"n\":1"), "{told}");
}

#[tokio::test]
async fn what_the_arguments_hide_is_hidden_in_the_answer() {
    let arguments = r#"{"password":"hunter2\"x","user":"me","pin":{"token":987654}}"#;
    for result in [
        r#"{"content":[{"type":"text","text":"me logged in with hunter2\"x"}]}"#,
        r#"{"content":[{"type":"text","text":"{\"said\":\"hunter2\\\"x\",\"by\":\"me\"}"}]}"#,
        r#"{"content":[],"structuredContent":{"said":"hunter2\"x and 987654","by":"me"}}"#,
        r#"{"content":[],"structuredContent":{"hunter2\"x":"me","n":987654}}"#,
        r#"{"content":[],"note":"me: hunter2\"x"}"#,
    ] {
        let told = text_of(arguments, result).await;
        assert!(!told.contains("hunter2") && !told.contains("987654"), "{told}");
        assert!(told.contains("me"), "{told}");
    }
    let failure = Failure::tool("LoginFailed", "`hunter2\"x` is wrong for me");
    let record = logged(&LogConfig::default(), arguments, &failing(failure)).await;
    assert_eq!(record.error.as_deref(), Some("`[value]` is wrong for me"));
}

#[tokio::test]
async fn a_secret_at_the_edge_of_a_cut_is_not_told_in_part() {
    let config = LogConfig { result_bytes: 64, ..LogConfig::default() };
    for before in 0..200 {
        let text = format!("{}hunter2hunter3", "é".repeat(before));
        let result = ToolResult::text(&text);
        let server = answering(result.json().clone());
        let record = logged(&config, r#"{"password":"hunter2hunter3"}"#, &server).await;
        let told = record.result.unwrap();
        assert!(!told.contains("hunt"), "{before}: {told}");
    }
}

#[tokio::test]
async fn too_many_secrets_to_look_for_leave_the_answer_out() {
    let secrets: Vec<String> = (0..300).map(|n| format!("secret-number-{n}")).collect();
    let arguments = serde_json::json!({ "tokens": secrets }).to_string();
    let result = r#"{"content":[{"type":"text","text":"secret-number-299"}]}"#;
    let told = text_of(&arguments, result).await;
    assert!(!told.contains("secret-number") && told.contains("left_out"), "{told}");
    let failure = Failure::tool("Odd", "secret-number-299");
    let record = logged(&LogConfig::default(), &arguments, &failing(failure)).await;
    assert_eq!(record.error.as_deref(), Some(""));
}

/// Any JSON around a secret, under a name that hides it, and answers that repeat it anyhow.
#[tokio::test]
async fn no_seeded_secret_reaches_a_record() {
    const NAMES: [&str; 6] =
        ["password", "API-Key", "x_token", "clientSecret", "Authorization", "environment"];
    for seed in 0..300 {
        let mut dice = Random::new(seed);
        let secret = format!("s3cr3t{seed}{}", dice.text(12));
        let quoted = toolgate_wire::Json::string(&secret);
        let (name, noise) = (*dice.pick(&NAMES), dice.json(40, 3));
        let inner = format!("{{{name:?}: {}}}", quoted.as_str());
        let arguments = match dice.roll(4) {
            0 => inner.clone(),
            1 => format!("{{\"a\": {noise}, \"b\": [{inner}]}}"),
            2 => format!("{{\"operations\": [{{\"x\": {inner}}}]}}"),
            _ => format!("{{\"json\": {}}}", toolgate_wire::Json::string(&inner).as_str()),
        };
        let text = format!("{}{secret}{}", dice.text(400), dice.text(9));
        let text = toolgate_wire::Json::string(&text);
        let nested = serde_json::json!({ "said": secret }).to_string();
        let nested = toolgate_wire::Json::string(&nested);
        let result = format!(
            "{{\"content\": [{{\"type\":\"text\",\"text\":{}}},{{\"type\":\"text\",\"text\":{}}}], \
             \"structuredContent\": {{\"x\": {noise}, \"y\": {}}}}}",
            text.as_str(),
            nested.as_str(),
            quoted.as_str(),
        );
        let record = logged(&LogConfig::default(), &arguments, &answering(json(result))).await;
        let all = everything(&record);
        assert!(!all.contains("s3cr3t"), "seed {seed}: {arguments}\n{all}");
        let failure = Failure::tool("Odd", format!("got {secret}"));
        let record = logged(&LogConfig::default(), &arguments, &failing(failure)).await;
        assert!(!everything(&record).contains("s3cr3t"), "seed {seed}");
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_told_by_their_shape() {
    for odd in ["[]", "7", "\"x\"", "null"] {
        let told = text_of("{}", odd).await;
        assert!(told.contains("left_out"), "{told}");
    }
    for odd in [
        r#"{"content":7}"#,
        r#"{"content":[7,[],{"text":7},{"resource":7},{"resource":{"resource":{"resource":{}}}}]}"#,
        r#"{"content":[{"type":"text","text":"\ud800"}],"structuredContent":1e400}"#,
    ] {
        let told = text_of(r#"{"password":"hunter2hunter2"}"#, odd).await;
        assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
    }
}
