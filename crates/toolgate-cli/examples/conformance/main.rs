//! The server that the official conformance suite asks for: every tool, resource and prompt that its scenarios name.
//!
//! `--http ADDR` serves streamable HTTP at `/mcp`, `--stdio` serves one client over the pipes. `--era legacy` speaks
//! only the versions with `initialize`, `--era modern` only the ones without; both is the default. What a tool asks of the
//! client is the same in both eras: a request during the call in the older one, an `input_required` result in the newer one.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a program for the tests: what cannot go on should say where"
)]

mod asking;
mod catalog;
mod http;
mod jobs;
mod questions;
mod server;
mod sessions;

use std::{sync::Arc, time::Duration};

use http::Answer;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Bytes, body::Incoming};
use rmcp::{
    ServiceExt as _,
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde_json::{Value, json};
use server::{Conformance, Era, Shared};
use sessions::Sessions;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// How long a client waits before it comes back to a stream that was closed on it.
const RETRY: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let era = match value("--era").as_deref() {
        None | Some("both") => Era::Both,
        Some("legacy") => Era::Legacy,
        Some("modern") => Era::Modern,
        Some(other) => return eprintln!("unknown era `{other}`: legacy, modern or both"),
    };
    if let Some(address) = value("--http") {
        serve_http(&address, era).await;
    } else if arguments.iter().any(|argument| argument == "--stdio") {
        serve_stdio(era).await;
    } else {
        eprintln!("usage: conformance --http ADDR | --stdio [--era legacy|modern|both]");
    }
}

async fn serve_stdio(era: Era) {
    let (mut input, filtered) = tokio::io::duplex(1 << 16);
    let feed = async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if era == Era::Legacy && is_discovery(&line) {
                // As servers answered before there was a newer era: the library behind this one would know better.
                let id = serde_json::from_str::<Value>(&line).unwrap()["id"].take();
                let error = json!({"code": -32601, "message": "Method not found"});
                let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                let _ = tokio::io::stdout().write_all(format!("{answer}\n").as_bytes()).await;
                continue;
            }
            if input.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::spawn(feed);
    let server = Conformance::new(Shared::new(era, None));
    if let Ok(running) = server.serve((filtered, tokio::io::stdout())).await {
        let _ = running.waiting().await;
    }
}

fn is_discovery(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|message| message["method"] == "server/discover")
}

async fn serve_http(address: &str, era: Era) {
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let sessions = Arc::new(Sessions::new(RETRY));
    let shared = Shared::new(era, Some(sessions.clone()));
    let config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(RETRY))
        .with_legacy_session_mode(era != Era::Modern)
        .with_stateless_protocol_metadata_required(era == Era::Modern)
        .with_allowed_origins([
            format!("http://{address}"),
            format!("http://localhost:{}", address.port()),
        ]);
    let service =
        StreamableHttpService::new(move || Ok(Conformance::new(shared.clone())), sessions, config);
    http::serve(&listener, move |request| {
        let service = service.clone();
        async move { answer(&service, era, request).await }
    })
    .await;
}

async fn answer(
    service: &StreamableHttpService<Conformance, Sessions>,
    era: Era,
    request: Request<Incoming>,
) -> Answer {
    if request.uri().path() != "/mcp" {
        return plain(404, "");
    }
    let version = request.headers().get("mcp-protocol-version");
    if era == Era::Legacy && version.is_some_and(|version| version == server::MODERN) {
        // As servers answered before there was a newer era: the library behind this one would know better.
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Unsupported protocol version"}}"#;
        return plain(400, body);
    }
    service.handle(request).await
}

fn plain(status: u16, body: &'static str) -> Answer {
    let answer = Response::builder().status(status).header("content-type", "application/json");
    answer.body(Full::new(Bytes::from_static(body.as_bytes())).boxed()).unwrap()
}
