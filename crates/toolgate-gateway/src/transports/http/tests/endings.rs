//! How the server starts and stops.

use super::*;
use crate::transports::http::listen::raise_open_files;

#[tokio::test]
async fn what_is_under_way_is_answered_and_what_is_idle_ends() {
    let mut server = TestServer::open(|_| {});
    let mut idle = server.client().await;
    assert_eq!(idle.get("/a").await.status, 200);
    let mut fresh = server.client().await;
    let mut busy = server.client().await;
    busy.send(get("/wait")).await;
    assert!(matches!(server.next_event().await, HandlerEvent::Waiting));
    server.until_open(3).await;
    let stopping = tokio::spawn(server.listening.stop(LONG));
    assert_eq!(idle.end().await, "");
    assert_eq!(fresh.end().await, "");
    assert!(bounded(TcpStream::connect(server.address)).await.is_err());
    assert!(!stopping.is_finished());
    server.handler.go_on.notify_one();
    let answer = busy.answer().await;
    assert_eq!((answer.body.as_str(), answer.header("connection")), ("waited", Some("close")));
    assert_eq!(busy.end().await, "");
    bounded(stopping).await.unwrap();
    // The threads have ended, and with them all references to the handler.
    assert_eq!(Arc::strong_count(&server.handler), 1);
}

#[tokio::test]
async fn what_is_not_done_in_time_is_dropped() {
    let mut server = TestServer::open(|_| {});
    let mut client = server.client().await;
    client.send(get("/wait")).await;
    assert!(matches!(server.next_event().await, HandlerEvent::Waiting));
    let mut reader = server.client().await;
    reader.send(get("/events")).await;
    let HandlerEvent::Stream(sender) = server.next_event().await else { panic!("no stream") };
    bounded(server.listening.stop(millis(50))).await;
    assert!(matches!(bounded(server.events.recv()).await, Some(HandlerEvent::Dropped)));
    bounded(sender.closed()).await;
    assert_eq!(client.end().await, "");
    assert_eq!(Arc::strong_count(&server.handler), 1);
}

#[tokio::test]
async fn a_door_that_is_dropped_is_shut() {
    let mut server = TestServer::open(|_| {});
    let mut client = server.client().await;
    client.send(get("/wait")).await;
    assert!(matches!(server.next_event().await, HandlerEvent::Waiting));
    drop(server.listening);
    assert!(matches!(bounded(server.events.recv()).await, Some(HandlerEvent::Dropped)));
    assert_eq!(client.end().await, "");
}

#[test]
fn an_address_that_is_taken_is_said_with_what_to_do() {
    let first = BoundAddresses::bind(&["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()])
        .unwrap();
    let [four, six] = first.addresses() else { panic!("two were asked for") };
    assert!(four.port() != 0 && six.port() != 0);
    let error = BoundAddresses::bind(&[*four]).unwrap_err().to_string();
    let expected =
        format!("`{four}` is in use: stop the other program, or choose another with `--listen`");
    assert_eq!(error, expected);
    let error = BoundAddresses::bind(&["192.0.2.1:80".parse().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("is no address of this machine"), "{error}");
    let four = *four;
    drop(first);
    BoundAddresses::bind(&[four]).unwrap();
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let limit = raise_open_files();
    assert_eq!(raise_open_files(), limit);
    let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert_eq!((now.current, now.maximum), (limit, limit));
}
