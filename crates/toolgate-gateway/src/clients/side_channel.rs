//! The side channel of a request: where the gateway sends notifications and requests to the client before the response.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::notifications::NotificationQueue;
use crate::write_queue::WriteQueue;

/// The number of messages that may wait in a [`SideChannel::Stream`].
pub(crate) const STREAM_CAPACITY: usize = 16;

/// Sends messages to a client while one of its requests is in flight.
#[derive(Clone, Debug)]
pub(crate) enum SideChannel {
    /// The client takes no messages before the response.
    None,
    /// The stream that ends with the response.
    Stream(mpsc::Sender<Bytes>),
    /// The client's stdout pipe.
    Pipe(Arc<WriteQueue>),
    /// The client's notification stream.
    NotificationQueue(Arc<NotificationQueue>),
}

impl SideChannel {
    /// Sends a message, and waits while the client is slow to read. `false` if the client is gone.
    pub(crate) async fn send(&self, line: Bytes) -> bool {
        match self {
            Self::None => false,
            Self::Stream(sender) => sender.send(line).await.is_ok(),
            Self::Pipe(queue) => queue.push(line).await.is_some(),
            Self::NotificationQueue(queue) => {
                queue.push(line);
                true
            }
        }
    }

    /// Sends a message without waiting. `false` if it could not be sent.
    pub(crate) fn try_send(&self, line: Bytes) -> bool {
        match self {
            Self::None => false,
            Self::Stream(sender) => sender.try_send(line).is_ok(),
            Self::Pipe(queue) => queue.push_now(line).is_some(),
            Self::NotificationQueue(queue) => {
                queue.push(line);
                true
            }
        }
    }
}
