//! Calls that a handler makes while it runs a call.

use rmcp::{RoleServer, service::RequestContext};
use toolgate::{ClientInput, Context, Control};

/// What a nested call inherits from its parent. The adapter puts it into the extensions of the request that the handler
/// gets: a call that the handler makes with this request is nested. No client can write extensions.
#[derive(Clone)]
pub(crate) struct NestedCall(Control);

impl NestedCall {
    /// Marks the request that the handler gets.
    pub(crate) fn mark(cx: &Context, context: &mut RequestContext<RoleServer>) {
        let parent = Some(cx.call_id().to_string().into());
        context.extensions.insert(Self(Control { parent, ..cx.control().clone() }));
    }

    /// Limits of the parent also hold for the nested call. A confirmation holds for one call only.
    pub(crate) fn narrow(&self, control: &mut Control) {
        control.inherit(&self.0);
        control.parent.clone_from(&self.0.parent);
    }

    /// The client cannot repeat a nested call, so it cannot add input to it.
    pub(crate) fn client_input(input: ClientInput) -> ClientInput {
        match input {
            ClientInput::ViaResult => ClientInput::Unavailable,
            other => other,
        }
    }
}
