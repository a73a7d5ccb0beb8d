//! The gateway's own door: addresses that are taken, and clients that are let in.

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

/// How long requests under way may take when the gateway ends.
const LAST_CALLS: Duration = Duration::from_secs(5);

impl RunningGateway {
    /// Takes the addresses: nobody is let in yet.
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
        let door = McpHandler::new(Arc::clone(&self.gateway), guard);
        Ok(BoundListener { bound, door: Arc::new(door) })
    }
}

/// Addresses that were taken.
#[derive(Debug)]
pub struct BoundListener {
    bound: BoundAddresses,
    door: Arc<McpHandler>,
}

impl BoundListener {
    /// The addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.bound.addresses()
    }

    /// Lets clients in.
    pub fn open(self, serve: &RunningGateway) -> Result<HttpServer, GatewayError> {
        let config = &serve.options.serve;
        let mut settings =
            HttpSettings { connections: config.connections, ..HttpSettings::default() };
        if let Some(threads) = config.threads {
            settings.threads = threads;
        }
        let listening = self.bound.serve(&self.door, settings);
        let listening = listening.map_err(|error| GatewayError::Settings(error.to_string()))?;
        Ok(HttpServer(listening))
    }
}

/// The door while it is open.
#[derive(Debug)]
pub struct HttpServer(RunningListener);

impl HttpServer {
    /// Lets nobody in any more, and waits, for a while, for requests under way.
    pub async fn stop(self, serve: &RunningGateway) {
        serve.close();
        self.0.stop(LAST_CALLS).await;
    }
}
