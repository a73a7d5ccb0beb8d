//! `toolgate stdio --to URL`: one client over stdio, a running gateway behind a URL.
//!
//! It decides nothing: each line of the client is posted, what comes back becomes lines again. Sessions, headers
//! and streams, which stdio does not have, are kept here.

mod answers;
mod batch;
mod client;
mod failures;
mod headers;
mod hub;
mod learnt;
mod session;
mod stream;

use std::{sync::Arc, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::timeout,
};

use self::hub::Hub;
use crate::{
    inbound::stdio,
    outbound::http::{Bounds, Client, Target},
};

/// After the client closed its end, requests in flight may take this long.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// The gateway may take this long to hear that the session is over.
const FAREWELL: Duration = Duration::from_secs(2);
/// What is queued for a client may take this long to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// So many messages of the client wait for those before them.
const QUEUE: usize = 64;

/// Where the gateway is.
#[derive(Clone)]
pub struct Options {
    /// Its address, with the namespace: `http://127.0.0.1:8642/mcp/work`.
    pub url: String,
    /// What it knows the client by.
    pub token: Option<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// Why the gateway cannot be spoken to.
#[derive(Debug, thiserror::Error)]
#[error("cannot speak to the gateway: {0}")]
pub struct ThinError(String);

/// A client's way to a gateway that runs elsewhere.
#[derive(Debug)]
pub struct Thin {
    hub: Arc<Hub>,
}

impl Thin {
    /// Looks at the address and the token; speaks to nobody yet.
    pub fn new(options: &Options) -> Result<Self, ThinError> {
        let authorization = options.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers = authorization.map(|value| ("Authorization".to_owned(), value));
        let target = Target::new(&options.url, headers, Bounds::default())
            .map_err(|error| ThinError(error.to_string()))?;
        // A query may hold a secret.
        let shown = options.url.split(['?', '#']).next().unwrap_or_default();
        Ok(Self { hub: Arc::new(Hub::new(Client::new(Arc::new(target)), shown)) })
    }

    /// Runs until the client is gone or a signal comes. Gives the exit code.
    pub async fn run(self) -> u8 {
        match self.live().await {
            Ok(code) => code,
            Err(error) => {
                tracing::error!(%error, "cannot use standard input and output");
                1
            }
        }
    }

    async fn live(self) -> std::io::Result<u8> {
        let hub = self.hub;
        let (input, output) = (stdio::input()?, stdio::output()?);
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (queue, queued) = mpsc::channel(QUEUE);
        let reader = tokio::spawn(client::read(hub.limits.max_bytes, input, queue));
        let mut worker = tokio::spawn(client::work(Arc::clone(&hub), queued));
        let writing = Arc::clone(&hub);
        let mut writer = tokio::spawn(async move { writing.to_client.drain(output).await });
        let code = tokio::select! {
            _ = reader => {
                let rest = async {
                    let _ = (&mut worker).await;
                    hub.settled().await;
                };
                tokio::select! {
                    _ = timeout(LAST_CALLS, rest) => 0,
                    _ = terminate.recv() => 128 + 15,
                    _ = interrupt.recv() => 128 + 2,
                }
            }
            _ = &mut writer => 0,
            _ = terminate.recv() => 128 + 15,
            _ = interrupt.recv() => 128 + 2,
        };
        worker.abort();
        hub.give_up();
        hub.settled().await;
        let _ = timeout(FAREWELL, hub.end_session()).await;
        hub.to_client.close();
        if !writer.is_finished() && timeout(LAST_WORDS, &mut writer).await.is_err() {
            tracing::warn!("the client did not read what was left for it");
        }
        Ok(code)
    }
}
