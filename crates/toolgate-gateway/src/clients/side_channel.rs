//! Where messages go that a client gets about a request before its answer.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::notifications::NotificationQueue;
use crate::write_queue::WriteQueue;

/// So many such messages wait for a client to read them.
pub(crate) const ROOM: usize = 16;

/// The way to a client while a request of it is under way.
#[derive(Clone, Debug)]
pub(crate) enum SideChannel {
    /// Nobody hears.
    Nobody,
    /// The stream of the answer.
    Stream(mpsc::Sender<Bytes>),
    /// The one pipe to the client.
    Pipe(Arc<WriteQueue>),
    /// Whatever the client listens to.
    NotificationQueue(Arc<NotificationQueue>),
}

impl SideChannel {
    /// Sends a message, and waits while the client is slow to read; `false` if it is gone.
    pub(crate) async fn send(&self, line: Bytes) -> bool {
        match self {
            Self::Nobody => false,
            Self::Stream(sender) => sender.send(line).await.is_ok(),
            Self::Pipe(outbox) => outbox.push(line).await != u64::MAX,
            Self::NotificationQueue(outlet) => {
                outlet.push(line);
                true
            }
        }
    }

    /// Sends a message if there is room for it.
    pub(crate) fn try_send(&self, line: Bytes) -> bool {
        match self {
            Self::Nobody => false,
            Self::Stream(sender) => sender.try_send(line).is_ok(),
            Self::Pipe(outbox) => outbox.push_now(line) != u64::MAX,
            Self::NotificationQueue(outlet) => {
                outlet.push(line);
                true
            }
        }
    }
}
