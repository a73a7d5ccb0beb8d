//! What the audit says of a call.

use std::{fs, path::Path, time::Duration};

use rmcp::{
    ClientLifecycleMode,
    model::{CallToolRequestParams, ClientRequest, Request},
    service::PeerRequestOptions,
};
use serde_json::{Value, json};
use toolgate::{
    Principal, Tier,
    middleware::audit::{AuditConfig, Target},
    settings::Settings,
    stack,
};
use toolgate_rmcp::Governed;

use crate::{
    everything::Everything,
    listener::{connect, new_era, old_era, within},
};

fn settings(file: &Path) -> Settings {
    Settings::with(|settings| {
        settings.safety = Some(Tier::Readonly);
        settings.audit = AuditConfig::with(|config| config.file = Target::File(file.to_owned()));
    })
}

fn records(file: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(file).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["event"] == "call").collect()
}

async fn session(era: ClientLifecycleMode) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let stack = stack::build(&settings(&file)).unwrap();
    let inner = Everything::default();
    let governed = Governed::new(inner.clone(), stack.chain)
        .server_name("all")
        .namespace("dev")
        .session_id("s-1")
        .principal_of(|context| match context.meta.get("who").and_then(Value::as_str) {
            // For this test only: who calls is never to be read from `_meta`.
            Some(who) => Principal::Key(who.into()),
            None => Principal::Anonymous,
        });
    let line = connect(governed, era).await;
    line.result("add", json!({"a": 1, "b": 2, "token": "hunter2"})).await;
    line.result("wipe", json!({})).await;
    line.result("panic", json!({})).await;

    let call = ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("wait")));
    let mut options = PeerRequestOptions::no_options();
    let meta = json!({"parent_call_uuid": "p-1", "who": "k-7"});
    options.meta = Some(serde_json::from_value(meta).unwrap());
    let peer = line.client.peer();
    let handle = within(peer.send_cancellable_request(call, options)).await.unwrap();
    within(inner.0.waiting.acquire()).await.unwrap().forget();
    within(handle.cancel(None)).await.unwrap();
    within(inner.0.stopped.acquire_many(2)).await.unwrap().forget();
    line.hang_up().await;
    stack.audit.unwrap().close(Duration::from_secs(10));
    records(&file)
}

fn check(records: &[Value]) {
    let [misfit, denied, panicked, cancelled] = records else { panic!("{records:#?}") };
    for record in records {
        assert_eq!(record["client"], "listener 1.2", "{record}");
        assert_eq!((&record["server"], &record["namespace"]), (&json!("all"), &json!("dev")));
        assert_eq!(record["session"], "s-1");
        assert!(record["request_id"].is_number(), "{record}");
        assert!(!record.to_string().contains("hunter2"), "{record}");
    }
    assert_eq!((&misfit["tool"], &misfit["outcome"]), (&json!("add"), &json!("denied")));
    assert_eq!((&misfit["code"], &misfit["ran"]), (&json!("INVALID_ARGUMENTS"), &json!("no")));
    assert_eq!(misfit["tier"], "readonly");
    assert_eq!((&denied["tool"], &denied["code"]), (&json!("wipe"), &json!("TIER_DENIED")));
    assert_eq!((&panicked["outcome"], &panicked["ran"]), (&json!("internal"), &json!("maybe")));
    assert_eq!(cancelled["outcome"], "cancelled");
    assert_eq!(cancelled["parent_call_uuid"], "p-1");
    assert_eq!(cancelled["principal"], "key:k-7");
    assert_eq!(misfit["principal"], "anonymous");
    let ids: Vec<_> = records.iter().map(|record| record["request_id"].as_i64()).collect();
    assert!(ids.is_sorted() && ids[0] < ids[3], "{ids:?}");
}

#[tokio::test]
async fn every_call_has_its_record_in_the_old_era() {
    check(&session(old_era()).await);
}

#[tokio::test]
async fn every_call_has_its_record_in_the_new_era() {
    check(&session(new_era()).await);
}

#[tokio::test]
async fn a_call_that_ran_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let stack = stack::build(&settings(&file)).unwrap();
    let governed = Governed::new(Everything::default(), stack.chain)
        .principal(Principal::Subject("ann".into()));
    let line = connect(governed, old_era()).await;
    line.result("add", json!({"a": 1, "b": 2})).await;
    line.result("fail", json!({})).await;
    line.hang_up().await;
    stack.audit.unwrap().close(Duration::from_secs(10));
    let records = records(&file);
    assert_eq!((&records[0]["outcome"], &records[0]["ran"]), (&json!("ok"), &json!("yes")));
    assert_eq!(records[0]["principal"], "subject:ann");
    assert_eq!(records[0]["args"], json!({"a": 1, "b": 2}));
    assert_eq!(records[1]["outcome"], "tool_error");
}
