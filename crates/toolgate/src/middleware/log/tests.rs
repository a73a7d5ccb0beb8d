//! Log: one record for each call, whatever becomes of it, and no secret in any of them.

mod queue;
mod secrets;

use super::*;
use crate::{
    Chain, Class, Code, Endpoint, Failure, Tier, ToolResult,
    middleware::{
        audit::{OnFull, RedactConfig, Redactor},
        error_results::ErrorResults,
        safety::Safety,
    },
    testing::{self, HangingServer, answering, client, context, failing, json, tool},
};

/// A sink with the queue that its records come out of.
struct LogRecorder {
    sink: LogSink,
    queue: LogQueue,
}

impl LogRecorder {
    fn new(config: &LogConfig) -> Self {
        let redactor = Redactor::new(&RedactConfig::default()).unwrap();
        let (sink, queue) = LogSink::channel(config, redactor);
        Self { sink, queue }
    }

    fn chain(&self) -> Chain {
        testing::chain(Log::new(self.sink.clone()))
    }

    /// All records, once no more can come.
    async fn records(mut self) -> Vec<CallRecord> {
        self.sink.close();
        let mut all = Vec::new();
        while let Some(records) = self.queue.next_batch(7).await {
            all.extend(records);
        }
        all
    }

    async fn record(self) -> CallRecord {
        let mut records = self.records().await;
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }
}

/// The record of one call with these arguments that ends at `end`.
async fn logged(config: &LogConfig, arguments: &str, end: &dyn Endpoint) -> CallRecord {
    let kept = LogRecorder::new(config);
    testing::call(&kept.chain(), &tool("t", None), arguments, end).await;
    kept.record().await
}

#[tokio::test]
async fn a_call_leaves_one_record_with_all_that_is_known_of_it() {
    let kept = LogRecorder::new(&LogConfig::default());
    let mut cx =
        context().with_client(client("refbench", "1.0")).with_parent(Some("parent-1".into()));
    let id = cx.call_id().to_string();
    let arguments = json(r#"{"pane_id":"%1","keys":"hello","enter":true}"#);
    let call = Call::new(tool("send_keys", Tier::Mutating), Some(arguments));
    let server = answering(json(r#"{"content":[{"type":"text","text":"done"}]}"#));
    let before = jiff::Timestamp::now().as_microsecond();
    kept.chain().call(&mut cx, call.with_wire_name("type"), &server).await;

    let mut record = kept.record().await;
    assert!((before..before + 60_000_000).contains(&record.at_us));
    (record.at_us, record.duration_us) = (0, 0);
    let hidden = r#"{"len":5,"sha256_prefix":"2cf24dba5fb0"}"#;
    let expected = CallRecord {
        id,
        parent: Some("parent-1".to_owned()),
        session: "s-1".to_owned(),
        principal: "local:me".to_owned(),
        namespace: "default".to_owned(),
        client: Some("refbench 1.0".to_owned()),
        server: Some("main".to_owned()),
        tool: Some("send_keys".to_owned()),
        wire_name: Some("type".to_owned()),
        outcome: "ok".to_owned(),
        ran: "yes".to_owned(),
        arguments_bytes: Some(44),
        result_bytes: Some(43),
        ..CallRecord::default()
    };
    // The order of members hangs on a feature of serde_json that another crate may switch on.
    let value = |text: Option<String>| -> serde_json::Value {
        serde_json::from_str(&text.unwrap_or_default()).unwrap()
    };
    let arguments = format!(r#"{{"enter":true,"keys":{hidden},"pane_id":"%1"}}"#);
    assert_eq!(value(record.arguments.take()), value(Some(arguments)));
    let result = r#"{"content":[{"text":"done","type":"text"}]}"#.to_owned();
    assert_eq!(value(record.result.take()), value(Some(result)));
    assert_eq!(record, expected);
}

#[tokio::test]
async fn a_record_says_how_the_call_ended() {
    let config = LogConfig::default();
    // What says `isError` is no success, and a refusal is none either (bugs 2 of metamcp).
    let failed =
        answering(json(r#"{"content":[{"type":"text","text":"no file"}],"isError":true}"#));
    let record = logged(&config, "{}", &failed).await;
    assert_eq!((&*record.outcome, &*record.ran, record.code), ("tool_error", "yes", None));
    assert!(record.result.unwrap().contains("no file"));

    let denied = Failure::new(Code::PolicyDenied, "not for you").by("policy", "team/deny/1");
    let record = logged(&config, "{}", &failing(denied)).await;
    assert_eq!((&*record.outcome, &*record.ran), ("denied", "no"));
    assert_eq!(record.code.as_deref(), Some("POLICY_DENIED"));
    assert_eq!(record.decided_by.as_deref(), Some("policy"));
    assert_eq!(record.rule.as_deref(), Some("team/deny/1"));
    assert_eq!((record.error.as_deref(), record.error_bytes), (Some("not for you"), Some(11)));

    for (code, outcome) in [(Code::TimedOut, "timed_out"), (Code::ServerCrashed, "upstream_failed")]
    {
        let record = logged(&config, "{}", &failing(Failure::new(code, "x"))).await;
        assert_eq!((&*record.outcome, &*record.ran), (outcome, "maybe"));
    }
}

#[tokio::test]
async fn it_sees_the_outcome_and_not_how_it_is_told() {
    let kept = LogRecorder::new(&LogConfig::default());
    let chain = Chain::builder().layer(ErrorResults).layer(Log::new(kept.sink.clone()));
    let chain = chain.layer(Safety::new(Tier::Readonly)).build().unwrap();
    let server = answering(json("{}"));
    let outcome = testing::call(&chain, &tool("rm", Tier::Destructive), "{}", &server).await;
    assert_eq!((outcome.class(), server.calls()), (Class::Denied, 0));
    let record = kept.record().await;
    assert_eq!((&*record.outcome, record.decided_by.as_deref()), ("denied", Some("safety")));
    assert_eq!(record.result, None);
}

#[test]
fn an_order_in_which_it_would_miss_calls_is_refused() {
    let kept = LogRecorder::new(&LogConfig::default());
    let log = || Log::new(kept.sink.clone());
    let wrong = Chain::builder().layer(Safety::new(Tier::Readonly)).layer(log()).build();
    assert!(wrong.unwrap_err().to_string().contains("calls that are refused are logged too"));
    assert!(Chain::builder().layer(log()).layer(ErrorResults).build().is_err());
}

#[tokio::test]
async fn nested_calls_link_to_the_call_that_they_are_part_of() {
    let kept = LogRecorder::new(&LogConfig::default());
    let server = answering(json("{}"));
    let mut outer = context();
    let mut inner = outer.nested();
    for cx in [&mut outer, &mut inner] {
        kept.chain().call(cx, Call::new(tool("t", None), None), &server).await;
    }
    let records = kept.records().await;
    assert_eq!(records[1].parent.as_ref(), Some(&records[0].id));
    assert_ne!(records[1].id, records[0].id);
}

#[tokio::test]
async fn listings_are_recorded_if_that_is_asked_for() {
    for listings in [false, true] {
        let kept = LogRecorder::new(&LogConfig { listings, ..LogConfig::default() });
        assert_eq!(kept.chain().sees_listings(), listings);
        let mut server = answering(json("{}"));
        server.tools = vec![tool("a", None), tool("b", None)];
        kept.chain().list(&mut context(), Listing::default(), &server).await.unwrap();
        let records = kept.records().await;
        assert_eq!(records.len(), usize::from(listings));
        for record in records {
            assert_eq!((record.kind, &*record.outcome), (RecordKind::Listing, "ok"));
            assert_eq!((record.tool, record.server), (None, None));
            assert_eq!(record.result.as_deref(), Some(r#"{"tools":2}"#));
        }
    }
}

#[tokio::test]
async fn results_are_cut_and_their_sizes_are_told() {
    let config = LogConfig { result_bytes: 100, ..LogConfig::default() };
    let text = "\"é".repeat(5000);
    let picture = "A".repeat(5000);
    let blocks = serde_json::json!({
        "content": [
            {"type": "text", "text": text},
            {"type": "image", "mimeType": "image/png", "data": picture},
            {"type": "resource", "resource": {"uri": "file:///x", "blob": picture}},
        ],
        "structuredContent": {"rows": vec!["row"; 90]},
    });
    let server = answering(toolgate_wire::Json::value(&blocks));
    let record = logged(&config, "{}", &server).await;
    assert_eq!(record.result_bytes, Some(blocks.to_string().len() as u64));
    let result = record.result.unwrap();
    assert!(result.len() < 700, "{}: {result}", result.len());
    let told: serde_json::Value = serde_json::from_str(&result).unwrap();
    let text = told["content"][0]["text"].as_str().unwrap();
    let kept = text.strip_suffix("...<truncated>").unwrap();
    assert!(kept.len() > 50 && "\"é".repeat(1000).starts_with(kept), "{text}");
    assert_eq!(told["content"][1]["data"]["len"], 5000);
    assert_eq!(told["content"][2]["resource"]["blob"]["len"], 5000);
    assert_eq!(told["structuredContent"]["left_out"], true);

    let failure = Failure::tool("Odd", "x".repeat(5000));
    let record = logged(&config, "{}", &failing(failure)).await;
    assert_eq!(record.error, Some(format!("{}...<truncated>", "x".repeat(100))));
    assert_eq!(record.error_bytes, Some(5000));
}

#[tokio::test]
async fn results_are_left_out_if_that_is_asked_for() {
    let config = LogConfig { results: false, ..LogConfig::default() };
    let record = logged(&config, "{}", &answering(json(r#"{"content":[]}"#))).await;
    assert_eq!((record.result, record.result_bytes), (None, Some(14)));
    let record = logged(&config, "{}", &failing(Failure::tool("Odd", "quotes anything"))).await;
    assert_eq!((record.error, record.error_bytes), (None, Some(15)));
    let ours = Failure::new(Code::TierDenied, "not at this tier").by("safety", "tier");
    let record = logged(&config, "{}", &failing(ours)).await;
    assert_eq!(record.error.as_deref(), Some("not at this tier"));
}

#[tokio::test]
async fn a_record_can_be_written_as_json_and_read_again() {
    let server = answering(json(r#"{"content":[],"structuredContent":{"n":1.50}}"#));
    let record = logged(&LogConfig::default(), r#"{"a":[1,null]}"#, &server).await;
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<CallRecord>(&text).unwrap(), record);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["event"], "call");
    assert_eq!(value["arguments"], serde_json::json!({"a": [1, null]}));
    assert_eq!(value["ts"].as_str().unwrap().len(), "2026-01-31T12:00:00.000000Z".len());
    assert!(value.get("error").is_none());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let read = |text: &str| toml::from_str::<LogConfig>(text);
    assert_eq!(read("").unwrap(), LogConfig::default());
    let config = read("results = false\non_full = \"drop\"\nkeep_days = 0").unwrap();
    assert_eq!((config.results, config.on_full, config.keep_days), (false, OnFull::Drop, 0));
    for wrong in ["queue = 0", "keep = 3", "result_bytes = -1", "on_full = \"block\""] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
