//! The framing of chunked bodies: hyper reads it, and must refuse the ambiguous cases.

use super::hostile::refused;

async fn is_refused(chunks: &str) {
    let why = refused(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"));
    let why = why.await;
    assert!(why.contains("broke off within its answer"), "{chunks:?}: {why}");
}

#[tokio::test]
async fn chunks_that_could_be_read_in_two_ways_are_refused() {
    for bad in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "-1\r\n",
        "\r\n",
        ";x\r\n",
        "5;x\ny\r\nhello\r\n",
        "5;x\ry\r\nhello\r\n",
        "10000000000000005\r\nhello\r\n",
    ] {
        is_refused(bad).await;
    }
}

#[tokio::test]
async fn what_is_said_beside_the_chunks_has_an_end() {
    let extensions = format!("1;{}\r\nx\r\n", "y".repeat(1000)).repeat(20);
    let trailers = format!("0\r\n{}", "x: yyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1000));
    let trailer = format!("0\r\nx: {}", "y".repeat(70_000));
    let line = format!("1;{}", "x".repeat(20_000));
    for endless in [extensions, trailers, trailer, line] {
        is_refused(&endless).await;
    }
}
