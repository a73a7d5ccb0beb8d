//! What a server says that belongs to no request: handed to whoever listens to the server.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use toolgate_wire::Message;

use super::streamable_http::StreamableHttp;
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

    /// The notification that says that it changed.
    pub(crate) const fn notice(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// Something that happened at a server.
#[derive(Debug)]
pub(crate) enum UpstreamNotification {
    /// A list changed.
    Changed(ListKind),
    /// A resource that somebody subscribed to changed. The whole message, to be passed on.
    Updated(Message),
    /// A log message that belongs to no call.
    Log(Message),
    /// A notification that we know nothing of.
    Other(Message),
}

impl UpstreamNotification {
    /// What a notification says; `None` for those that are for nobody else.
    pub(crate) fn of(message: Message) -> Option<Self> {
        let changed = ListKind::ALL.into_iter().find(|kind| kind.notice() == message.method());
        if let Some(kind) = changed {
            return Some(Self::Changed(kind));
        }
        Some(match message.method() {
            "notifications/resources/updated" => Self::Updated(message),
            "notifications/message" => Self::Log(message),
            // It takes a question back, which then stays without an answer that anybody reads.
            "notifications/cancelled"
            | "notifications/progress"
            | "notifications/subscriptions/acknowledged" => return None,
            _ => Self::Other(message),
        })
    }
}

/// Where the answer to a question goes: to the very connection that asked, as long as it is there.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    Pipe(Arc<WriteQueue>),
    Http(Weak<StreamableHttp>),
}

impl ReplyTo {
    /// Sends the answer.
    pub(crate) async fn send(self, line: Bytes) {
        match self {
            Self::Pipe(outbox) => drop(outbox.push(line).await),
            Self::Http(asker) => {
                if let Some(asker) = asker.upgrade() {
                    let _ = asker.tell(line).await;
                }
            }
        }
    }
}

/// Who listens to a server.
pub(crate) trait UpstreamListener: Send + Sync {
    /// Something happened. Must not wait.
    fn happened(&self, event: UpstreamNotification);

    /// The server asks something that belongs to no call; `false` if nobody can answer.
    fn asks(&self, question: Message, reply: ReplyTo) -> bool;
}

/// The ear of whoever listens to a server.
pub(crate) type Events = Arc<dyn UpstreamListener>;

impl dyn UpstreamListener {
    /// A notification came that belongs to no request.
    pub(crate) fn happened_of(&self, message: Message) {
        if let Some(event) = UpstreamNotification::of(message) {
            self.happened(event);
        }
    }
}

impl std::fmt::Debug for dyn UpstreamListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UpstreamListener")
    }
}
