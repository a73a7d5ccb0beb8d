//! `toolgate stdio --to URL`: one client over stdio, a running gateway behind a URL.
//!
//! It decides nothing: each line of the client is posted, what comes back becomes lines again. Sessions, headers
//! and streams, which stdio does not have, are kept here.

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
    http_client::{Bounds, HttpClient, Target},
    transports::{line_front::LineFront, stdio},
    write_queue::WriteQueue,
};

/// Where the gateway is.
#[derive(Clone)]
pub struct BridgeOptions {
    /// Its address, with the namespace: `http://127.0.0.1:8642/mcp/work`.
    pub url: String,
    /// What it knows the client by.
    pub token: Option<String>,
}

impl std::fmt::Debug for BridgeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeOptions").finish_non_exhaustive()
    }
}

/// Why the gateway cannot be reached at all.
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
        let target = Target::new(&options.url, headers, Bounds::default())
            .map_err(|error| BridgeError(error.to_string()))?;
        // A query may hold a secret.
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

    /// Runs until the client is gone or `stop` is done: then gives what that gave.
    pub async fn run<T>(self, stop: impl Future<Output = T>) -> std::io::Result<Option<T>> {
        stdio::run(&self.0, stop).await
    }
}
