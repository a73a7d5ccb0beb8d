//! Identities of tools and callers, independent of names on the wire.

use std::{fmt, sync::Arc};

/// A tool's identity: the configured id of its server and the server's own name for it.
///
/// Admission resolves it once. Middleware decides on identities; aliases and prefixes are names on the wire and never
/// decide anything.
///
/// ```
/// use toolgate::ToolId;
///
/// let id = ToolId::new("files", "read");
/// assert_eq!((id.server(), id.name(), id.to_string()), ("files", "read", "files/read".to_owned()));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ToolId {
    server: Arc<str>,
    name: Arc<str>,
}

impl ToolId {
    /// The tool `name` of the server configured as `server`.
    pub fn new(server: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { server: server.into(), name: name.into() }
    }

    /// The configured id of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The server's own name for the tool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.name)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolId({self})")
    }
}

/// The caller. The transport sets it; no message can.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Principal {
    /// The user that started toolgate, over stdio.
    Local(Arc<str>),
    /// The holder of an API key, by the key's id.
    Key(Arc<str>),
    /// The subject of a verified token.
    Subject(Arc<str>),
    /// An unauthenticated caller.
    Anonymous,
}

impl Principal {
    /// The user that started this process, by the name in the environment.
    #[must_use]
    pub fn local() -> Self {
        let name = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        Self::Local(name.unwrap_or_else(|| "unknown".to_owned()).into())
    }

    /// The name of the user, the id of the key, or the subject of the token, without the kind. Empty for an anonymous
    /// caller.
    ///
    /// ```
    /// use toolgate::Principal;
    ///
    /// let principal = Principal::Key("ci".into());
    /// assert_eq!((principal.kind(), principal.id()), ("key", "ci"));
    /// assert_eq!(principal.to_string(), "key:ci");
    /// ```
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Local(id) | Self::Key(id) | Self::Subject(id) => id,
            Self::Anonymous => "",
        }
    }

    /// `local`, `key`, `subject` or `anonymous`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Key(_) => "key",
            Self::Subject(_) => "subject",
            Self::Anonymous => "anonymous",
        }
    }

    /// The pieces of its text.
    pub(crate) fn pieces(&self) -> [&str; 3] {
        let colon = if matches!(self, Self::Anonymous) { "" } else { ":" };
        [self.kind(), colon, self.id()]
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().iter().try_for_each(|piece| f.write_str(piece))
    }
}
