//! Whatever a server could do without a chain, it can do with one: the same session, word for word.
#![expect(deprecated, reason = "what rmcp deprecates, clients still use: set_level, subscribe")]

use std::sync::Arc;

use rmcp::{
    ServerHandler,
    model::{
        CallToolRequestParams, CancelTaskParams, ClientNotification, ClientRequest,
        CustomNotification, CustomRequest, GetPromptRequestParams, GetTaskParams, InputResponses,
        LoggingLevel, ProgressNotificationParam, ProgressToken, ReadResourceRequestParams, Request,
        RequestId, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{PeerRequestOptions, ServiceError},
};
use serde::Serialize;
use serde_json::{Value, json};
use toolgate::Chain;
use toolgate_rmcp::Governed;

use crate::{
    everything::{Everything, State},
    listener::{Line, connect, new_era, old_era, within},
    watch::looking,
};

fn spoken<T: Serialize>(answer: Result<T, ServiceError>) -> Value {
    match answer {
        Ok(result) => json!(result),
        Err(ServiceError::McpError(error)) => json!({"error": error}),
        Err(other) => json!({"other": other.to_string()}),
    }
}

/// The calls that both eras make.
async fn calls<H: ServerHandler>(line: &mut Line<H>, log: &mut Vec<Value>) {
    for (tool, arguments) in [
        ("add", json!({"a": 1, "b": 2})),
        ("meta", json!({})),
        ("report", json!({"bytes": 1000})),
        ("rename", json!({})),
        ("wipe", json!({})),
        ("silent", json!({})),
        ("fail", json!({})),
        ("reject", json!({})),
        ("visit", json!({})),
        ("picky", json!({"x": "hunter2-secret"})),
        ("add", json!({"a": "hunter2-secret"})),
        ("nonsense", json!({})),
        ("late", json!({})),
    ] {
        log.push(json!([tool, spoken(line.call(tool, arguments).await)]));
    }
    log.push(json!(["count", spoken(line.call("count", json!({})).await), line.heard(3).await]));
    log.push(spoken(within(line.client.peer().list_all_tools()).await));
}

/// The requests that both eras make.
async fn requests<H: ServerHandler>(line: &mut Line<H>, log: &mut Vec<Value>) {
    let peer = line.client.peer().clone();
    log.push(spoken(within(peer.list_all_resources()).await));
    log.push(spoken(within(peer.list_all_resource_templates()).await));
    for uri in ["mem://note", "mem://long", "mem://gone"] {
        log.push(spoken(within(peer.read_resource(ReadResourceRequestParams::new(uri))).await));
    }
    log.push(spoken(within(peer.list_all_prompts()).await));
    for name in ["hail", "gone"] {
        log.push(spoken(within(peer.get_prompt(GetPromptRequestParams::new(name))).await));
    }
    log.push(spoken(within(peer.complete_prompt_simple("hail", "who", "wor")).await));
    for params in [None, Some(json!({"n": 1e-7, "deep": [[null]]}))] {
        let custom = ClientRequest::CustomRequest(CustomRequest::new("x/custom", params));
        log.push(spoken(within(peer.send_request(custom)).await));
    }
    let get = GetTaskParams::new("t1");
    log.push(spoken(within(peer.get_task(get)).await));
    log.push(spoken(
        within(peer.update_task(UpdateTaskParams::new("t1", InputResponses::new()))).await,
    ));
    log.push(spoken(within(peer.cancel_task(CancelTaskParams::new("t1"))).await));
}

/// A call that is cancelled half way: no answer, the tool notices, the line stays up.
async fn cancelled<H: ServerHandler>(line: &Line<H>, state: &State) {
    let call = ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("wait")));
    let options = PeerRequestOptions::no_options();
    let peer = line.client.peer();
    let handle = within(peer.send_cancellable_request(call, options)).await.unwrap();
    within(state.waiting.acquire()).await.unwrap().forget();
    within(handle.cancel(Some("enough".into()))).await.unwrap();
    within(state.stopped.acquire_many(2)).await.unwrap().forget();
    line.tools().await;
}

async fn told(state: &State, count: usize) -> Value {
    let mut changes = state.told.subscribe();
    let told = within(changes.wait_for(|told| told.len() >= count)).await.unwrap();
    let mut told = told.clone();
    told.sort();
    json!(told)
}

async fn old_session<H: ServerHandler>(handler: H, state: Arc<State>) -> Vec<Value> {
    let mut line = connect(handler, old_era()).await;
    let mut log = vec![json!(*line.client.peer_info().unwrap())];
    let peer = line.client.peer().clone();
    calls(&mut line, &mut log).await;
    log.push(spoken(line.call("ask", json!({})).await));
    log.push(spoken(line.call("consult", json!({})).await));
    log.push(json!(["greet", spoken(line.call("greet", json!({})).await)]));
    log.push(spoken(line.call("log", json!({})).await));
    log.push(line.heard(1).await);
    requests(&mut line, &mut log).await;

    log.push(spoken(within(peer.subscribe(SubscribeRequestParams::new("mem://note"))).await));
    log.push(line.heard(1).await);
    log.push(spoken(within(peer.unsubscribe(UnsubscribeRequestParams::new("mem://note"))).await));
    log.push(spoken(within(peer.set_level(SetLevelRequestParams::new(LoggingLevel::Error))).await));
    let ping = ClientRequest::PingRequest(rmcp::model::PingRequest {
        method: rmcp::model::PingRequestMethod,
        extensions: rmcp::model::Extensions::default(),
    });
    log.push(spoken(within(peer.send_request(ping)).await));

    cancelled(&line, &state).await;
    log.push(spoken(line.call("grow", json!({})).await));
    log.push(line.heard(1).await);
    log.push(json!([line.tools().await, spoken(line.call("late", json!({})).await)]));

    let token = ProgressToken(RequestId::Number(9));
    within(peer.notify_progress(ProgressNotificationParam::new(token, 0.5))).await.unwrap();
    within(peer.notify_roots_list_changed()).await.unwrap();
    let custom = CustomNotification::new("x/told", None);
    let custom = ClientNotification::CustomNotification(custom);
    within(peer.send_notification(custom)).await.unwrap();
    log.push(told(&state, 8).await);
    line.hang_up().await;
    log
}

async fn new_session<H: ServerHandler>(handler: H, state: Arc<State>) -> Vec<Value> {
    let mut line = connect(handler, new_era()).await;
    let mut log = vec![json!(*line.client.peer_info().unwrap())];
    calls(&mut line, &mut log).await;
    // rmcp's client answers the input request and calls again.
    log.push(json!(["greet", spoken(line.call("greet", json!({})).await)]));
    log.push(json!(["odd", spoken(line.call("odd", json!({})).await)]));
    log.push(json!(["ask", spoken(line.call("ask", json!({})).await)]));
    requests(&mut line, &mut log).await;
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed = Some(true);
    let mut subscription = within(line.client.peer().listen(filter)).await.unwrap();
    log.push(json!(format!("{:?}", subscription.acknowledged())));
    let mut changes = Vec::new();
    while let Some(change) = within(subscription.next()).await.unwrap() {
        changes.push(json!(change)["method"].clone());
    }
    log.push(json!(changes));
    cancelled(&line, &state).await;
    line.hang_up().await;
    log
}

#[tokio::test]
async fn an_old_session_is_the_same_with_and_without_a_chain() {
    let bare = Everything::default();
    let expected = old_session(bare.clone(), bare.0).await;

    let inner = Everything::default();
    let empty = Governed::new(inner.clone(), Chain::builder().build().unwrap());
    assert_eq!(old_session(empty, inner.0).await, expected);

    let (inner, (chain, watch)) = (Everything::default(), looking());
    let governed = Governed::new(inner.clone(), chain);
    assert_eq!(old_session(governed, inner.0).await, expected);
    let everything = [
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/call",
        "tools/list",
        "x/custom",
    ];
    assert_eq!(watch.seen(), everything);
}

#[tokio::test]
async fn a_new_session_is_the_same_with_and_without_a_chain() {
    let bare = Everything::default();
    let expected = new_session(bare.clone(), bare.0).await;
    let greeted = expected.iter().find(|entry| entry[0] == "greet").unwrap();
    assert_eq!(greeted[1]["content"][0]["text"], "first \"round\"\n: \"Ferris\"");

    let (inner, (chain, watch)) = (Everything::default(), looking());
    let governed = Governed::new(inner.clone(), chain);
    assert_eq!(new_session(governed, inner.0).await, expected);
    assert!(watch.seen().contains(&"server/discover".to_owned()));
}
