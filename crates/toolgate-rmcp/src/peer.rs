//! The client of a call, as layers see it.
#![expect(deprecated, reason = "what rmcp deprecates, clients still have: logging")]

use rmcp::{
    RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam},
    service::RequestContext,
};
use toolgate::{Boxed, ElicitError, LogLevel, Peer};
use toolgate_wire::{Json, mcp};

use crate::elicitation::elicit;

/// The client behind a request.
pub(crate) struct RequestPeer(pub(crate) RequestContext<RoleServer>);

impl Peer for RequestPeer {
    fn progress<'a>(
        &'a self,
        progress: f64,
        total: Option<f64>,
        message: Option<&'a str>,
    ) -> Boxed<'a, bool> {
        Box::pin(async move {
            let Some(token) = self.0.meta.get_progress_token() else { return false };
            let mut params = ProgressNotificationParam::new(token, progress);
            params.total = total;
            params.message = message.map(str::to_owned);
            self.0.peer.notify_progress(params).await.is_ok()
        })
    }

    fn log<'a>(&'a self, level: LogLevel, logger: &'a str, data: Json) -> Boxed<'a, bool> {
        Box::pin(async move {
            let is_modern = self.0.protocol_version().is_some_and(|v| mcp::is_modern(v.as_str()));
            let wanted = self.0.meta.log_level();
            let wanted = LEVELS.iter().find(|(_, level)| Some(level) == wanted.as_ref());
            if wanted.map_or(is_modern, |(least, _)| level < *least) {
                return false;
            }
            let sent = LEVELS.iter().find(|(own, _)| *own == level).map(|(_, sent)| *sent);
            let (Some(sent), Ok(data)) = (sent, data.to_value()) else { return false };
            let params = LoggingMessageNotificationParam::new(sent, data).with_logger(logger);
            self.0.peer.notify_logging_message(params).await.is_ok()
        })
    }

    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        Box::pin(async move {
            if self.0.protocol_version().is_some_and(|version| mcp::is_modern(version.as_str())) {
                return Err(ElicitError::Unsupported);
            }
            elicit(&self.0.peer, &params).await
        })
    }
}

const LEVELS: [(LogLevel, LoggingLevel); 8] = [
    (LogLevel::Debug, LoggingLevel::Debug),
    (LogLevel::Info, LoggingLevel::Info),
    (LogLevel::Notice, LoggingLevel::Notice),
    (LogLevel::Warning, LoggingLevel::Warning),
    (LogLevel::Error, LoggingLevel::Error),
    (LogLevel::Critical, LoggingLevel::Critical),
    (LogLevel::Alert, LoggingLevel::Alert),
    (LogLevel::Emergency, LoggingLevel::Emergency),
];
