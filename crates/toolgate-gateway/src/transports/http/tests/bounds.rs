//! Bounds on time, size and number.

use super::*;

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection_however_it_dribbles() {
    let server = TestServer::open(|settings| settings.head = millis(150));
    let mut silent = server.client().await;
    assert_eq!(silent.end().await, "");
    let mut dribbling = server.client().await;
    bounded(async {
        while dribbling.stream.write_all(b"G").await.is_ok() {
            if !dribbling.is_silent(millis(20)).await {
                break;
            }
        }
    })
    .await;
    // The second head of a connection is timed like the first.
    let mut client = server.client().await;
    assert_eq!(client.get("/a").await.status, 200);
    client.send("GET /").await;
    assert_eq!(client.end().await, "");
    server.until_open(0).await;
}

#[tokio::test]
async fn a_pause_between_requests_may_be_longer_than_a_head() {
    let server = TestServer::open(|settings| {
        settings.head = millis(100);
        settings.idle = millis(1500);
    });
    let mut client = server.client().await;
    assert_eq!(client.get("/a").await.status, 200);
    assert!(client.is_silent(millis(400)).await);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(client.end().await, "");
}

#[tokio::test]
async fn a_request_under_way_is_not_hurried() {
    let mut server = TestServer::open(|settings| {
        settings.head = millis(30);
        settings.idle = millis(30);
    });
    let mut client = server.client().await;
    client.send(get("/wait")).await;
    assert!(matches!(server.next_event().await, HandlerEvent::Waiting));
    assert!(client.is_silent(millis(300)).await);
    server.handler.go_on.notify_one();
    assert_eq!(client.answer().await.body, "waited");
}

#[tokio::test]
async fn a_body_that_does_not_go_on_is_given_up() {
    let server = TestServer::open(|settings| settings.body = millis(100));
    let mut client = server.client().await;
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nabc").await;
    assert_eq!(client.answer().await.status, 408);
    assert_eq!(client.end().await, "");
    let mut client = server.client().await;
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 408);
    drop(client);
    server.until_open(0).await;
}

#[tokio::test]
async fn a_body_that_goes_on_forever_is_given_up() {
    let server = TestServer::open(|settings| settings.whole_body = millis(200));
    let mut client = server.client().await;
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n").await;
    bounded(async {
        while timeout(millis(10), client.stream.readable()).await.is_err() {
            client.stream.write_all(b"x").await.unwrap();
        }
    })
    .await;
    assert_eq!(client.answer().await.status, 408);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_by_its_length_and_the_client_reads_why() {
    let server = TestServer::open(|_| {});
    let mut client = server.client().await;
    client
        .send(format!("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", LIMIT + 1))
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    // This one sends all of it before it reads.
    let mut client = server.client().await;
    client.send(post("/a", &"x".repeat(8 * 1024 * 1024))).await;
    assert_eq!(client.answer().await.status, 413);
    assert_eq!(client.end().await, "");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_refused_when_it_is_too_large() {
    let server = TestServer::open(|_| {});
    let mut client = server.client().await;
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    client.send(chunk.repeat(2)).await;
    assert!(client.is_silent(millis(50)).await);
    client.send("1\r\nx\r\n").await;
    assert_eq!(client.answer().await.status, 413);
}

#[tokio::test]
async fn a_client_that_goes_on_sending_after_a_refusal_is_cut_off() {
    let server = TestServer::open(|settings| settings.linger = millis(100));
    let mut client = server.client().await;
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 413);
    bounded(async { while client.stream.write_all(&[b'x'; 1024]).await.is_ok() {} }).await;
    server.until_open(0).await;
}

#[tokio::test]
async fn heads_are_bounded_in_size_and_number() {
    let server = TestServer::open(|_| {});
    let request = |headers: &str| format!("GET /a HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
    let wide = |size: usize| request(&format!("x: {}\r\n", "y".repeat(size)));
    let many = |count: usize| request(&"x: y\r\n".repeat(count));
    for (sent, status) in
        [(wide(31 * 1024), 200), (wide(33 * 1024), 431), (many(90), 200), (many(110), 431)]
    {
        let mut client = server.client().await;
        client.send(sent).await;
        assert_eq!(client.answer().await.status, status);
    }
}

#[tokio::test]
async fn too_many_connections_are_told_so_and_none_hangs() {
    let server = TestServer::open(|settings| settings.connections = 2);
    let mut first = server.client().await;
    let mut second = server.client().await;
    assert_eq!(first.get("/a").await.status, 200);
    assert_eq!(second.get("/a").await.status, 200);
    let mut third = server.client().await;
    let answer = third.post("/a", "body").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!(answer.body, "too many connections: try again in a while");
    assert_eq!(third.end().await, "");
    // More than are listened to at once; none of them says anything.
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(server.client().await);
    }
    for client in &mut crowd {
        let text = client.end().await;
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 503 "), "{text}");
    }
    drop(second);
    server.until_open(1).await;
    assert_eq!(server.client().await.get("/a").await.status, 200);
    assert_eq!(first.get("/a").await.status, 200);
}
