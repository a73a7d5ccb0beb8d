//! Elicitation: how a layer gets input from the client behind an rmcp peer.

use std::{fmt, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientResult, ElicitRequest, ServerRequest},
    service::{Peer, RequestContext, ServiceError},
};
use toolgate::{Boxed, ClientInput, Elicit, ElicitError};
use toolgate_wire::{Json, mcp};

/// The way to get input from the client of a request.
pub(crate) fn client_input(context: &RequestContext<RoleServer>) -> ClientInput {
    let elicitation = context.client_capabilities().and_then(|can| can.elicitation);
    // A client that names no mode supports forms: early versions had no modes.
    let has_forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    let is_modern =
        context.protocol_version().is_some_and(|version| mcp::is_modern(version.as_str()));
    match (has_forms, is_modern) {
        (false, _) => ClientInput::Unavailable,
        (true, true) => ClientInput::ViaResult,
        (true, false) => {
            ClientInput::ViaElicitation(Arc::new(ElicitationClient(context.peer.clone())))
        }
    }
}

struct ElicitationClient(Peer<RoleServer>);

impl fmt::Debug for ElicitationClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ElicitationClient")
    }
}

impl Elicit for ElicitationClient {
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        Box::pin(async move { elicit(&self.0, &params).await })
    }
}

/// Sends `elicitation/create` and waits for the result.
pub(crate) async fn elicit(peer: &Peer<RoleServer>, params: &Json) -> Result<Json, ElicitError> {
    let params = params.decode().map_err(|_| ElicitError::Unsupported)?;
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    match peer.send_request(request).await {
        Ok(ClientResult::ElicitResult(answer)) => {
            Json::serialize(&answer).map_err(|_| ElicitError::Unsupported)
        }
        Ok(_) | Err(ServiceError::McpError(_)) => Err(ElicitError::Unsupported),
        Err(_) => Err(ElicitError::Disconnected),
    }
}
