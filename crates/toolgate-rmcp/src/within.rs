//! Calls that a handler makes on behalf of the call that it runs.

use rmcp::{RoleServer, service::RequestContext};
use toolgate::{ClientInput, Context, Control};

/// What a part of a call inherits from the whole. The door leaves it in the extensions of the request that a handler
/// gets: a handler that comes back to the door with that request makes a part of this call, whether it thinks of it
/// or not. No client can write there.
#[derive(Clone)]
pub(crate) struct Within(Control);

impl Within {
    /// Marks the request that the handler gets.
    pub(crate) fn mark(cx: &Context, context: &mut RequestContext<RoleServer>) {
        let parent = Some(cx.call_id().to_string().into());
        context.extensions.insert(Self(Control { parent, ..cx.control().clone() }));
    }

    /// What narrows a call narrows every call that is part of it. A confirmation is of one call alone.
    pub(crate) fn narrow(&self, control: &mut Control) {
        control.inherit(&self.0);
        control.parent.clone_from(&self.0.parent);
    }

    /// The client cannot repeat a part, with answers or without.
    pub(crate) fn asking(asking: ClientInput) -> ClientInput {
        match asking {
            ClientInput::ViaResult => ClientInput::Unavailable,
            other => other,
        }
    }
}
