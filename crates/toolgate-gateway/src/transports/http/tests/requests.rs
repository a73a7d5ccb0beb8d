//! Requests and their answers.

use super::*;

#[tokio::test]
async fn a_connection_is_used_again_and_requests_may_be_sent_ahead() {
    let server = TestServer::open(|_| {});
    let mut client = server.client().await;
    for body in ["", "one", "two"] {
        let answer = client.post("/a", body).await;
        assert_eq!((answer.status, answer.body), (200, format!("/a {body}")));
    }
    assert_eq!(client.get("/nothing").await.header("content-length"), Some("0"));
    let ahead: String = (0..40).map(|n| post(&format!("/{n}"), &n.to_string())).collect();
    client.send(ahead).await;
    for n in 0..40 {
        assert_eq!(client.answer().await.body, format!("/{n} {n}"));
    }
    assert_eq!(server.listening.open(), 1);
    drop(client);
    server.until_open(0).await;
}

#[tokio::test]
async fn bodies_come_in_one_piece_however_they_are_sent() {
    let server = TestServer::open(|_| {});
    let mut client = server.client().await;
    let long = "x".repeat(LIMIT);
    assert_eq!(client.post("/a", &long).await.body, format!("/a {long}"));
    // In pieces, with a wait for what was answered before.
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nabc").await;
    assert!(client.is_silent(millis(30)).await);
    client.send("def").await;
    assert_eq!(client.answer().await.body, "/a abcdef");
    client
        .send("POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        .await;
    assert!(client.is_silent(millis(30)).await);
    client.send("2\r\nde\r\n0\r\nlast: x\r\n\r\n").await;
    assert_eq!(client.answer().await.body, "/a abcde");
    assert_eq!(client.get("/b").await.body, "/b ");
}

#[tokio::test]
async fn connections_are_shared_out_and_stay_where_they_are() {
    let server = TestServer::open(|_| {});
    let mut names = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = server.client().await;
        let name = client.get("/thread").await.body;
        assert_eq!(client.get("/thread").await.body, name);
        names.push(name);
        clients.push(client);
    }
    // The first worker runs on the thread that started the server.
    let own = std::thread::current().name().unwrap_or_default().to_owned();
    names.sort_by_key(|name| *name == own);
    assert_eq!(names, ["http-1", "http-1", &own, &own]);
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on_or_not() {
    let server = TestServer::open(|_| {});
    let asking = |path: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\
             expect: 100-continue\r\n\r\n"
        )
    };
    let mut client = server.client().await;
    client.send(asking("/a", 3)).await;
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("abc").await;
    assert_eq!(client.answer().await.body, "/a abc");
    client.send(asking("/refused", 3)).await;
    assert_eq!(client.answer().await.status, 403);
    let mut client = server.client().await;
    client.send(asking("/a", LIMIT + 1)).await;
    assert_eq!(client.answer().await.status, 413);
    assert_eq!(client.end().await, "");
}

#[tokio::test]
async fn a_refused_request_costs_the_connection_only_if_its_body_is_not_there() {
    let server = TestServer::open(|_| {});
    let mut client = server.client().await;
    for body in ["", "small"] {
        let answer = client.post("/refused", body).await;
        assert_eq!((answer.status, answer.header("connection")), (403, None));
    }
    client.send("POST /refused HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\nabc").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (403, Some("close")));
    assert_eq!(client.end().await, "");
}

#[tokio::test]
async fn what_is_no_http_is_answered_and_ended() {
    let server = TestServer::open(|_| {});
    for odd in ["\0\0\0\0\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n", "GET /\r\n\r\n"] {
        let mut client = server.client().await;
        client.send(odd).await;
        assert_eq!(client.answer().await.status, 400, "{odd:?}");
        assert_eq!(client.end().await, "");
    }
    server.until_open(0).await;
}

#[tokio::test]
async fn a_panic_ends_one_connection() {
    let server = TestServer::open(|settings| settings.threads = 1);
    let mut other = server.client().await;
    assert_eq!(other.get("/a").await.status, 200);
    let mut client = server.client().await;
    client.send(get("/panic")).await;
    assert_eq!(client.end().await, "");
    server.until_open(1).await;
    assert_eq!(other.get("/a").await.status, 200);
    assert_eq!(server.client().await.get("/a").await.status, 200);
}
