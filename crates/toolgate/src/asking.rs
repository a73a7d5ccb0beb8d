//! How a client is asked something while a call is on its way, and how its answer comes back.

use std::{fmt, sync::Arc};

use toolgate_wire::Json;

use crate::boxed::Boxed;

/// How the client of a call can be asked. Found out at the door; nobody can be asked if nothing is said.
#[derive(Clone, Debug, Default)]
pub enum Asking {
    /// Not at all: it has no elicitation.
    #[default]
    Nobody,
    /// By a result that asks for input; the client repeats the call with the answer (from 2026-07-28 on).
    Rounds,
    /// By a request of our own, `elicitation/create`, while the call waits.
    Elicit(Arc<dyn Elicit>),
}

/// Sends `elicitation/create` to the client that a call came from.
pub trait Elicit: Send + Sync + fmt::Debug {
    /// Asks, and waits for the result. Dropping the future takes the question back.
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, NoAnswer>>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The client answered with an error: it cannot ask, whatever it said before.
    Unable,
    /// The client is gone.
    Gone,
}

/// What a client gives back with a call that it repeats: `requestState` and `inputResponses`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// `requestState`, as it was given to the client.
    pub state: Option<Json>,
    /// `inputResponses`
    pub responses: Option<Json>,
}
