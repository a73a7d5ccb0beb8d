//! The first words to a server: before it is known how it speaks.

use bytes::Bytes;
use hyper::{Method, header::HeaderValue};
use toolgate_wire::{Id, Message, Sender, Shape};

use super::{METHOD, PostResult, StreamableHttp, VERSION};
use crate::upstream::in_flight::{StartFailure, nonsense};

impl StreamableHttp {
    /// Says `initialize`: gives the answer and the session that the server opened.
    pub(crate) async fn initialize(
        &self,
        line: Bytes,
        id: &Id,
    ) -> Result<(Message, Option<HeaderValue>), StartFailure> {
        let answer = self.client.send(Method::POST, None, &[], line).await;
        let answer = answer.map_err(|error| self.not_sent(error))?;
        let session = answer.headers.session();
        match self.received(Ok(answer), id).await? {
            PostResult::Response(message) => Ok((*message, session)),
            PostResult::Accepted => Err(nonsense(&self.server, "did not answer initialize").into()),
            PostResult::Stream(mut stream) => loop {
                let event = stream.next().await;
                let event = event.map_err(|error| nonsense(&self.server, &error.to_string()))?;
                let Some(event) = event else {
                    return Err(
                        nonsense(&self.server, "ended its stream before it answered").into()
                    );
                };
                if let Ok(message) = Message::receive(event.data, &self.limits, Sender::Server)
                    && matches!(message.shape(), Shape::Response | Shape::Error)
                    && message.id() == Some(id)
                {
                    return Ok((message, session));
                }
            },
        }
    }

    /// Asks whether the server speaks 2026-07-28.
    pub(crate) async fn discover(&self, line: Bytes, id: &Id) -> Result<Message, StartFailure> {
        let headers = [
            (VERSION, HeaderValue::from_static("2026-07-28")),
            (METHOD, HeaderValue::from_static("server/discover")),
        ];
        let sent = self.client.ask(None, &headers, line).await;
        match self.received(sent, id).await? {
            PostResult::Response(message) => Ok(*message),
            PostResult::Accepted => Err(nonsense(&self.server, "did not answer").into()),
            PostResult::Stream(mut stream) => {
                while let Ok(Some(event)) = stream.next().await {
                    if let Ok(message) = Message::receive(event.data, &self.limits, Sender::Server)
                        && message.id() == Some(id)
                        && message.method().is_empty()
                    {
                        return Ok(message);
                    }
                }
                Err(nonsense(&self.server, "ended its stream before it answered").into())
            }
        }
    }
}
