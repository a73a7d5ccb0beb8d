//! Failures of requests to a server: unreachable, lost on the way, or answered with something that is not MCP.

use toolgate::{Code, Executed, Failure};

use crate::capabilities::ClientCapabilities;

/// The server cannot be reached: the call did not run.
pub(crate) fn unavailable(server: &str, why: &str) -> Failure {
    let message = format!("The server `{server}` cannot be reached: {why}");
    Failure::new(Code::ServerUnavailable, message)
        .suggest("Try again in a moment.")
        .with_executed(Executed::No)
}

/// The entry of the server in the config cannot be used: the call did not run.
pub(crate) fn unusable(server: &str, why: &str) -> Failure {
    let message = format!("The server `{server}` cannot be started: {why}");
    Failure::new(Code::ServerUnavailable, message)
        .suggest("Only the operator can correct the config.")
        .with_executed(Executed::No)
}

/// How far a request had come when its connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossStage {
    /// No byte of it was written.
    NotSent,
    /// It was part of the handshake: no call was sent on this connection.
    Handshake,
    /// It was sent, and may have run.
    Sent,
}

/// The connection was lost before the response came.
pub(crate) fn connection_lost(server: &str, why: &str, stage: LossStage) -> Failure {
    let ended = format!("The server `{server}` ended ({why})");
    let (message, next) = match stage {
        LossStage::NotSent => (
            format!("{ended} before the call reached it: it did not run"),
            "Call again once the server is back.",
        ),
        LossStage::Handshake => (format!("{ended} at its start"), "Try again in a moment."),
        LossStage::Sent => (
            format!("{ended} while the call was under way: it may have run"),
            "Check what the call did before you repeat it.",
        ),
    };
    let executed = if stage == LossStage::NotSent { Executed::No } else { Executed::Maybe };
    Failure::new(Code::ServerCrashed, message).suggest(next).with_executed(executed)
}

/// Maps a crash during the handshake to `ServerUnavailable`: the call was never sent.
pub(crate) fn not_opened(failure: Failure) -> Failure {
    if failure.code() != Code::ServerCrashed || failure.executed() == Executed::No {
        return failure;
    }
    Failure::new(Code::ServerUnavailable, failure.message())
        .suggest("Try again in a moment.")
        .with_executed(Executed::No)
}

/// The server asks for what the client cannot do: the client's shortcoming, not the server's.
pub(crate) fn client_incapable(server: &str, what: &str, missing: ClientCapabilities) -> Failure {
    let message = format!("The server `{server}` {what}, which the client cannot do");
    let required = missing.capabilities().to_value().unwrap_or_default();
    Failure::new(Code::ClientIncapable, message)
        .suggest("Use a client that declares the capability, or another tool.")
        .with_fact("requiredCapabilities", required)
        .with_executed(Executed::Maybe)
}

/// The server sent something that is not valid MCP.
pub(crate) fn protocol_violation(server: &str, what: &str) -> Failure {
    let message = format!("The server `{server}` {what}");
    Failure::new(Code::ServerProtocol, message)
        .suggest("Report it to the server's authors; the call may have run.")
        .with_executed(Executed::Maybe)
}
