//! Sanitize: what is replaced, what stays byte by byte, what refuses to build, and what it costs.

use std::{sync::Arc, time::Duration};

use super::{
    detectors::{Check, DEFAULTS, DETECTORS},
    *,
};
use crate::{
    Chain, Code, Endpoint, Failure, Reply, Tier, Tool, ToolResult,
    middleware::{audit, error_results::ErrorResults, response_limit},
    random::Random,
    testing::{self, ScriptedServer, answering, chain, context, failing, json, result_value, tool},
};

fn config(text: &str) -> SanitizeConfig {
    toml::from_str(text).unwrap()
}

fn layer(text: &str) -> Sanitize {
    Sanitize::new(&config(text)).unwrap()
}

fn secrets() -> Sanitize {
    layer("secrets = true")
}

fn some() -> Arc<Tool> {
    tool("read", Tier::Readonly)
}

fn cleaned(layer: &Sanitize, text: &str) -> String {
    layer.rules.clean(text).unwrap_or_else(|| text.to_owned())
}

/// A secret of each kind, put together so that secret scanners do not report this file.
fn samples() -> Vec<(&'static str, String)> {
    let (mixed, hex, upper) = ("a1B2c3D4".repeat(12), "0a1b2c3d".repeat(12), "ABCD2345".repeat(12));
    let cut = |text: &str, length: usize| text[..length].to_owned();
    let sample = |prefix: &str, body: String| format!("{prefix}{body}");
    let key = |what: &str| {
        format!(
            "-----BEGIN {what}PRIVATE KEY-----\nMII{mixed}\n\n{mixed}=\n-----END {what}PRIVATE KEY-----"
        )
    };
    vec![
        ("private-key", key("")),
        ("private-key", key("RSA ")),
        ("private-key", key("ENCRYPTED ").replace('\n', "\\n")),
        ("age-key", sample("AGE-SECRET-KEY-1", cut(&upper, 58))),
        ("github-token", sample("ghp_", cut(&mixed, 36))),
        ("github-token", sample("ghs_", format!("{}.{}.{}", cut(&mixed, 40), mixed, mixed))),
        ("github-token", sample("github_pat_", format!("{}_{}", cut(&mixed, 22), cut(&mixed, 59)))),
        ("gitlab-token", sample("glpat-", cut(&mixed, 20))),
        ("gitlab-token", sample("glrt-", format!("{}.01.{}", cut(&mixed, 27), cut(&mixed, 9)))),
        ("aws-access-key", sample("AKIA", cut(&upper, 16))),
        (
            "slack-token",
            sample("xoxb-", "123456789012-123456789012-".to_owned() + &cut(&mixed, 24)),
        ),
        ("slack-token", sample("xoxe.xoxp-1-", cut(&mixed, 40))),
        ("slack-token", sample("xapp-1-", format!("A012345-123-{}", cut(&hex, 64)))),
        ("google-api-key", sample("AIza", cut(&mixed, 35))),
        ("google-oauth", sample("ya29.", cut(&mixed, 60))),
        ("stripe-key", sample("sk_live_", cut(&mixed, 24))),
        ("stripe-key", sample("rk_test_", cut(&mixed, 24))),
        ("stripe-key", sample("whsec_", cut(&mixed, 32))),
        ("anthropic-key", sample("sk-ant-api03-", mixed.clone())),
        ("openai-key", sample("sk-", cut(&mixed, 48))),
        ("openai-key", sample("sk-proj-", mixed.clone())),
        ("openai-key", sample("sk-or-v1-", cut(&hex, 64))),
        ("huggingface-token", sample("hf_", cut(&mixed, 34))),
        ("groq-key", sample("gsk_", cut(&mixed, 52))),
        ("npm-token", sample("npm_", cut(&mixed, 36))),
        ("pypi-token", sample("pypi-AgEI", mixed.clone())),
        ("docker-token", sample("dckr_pat_", cut(&mixed, 27))),
        ("digitalocean-token", sample("dop_v1_", cut(&hex, 64))),
        ("databricks-token", sample("dapi", cut(&hex, 32))),
        ("grafana-token", sample("glsa_", format!("{}_{}", cut(&mixed, 32), cut(&hex, 8)))),
        ("vault-token", sample("hvs.", cut(&mixed, 90))),
        ("sendgrid-key", sample("SG.", format!("{}.{}", cut(&mixed, 22), cut(&mixed, 43)))),
        ("shopify-token", sample("shpat_", cut(&hex, 32))),
        ("telegram-token", sample("123456789:AA", cut(&mixed, 33))),
        ("linear-key", sample("lin_api_", cut(&mixed, 40))),
        ("notion-token", sample("ntn_", cut(&mixed, 46))),
        ("jwt", format!("eyJ{}.eyJ{}.{}", cut(&mixed, 20), mixed, cut(&mixed, 43))),
        ("jwt", format!("eyJ{}..{}.{}.{}", mixed, cut(&mixed, 16), mixed, cut(&mixed, 22))),
    ]
}

/// Secrets that stand behind something that stays.
fn in_context() -> Vec<(&'static str, &'static str, String, &'static str)> {
    let mixed = "a1B2c3D4".repeat(12);
    let cut = |length: usize| mixed[..length].to_owned();
    vec![
        ("aws-secret-key", "aws_secret_access_key = ", cut(40), ""),
        ("aws-secret-key", "AWS_SECRET_ACCESS_KEY=", cut(40), ""),
        ("aws-secret-key", "\"SecretAccessKey\": \"", cut(40), "\""),
        ("aws-secret-key", "\\\"secretAccessKey\\\": \\\"", cut(40), "\\\""),
        ("slack-webhook", "https://hooks.slack.com/services/", format!("T01/B01/{}", cut(24)), ""),
        ("discord-webhook", "https://discord.com/api/webhooks/", format!("123/{}", cut(68)), ""),
        ("azure-key", "AccountName=x;AccountKey=", format!("{}==", cut(86)), ";"),
        ("authorization-header", "Authorization: Basic ", "dXNlcjpwYXNz".to_owned(), "\n"),
        ("authorization-header", "'AUTHORIZATION': 'Token ", cut(12), "'"),
        ("bearer-token", "curl with bearer ", cut(30), " now"),
        ("url-password", "postgres://me:", "hunter2".to_owned(), "@db/x"),
        ("url-password", "redis://:", "päss!word".to_owned(), "@host"),
    ]
}

#[test]
fn every_kind_of_secret_is_found_wherever_it_stands() {
    let layer = secrets();
    for (kind, secret) in samples() {
        for (before, after) in
            [("", ""), ("key=", "\n"), ("\"", "\", more"), ("é漢😀 ", " 漢"), ("(", ")")]
        {
            let text = format!("{before}{secret}{after}");
            assert_eq!(cleaned(&layer, &text), format!("{before}[redacted: {kind}]{after}"));
        }
    }
    for (kind, before, secret, after) in in_context() {
        let text = format!("{before}{secret}{after}");
        assert_eq!(cleaned(&layer, &text), format!("{before}[redacted: {kind}]{after}"));
    }
    let cut_off = "see: -----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA";
    assert_eq!(cleaned(&layer, cut_off), "see: [redacted: private-key]");
}

#[test]
fn no_detector_is_without_a_sample() {
    let found: Vec<&str> =
        samples().iter().map(|s| s.0).chain(in_context().iter().map(|s| s.0)).collect();
    for detector in DETECTORS {
        assert!(found.contains(&detector.kind), "{}", detector.kind);
        let listed = format!("`{}`", detector.kind);
        assert!(include_str!("README.md").contains(&listed), "{listed} is not on the page");
    }
    assert!(DETECTORS.len() <= 64, "a bit for each");
    let mut literals: Vec<&str> = DETECTORS.iter().flat_map(|d| d.literals).copied().collect();
    assert!(literals.len() <= 64, "{}", literals.len());
    literals.sort_unstable();
    assert!(literals.windows(2).all(|pair| pair[0] != pair[1]), "a literal is of one detector");
    assert!(DETECTORS.iter().any(|d| d.check == Check::Mixed));
}

#[test]
fn prose_and_code_stay() {
    let layer = secrets();
    for text in [
        "the task-runner's desk-top risk-assessment-of-the-quarterly-report",
        "class=\"sk-folding-cube sk-cube-with-a-very-long-name-indeed-it-is\"",
        "bearer authentication-mechanisms-are-described-elsewhere",
        "Authorization: required for all of it",
        "npm_config_registry=https://registry.example.org/ and pypi-server",
        "https://example.com:8080/a@b and git@github.com:me/x.git",
        "AKIA is a prefix, ghp_ too, and eyJ is how base64 of {\" begins",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the PRIVATE KEY goes into the safe; xoxo",
        "http://[::1]:8080/x",
        "0123456789abcdef0123456789abcdef01234567",
    ] {
        assert_eq!(layer.rules.clean(text), None, "{text}");
    }
}

#[test]
fn the_seeds_two_patterns() {
    let layer = layer("defaults = true");
    assert_eq!(
        cleaned(&layer, "url?API_KEY=abc&Password=hunter2 password= x"),
        "url?api_key=***&password=*** password= x"
    );
}

#[test]
fn a_text_without_equals_sign_matches_no_default() {
    assert!(DEFAULTS.iter().all(|(pattern, _)| pattern.contains('=')));
    // A pattern of the operator may write the text that a default matches.
    let layer =
        layer("defaults = true\npatterns = [{ pattern = \"key is\", replace = \"api_key=x\" }]");
    assert_eq!(cleaned(&layer, "the key is"), "the api_key=***");
}

#[test]
fn own_patterns_are_applied_in_order_with_their_groups() {
    let layer = layer(
        r#"
        patterns = [
            { pattern = "id-(\\d)\\d+", replace = "id-$1.." },
            { pattern = "id-(?<first>\\d)\\.\\.", replace = "<${first}>$$" },
            { pattern = "hunter2" },
        ]"#,
    );
    assert_eq!(cleaned(&layer, "id-123 hunter2"), "<1>$ ***");
}

#[test]
fn what_cannot_work_refuses_to_build() {
    let why = |text: &str| Sanitize::new(&config(text)).unwrap_err().to_string();
    let unclosed = why("patterns = [{ pattern = 'key=(' }]");
    assert!(unclosed.starts_with("the pattern `key=(` of `[sanitize]` is refused: "), "{unclosed}");
    assert!(unclosed.contains("unclosed group"), "{unclosed}");
    assert!(why("patterns = [{ pattern = '(?=x)y' }]").contains("look-around"));
    assert!(why("patterns = [{ pattern = '(a{1000}){1000}' }]").contains("size limit"));
    assert!(why("patterns = [{ pattern = 'x*' }]").contains("matches the empty text"));
    assert!(why("patterns = [{ pattern = '(x)', replace = '$1y' }]").contains("a group `1y`"));
    assert!(why("patterns = [{ pattern = '(x)', replace = '${2}' }]").contains("a group `2`"));
    assert!(why("tools = ['main/*']").contains("cleans nothing"));
    for unknown in ["secret = true", "patterns = [{ pattern = 'x', with = 'y' }]", "tools = ['x']"]
    {
        assert!(toml::from_str::<SanitizeConfig>(unknown).is_err(), "{unknown}");
    }
}

/// The result that a client reads when the tool answers `result`.
async fn through(layer: Sanitize, result: &str) -> String {
    let server = answering(json(result));
    let outcome = testing::call(&chain(layer), &some(), "{}", &server).await;
    outcome.result().unwrap().json().as_str().to_owned()
}

#[tokio::test]
async fn texts_and_data_are_cleaned_and_everything_else_stays_as_it_was_spelt() {
    let result = r#"{ "content" : [ {"type":"text","text":"a\u002fb password=x1 \ud83d\ude00"},
        {"type":"image","data":"password=AAAA","mimeType":"image/password=png"},
        {"type":"resource","resource":{"uri":"f://x","text":"\tpassword=x2","blob":"password=x"}},
        {"type":"resource_link","uri":"http://h/?password=x3","name":"n","_meta":{"k":"password=x"}} ],
        "structuredContent": {"password=k": ["password=x4", 1.50e+1, {"data":"password=x5","t":true}]},
        "_meta":{"progress":"password=x"}, "isError" :false }"#;
    let expected = result
        .replace(r#""a\u002fb password=x1 \ud83d\ude00""#, r#""a/b password=*** 😀""#)
        .replace(r#""\tpassword=x2""#, r#""\tpassword=***""#)
        .replace("?password=x3", "?password=***")
        .replace("password=x4", "password=***")
        .replace("password=x5", "password=***")
        // A message has no line break between its tokens.
        .replace('\n', " ");
    assert_eq!(through(layer("defaults = true"), result).await, expected);
}

#[tokio::test]
async fn no_spelling_hides_a_secret() {
    for result in [
        // Escapes, a lone surrogate in the same string, keys that stand there twice, escaped keys.
        r#"{"content":[{"type":"text","text":"p\u0061ssword=hunter2"}]}"#,
        r#"{"content":[{"type":"text","text":"\ud800 password=hunter2"}]}"#,
        r#"{"content":[],"content":[{"type":"text","text":"x","text":"password=hunter2"}]}"#,
        r#"{"structuredContent":{},"structured\u0043ontent":{"data":"password=hunter2"}}"#,
        r#"{"somethingNew":{"deep":[[["password=hunter2"]]]}}"#,
        r#"{"structuredContent":"password=hunter2"}"#,
    ] {
        let clean = through(layer("defaults = true"), result).await;
        assert!(!clean.contains("hunter2"), "{clean}");
        assert!(clean.contains("***"), "{clean}");
    }
    let deep = format!(
        r#"{{"structuredContent":{}"password=hunter2"{}}}"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    assert!(!through(layer("defaults = true"), &deep).await.contains("hunter2"));
}

#[tokio::test]
async fn what_has_to_come_back_stays() {
    let result = r#"{"resultType":"input_required","requestState":"password=x","inputRequests":{"a":{"params":{"url":"http://h/?password=x"}}}}"#;
    assert_eq!(through(layer("defaults = true"), result).await, result);
}

#[tokio::test]
async fn a_clean_answer_leaves_as_the_bytes_that_came_in() {
    let line = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"fine"}]}}"#;
    let answer = |text: &'static str| {
        ScriptedServer::new(move |_| {
            let result = json(text).get("result").unwrap();
            Outcome::from(ToolResult::new(result)).with_origin(text.into())
        })
    };
    let outcome = testing::call(&chain(secrets()), &some(), "{}", &answer(line)).await;
    assert!(matches!(outcome.into_reply(), Reply::Verbatim(bytes) if bytes == line));

    let dirty =
        r#"{"result":{"content":[{"type":"text","text":"http://a:bcd@e"}],"isError":true}}"#;
    let outcome = testing::call(&chain(secrets()), &some(), "{}", &answer(dirty)).await;
    assert!(outcome.result().unwrap().is_error(), "error results are cleaned too");
    let Reply::Result(result) = outcome.into_reply() else { panic!("not the line") };
    assert!(!result.as_str().contains("bcd"));
}

#[tokio::test]
async fn failures_are_cleaned_in_all_they_say() {
    let rpc = RpcError {
        code: -32603,
        message: "no route to http://me:hunter2@db".to_owned(),
        data: Some(json(r#"{"dsn":["http://me:hunter2@db"],"n":1.0}"#)),
    };
    let server = failing(Failure::rejected(rpc).suggest("try http://me:hunter2@db"));
    let outcome = testing::call(&chain(secrets()), &some(), "{}", &server).await;
    let failure = outcome.failure().unwrap();
    assert_eq!(failure.code(), Code::ServerRejected);
    let clean = "http://me:[redacted: url-password]@db";
    assert_eq!(failure.message(), format!("no route to {clean}"));
    assert_eq!(failure.suggestion().unwrap(), format!("try {clean}"));
    let rpc = failure.rpc().unwrap();
    assert_eq!(rpc.message, format!("no route to {clean}"));
    assert_eq!(rpc.data.as_ref().unwrap().as_str(), format!(r#"{{"dsn":["{clean}"],"n":1.0}}"#));

    let both = Chain::builder().layer(ErrorResults).layer(secrets()).build().unwrap();
    let outcome = testing::call(&both, &some(), "{}", &server).await;
    assert!(!result_value(&outcome).to_string().contains("hunter2"));
}

#[tokio::test]
async fn a_page_to_open_stays_openable() {
    let data = json(r#"{"elicitations":[{"url":"http://me:hunter2@auth"}]}"#);
    let rpc = RpcError {
        code: -32042,
        message: "open http://a:bcd@e".to_owned(),
        data: Some(data.clone()),
    };
    let server = failing(Failure::rejected(rpc));
    let outcome = testing::call(&chain(secrets()), &some(), "{}", &server).await;
    let rpc = outcome.failure().unwrap().rpc().unwrap();
    assert_eq!(rpc.data.as_ref(), Some(&data));
    assert!(!rpc.message.contains("bcd"));
}

#[tokio::test]
async fn only_the_tools_that_are_named() {
    let result = r#"{"content":[{"type":"text","text":"password=x"}]}"#;
    let named = |tools: &str| layer(&format!("defaults = true\ntools = [{tools}]"));
    assert_eq!(through(named("'other/*', 'main/write'"), result).await, result);
    assert_ne!(through(named("'other/*', 'main/re*'"), result).await, result);
}

#[tokio::test]
async fn answers_to_requests_are_cleaned_and_lists_pass() {
    let server = answering(json("{}"));
    let chain = chain(layer("defaults = true\ntools = ['other/*']"));
    for (method, params, clean) in [
        ("resources/read", r#"{"contents":[{"uri":"u","text":"password=x"}]}"#, true),
        ("prompts/get", r#"{"messages":[{"content":{"type":"text","text":"password=x"}}]}"#, true),
        ("completion/complete", r#"{"values":["password=x"]}"#, true),
        ("x/unknown", r#"{"anything":{"at":["password=x"]}}"#, true),
        ("prompts/list", r#"{"prompts":[{"name":"password=x"}]}"#, false),
    ] {
        let request = Request { method: method.into(), params: Some(json(params)) };
        let answer = chain.request(&mut context(), request, &server as &dyn Endpoint).await;
        let body = answer.body.unwrap();
        assert_eq!(body.as_str().contains("password=***"), clean, "{method}");
        assert_eq!(answer.origin.is_none(), clean, "{method}");
    }
    let error = layer("defaults = true")
        .error(&json(r#"{"code":-32002,"message":"password=x","data":{"u":"password=y"}}"#));
    assert_eq!(
        error.unwrap().as_str(),
        r#"{"code":-32002,"message":"password=***","data":{"u":"password=***"}}"#
    );
}

#[test]
fn what_a_server_tells_and_asks_is_cleaned_but_for_what_the_client_acts_on() {
    let layer = layer("defaults = true\ntools = ['other/*']");
    for (told, cleaned) in [
        (
            r#"{"level":"info","data":{"a":["password=x"]}}"#,
            r#"{"level":"info","data":{"a":["password=***"]}}"#,
        ),
        (
            r#"{"progressToken":"password=x","message":"password=x"}"#,
            r#"{"progressToken":"password=x","message":"password=***"}"#,
        ),
        (
            r#"{"taskId":"password=x","statusMessage":"password=x"}"#,
            r#"{"taskId":"password=x","statusMessage":"password=***"}"#,
        ),
        (
            r#"{"taskId":"t","result":{"content":[{"type":"text","text":"password=x"}]}}"#,
            r#"{"taskId":"t","result":{"content":[{"type":"text","text":"password=***"}]}}"#,
        ),
        (
            r#"{"message":"password=x","url":"https://h/?password=x","requestedSchema":{"properties":{"a":{"title":"password=x","enum":["password=x"]}}}}"#,
            r#"{"message":"password=***","url":"https://h/?password=x","requestedSchema":{"properties":{"a":{"title":"password=***","enum":["password=x"]}}}}"#,
        ),
        (
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"password=x"}}],"systemPrompt":"password=x"}"#,
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"password=***"}}],"systemPrompt":"password=***"}"#,
        ),
    ] {
        assert_eq!(
            layer.notice("x", &json(told)),
            NotificationDecision::Changed(json(cleaned)),
            "{told}"
        );
    }
    let asked = r#"{"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"password=x"}}},"requestState":"password=x"}"#;
    let cleaned = layer.json(&json(asked), Area::Top).unwrap();
    assert_eq!(
        cleaned.as_str(),
        r#"{"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"password=***"}}},"requestState":"password=x"}"#
    );
}

#[test]
fn whatever_is_not_replaced_is_the_same_value() {
    let layer = layer("patterns = [{ pattern = 'Zz', replace = '' }]");
    let mut dice = Random::new(7);
    for _ in 0..2000 {
        let plain = dice.json(60, 4);
        let text = format!(r#"{{"structuredContent": {plain}}}"#);
        assert_eq!(layer.json(&json(text.clone()), Area::Top), None);
        // The same value with something to replace in front of each string that is no key.
        let value = json(plain.clone());
        let marked = readable::replace(&value, Area::Data, |text| Some(format!("Zz{text}")));
        let Some(marked) = marked else { continue };
        let again = layer.json(&marked, Area::Data).unwrap();
        assert_eq!(again.to_value().ok(), value.to_value().ok(), "{plain}");
    }
}

#[test]
fn it_stands_inside_of_whatever_sees_answers() {
    let limit = response_limit::ResponseLimit::new(response_limit::ResponseLimitConfig::default());
    let wrong = Chain::builder().layer(secrets()).layer(limit).build();
    assert!(
        wrong.unwrap_err().to_string().contains("`response-limit` must stand outside `sanitize`")
    );
    let wrong = Chain::builder().layer(secrets()).layer(ErrorResults).build();
    assert!(wrong.is_err());
    assert!(
        secrets()
            .order()
            .contains(&Order::Inside(audit::NAME, "nothing may see an answer before it is clean"))
    );
    assert_eq!(secrets().describe(), "replaces well-known secrets");
    assert_eq!(
        layer("defaults = true\nsecrets = true\ntools = ['a/b']").describe(),
        "replaces 2 patterns and well-known secrets in answers of a/b"
    );
}

#[test]
fn hostile_texts_take_no_longer_than_their_length() {
    for piece in
        ["eyJaaaaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "://a:", "sk-", "bearer ", "xoxb-"]
    {
        // Linear matching takes less than a second on a slow machine, quadratic matching days.
        let text = piece.repeat((4 << 20) / piece.len());
        let (send, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = secrets().rules.clean(&text);
            send.send(())
        });
        assert!(done.recv_timeout(Duration::from_mins(5)).is_ok(), "{piece}");
    }
}
