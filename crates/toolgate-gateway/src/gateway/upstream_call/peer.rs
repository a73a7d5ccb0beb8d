//! The client of a call, as layers see it.

use toolgate::{Boxed, ClientInput, ElicitError, LogLevel, Peer};
use toolgate_wire::{
    Json, Object,
    mcp::{member, method},
    notification,
};

use super::UpstreamCall;
use crate::log_level;

impl Peer for UpstreamCall<'_> {
    fn progress<'a>(
        &'a self,
        progress: f64,
        total: Option<f64>,
        message: Option<&'a str>,
    ) -> Boxed<'a, bool> {
        Box::pin(async move {
            let meta = self.message.member(member::META);
            let token = meta.and_then(|meta| meta.get(member::PROGRESS_TOKEN));
            let Some(token) = token else { return false };
            let mut params = Object::new();
            params.set(member::PROGRESS_TOKEN, token);
            params.set("progress", progress);
            if let Some(total) = total {
                params.set("total", total);
            }
            if let Some(message) = message {
                params.set("message", message);
            }
            let line = notification(method::NOTIFICATIONS_PROGRESS, Some(&params.finish()));
            self.side.send(line).await
        })
    }

    fn log<'a>(&'a self, level: LogLevel, logger: &'a str, data: Json) -> Boxed<'a, bool> {
        Box::pin(async move {
            let known = log_level::LogLevel::by_name(level.name());
            if !known.is_some_and(|level| self.caller.wants_log(level)) {
                return false;
            }
            let mut params = Object::new();
            params.set("level", level.name());
            params.set("logger", logger);
            params.set("data", data);
            let line = notification(method::NOTIFICATIONS_MESSAGE, Some(&params.finish()));
            self.side.send(line).await
        })
    }

    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        Box::pin(async move {
            match self.caller.asking(self.side) {
                ClientInput::ViaElicitation(client) => client.elicit(params).await,
                ClientInput::ViaResult | ClientInput::Unavailable => Err(ElicitError::Unsupported),
            }
        })
    }
}
