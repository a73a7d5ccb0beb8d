//! What a server sends that belongs to no request, and the listener that receives it.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use toolgate::Boxed;
use toolgate_wire::{Message, mcp::method};

use crate::write_queue::WriteQueue;

/// A list that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
}

impl ListKind {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The method of the notification that the list changed.
    pub(crate) const fn notice(self) -> &'static str {
        match self {
            Self::Tools => method::NOTIFICATIONS_TOOLS_LIST_CHANGED,
            Self::Prompts => method::NOTIFICATIONS_PROMPTS_LIST_CHANGED,
            Self::Resources => method::NOTIFICATIONS_RESOURCES_LIST_CHANGED,
        }
    }
}

/// A notification of a server that belongs to no request.
#[derive(Debug)]
pub(crate) enum UpstreamNotification {
    ListChanged(ListKind),
    /// A resource with a subscription changed. The whole message, to be passed on.
    ResourceUpdated(Message),
    /// A log message that belongs to no call.
    Log(Message),
    /// A notification that the gateway does not know.
    Other(Message),
}

impl UpstreamNotification {
    /// Reads a notification; `None` for those that matter only within a request.
    pub(crate) fn of(message: Message) -> Option<Self> {
        let changed = ListKind::ALL.into_iter().find(|kind| kind.notice() == message.method());
        if let Some(kind) = changed {
            return Some(Self::ListChanged(kind));
        }
        Some(match message.method() {
            method::NOTIFICATIONS_RESOURCES_UPDATED => Self::ResourceUpdated(message),
            method::NOTIFICATIONS_MESSAGE => Self::Log(message),
            // The server cancels a request of its own: it ignores the response.
            method::NOTIFICATIONS_CANCELLED
            | method::NOTIFICATIONS_PROGRESS
            | method::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED => return None,
            _ => Self::Other(message),
        })
    }
}

/// A connection that can carry the response to a request of its server.
pub(crate) trait ReplyChannel: std::fmt::Debug + Send + Sync {
    /// Sends the response.
    fn reply(&self, line: Bytes) -> Boxed<'_, ()>;
}

/// Where the response to a request of the server goes: to the connection that the request came on, while it exists.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Pipe(Arc<WriteQueue>),
    Http(Weak<dyn ReplyChannel>),
}

impl ReplyTo {
    /// Sends the response.
    pub(crate) async fn send(self, line: Bytes) {
        match self {
            Self::Pipe(queue) => queue.send(line).await,
            Self::Http(channel) => {
                if let Some(channel) = channel.upgrade() {
                    channel.reply(line).await;
                }
            }
        }
    }
}

/// Receives what a server sends that belongs to no request.
pub(crate) trait UpstreamListener: Send + Sync {
    /// Handles a notification. Must not block.
    fn on_notification(&self, notification: UpstreamNotification);

    /// Handles a request of the server; `false`: no client can answer it.
    fn on_request(&self, request: Message, reply: ReplyTo) -> bool;
}

/// The listener that the tasks of a connection share.
pub(crate) type SharedListener = Arc<dyn UpstreamListener>;

impl dyn UpstreamListener {
    /// Handles a notification that is still a message.
    pub(crate) fn on_message(&self, message: Message) {
        if let Some(notification) = UpstreamNotification::of(message) {
            self.on_notification(notification);
        }
    }
}

impl std::fmt::Debug for dyn UpstreamListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UpstreamListener")
    }
}
