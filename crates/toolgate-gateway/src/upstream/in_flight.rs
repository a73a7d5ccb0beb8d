//! A request in flight, over either transport.

use bytes::Bytes;
use toolgate::Failure;
use toolgate_wire::Message;

use super::{event_request::EventRequest, pipe::PipeRequest, request::UpstreamEvent};

/// A request in flight. Dropping it before its response cancels it at the server.
#[derive(Debug)]
pub(crate) enum InFlightRequest {
    /// The response has come already.
    Answered(Option<Box<Message>>),
    /// On the pipes of a process.
    Pipe(PipeRequest),
    /// On an event stream of its own.
    Events(Box<EventRequest>),
}

impl InFlightRequest {
    /// The next message. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        match self {
            Self::Answered(response) => {
                let response = response.take();
                response.map(|response| UpstreamEvent::Response(*response)).ok_or_else(finished)
            }
            Self::Pipe(request) => request.next().await,
            Self::Events(request) => Box::pin(request.next()).await,
        }
    }

    /// Sends the response to a request of the server.
    pub(crate) async fn reply(&mut self, line: Bytes) -> Result<(), Failure> {
        match self {
            Self::Answered(_) => Err(finished()),
            Self::Pipe(request) => {
                request.reply(line).await;
                Ok(())
            }
            Self::Events(request) => request.reply(line).await,
        }
    }
}

fn finished() -> Failure {
    Failure::internal("a request that was answered is asked about again")
}
