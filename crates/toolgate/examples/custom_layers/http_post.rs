//! The smallest HTTP client that sends a record, in place of the one that your program has.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends JSON to `/log` and waits for the response.
pub(crate) async fn post(to: &SocketAddr, record: &serde_json::Value) -> std::io::Result<()> {
    let body = record.to_string();
    let mut stream = TcpStream::connect(to).await?;
    let length = body.len();
    let head = format!("POST /log HTTP/1.0\r\nHost: {to}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let accepted = response.starts_with("HTTP/1.0 200") || response.starts_with("HTTP/1.1 200");
    if accepted { Ok(()) } else { Err(std::io::Error::other("the record was not accepted")) }
}
