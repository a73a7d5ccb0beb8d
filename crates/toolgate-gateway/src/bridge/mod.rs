//! `toolgate stdio --to URL`: one client over stdio, a running gateway behind a URL.
//!
//! The bridge decides nothing: it posts each line of the client, and writes the gateway's messages as lines. It keeps
//! the sessions, headers and streams, which stdio does not have.

mod failures;
mod headers;
mod link;
mod service;
mod session;
mod session_stream;

use std::sync::Arc;

use toolgate_wire::Limits;

use self::{link::Link, service::BridgeService, session::BridgeSession};
use crate::{
    http_client::{ConnectionLimits, HttpClient, Target},
    transports::{line_front::LineFront, stdio},
    write_queue::WriteQueue,
};

/// The gateway's address, and the token for it.
#[derive(Clone)]
pub struct BridgeOptions {
    /// The gateway's address with the namespace: `http://127.0.0.1:8642/mcp/work`.
    pub url: String,
    /// The token by which the gateway knows the client.
    pub token: Option<String>,
}

impl std::fmt::Debug for BridgeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeOptions").finish_non_exhaustive()
    }
}

/// Why the bridge cannot start: the address or the token is not valid.
#[derive(Debug, thiserror::Error)]
#[error("cannot speak to the gateway: {0}")]
pub struct BridgeError(String);

/// The bridge from one client to a running gateway.
#[derive(Debug)]
pub struct Bridge(LineFront<BridgeService>);

impl Bridge {
    /// Checks the address and the token; connects to nothing yet.
    pub fn new(options: &BridgeOptions) -> Result<Self, BridgeError> {
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers = authorization.map(|value| ("Authorization".to_owned(), value));
        let target = Target::new(&options.url, headers, ConnectionLimits::default())
            .map_err(|error| BridgeError(error.to_string()))?;
        // Messages show the address without its query, which may hold a secret.
        let url = options.url.split(['?', '#']).next().unwrap_or_default();
        let to_client = Arc::new(WriteQueue::new());
        let session = BridgeSession::new(Link {
            gateway: HttpClient::new(Arc::new(target)),
            url: url.to_owned(),
            limits: Limits::default(),
            to_client: Arc::clone(&to_client),
        });
        Ok(Self(LineFront::new(BridgeService::new(session), to_client, Arc::default())))
    }

    /// Runs until the client disconnects or `stop` completes. Returns the output of `stop` in the second case.
    pub async fn run<T>(self, stop: impl Future<Output = T>) -> std::io::Result<Option<T>> {
        stdio::run(&self.0, stop).await
    }
}
