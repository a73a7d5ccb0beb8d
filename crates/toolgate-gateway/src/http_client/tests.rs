//! Tests of the HTTP client with servers that work, and with servers that fail.

mod bodies;
mod hostile;
mod server;
mod tls;

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;
use tokio::{net::TcpListener, runtime::Runtime, sync::Notify};

use self::server::{Seen, Server};
use super::{target::BadTarget, *};

fn target(url: &str) -> Target {
    Target::new(url, [], ConnectionLimits::default()).unwrap()
}

fn client(url: &str) -> HttpClient {
    HttpClient::new(Arc::new(target(url)))
}

async fn post(client: &HttpClient, body: &'static str) -> Result<HttpResponse, SendError> {
    let post = client.send(Method::POST, None, &[], Bytes::from_static(body.as_bytes()));
    tokio::time::timeout(Duration::from_secs(10), post).await.expect("no answer")
}

async fn posted(client: &HttpClient, body: &'static str) -> Bytes {
    post(client, body).await.unwrap().whole(1000).await.unwrap()
}

#[tokio::test]
async fn one_connection_serves_calls_that_follow_each_other() {
    let server = Server::start().await;
    let client = client(&server.url("/mcp?key=1"));
    for body in ["a", "bc", ""] {
        assert_eq!(posted(&client, body).await, body);
    }
    let accepted = client.send(Method::DELETE, Some("/accepted"), &[], Bytes::new()).await.unwrap();
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    // A response without a body frees its connection at once.
    drop(accepted);
    posted(&client, "d").await;
    assert_eq!(server.next().await, Seen::Opened);
    let Seen::Request(head, body) = server.next().await else { panic!("no request") };
    assert_eq!(body, "a");
    assert!(head.starts_with("POST /mcp?key=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: {}", server.address)), "{head}");
    assert!(head.contains("\r\naccept: application/json, text/event-stream"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json"), "{head}");
    let rest = server.so_far().await;
    assert_eq!(rest.len(), 4, "{rest:?}");
    assert!(rest.iter().all(|seen| matches!(seen, Seen::Request(..))), "{rest:?}");
}

#[tokio::test]
async fn headers_are_sent_in_order_and_are_never_shown() {
    let server = Server::start().await;
    let set = [("Authorization", "Bearer s3cret"), ("X-Team", "a"), ("x-team", "b")];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let target =
        Target::new(&server.url("/s3cret?t=s3cret"), set, ConnectionLimits::default()).unwrap();
    assert!(!format!("{target:?}").contains("s3cret"), "{target:?}");
    let client = HttpClient::new(Arc::new(target));
    let extra = [(HeaderName::from_static("mcp-session-id"), HeaderValue::from_static("7"))];
    client.send(Method::GET, None, &extra, Bytes::new()).await.unwrap().whole(9).await.unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
    assert_eq!(client.target().origin(), format!("http://{}", server.address));
    server.next().await;
    let Seen::Request(head, _) = server.next().await else { panic!("no request") };
    for line in ["authorization: Bearer s3cret", "x-team: a", "x-team: b", "mcp-session-id: 7"] {
        assert!(head.contains(&format!("\r\n{line}")), "{head}");
    }
    assert!(head.contains("\r\naccept: text/event-stream") && !head.contains("content-"), "{head}");
}

#[tokio::test]
async fn an_endpoint_gets_the_user_of_its_address_and_nothing_of_mcp() {
    let set = |name: &str| [(name.to_owned(), "mine".to_owned())];
    for (name, line) in [("x-a", "Basic dXNlcjpzM2NyZXQ="), ("Authorization", "mine")] {
        let server = Server::start().await;
        let url = server.url("/in").replace("http://", "http://us%65r:s3cret@");
        let target = Target::endpoint(&url, set(name), ConnectionLimits::default()).unwrap();
        assert!(!target.origin().contains("s3cret"));
        posted(&HttpClient::new(Arc::new(target)), "x").await;
        server.next().await;
        let Seen::Request(head, _) = server.next().await else { panic!("no request") };
        assert!(head.contains(&format!("\r\nauthorization: {line}")), "{head}");
        assert!(!head.contains("accept:") && !head.contains("hops"), "{head}");
    }
}

#[tokio::test]
async fn a_safe_request_that_a_kept_connection_lost_is_sent_once_more() {
    let server = Server::start().await;
    let client = client(&server.url("/none"));
    for (is_idempotent, sent) in [(true, 2), (false, 1)] {
        let first = client.send(Method::POST, Some("/ok"), &[], Bytes::new()).await.unwrap();
        first.whole(10).await.unwrap();
        server.so_far().await;
        let body = Bytes::from_static(b"x");
        let lost = if is_idempotent {
            client.post_idempotent(None, &[], body).await
        } else {
            client.send(Method::POST, None, &[], body).await
        };
        // The server never responds on this path.
        assert!(matches!(lost, Err(SendError::Lost(_))));
        let seen = server.so_far().await;
        let requests = seen.iter().filter(|seen| matches!(seen, Seen::Request(..))).count();
        assert_eq!(requests, sent, "{seen:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_is_replaced_and_the_call_sent_once() {
    let server = Server::start().await;
    let client = client(&server.url("/then-closed"));
    for round in ["1", "2", "3"] {
        assert_eq!(posted(&client, round).await, round);
        assert_eq!(server.next().await, Seen::Opened);
        let Seen::Request(_, body) = server.next().await else { panic!("no request") };
        assert_eq!(body, round);
        assert_eq!(server.next().await, Seen::Closed);
    }
    assert_eq!(server.so_far().await, []);
}

#[tokio::test]
async fn a_connection_is_not_used_longer_than_the_server_keeps_it() {
    let server = Server::start().await;
    let client = client(&server.url("/short"));
    posted(&client, "1").await;
    posted(&client, "2").await;
    let seen = [server.next().await, server.next().await, server.next().await];
    // The client closes the first connection and opens another one, in either order.
    assert_eq!(seen[0], Seen::Opened);
    assert!(seen[2] == Seen::LeftByClient || seen[2] == Seen::Opened, "{seen:?}");
}

#[tokio::test]
async fn a_server_that_closes_instead_of_answering_may_have_acted() {
    let server = Server::start().await;
    let error = post(&client(&server.url("/none?key=s3cret")), "x").await.unwrap_err();
    let SendError::Lost(text) = error else { panic!("{error:?}") };
    assert!(text.starts_with(&format!("http://{} closed", server.address)), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    // The same on a connection that was used for a request before.
    let client = client(&server.url("/none"));
    let first = client.send(Method::POST, Some("/ok"), &[], Bytes::new()).await.unwrap();
    first.whole(10).await.unwrap();
    server.so_far().await;
    assert!(matches!(post(&client, "x").await, Err(SendError::Lost(_))));
    assert!(matches!(server.next().await, Seen::Request(..)));
    assert_eq!(server.next().await, Seen::Closed);
    assert_eq!(server.so_far().await, [], "it was sent once");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let server = Server::start().await;
    let client = client(&server.url("/half"));
    let mut answer = post(&client, "x").await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "half");
    assert!(matches!(answer.chunk().await, Some(Err(BodyError::Broken(_)))));
    let error = post(&client, "x").await.unwrap().whole(1000).await.unwrap_err();
    assert!(error.to_string().contains("broke off within its answer"), "{error}");
}

#[tokio::test]
async fn what_was_refused_was_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = post(&client(&format!("http://{address}/mcp?key=s3cret")), "x").await.unwrap_err();
    let SendError::NotSent(text) = error else { panic!("{error:?}") };
    assert!(text.contains(&address.to_string()) && text.contains("was refused"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
    let error = post(&client("http://nowhere.invalid/"), "x").await.unwrap_err();
    assert!(matches!(&error, SendError::NotSent(text) if text.contains("nowhere.invalid")));
}

#[tokio::test]
async fn a_server_that_takes_no_connection_is_given_up_in_time() {
    // The server listens but never responds to the TLS handshake.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let limits = ConnectionLimits {
        connect_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let client = HttpClient::new(Arc::new(Target::new(&url, [], limits).unwrap()));
    let error = post(&client, "x").await.unwrap_err();
    assert!(
        matches!(&error, SendError::NotSent(text) if text.contains("within 0.05 s")),
        "{error}"
    );
}

#[tokio::test]
async fn parts_come_as_they_are_sent_and_waiting_loses_nothing() {
    let server = Server::start().await;
    let client = client(&server.url("/chunks"));
    let mut answer = post(&client, "one|two|three").await.unwrap();
    for part in ["one|", "two|", "three"] {
        tokio::select! {
            biased;
            chunk = answer.chunk() => panic!("too early: {chunk:?}"),
            () = tokio::task::yield_now() => {}
        }
        server.go_on.notify_one();
        assert_eq!(answer.chunk().await.unwrap().unwrap(), part);
    }
    assert!(answer.chunk().await.is_none());
    assert!(answer.chunk().await.is_none(), "and stays at its end");
    server.go_on.notify_one();
    assert_eq!(posted(&client, "whole").await, "whole");
    let seen = server.so_far().await;
    assert_eq!(seen.iter().filter(|seen| **seen == Seen::Opened).count(), 1, "{seen:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_wants_any_more_closes_its_connection() {
    let server = Server::start().await;
    let client = client(&server.url("/chunks"));
    let mut answer = post(&client, "one|two").await.unwrap();
    server.go_on.notify_one();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one|");
    drop(answer);
    let seen = [server.next().await, server.next().await, server.next().await];
    assert_eq!(seen[2], Seen::LeftByClient);
    // The client also closes the connection if the caller drops a request.
    let mut hanging = Box::pin(client.send(Method::POST, Some("/hang"), &[], Bytes::new()));
    tokio::select! {
        _ = &mut hanging => panic!("it hangs"),
        seen = server.next() => assert_eq!(seen, Seen::Opened),
    }
    tokio::select! {
        _ = &mut hanging => panic!("it hangs"),
        seen = server.next() => assert!(matches!(seen, Seen::Request(..))),
    }
    drop(hanging);
    server.go_on.notify_one();
    assert_eq!(server.next().await, Seen::LeftByClient);
}

#[tokio::test]
async fn too_much_is_refused_however_it_comes() {
    let server = Server::start().await;
    let url = server.url("/");
    let long: &'static str = Box::leak("x".repeat(200_000).into_boxed_str());
    let answer = post(&client(&url), long).await.unwrap();
    assert_eq!(answer.whole(199_999).await, Err(BodyError::TooLarge(199_999)));
    let answer = post(&client(&url), long).await.unwrap();
    assert_eq!(answer.whole(200_000).await.unwrap(), long);
    for (parts, most) in [("one|two", 2), ("one|two", 5), ("one", 2)] {
        let answer = post(&client(&server.url("/chunks")), parts).await.unwrap();
        server.go_on.notify_one();
        let whole = tokio::spawn(answer.whole(most));
        server.go_on.notify_one();
        assert_eq!(whole.await.unwrap(), Err(BodyError::TooLarge(most)));
    }
    let error = post(&client(&server.url("/head")), "x").await.unwrap_err();
    assert!(matches!(&error, SendError::Lost(text) if text.contains("no valid HTTP")), "{error}");
    let error = post(&client(&server.url("/odd")), "x").await.unwrap_err();
    assert!(matches!(&error, SendError::Lost(text) if text.contains("no valid HTTP")), "{error}");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed_and_hints_are_passed_over() {
    let server = Server::start().await;
    let error = post(&client(&server.url("/redirect")), "x").await.unwrap_err();
    let SendError::NotSent(text) = error else { panic!("{error:?}") };
    assert!(text.contains("308") && text.contains("`elsewhere.example:444`"), "{text}");
    assert!(!text.contains("secret") && !text.contains("token"), "{text}");
    assert_eq!(posted(&client(&server.url("/early")), "x").await, "1");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Starts a server on a thread of its own. Returns its URL, its events, and the handle that lets it continue.
fn server_on_thread(path: &'static str) -> (String, std::sync::mpsc::Receiver<Seen>, Arc<Notify>) {
    let (address, started) = std::sync::mpsc::channel();
    let (events, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let server = Server::start().await;
            address.send((server.url(path), Arc::clone(&server.go_on))).unwrap();
            while events.send(server.next_ever().await).is_ok() {}
        });
    });
    let (url, go_on) = started.recv().unwrap();
    (url, seen, go_on)
}

fn opened(seen: &std::sync::mpsc::Receiver<Seen>) -> usize {
    seen.try_iter().filter(|seen| *seen == Seen::Opened).count()
}

#[test]
fn each_runtime_has_connections_of_its_own() {
    let (url, seen, _) = server_on_thread("/");
    let client = Arc::new(client(&url));
    let calls = |client: Arc<HttpClient>| {
        move || {
            runtime().block_on(async {
                for _ in 0..8 {
                    assert_eq!(posted(&client, "x").await, "x");
                }
            });
        }
    };
    let threads = [0, 1, 2, 3].map(|_| std::thread::spawn(calls(Arc::clone(&client))));
    for thread in threads {
        thread.join().unwrap();
    }
    // A second runtime on the same thread does not use the connection of the first one.
    calls(Arc::clone(&client))();
    calls(Arc::clone(&client))();
    assert_eq!(opened(&seen), 6);
    // Two runtimes that take turns: each uses its own connection again.
    let (one, other) = (runtime(), runtime());
    for runtime in [&one, &other, &one, &other] {
        runtime.block_on(async { assert_eq!(posted(&client, "x").await, "x") });
    }
    assert_eq!(opened(&seen), 2);
}

#[test]
fn a_connection_whose_end_the_runtime_has_not_noticed_is_replaced() {
    let (url, seen, go_on) = server_on_thread("/closed-on-signal");
    let limits = ConnectionLimits { check_after: Duration::ZERO, ..ConnectionLimits::default() };
    let client = HttpClient::new(Arc::new(Target::new(&url, [], limits).unwrap()));
    runtime().block_on(async {
        assert_eq!(posted(&client, "1").await, "1");
        // Lets the other tasks of the runtime finish their work.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        // Blocks the thread, so that the runtime does not notice that the server closes the connection.
        go_on.notify_one();
        while seen.recv().unwrap() != Seen::Closed {}
        assert_eq!(posted(&client, "2").await, "2");
    });
    let rest: Vec<Seen> = seen.iter().take(2).collect();
    assert_eq!(rest.first(), Some(&Seen::Opened));
    assert!(matches!(rest.get(1), Some(Seen::Request(_, body)) if body == "2"), "{rest:?}");
}

#[tokio::test]
async fn connections_that_the_server_closed_are_not_held_on_to() {
    let server = Server::start().await;
    let client = client(&server.url("/closed-on-signal"));
    posted(&client, "1").await;
    let (shard, runtime) = (client.pool.shard(), connection::runtime());
    assert!(shard.sweep(runtime), "it is still there");
    assert_eq!(shard.waiting(), 1);
    server.go_on.notify_one();
    while server.next().await != Seen::Closed {}
    assert!(!shard.sweep(runtime));
    assert_eq!(shard.waiting(), 0);
}

#[tokio::test]
async fn events_are_read_from_the_stream_as_they_come() {
    let server = Server::start().await;
    let client = client(&server.url("/chunks"));
    let answer = post(&client, "id: 1\nda|ta: {}\n\nretry: 5\n\n|data: x").await.unwrap();
    let mut events = EventStream::new(answer, 100);
    server.go_on.notify_one();
    tokio::select! {
        biased;
        event = events.next() => panic!("too early: {event:?}"),
        () = tokio::task::yield_now() => {}
    }
    server.go_on.notify_one();
    // The test server sends the bars as part of its chunks.
    let event = events.next().await.unwrap().unwrap();
    assert_eq!((event.id.as_deref(), event.data.as_ref()), (Some(&b"1"[..]), &b""[..]));
    let event = events.next().await.unwrap().unwrap();
    assert_eq!(event.retry, Some(5));
    server.go_on.notify_one();
    assert_eq!(events.next().await, Ok(None), "what the stream ends within is no event");
}

#[tokio::test]
async fn a_stream_that_is_left_after_its_answer_ends_and_its_connection_is_used_again() {
    let server = Server::start().await;
    let client = client(&server.url("/chunks"));
    let answer = post(&client, "data: {}\n\n").await.unwrap();
    let mut events = EventStream::new(answer, 100);
    server.go_on.notify_one();
    assert!(events.next().await.unwrap().is_some());
    events.drain();
    let comes_back = async {
        while client.pool.shard().waiting() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), comes_back).await.expect("it was closed");
    server.go_on.notify_one();
    assert_eq!(posted(&client, "x").await, "x");
    let seen = server.so_far().await;
    assert_eq!(seen.iter().filter(|seen| **seen == Seen::Opened).count(), 1, "{seen:?}");
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let server = Server::start().await;
    let client = client(&server.url("/"));
    let long: &'static str = Box::leak(format!("data: {}", "x".repeat(99_999)).into_boxed_str());
    let mut events = EventStream::new(post(&client, long).await.unwrap(), 1000);
    assert_eq!(events.next().await, Err(BodyError::TooLarge(1000)));
}

#[test]
fn what_cannot_be_spoken_to_is_told_without_secrets() {
    let bad = |url: &str, headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Target::new(url, headers, ConnectionLimits::default()).unwrap_err()
    };
    assert!(matches!(bad("http://a b/", &[]), BadTarget::Url(_)));
    assert!(matches!(bad("/mcp", &[]), BadTarget::Url(_)));
    assert!(matches!(bad("http://h:/", &[]), BadTarget::Url(_)));
    assert!(matches!(bad("http://h:99999/", &[]), BadTarget::Url(_)));
    assert_eq!(bad("ftp://h/", &[]), BadTarget::Scheme("ftp".to_owned()));
    assert_eq!(bad("http://user:s3cret@h/", &[]), BadTarget::UserInfo);
    assert_eq!(bad("http://h/", &[("a b", "1")]), BadTarget::HeaderName("a b".to_owned()));
    let error = bad("http://h/", &[("X-Key", "s3cret\r\nHost: evil")]);
    assert_eq!(error, BadTarget::HeaderValue("X-Key".to_owned()));
    for ours in ["Content-Length", "Mcp-Session-Id", "transfer-encoding", "Mcp-Param-X"] {
        assert_eq!(bad("http://h/", &[(ours, "1")]), BadTarget::OurHeader(ours.to_owned()));
    }
    for good in ["http://[::1]:80/mcp", "http://localhost", "https://h.example/mcp?x=1"] {
        Target::new(good, [], ConnectionLimits::default()).unwrap();
    }
    let target = target("http://h?x=1");
    assert_eq!(target.path(None).unwrap(), "/?x=1");
    assert_eq!(target.path(Some("//x")).unwrap(), "//x");
    for none in ["x", "", "*", "/x y", "/x\r\ny: 1"] {
        assert!(target.path(Some(none)).is_err(), "{none}");
    }
}
