//! The client of a request, as layers see it: progress, log messages, questions.

use toolgate_wire::Json;

use crate::{boxed::Boxed, client_input::ElicitError};

/// The client of a request. [`Next::peer`](crate::Next::peer) returns it.
pub trait Peer: Send + Sync {
    /// Tells the client how far the call is. Does nothing if the client did not ask for progress. Returns whether the
    /// message was sent.
    fn progress<'a>(
        &'a self,
        progress: f64,
        total: Option<f64>,
        message: Option<&'a str>,
    ) -> Boxed<'a, bool>;

    /// Sends a log message, if the client wants messages of this level. Returns whether the message was sent.
    fn log<'a>(&'a self, level: LogLevel, logger: &'a str, data: Json) -> Boxed<'a, bool>;

    /// Asks the client's user, with the params of `elicitation/create`, and waits for the result.
    ///
    /// Clients of 2026-07-28 cannot be asked during a call: [`ElicitError::Unsupported`]. Answer them with a result that
    /// [asks](crate::Outcome::asked).
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>>;
}

/// The level of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of MCP and of syslog")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// The name in MCP.
    ///
    /// ```
    /// assert_eq!(toolgate::LogLevel::Warning.name(), "warning");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}
