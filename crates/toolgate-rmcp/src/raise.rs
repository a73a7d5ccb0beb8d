//! Failures of a handler's own, with everything that the chain can say about one.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{ErrorData, RoleServer, service::RequestContext};
use toolgate::Failure;

use crate::wire::to_error;

/// Where a handler leaves the failure that its error stands for.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<Failure>>>);

impl Raised {
    pub(crate) fn take(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The error for a handler to answer a call with: around it, the chain finds this very failure, with
/// its type, its suggestion and whether the tool ran.
///
/// An `ErrorData` alone has a number and a message. Without a chain it is the failure's JSON-RPC error.
pub fn raise(context: &RequestContext<RoleServer>, failure: Failure) -> ErrorData {
    let error = to_error(failure.to_rpc());
    if let Some(Raised(slot)) = context.extensions.get::<Raised>() {
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
    error
}
