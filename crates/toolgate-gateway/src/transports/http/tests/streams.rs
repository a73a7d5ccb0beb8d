//! Streams of events, and clients that read slowly or leave.

use super::*;

async fn open(server: &mut TestServer) -> (Client, EventSender) {
    let mut client = server.client().await;
    client.send(get("/events")).await;
    let HandlerEvent::Stream(sender) = server.next_event().await else { panic!("no stream") };
    let head = client.head().await;
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    (client, sender)
}

#[tokio::test]
async fn events_arrive_as_they_are_sent_and_the_end_too() {
    let mut server = TestServer::open(|settings| settings.idle = millis(50));
    let (mut client, sender) = open(&mut server).await;
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(event.into()).await.unwrap();
        assert_eq!(client.take_until(b"\n\n\r\n").await, format!("9\r\n{event}\r\n"));
    }
    // Longer than a connection may be idle: it is not.
    assert!(client.is_silent(millis(200)).await);
    drop(sender);
    assert_eq!(client.take_until(b"\r\n\r\n").await, "0\r\n\r\n");
    assert_eq!(client.get("/a").await.status, 200);
}

#[tokio::test]
async fn a_slow_client_makes_the_sender_wait_and_loses_nothing() {
    let mut server = TestServer::open(|_| {});
    let (mut client, sender) = open(&mut server).await;
    let size = 100_000;
    let event = |n: usize| Bytes::from(format!("{n:05}{}", "x".repeat(size - 5)));
    let mut sent = 0;
    while let Ok(done) = timeout(millis(300), sender.send(event(sent))).await {
        done.unwrap();
        sent += 1;
        assert!(sent * size < 64 * 1024 * 1024, "nothing makes it wait");
    }
    let reading = tokio::spawn(async move {
        let text = client.take_until(b"\r\n0\r\n\r\n").await;
        text.match_indices("x\r\n").count()
    });
    for n in sent..sent + 50 {
        bounded(sender.send(event(n))).await.unwrap();
    }
    drop(sender);
    assert_eq!(bounded(reading).await.unwrap(), sent + 50);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let mut server = TestServer::open(|settings| settings.stalled = millis(200));
    let (client, sender) = open(&mut server).await;
    let event = Bytes::from(vec![b'x'; 100_000]);
    bounded(async { while sender.send(event.clone()).await.is_ok() {} }).await;
    drop(client);
    // So is one that does not read an answer.
    let mut client = server.client().await;
    client.send(get("/large")).await;
    server.until_open(0).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_by_whoever_sends() {
    let mut server = TestServer::open(|_| {});
    let (client, sender) = open(&mut server).await;
    assert!(timeout(millis(50), sender.closed()).await.is_err());
    drop(client);
    bounded(sender.closed()).await;
    assert!(sender.send("x".into()).await.is_err());
}

#[tokio::test]
async fn a_client_that_leaves_ends_what_it_asked_for() {
    let mut server = TestServer::open(|_| {});
    let mut client = server.client().await;
    client.send(post("/wait", "body")).await;
    assert!(matches!(server.next_event().await, HandlerEvent::Waiting));
    drop(client);
    assert!(matches!(server.next_event().await, HandlerEvent::Dropped));
    server.until_open(0).await;
}
