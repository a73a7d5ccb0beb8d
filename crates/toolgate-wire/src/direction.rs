//! Which notifications a client may send, and which a server may send.

use bytes::Bytes;

use crate::error::{Reason, WireError};
use crate::limits::Limits;
use crate::mcp::method;
use crate::message::Message;
use crate::refused_message::RefusedMessage;
use crate::sender::Sender;
use crate::shape::Shape;

/// The maximum length of a notification's name.
const MAX_NAME_LENGTH: usize = 128;

/// The notifications of all protocol versions: (name, sent by clients, sent by servers).
const NOTIFICATIONS: [(&str, bool, bool); 13] = [
    (method::NOTIFICATIONS_INITIALIZED, true, false),
    (method::NOTIFICATIONS_ROOTS_LIST_CHANGED, true, false),
    (method::NOTIFICATIONS_CANCELLED, true, true),
    (method::NOTIFICATIONS_PROGRESS, true, true),
    // 2025-11-25 has tasks on both sides.
    (method::NOTIFICATIONS_TASKS_STATUS, true, true),
    // 2026-07-28
    (method::NOTIFICATIONS_TASKS, false, true),
    (method::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, false, true),
    (method::NOTIFICATIONS_MESSAGE, false, true),
    (method::NOTIFICATIONS_RESOURCES_UPDATED, false, true),
    (method::NOTIFICATIONS_RESOURCES_LIST_CHANGED, false, true),
    (method::NOTIFICATIONS_TOOLS_LIST_CHANGED, false, true),
    (method::NOTIFICATIONS_PROMPTS_LIST_CHANGED, false, true),
    // 2025-11-25
    (method::NOTIFICATIONS_ELICITATION_COMPLETE, false, true),
];

impl Message {
    /// Reads one message from a sender: like [`Message::parse`], and a notification must be one that this sender may
    /// send.
    ///
    /// Either side may send a notification that is in no version of the protocol, so that extensions work. Its name
    /// must begin with `notifications/`, as no request's name does, and consist of letters, digits and `_-./`.
    pub fn receive(line: Bytes, limits: &Limits, sender: Sender) -> Result<Self, RefusedMessage> {
        let message = Self::parse(line, limits)?;
        match fault(&message, sender) {
            None => Ok(message),
            Some(reason) => Err(RefusedMessage {
                error: WireError::new(0, reason),
                id: None,
                shape_hint: Some(Shape::Notification),
            }),
        }
    }
}

fn fault(message: &Message, sender: Sender) -> Option<Reason> {
    if message.shape() != Shape::Notification {
        return None;
    }
    let method = message.method();
    match NOTIFICATIONS.iter().find(|(name, ..)| *name == method) {
        Some((_, true, _)) if sender == Sender::Client => None,
        Some((_, _, true)) if sender == Sender::Server => None,
        Some((method, ..)) => Some(Reason::Direction { method, sender }),
        None if is_plain(method) => None,
        None => Some(Reason::NotificationName),
    }
}

/// Whether the name cannot be mistaken for another one.
fn is_plain(method: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_known);
    method.len() <= MAX_NAME_LENGTH && method.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::WireErrorKind;

    fn receive(method: &str, sender: Sender) -> Result<Message, WireErrorKind> {
        let line = crate::notification(method, None);
        Message::receive(line, &Limits::default(), sender).map_err(|refused| refused.error.kind())
    }

    #[test]
    fn each_side_sends_its_own_notifications() {
        for (method, client, server) in NOTIFICATIONS {
            assert_eq!(receive(method, Sender::Client).is_ok(), client, "{method}");
            assert_eq!(receive(method, Sender::Server).is_ok(), server, "{method}");
        }
    }

    #[test]
    fn unknown_notifications_pass_if_their_name_is_plain() {
        for method in ["notifications/vendor/x_y-1.2", "notifications/claude/channel"] {
            assert!(receive(method, Sender::Client).is_ok(), "{method}");
            assert!(receive(method, Sender::Server).is_ok(), "{method}");
        }
        let long = format!("notifications/{}", "x".repeat(MAX_NAME_LENGTH));
        for method in [
            "notifications/",
            "notifications//x",
            "notifications/../tools/call",
            "notifications/x\ny",
            "notifications/ſ",
            "notifications/a b",
            &long,
        ] {
            assert_eq!(receive(method, Sender::Client).err(), Some(WireErrorKind::Misplaced));
        }
    }

    #[test]
    fn no_other_method_goes_without_an_id_and_no_notification_with_one() {
        for method in ["tools/call", "Notifications/initialized", "notifications", "initialize", ""]
        {
            assert_eq!(receive(method, Sender::Server).err(), Some(WireErrorKind::Missing));
        }
        let line = crate::request(&1.into(), "notifications/cancelled", None);
        let refused = Message::parse(line, &Limits::default()).unwrap_err();
        assert_eq!(refused.error.kind(), WireErrorKind::WrongType);
        assert_eq!(refused.id, Some(1.into()));
    }
}
