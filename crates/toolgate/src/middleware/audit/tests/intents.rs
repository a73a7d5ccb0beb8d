//! Intents: written before the tool runs, once for each call that may change something.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;
use crate::middleware::{overrides, timeout::Timeout};

/// A chain with both layers, and something between them and the tool.
fn chain_of(sink: &AuditSink) -> Chain {
    let chain = Chain::builder().layer(Audit::new(sink.clone()));
    chain.layer(AuditIntent::new(sink.clone())).build().unwrap()
}

fn config(intents: Intents) -> AuditConfig {
    AuditConfig { intents, ..AuditConfig::default() }
}

/// A sink whose lines are kept, with this config.
fn kept(config: &AuditConfig) -> AuditRecorder {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let sink = AuditSink::probe(config, move |lines| {
        kept.lock().unwrap().extend_from_slice(lines);
        Ok(())
    });
    AuditRecorder { sink, lines }
}

fn events(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["event"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_intent_is_written_before_the_tool_runs() {
    let kept = kept(&config(Intents::Mutating));
    let lines = Arc::clone(&kept.lines);
    let server = ScriptedServer::new(move |_| {
        let there = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert_eq!(events(&parse(&there)), ["intent"]);
        ToolResult::new(json("{}")).into()
    });
    let arguments = r#"{"keys":"s3cret","pane":"%1"}"#;
    testing::call(&chain_of(&kept.sink), &tool("t", Tier::Mutating), arguments, &server).await;
    assert_eq!(server.calls(), 1);
    let records = kept.records();
    assert_eq!(events(&records), ["intent", "call"]);
    let (intent, call) = (&records[0], &records[1]);
    assert_eq!(intent["call_id"], call["call_id"]);
    assert_eq!(intent["args"]["keys"]["len"], 6);
    assert_eq!((&intent["principal"], &intent["tool"]), (&"local:me".into(), &"t".into()));
    assert!(intent.get("outcome").is_none() && intent.get("kind").is_none());
    assert_eq!((&call["intent"], call.get("args")), (&true.into(), None));
}

#[tokio::test]
async fn which_calls_have_one_is_a_setting() {
    for (config, with) in [
        (config(Intents::Mutating), vec![false, true, true, true]),
        (config(Intents::All), vec![true; 4]),
        (config(Intents::Off), vec![false; 4]),
        (
            AuditConfig { record: vec![AuditKind::Decisions], ..config(Intents::All) },
            vec![false; 4],
        ),
    ] {
        let tiers = [Some(Tier::Readonly), Some(Tier::Mutating), Some(Tier::Destructive), None];
        for (tier, with) in tiers.into_iter().zip(with) {
            let kept = kept(&config);
            let server = answering(json("{}"));
            testing::call(&chain_of(&kept.sink), &tool("t", tier), "{}", &server).await;
            let has = events(&kept.records()).contains(&"intent");
            assert_eq!(has, with, "{tier:?} {config:?}");
        }
    }
}

#[tokio::test]
async fn what_is_recorded_is_a_setting_and_what_began_has_an_end() {
    for (record, expected) in [
        (vec![AuditKind::Executions], ["call ok", "intent", "call upstream_failed"].as_slice()),
        (vec![AuditKind::Decisions], &["call denied", "call upstream_failed"]),
    ] {
        let kept = kept(&AuditConfig { record, ..AuditConfig::default() });
        let chain = Chain::builder().layer(Audit::new(kept.sink.clone()));
        let chain = chain.layer(Safety::new(Tier::Mutating));
        let chain = chain.layer(AuditIntent::new(kept.sink.clone())).build().unwrap();
        let server = answering(json("{}"));
        testing::call(&chain, &tool("t", Tier::Readonly), "{}", &server).await;
        testing::call(&chain, &tool("t", Tier::Destructive), "{}", &server).await;
        let down = failing(Failure::new(Code::ServerUnavailable, "down"));
        testing::call(&chain, &tool("t", Tier::Mutating), "{}", &down).await;
        let records = kept.records();
        let told = records.iter().map(|record| {
            let outcome = record["outcome"].as_str().map(|outcome| format!(" {outcome}"));
            format!("{}{}", record["event"].as_str().unwrap(), outcome.unwrap_or_default())
        });
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn however_a_call_ends_it_has_one_intent_and_one_outcome() {
    let kept = kept(&AuditConfig::default());
    let chain = Chain::builder().layer(Audit::new(kept.sink.clone()));
    let chain = chain.layer(AuditIntent::new(kept.sink.clone()));
    let chain = chain.layer(Timeout::new(Duration::from_millis(5))).build().unwrap();
    let mutating = tool("t", Tier::Mutating);
    // It takes too long.
    testing::call(&chain, &mutating, "{}", &HangingServer::default()).await;
    // It is given up.
    let (never, hanging) = (chain_of(&kept.sink), HangingServer::default());
    tokio::select! {
        biased;
        _ = testing::call(&never, &mutating, "{}", &hanging) => panic!("it hangs"),
        () = hanging.called.notified() => {}
    }
    // It panics.
    let (panicking, sink_chain) =
        (ScriptedServer::new(|_| panic!("on purpose")), chain_of(&kept.sink));
    let tool = Arc::clone(&mutating);
    let ended =
        tokio::spawn(async move { testing::call(&sink_chain, &tool, "{}", &panicking).await });
    assert!(ended.await.unwrap_err().is_panic());
    let records = kept.records();
    assert_eq!(events(&records), ["intent", "call", "intent", "call", "intent", "call"]);
    let outcomes: Vec<&Value> = records.iter().map(|record| &record["outcome"]).collect();
    assert_eq!(
        (outcomes[1], outcomes[3], outcomes[5]),
        (&"timed_out".into(), &"cancelled".into(), &"cancelled".into())
    );
    for pair in records.chunks(2) {
        assert_eq!((&pair[0]["call_id"], &pair[1]["intent"]), (&pair[1]["call_id"], &true.into()));
    }
}

/// A sink that fails as long as it is told to.
fn failing_sink(config: &AuditConfig) -> (AuditSink, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&fails);
    let sink = AuditSink::probe(config, move |_| {
        let fails = told.load(Ordering::SeqCst);
        if fails { Err(io::Error::other("broken on purpose")) } else { Ok(()) }
    });
    (sink, fails)
}

#[tokio::test]
async fn without_a_record_a_call_runs_unless_one_is_required() {
    for (required, tier, code) in [
        (false, Tier::Mutating, None),
        (true, Tier::Mutating, Some(Code::AuditUnavailable)),
        (true, Tier::Readonly, Some(Code::AuditUnavailable)),
    ] {
        let (sink, fails) = failing_sink(&AuditConfig { required, ..AuditConfig::default() });
        let (chain, server) = (chain_of(&sink), answering(json("{}")));
        let outcome = testing::call(&chain, &tool("t", tier), "{}", &server).await;
        assert_eq!(outcome.code(), code);
        assert_eq!(server.calls(), usize::from(code.is_none()));
        assert!(sink.counts().lost() > 0);
        fails.store(false, Ordering::SeqCst);
        let outcome = testing::call(&chain, &tool("t", tier), "{}", &server).await;
        assert!(outcome.failure().is_none(), "it works again");
        sink.close(TEST_TIMEOUT);
        let outcome = testing::call(&chain, &tool("t", tier), "{}", &server).await;
        assert_eq!(outcome.code(), code, "a closed sink writes nothing");
    }
}

#[tokio::test]
async fn a_sink_that_fails_after_the_tool_ran_changes_nothing() {
    let (sink, fails) = failing_sink(&AuditConfig { required: true, ..AuditConfig::default() });
    fails.store(false, Ordering::SeqCst);
    let told = Arc::clone(&fails);
    let server = ScriptedServer::new(move |_| {
        told.store(true, Ordering::SeqCst);
        ToolResult::new(json(r#"{"content":[]}"#)).into()
    });
    let outcome = testing::call(&chain_of(&sink), &tool("t", Tier::Mutating), "{}", &server).await;
    assert_eq!((outcome.failure().is_none(), server.calls()), (true, 1));
    sink.close(TEST_TIMEOUT);
    assert_eq!((sink.counts().written(), sink.counts().lost()), (1, 1));
}

#[tokio::test]
async fn the_writer_does_not_dawdle_when_a_call_waits_for_it() {
    // It would wait for further records for longer than any test may take.
    let sink = AuditSink::slow_probe(&AuditConfig::default(), TEST_TIMEOUT * 100, |_| Ok(()));
    let (chain, server) = (chain_of(&sink), answering(json("{}")));
    let (readonly, mutating) = (tool("t", Tier::Readonly), tool("t", Tier::Mutating));
    let calls = async {
        for _ in 0..50 {
            // Its record makes the writer wait, just when the intent comes.
            testing::call(&chain, &readonly, "{}", &server).await;
            testing::call(&chain, &mutating, "{}", &server).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, calls).await.expect("somebody waits for nothing");
    sink.close(TEST_TIMEOUT);
    assert_eq!(sink.counts().written(), 150);
}

#[tokio::test]
async fn many_intents_share_one_write() {
    let writes = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&writes);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let sink = AuditSink::probe(&AuditConfig::default(), move |lines| {
        told.lock().unwrap().push(parse(&String::from_utf8_lossy(lines)).len());
        let _ = released.recv_timeout(TEST_TIMEOUT);
        Ok(())
    });
    let (chain, server) = (chain_of(&sink), answering(json("{}")));
    let mutating = tool("t", Tier::Mutating);
    let mut calls: Vec<_> =
        (0..10).map(|_| Box::pin(testing::call(&chain, &mutating, "{}", &server))).collect();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(calls[0].as_mut().poll(&mut cx).is_pending());
    while writes.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    // The writer is at the first one; the others come.
    for call in &mut calls[1..] {
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    drop(release);
    for call in calls {
        call.await;
    }
    let writes = writes.lock().unwrap();
    // With them, perhaps, how the first one ended.
    assert!(writes[0] == 1 && writes[1] >= 9, "{writes:?}");
    assert_eq!(server.calls(), 10);
}

#[tokio::test]
async fn what_operators_fill_in_is_in_no_record() {
    let kept = kept(&AuditConfig::default());
    let set = crate::settings::ToolSettings {
        hidden: [("region".to_owned(), "eu-hidden".into())].into(),
        ..Default::default()
    };
    let settings =
        Settings { tools: vec![("main/t".parse().unwrap(), set)], ..Settings::default() };
    let changed = overrides::Overrides::new(settings.overrides().unwrap()).unwrap();
    let chain = Chain::builder().layer(Audit::new(kept.sink.clone()));
    let chain =
        chain.layer(overrides::OverrideTools::new(overrides::CurrentOverrides::new(changed)));
    let chain = chain.layer(AuditIntent::new(kept.sink.clone())).build().unwrap();
    let server = answering(json("{}"));
    testing::call(&chain, &tool("t", Tier::Mutating), r#"{"path":"a"}"#, &server).await;
    let text = kept.text();
    assert_eq!(parse(&text)[0]["args"], serde_json::json!({"path": "a"}));
    assert!(!text.contains("eu-hidden"), "{text}");
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    for (config, why) in [
        (AuditConfig { record: Vec::new(), ..AuditConfig::default() }, "nothing would be recorded"),
        (AuditConfig { required: true, ..AuditConfig::default() }, "needs an `audit.file`"),
        (
            AuditConfig {
                required: true,
                record: vec![AuditKind::Decisions],
                ..AuditConfig::default()
            },
            "needs `executions`",
        ),
    ] {
        let refused = AuditSink::open(&config, &RedactConfig::default()).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
