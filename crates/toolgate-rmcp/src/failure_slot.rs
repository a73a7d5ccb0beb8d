//! Lets a handler fail with a complete `Failure`.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{ErrorData, RoleServer, service::RequestContext};
use toolgate::Failure;

use crate::wire::to_error;

/// Where a handler leaves the failure that its error represents.
#[derive(Clone, Default)]
pub(crate) struct FailureSlot(Arc<Mutex<Option<Failure>>>);

impl FailureSlot {
    pub(crate) fn take(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The error with which a handler answers a call. The chain around it gets the failure itself, with its type, its
/// suggestion and whether the tool ran.
///
/// An `ErrorData` alone has only a code and a message. Without a chain, the client gets the failure's JSON-RPC error.
pub fn raise(context: &RequestContext<RoleServer>, failure: Failure) -> ErrorData {
    let error = to_error(failure.to_rpc());
    if let Some(FailureSlot(slot)) = context.extensions.get::<FailureSlot>() {
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
    error
}
