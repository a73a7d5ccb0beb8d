//! Errors of the engine.

use std::time::Duration;

use toolgate::{Code, Executed, Failure};

/// Why tmux did not run a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TmuxError {
    /// No process listens on the socket.
    #[error("no tmux server is running on this socket")]
    NoServer,
    /// tmux refused a command. Contains tmux's message.
    #[error("{0}")]
    Refused(String),
    /// tmux did not answer in time. If the command was sent, tmux may still run it.
    #[error("tmux {command} did not return within {}s; the tmux server is unresponsive", .after.as_secs_f64())]
    TimedOut {
        /// The first command of the list.
        command: String,
        /// The time limit.
        after: Duration,
        /// Whether the command was sent.
        sent: bool,
    },
    /// The connection broke before tmux answered.
    #[error("the connection to tmux broke before it answered")]
    Lost,
    /// An argument contains a NUL.
    #[error("tmux takes no text with a NUL character")]
    Nul,
    /// The tmux program could not be started.
    #[error("tmux binary not found. Ensure tmux is installed and in PATH.")]
    NoBinary,
    /// tmux's answer could not be understood.
    #[error("tmux answered in a way that toolgate does not understand: {0}")]
    Garbled(&'static str),
    /// tmux's answer is larger than the limit.
    #[error("tmux answered with more than {0} bytes")]
    TooLarge(usize),
}

impl TmuxError {
    /// Whether tmux refused with a message that contains these words.
    #[must_use]
    pub fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused(message) if message.contains(words))
    }

    /// The failure, with this suggestion if tmux refused with any of these messages.
    #[must_use]
    pub fn hinted(self, words: &[&str], next: &'static str) -> Failure {
        let has_words = words.iter().any(|words| self.says(words));
        let failure = Failure::from(self);
        if has_words { failure.with_executed(Executed::No).suggest(next) } else { failure }
    }
}

impl From<TmuxError> for Failure {
    fn from(error: TmuxError) -> Self {
        let message = error.to_string();
        match error {
            TmuxError::Refused(message) => missing(&message).unwrap_or_else(|| {
                Self::tool("LibTmuxException", format!("tmux error: {message}"))
            }),
            TmuxError::NoServer => Self::tool("TmuxServerNotRunning", message).suggest(
                "Call list_servers for the servers that run, or create_session to start one.",
            ),
            TmuxError::TimedOut { sent: false, .. } => Self::new(Code::TimedOut, message)
                .with_executed(Executed::No)
                .suggest("Call it again when tmux answers; tmux was not asked."),
            TmuxError::TimedOut { .. } => Self::new(Code::TimedOut, message)
                .with_executed(Executed::Maybe)
                .suggest("Call it again when tmux answers; what was asked may still happen."),
            TmuxError::Lost => Self::tool("TmuxConnectionLost", message)
                .with_executed(Executed::Maybe)
                .transient()
                .suggest("Look at what there is before you call it again: it may have happened."),
            TmuxError::Nul => Self::new(Code::InvalidArguments, message),
            TmuxError::NoBinary => {
                Self::tool("TmuxCommandNotFound", message).expected(false).suggest(
                    "The operator can name the program: --tmux-bin, LIBTMUX_TMUX_BIN or tmux.bin.",
                )
            }
            TmuxError::Garbled(_) => Self::tool("TmuxProtocolError", message).expected(false),
            TmuxError::TooLarge(_) => {
                Self::tool("TmuxReplyTooLarge", message).suggest("Ask for fewer lines.")
            }
        }
    }
}

/// The failure for a missing target: tmux has several messages for that.
fn missing(message: &str) -> Option<Failure> {
    if message == "no current target" {
        // tmux looks for a session first, whatever the target is.
        let message = "The tmux server has no session";
        return Some(Failure::tool("SessionNotFound", message).suggest("Call create_session."));
    }
    let kinds = [
        ("can't find pane: ", not_found::pane as fn(&str) -> Failure),
        ("can't find window: ", not_found::window),
        ("can't find session: ", not_found::session),
        // Commands about options have messages of their own.
        ("no such pane: ", not_found::pane),
        ("no such window: ", not_found::window),
        ("no such session: ", not_found::session),
    ];
    kinds.iter().find_map(|(words, failure)| Some(failure(message.strip_prefix(words)?)))
}

/// The failures for targets that do not exist.
pub mod not_found {
    use toolgate::Failure;

    /// The pane does not exist.
    #[must_use]
    pub fn pane(id: &str) -> Failure {
        Failure::tool("PaneNotFound", format!("Pane not found: {id}"))
            .suggest("Call list_panes to discover valid pane ids.")
    }

    /// The window does not exist.
    #[must_use]
    pub fn window(what: &str) -> Failure {
        Failure::tool("WindowNotFound", format!("Window not found: {what}"))
            .suggest("Call list_windows to discover valid window ids.")
    }

    /// The session does not exist.
    #[must_use]
    pub fn session(what: &str) -> Failure {
        Failure::tool("SessionNotFound", format!("Session not found: {what}"))
            .suggest("Call list_sessions to discover valid sessions.")
    }
}
