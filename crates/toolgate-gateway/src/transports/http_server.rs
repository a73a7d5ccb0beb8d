//! The gateway's HTTP server: binds the addresses, and accepts clients.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    gateway::{GatewayError, RunningGateway},
    transports::{
        http::{
            HttpLimits as HttpSettings,
            guard::Guard,
            listen::{BoundAddresses, RunningListener, raise_open_files},
        },
        streamable_http::McpHandler,
    },
};

/// How long requests under way may take when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

impl RunningGateway {
    /// Binds the addresses. No connection is accepted yet.
    pub fn bind(&self) -> Result<BoundListener, GatewayError> {
        let serve = &self.options.serve;
        let settings = |why: String| GatewayError::Settings(why);
        if raise_open_files().is_none() {
            tracing::debug!("the number of open files is not known");
        }
        let bound =
            BoundAddresses::bind(&serve.listen).map_err(|error| settings(error.to_string()))?;
        let guard = Guard::new(bound.addresses(), &serve.hosts, &serve.origins);
        let guard = guard.map_err(|error| settings(error.to_string()))?;
        let handler = McpHandler::new(Arc::clone(&self.gateway), guard);
        Ok(BoundListener { bound, handler: Arc::new(handler) })
    }
}

/// Bound addresses on which no connection is accepted yet.
#[derive(Debug)]
pub struct BoundListener {
    bound: BoundAddresses,
    handler: Arc<McpHandler>,
}

impl BoundListener {
    /// The bound addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.bound.addresses()
    }

    /// Starts to accept connections.
    pub fn open(self, serve: &RunningGateway) -> Result<HttpServer, GatewayError> {
        let config = &serve.options.serve;
        let mut settings =
            HttpSettings { connections: config.connections, ..HttpSettings::default() };
        if let Some(threads) = config.threads {
            settings.threads = threads;
        }
        let listening = self.bound.serve(&self.handler, settings);
        let listening = listening.map_err(|error| GatewayError::Settings(error.to_string()))?;
        Ok(HttpServer(listening))
    }
}

/// The running HTTP server.
#[derive(Debug)]
pub struct HttpServer(RunningListener);

impl HttpServer {
    /// Stops accepting connections, and waits for a limited time for requests under way.
    pub async fn stop(self, serve: &RunningGateway) {
        serve.close();
        self.0.stop(SHUTDOWN_TIMEOUT).await;
    }
}
