//! Streams of the gateway: told once, taken up again where they broke off, and ended in order.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{
    clients::{Legacy, Pending, either::Either},
    gateway::{Gateway, stdio, until, until_or},
    governed::code,
    http::{self, Next},
    text,
    upstream::{Era, Fault, Upstream},
};

fn vendor(n: usize) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/vendor", "params": {"n": n}}).to_string()
}

fn number(message: &Value) -> u64 {
    message["params"]["n"].as_u64().unwrap()
}

#[test]
fn of_several_streams_of_a_session_one_gets_each_message() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    server.until("the gateway listens", |server| server.streams() > 0);
    let client = gateway.legacy();
    let mut streams: Vec<Pending> = (0..3).map(|_| client.listen()).collect();
    (0..10).for_each(|n| server.say_raw(&vendor(n)));
    let mut heard = Vec::new();
    until_or(
        || {
            for stream in &mut streams {
                stream.so_far();
                heard.extend(stream.seen.drain(..).map(|message| number(&message)));
            }
            heard.len() >= 10
        },
        || "ten messages".to_owned(),
    );
    // Whatever would come twice has come by the time that a call is answered.
    client.call("echo", json!({"text": "x"}));
    for stream in &mut streams {
        stream.so_far();
        heard.extend(stream.seen.drain(..).map(|message| number(&message)));
    }
    heard.sort_unstable();
    assert_eq!(heard, (0..10).collect::<Vec<_>>());
}

#[test]
fn what_came_while_nobody_listened_is_there_when_somebody_does() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    server.until("the gateway listens", |server| server.streams() > 0);
    let client = gateway.legacy();
    let headers: Vec<(&str, &str)> = vec![("Accept", "text/event-stream")];
    let mut first = client.exchange("GET", &headers, "");
    assert_eq!(first.status, 200);
    (0..3).for_each(|n| server.say_raw(&vendor(n)));
    let mut last = None;
    for n in 0..3 {
        let Next::Event(event) = first.next(Duration::from_secs(10)) else {
            panic!("no event {n}")
        };
        assert_eq!(number(&serde_json::from_str(&event.data).unwrap()), n);
        last = event.id.or(last);
    }
    http::hang_up(&first.breaker());
    drop(first);
    let before = server.count("tools/call");
    (3..6).for_each(|n| server.say_raw(&vendor(n)));
    // By now the gateway has them: they came before this answer.
    client.call("echo", json!({"text": "x"}));
    assert_eq!(server.count("tools/call"), before + 1);
    let Some(last) = last else {
        // Without ids nothing can be promised but what comes from now on.
        return;
    };
    let mut again =
        client.exchange("GET", &[("Accept", "text/event-stream"), ("Last-Event-ID", &last)], "");
    assert_eq!(again.status, 200);
    for n in 3..6 {
        let Next::Event(event) = again.next(Duration::from_secs(10)) else {
            panic!("no event {n}")
        };
        assert_eq!(number(&serde_json::from_str(&event.data).unwrap()), n);
    }
}

#[test]
fn another_sessions_events_cannot_be_fetched() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let (mine, other) = (gateway.legacy(), gateway.legacy());
    let mut stream = mine.exchange("GET", &[("Accept", "text/event-stream")], "");
    server.until("the gateway listens", |server| server.streams() > 0);
    server.say_raw(&vendor(1));
    let Next::Event(event) = stream.next(Duration::from_secs(10)) else { panic!("no event") };
    // The other one has its own copy of it, and gets nothing of mine by naming my event.
    let Some(id) = event.id else { return };
    let mut others =
        other.exchange("GET", &[("Accept", "text/event-stream"), ("Last-Event-ID", &id)], "");
    server.say_raw(&vendor(2));
    let mut heard = Vec::new();
    while !heard.contains(&2) {
        let Next::Event(event) = others.next(Duration::from_secs(10)) else {
            panic!("no event: {heard:?}")
        };
        heard.push(number(&serde_json::from_str(&event.data).unwrap()));
    }
    assert!(heard == [2] || heard == [1, 2], "{heard:?}");
}

#[test]
fn a_stream_of_a_server_that_ends_early_is_fetched_or_failed_and_never_repeated() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    for client in gateway.both() {
        let key = client.era();
        server.fail("tools/call:write", Fault::Poll, 1);
        let answer = client.call("write", json!({"key": key}));
        assert_eq!(text(&answer), format!("alpha:write:{key}"), "{}", answer.raw);
        assert_eq!(server.executions("write", key), 1);
        server.fail("tools/call:write", Fault::NoAnswer, 1);
        let answer = client.call("write", json!({"key": key}));
        assert!(["SERVER_CRASHED", "SERVER_PROTOCOL"].contains(&code(&answer)), "{}", answer.raw);
        assert_eq!(server.executions("write", key), 2);
    }
}

#[test]
fn two_requests_of_one_id_get_their_own_answers() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("{}{}", server.table(""), stdio("pipes", &[], "")));
    gateway.settled(28);
    let clients = [gateway.legacy(), gateway.legacy()];
    let body = |tool: &str, key: &str| {
        let params = json!({"name": tool, "arguments": {"key": key, "text": key}});
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).to_string()
    };
    // Of two sessions, at the same time.
    let mut slow =
        clients[0].open("tools/call", json!({"name": "slow", "arguments": {"key": "a"}}));
    server.wait_for_call("a");
    let id = slow.id.clone();
    let same = |tool: &str, key: &str| body(tool, key).replace("\"id\":5", &format!("\"id\":{id}"));
    let (status, answer) = clients[1].raw(&same("alpha__echo", "mine"));
    assert_eq!((status, text(&answer.unwrap())), (200, "mine"));
    let (status, answer) = clients[1].raw(&same("pipes__echo", "mine too"));
    assert_eq!((status, text(&answer.unwrap())), (200, "mine too"));
    // Of one session: each post has its own answer, or the second is refused.
    let (_, answer) = clients[0].raw(&same("alpha__echo", "again"));
    let answer = answer.unwrap();
    assert!(answer.get("error").is_some() || text(&answer) == "again", "{}", answer.raw);
    server.release("a");
    assert_eq!(text(&slow.answer()), "alpha:slow:a");
}

#[test]
fn questions_on_a_servers_own_stream_find_the_only_call() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    server.until("the gateway listens", |server| server.streams() > 0);
    let blue = json!({"action": "accept", "content": {"color": "blue"}});
    let able = json!({"elicitation": {"form": {}}});
    let answer = blue.clone();
    let legacy = Legacy::new(gateway.address, "/mcp")
        .able(able.clone(), move |_| answer.clone())
        .connected();
    let told = legacy.call("elicit", json!({"aside": true}));
    assert!(text(&told).contains("blue"), "{}", told.raw);
    let modern = gateway.modern().able(able);
    let (rounds, told) = modern.call_answering("elicit", json!({"aside": true}), |_| blue.clone());
    assert!(rounds == 1 && text(&told).contains("blue"), "{}", told.raw);
}

#[test]
fn the_end_of_the_gateway_is_told_on_every_stream() {
    let server = Upstream::legacy("alpha");
    let hanging = Upstream::numbered("beta", Era::Legacy, 2);
    let mut gateway = Gateway::start(&format!("{}{}", server.table(""), hanging.table("")));
    gateway.settled(17);
    hanging.fail("tools/call", Fault::Hang, 10);
    let [legacy, modern] = gateway.both();
    let mut streams = [legacy.listen(&[]), modern.listen(&[])];
    let mut calls = [legacy.open_call("beta_0", json!({})), modern.open_call("beta_0", json!({}))];
    hanging.until("both calls", |server| server.calls("beta_0") == 2);
    gateway.signal(Signal::TERM);
    // In order: the stream of the newer era has an answer.
    let end = streams[1].answer();
    assert_eq!(end["result"]["resultType"], "complete", "{}", end.raw);
    assert_eq!(end["id"], streams[1].id);
    assert_eq!(streams[0].end(), Ok(()));
    for call in &mut calls {
        // An answer, or an end: never a client that waits.
        let _ = call.outcome();
    }
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn the_end_of_the_gateway_ends_its_sessions_with_servers() {
    let server = Upstream::legacy("alpha");
    let mut gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    assert_eq!(server.sessions(), 1);
    assert_eq!(gateway.terminate().code(), Some(0));
    server.until("its session is ended", |server| server.sessions() == 0);
}

#[test]
fn a_client_that_leaves_a_modern_stream_is_forgotten() {
    let server = Upstream::modern("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = Either::Modern(gateway.modern());
    let files = gateway.open_files();
    for _ in 0..200 {
        let stream = client.listen(&["alpha://r/0"]);
        stream.hang_up();
    }
    server.until("nobody subscribes any more", |server| server.subscriptions().is_empty());
    until_or(
        || gateway.open_files() <= files + 8,
        || format!("{} open files, {files} before", gateway.open_files()),
    );
    until("it still hears", || server.streams() >= 1);
}

#[test]
fn what_changed_while_a_servers_stream_was_down_is_learnt() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let server = Upstream::numbered("alpha", era, 2);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(3);
        server.until("the gateway listens", |server| server.streams() > 0);
        let client = gateway.legacy();
        let mut stream = client.listen();
        server.end_streams();
        // Nobody hears it: nothing is said of it later, either.
        server.add_tool("alpha_unheard");
        stream.method("notifications/tools/list_changed");
        until_or(
            || client.tools().contains(&"alpha_unheard".to_owned()),
            || format!("{era:?}: {:?}", client.tools()),
        );
    }
}

#[test]
fn subscriptions_outlive_a_restart_of_the_server() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        let clients = gateway.both();
        let mut streams: Vec<Pending> =
            clients.iter().map(|client| client.listen(&["alpha://r/0"])).collect();
        for _ in 0..2 {
            server
                .until("the subscription", |server| server.subscriptions().contains("alpha://r/0"));
            server.until("the stream", |server| server.streams() > 0);
            server.touch("alpha://r/0");
            for (stream, client) in streams.iter_mut().zip(&clients) {
                let updated = stream.method("notifications/resources/updated");
                assert_eq!(updated["params"]["uri"], "alpha://r/0", "{era:?}, {}", client.era());
            }
            server.restart();
        }
        // Nobody has to call for that.
        assert_eq!(server.count("tools/call"), 0, "{era:?}");
    }
}
