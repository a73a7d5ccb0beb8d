//! How a layer asks the user of one call.

use std::sync::Arc;

use toolgate::{Boxed, Elicit, ElicitError};
use toolgate_wire::{Json, mcp::method};

use super::{
    client_requests::ClientReply, legacy_session::LegacySession, side_channel::SideChannel,
};

/// Lets a layer ask the user of one call by elicitation.
#[derive(Debug)]
pub(crate) struct Elicitor {
    pub(crate) session: Arc<LegacySession>,
    pub(crate) side: SideChannel,
}

impl Elicit for Elicitor {
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        Box::pin(async move {
            let asked = self.session.client_requests.ask(
                &self.side,
                method::ELICITATION_CREATE,
                Some(&params),
            );
            match asked.await {
                Some(ClientReply::Result(answer)) => Ok(answer),
                // No error code says reliably that the user saw the question, so all of them count as not asked.
                Some(ClientReply::Error(_)) => Err(ElicitError::Unsupported),
                None => Err(ElicitError::Disconnected),
            }
        })
    }
}
