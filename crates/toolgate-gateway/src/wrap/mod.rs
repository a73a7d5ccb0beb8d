//! `toolgate wrap`: one client over stdio, one server as a child process, the chain in between.
//!
//! The two directions are [`client`] and [`server`]; a request that the chain looks at takes the way
//! through [`requests`] and [`upstream`], everything else is passed on as the bytes that came in.

mod asking;
mod client;
mod hub;
mod life;
mod pending;
mod reply;
mod requests;
mod restart;
mod server;
mod tools;
mod upstream;

use std::{sync::Arc, time::Duration};

use toolgate::{
    Principal, Session,
    settings::Settings,
    stack::{self, Stack, StackError},
};

use crate::outbound::child::ServerCommand;

/// The id of the wrapped server: tools are `main/NAME`.
pub const SERVER: &str = "main";

/// The namespace that the wrapped server joins.
pub const NAMESPACE: &str = "default";

/// What to wrap, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: ServerCommand,
    /// What the chain is set to.
    pub settings: Settings,
    /// Start the server again when it ends by itself.
    pub restart: bool,
    /// How long it may take to answer `initialize`.
    pub start_timeout: Duration,
}

/// A server with a chain in front of it, ready to run.
#[derive(Debug)]
pub struct Wrap {
    options: Options,
    stack: Stack,
    session: Session,
}

impl Wrap {
    /// Builds the chain; refuses what does not fit together.
    pub fn new(options: Options) -> Result<Self, StackError> {
        let stack = stack::build(&options.settings)?;
        let principal = Principal::local();
        let id: Arc<str> = toolgate::CallId::next().to_string().into();
        let session = Session { id, namespace: NAMESPACE.into(), principal };
        Ok(Self { options, stack, session })
    }

    /// The chain, for people who want to see it.
    #[must_use]
    pub fn chain(&self) -> &toolgate::Chain {
        &self.stack.chain
    }

    /// Runs until the client is gone, the server is gone for good, or a signal comes. Gives the exit code.
    pub async fn run(self) -> u8 {
        let audit = self.stack.audit.clone();
        let code = life::run(self.options, self.stack, self.session).await;
        if let Some(audit) = audit {
            // Blocks, but nothing else runs any more.
            audit.close(Duration::from_secs(5));
            let lost = audit.counts().lost();
            if lost > 0 {
                tracing::error!(lost, "audit records were lost");
            }
        }
        code
    }
}
