//! Calls that a handler makes while it runs a call.

use rmcp::{RoleServer, service::RequestContext};
use toolgate::{ClientInput, Context, Control};
use toolgate_wire::Json;

/// What a nested call inherits from its parent. The adapter puts it into the extensions of the request that the handler
/// gets: a call that the handler makes with this request is nested. No client can write extensions.
#[derive(Clone)]
pub(crate) struct NestedCall {
    control: Control,
    meta: Option<Json>,
    claims: Option<Json>,
    depth: u8,
}

impl NestedCall {
    /// Marks the request that the handler gets.
    pub(crate) fn mark(cx: &Context, context: &mut RequestContext<RoleServer>) {
        let parent = Some(cx.call_id().to_string().into());
        let control = Control { parent, ..cx.control().clone() };
        let (meta, claims) = (cx.meta().cloned(), cx.claims().cloned());
        context.extensions.insert(Self { control, meta, claims, depth: cx.depth() });
    }

    /// Limits of the parent also hold for the nested call. A confirmation holds for one call only.
    pub(crate) fn narrow(&self, control: &mut Control) {
        control.inherit(&self.control);
        control.parent.clone_from(&self.control.parent);
    }

    /// The context of the nested call, which knows what its parent knows.
    pub(crate) fn inherit(&self, cx: Context) -> Context {
        let cx = cx.with_meta(self.meta.clone()).with_claims(self.claims.clone());
        cx.with_depth(self.depth.saturating_add(1))
    }

    /// The client cannot repeat a nested call, so it cannot add input to it.
    pub(crate) fn client_input(input: ClientInput) -> ClientInput {
        match input {
            ClientInput::ViaResult => ClientInput::Unavailable,
            other => other,
        }
    }
}
