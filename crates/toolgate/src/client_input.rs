//! How toolgate asks a client for input during a call, and how the client's answer comes back.

use std::{fmt, sync::Arc};

use toolgate_wire::Json;

use crate::boxed::Boxed;

/// How the client of a call can be asked for input. The transport sets it; the default is `Unavailable`.
#[derive(Clone, Debug, Default)]
pub enum ClientInput {
    /// The client does not support elicitation.
    #[default]
    Unavailable,
    /// By an `input_required` result: the client repeats the call with its answer (2026-07-28).
    ViaResult,
    /// By an `elicitation/create` request that toolgate sends while the call waits (legacy).
    ViaElicitation(Arc<dyn Elicit>),
}

/// Sends `elicitation/create` to the client of a call.
pub trait Elicit: Send + Sync + fmt::Debug {
    /// Sends the request and waits for its result. Dropping the future cancels the request.
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>>;
}

/// Why an elicitation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElicitError {
    /// The client answered with an error, of whichever code: its user was not asked, whatever capabilities the client
    /// declared. The layer goes on as for a client without elicitation; an error never counts as an answer.
    Unsupported,
    /// The client disconnected.
    Disconnected,
}

/// The members by which a client repeats a call with its input: `requestState` and `inputResponses`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputRound {
    /// `requestState`, as the client received it.
    pub state: Option<Json>,
    /// `inputResponses`
    pub responses: Option<Json>,
}
