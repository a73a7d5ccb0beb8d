//! Hostile servers: the client refuses ambiguous responses, and they do not affect other requests.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;

/// A server that sends the same bytes on each connection, and then passes the connection to the test.
async fn server_sending(
    answer: impl Into<Vec<u8>>,
) -> (String, tokio::sync::mpsc::Receiver<TcpStream>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (connections, opened) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 2000];
            if stream.read(&mut request).await.is_ok() {
                stream.write_all(&answer).await.unwrap();
                connections.send(stream).await.unwrap();
            }
        }
    });
    (url, opened)
}

pub(super) async fn refused(answer: impl Into<Vec<u8>>) -> String {
    let (url, _opened) = server_sending(answer).await;
    match post(&client(&url), "x").await {
        Err(SendError::Lost(why)) => why,
        Err(error) => panic!("{error:?}"),
        Ok(answer) => answer.whole(1000).await.unwrap_err().to_string(),
    }
}

#[tokio::test]
async fn an_answer_with_two_lengths_is_none() {
    for headers in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5\r\nContent-Length: 5",
        "content-length: 5, 5",
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding: xchunked",
        "transfer-encoding:",
        "content-length:",
        "content-length: +5",
        "content-length: -5",
        "content-length: 0x5",
        "content-length: 5 5",
        "content-length: 99999999999999999999",
        "content-length : 5",
        "x: y\r\n content-length: 5",
        " content-length: 5",
        "x\0: 1",
        "x: \0",
        "x: a\rcontent-length: 5",
        "no colon",
    ] {
        let why = refused(format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\nhello")).await;
        assert!(why.contains("no valid HTTP"), "{headers:?}: {why}");
    }
    let chunked = "transfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    for start in [
        format!("HTTP/1.0 200 OK\r\n{chunked}"),
        format!("HTTP/2 200 OK\r\n{chunked}"),
        format!("HTTP/1.1 99 OK\r\n{chunked}"),
        format!("HTTP/1.1 20 OK\r\n{chunked}"),
        "HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n".to_owned(),
        "HTTP/1.1 100 Continue\r\ncontent-length: 5\r\n\r\nhello".to_owned(),
        format!("\r\nHTTP/1.1 200 OK\r\n{chunked}"),
        "\u{15}\u{3}\u{1}".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101)),
        format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(17_000)),
        "HTTP/1.1 103 Hints\r\nx: y\r\n\r\n".repeat(3000),
    ] {
        let why = refused(start.clone()).await;
        assert!(why.contains("no valid HTTP"), "{:?}: {why}", &start[..20.min(start.len())]);
    }
    let why = refused("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\nhello").await;
    assert!(why.contains("broke off within its answer"), "{why}");
}

/// Whether the next call uses another connection.
async fn is_left(answer: &str) -> bool {
    let (url, mut opened) = server_sending(answer).await;
    let client = client(&url);
    let first = post(&client, "1").await.unwrap().whole(1000).await.unwrap();
    assert!(first.len() <= 5, "{first:?}");
    let mut first = opened.recv().await.unwrap();
    // The client sends a second request, on this connection or on another one.
    let second = client.send(Method::POST, None, &[], Bytes::from_static(b"2"));
    let mut request = [0; 2000];
    tokio::select! {
        biased;
        length = first.read(&mut request) => length.unwrap_or(0) == 0,
        _ = second => panic!("a response to a request that was not answered"),
        _ = opened.recv() => true,
    }
}

#[tokio::test]
async fn what_comes_beyond_an_answer_is_no_answer_to_the_next_call() {
    let more = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    for (answer, is_spoilt) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ("HTTP/1.1 204 No\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 1\r\n\r\n1", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n1", true),
        ("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 1\r\n\r\n1", true),
        ("HTTP/1.1 204 No\r\ncontent-length: 5\r\n\r\n", true),
        ("HTTP/1.1 304 No\r\ntransfer-encoding: chunked\r\n\r\n", true),
    ] {
        assert_eq!(is_left(answer).await, is_spoilt, "{answer}");
        if !is_spoilt {
            assert!(is_left(&format!("{answer}{more}")).await, "{answer}");
            assert!(is_left(&format!("{answer}\r\n")).await, "{answer}");
        }
    }
}

#[tokio::test]
async fn what_comes_unasked_while_nobody_waits_is_no_answer_either() {
    let (url, mut opened) =
        server_sending("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    let limits = ConnectionLimits { check_after: Duration::ZERO, ..ConnectionLimits::default() };
    let client = HttpClient::new(Arc::new(Target::new(&url, [], limits).unwrap()));
    for _ in 0..3 {
        assert_eq!(posted(&client, "x").await, "hello");
        let mut stream = opened.recv().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await.unwrap();
    }
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let (url, mut opened) = server_sending("HTTP/1.1 200 OK\r\n\r\nhel").await;
    let whole = tokio::spawn(post(&client(&url), "x").await.unwrap().whole(5));
    let mut stream = opened.recv().await.unwrap();
    stream.write_all(b"lo").await.unwrap();
    drop(stream);
    assert_eq!(whole.await.unwrap().unwrap(), "hello");
}

#[tokio::test]
async fn an_answer_that_drips_is_the_same_answer() {
    let parts = [
        "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n",
    ];
    for answer in parts {
        let (url, mut opened) = server_sending("").await;
        let client = client(&url);
        let calls = tokio::spawn(async move {
            let answer = post(&client, "x").await.unwrap();
            (answer.whole(5).await, client)
        });
        let mut stream = opened.recv().await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in answer.as_bytes() {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        let (body, client) = calls.await.unwrap();
        assert_eq!(body.unwrap(), "hello");
        // The connection is used for the next request.
        let next = tokio::spawn(async move { post(&client, "next").await.unwrap().whole(9).await });
        let mut request = vec![0; 2000];
        let length = stream.read(&mut request).await.unwrap();
        assert!(request[..length].ends_with(b"\r\n\r\nnext"));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").await.unwrap();
        assert_eq!(next.await.unwrap().unwrap(), "1");
    }
}

#[tokio::test]
async fn a_refusal_is_heard_by_who_still_writes() {
    // A body that is larger than the socket buffers, and a server that reads almost nothing of it.
    let long: &'static str = Box::leak("x".repeat(20_000_000).into_boxed_str());
    let refusal = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
    let (url, mut opened) = server_sending(refusal).await;
    let client = client(&url);
    let answer = post(&client, long).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.whole(9).await.unwrap(), "no");
    // A connection with a partly written request is not used again.
    drop(opened.recv().await.unwrap());
    assert_eq!(post(&client, "x").await.unwrap().status, StatusCode::PAYLOAD_TOO_LARGE);
    let gone = opened.recv().await.unwrap();
    drop(gone);
    // A server that closes the connection without a response may have acted on the request.
    let (url, mut opened) = server_sending("").await;
    let lost = tokio::spawn(async move { post(&super::client(&url), long).await.unwrap_err() });
    drop(opened.recv().await.unwrap());
    assert!(matches!(lost.await.unwrap(), SendError::Lost(_)));
}
