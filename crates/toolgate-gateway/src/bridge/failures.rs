//! The failures that a client gets when the gateway gives no usable response.

use hyper::StatusCode;
use toolgate::{Code, Executed, Failure};

use crate::http_client::{BodyError, SendError};

/// The gateway sent no response.
pub(super) fn unanswered(url: &str, error: &SendError) -> Failure {
    match error {
        SendError::NotSent(why) => {
            let hint = format!("is toolgate serve running at {url}?");
            Failure::new(
                Code::ServerUnavailable,
                format!("the gateway is not there: {why}; {hint}"),
            )
            .with_executed(Executed::No)
            .suggest(format!("start it with `toolgate serve`, then call again; {hint}"))
        }
        SendError::Lost(why) => lost(url, why),
    }
}

/// The connection broke off while the request was under way.
pub(super) fn lost(url: &str, why: &str) -> Failure {
    let text = format!("the gateway was lost while the request was under way: {why}");
    Failure::new(Code::ServerCrashed, text).with_executed(Executed::Maybe).suggest(format!(
        "check what the call did before you repeat it; is toolgate serve still running at {url}?"
    ))
}

/// The response could not be read.
pub(super) fn unread(url: &str, error: &BodyError) -> Failure {
    match error {
        BodyError::TooLarge(_) => nonsense(url, &error.to_string()),
        BodyError::Broken(why) => lost(url, why),
    }
}

/// The gateway answered with something other than a valid response.
pub(super) fn nonsense(url: &str, what: &str) -> Failure {
    Failure::new(Code::ServerProtocol, format!("{url} answered with {what}"))
        .suggest(format!("check that {url} is the address of a toolgate gateway"))
}

/// The gateway refused with an HTTP status alone.
pub(super) fn status(url: &str, status: StatusCode) -> Failure {
    let says = format!("{url} answered {status}");
    let (code, hint) = match status.as_u16() {
        401 => (
            Code::Refused,
            "name the variable that holds a token of the gateway's `[serve.tokens]` with `--token-env`",
        ),
        403 => (
            Code::Refused,
            "reach the gateway under a name of this machine, or add the name to its `serve.hosts`",
        ),
        404 => (Code::ServerUnavailable, "check the namespace at the end of the address"),
        413 => (
            Code::MessageTooLarge,
            "send less at once; only the operator of the gateway can raise `limits.message_bytes`",
        ),
        429 => (Code::Overloaded, "wait for calls in flight to end, then call again"),
        500.. => (Code::ServerUnavailable, "look at the gateway's log, then call again"),
        _ => (Code::ServerProtocol, "check that this is the address of a toolgate gateway"),
    };
    Failure::new(code, format!("{says}: {hint}")).suggest(hint)
}
