//! The severity of log messages (`notifications/message`), by which clients choose what servers send them.

use toolgate_wire::{Json, Message};

/// The levels of the protocol, the least severe first.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A level of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogLevel(u8);

impl LogLevel {
    /// The least severe level: it includes all messages.
    pub(crate) const ALL: Self = Self(0);

    /// The level of this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let at = LEVELS.iter().position(|level| *level == name)?;
        u8::try_from(at).ok().map(Self)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        LEVELS.get(usize::from(self.0)).copied().unwrap_or("emergency")
    }

    /// The level as a number.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// The level with this number, if there is one.
    pub(crate) fn by_number(number: u8) -> Option<Self> {
        (usize::from(number) < LEVELS.len()).then_some(Self(number))
    }

    /// The level of a log message. A message without a level has the least severe one.
    pub(crate) fn of(message: &Message) -> Self {
        let level = message.member("level");
        level
            .as_ref()
            .and_then(Json::text)
            .and_then(|name| Self::by_name(&name))
            .unwrap_or(Self::ALL)
    }
}
