//! The gateway's own door: addresses that are taken, and clients that are let in.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    inbound::{
        http::{
            Settings as HttpSettings,
            guard::Guard,
            listen::{Bound, Listening, raise_open_files},
        },
        mcp::Door,
    },
    serve::{Serve, ServeError},
};

/// How long requests under way may take when the gateway ends.
const LAST_CALLS: Duration = Duration::from_secs(5);

impl Serve {
    /// Takes the addresses: nobody is let in yet.
    pub fn bind(&self) -> Result<Entrance, ServeError> {
        let serve = &self.options.serve;
        let settings = |why: String| ServeError::Settings(why);
        if raise_open_files().is_none() {
            tracing::debug!("the number of open files is not known");
        }
        let bound = Bound::bind(&serve.listen).map_err(|error| settings(error.to_string()))?;
        let guard = Guard::new(bound.addresses(), &serve.hosts, &serve.origins);
        let guard = guard.map_err(|error| settings(error.to_string()))?;
        let door = Door::new(Arc::clone(&self.gateway), guard);
        Ok(Entrance { bound, door: Arc::new(door) })
    }
}

/// Addresses that were taken.
#[derive(Debug)]
pub struct Entrance {
    bound: Bound,
    door: Arc<Door>,
}

impl Entrance {
    /// The addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.bound.addresses()
    }

    /// Lets clients in.
    pub fn open(self, serve: &Serve) -> Result<Doorkeeper, ServeError> {
        let config = &serve.options.serve;
        let mut settings =
            HttpSettings { connections: config.connections, ..HttpSettings::default() };
        if let Some(threads) = config.threads {
            settings.threads = threads;
        }
        let listening = self.bound.serve(&self.door, settings);
        let listening = listening.map_err(|error| ServeError::Settings(error.to_string()))?;
        Ok(Doorkeeper(listening))
    }
}

/// The door while it is open.
#[derive(Debug)]
pub struct Doorkeeper(Listening);

impl Doorkeeper {
    /// Lets nobody in any more, and waits, for a while, for requests under way.
    pub async fn stop(self, serve: &Serve) {
        serve.close();
        self.0.stop(LAST_CALLS).await;
    }
}
