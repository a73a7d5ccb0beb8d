//! What a tool has at hand while it runs.

use std::{borrow::Cow, sync::Arc};

use rmcp::{RoleServer, service::RequestContext};
use toolgate::Failure;

use crate::{
    engine::{Engine, Server, Socket},
    guard::Guard,
    mask::masked,
    options::Options,
};

/// The engine, the guard and the request.
#[derive(Clone)]
pub struct Cx {
    pub(crate) shared: Arc<Shared>,
    /// The request: for progress and for asking the client.
    pub request: RequestContext<RoleServer>,
}

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) guard: Guard,
    pub(crate) options: Options,
}

impl Cx {
    /// The server that a call means: by name, or the one that is set for all calls.
    ///
    /// A name wins over whatever is set, also over a path.
    pub fn server(&self, socket_name: Option<&str>) -> Result<Arc<Server>, Failure> {
        let socket = match socket_name {
            None => self.shared.options.socket.clone(),
            Some(name)
                if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') =>
            {
                return Err(Failure::tool(
                    "InvalidSocketName",
                    format!("Invalid socket name: '{name}'"),
                )
                .suggest("Give the name of a socket in tmux's folder, as `default`; list_servers knows them."));
            }
            Some(name) => Socket::Name(name.to_owned()),
        };
        Ok(self.shared.engine.server(socket))
    }

    /// The engine, for other sockets.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// What the server is set to.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Text of a screen, a buffer or a program, as it may be shown. Whatever tells of these goes through here.
    #[must_use]
    pub fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.shared.options.mask { masked(text) } else { Cow::Borrowed(text) }
    }

    /// What keeps tools from ending the pane that we run in.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.shared.guard
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cx").field("shared", &self.shared).finish_non_exhaustive()
    }
}
