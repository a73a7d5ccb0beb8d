//! What a server says on the stream that belongs to no request.

use std::sync::Arc;

use toolgate_wire::{Json, Message, Shape, error_response, response};

use super::StreamableHttp;
use crate::upstream::{events::ReplyTo, in_flight::UpstreamEvent, pending::PendingOutcome};

impl StreamableHttp {
    /// A message of the stream that belongs to no request: what it asks may still be about one in flight.
    pub(crate) async fn take(self: &Arc<Self>, message: Message) {
        match (message.shape(), message.method()) {
            (Shape::Notification, "notifications/progress") => {
                self.flights.progress(&message);
            }
            (Shape::Notification, "notifications/cancelled") => self.flights.withdraw(&message),
            (Shape::Notification, "notifications/message") => {
                // Whose call it is about is not said: with several in flight it might be told to the wrong one.
                let handed =
                    self.flights.only_client(UpstreamEvent::Notice(message), |hears| hears.logs);
                if let Err((UpstreamEvent::Notice(message), _)) = handed.map_err(|back| *back) {
                    self.events.happened_of(message);
                }
            }
            (Shape::Notification, _) => self.events.happened_of(message),
            (Shape::Request, _) => self.question(message).await,
            (Shape::Response | Shape::Error, _) => {
                // Some servers answer on whichever stream is open.
                if let Some(id) = message.id().cloned() {
                    self.flights.arrive(&id, PendingOutcome::Answer(message));
                }
            }
        }
    }

    async fn question(self: &Arc<Self>, message: Message) {
        let Some(id) = message.id().cloned() else { return };
        let (method, params) = (message.method().to_owned(), message.params());
        let line = if method == "ping" {
            response(&id, &Json::empty_object())
        } else {
            let asked = self.flights.only_client(UpstreamEvent::Question(message), |hears| {
                hears.can_answer(&method, params.as_ref())
            });
            match asked.map_err(|back| *back) {
                Ok(()) => return,
                Err((UpstreamEvent::Question(message), 0))
                    if self.events.asks(message.clone(), ReplyTo::Http(Arc::downgrade(self))) =>
                {
                    return;
                }
                Err(_) => {
                    let text = format!("no client that is here can be asked `{method}`");
                    error_response(Some(&id), -32601, &text, None)
                }
            }
        };
        if let Err(failure) = self.tell(line).await {
            tracing::debug!("a question of the server stays without an answer: {failure}");
        }
    }
}
