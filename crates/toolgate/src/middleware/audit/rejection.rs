//! Records of requests that a transport rejected before it read a call from them.

use std::{borrow::Cow, net::SocketAddr};

use super::{output::About, record::RecordWriter};

/// Largest length of a text that a client chose, in characters.
const MAX_CHARACTERS: usize = 120;

/// A rejected request, without headers and body, which may contain secrets.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// The HTTP status.
    pub status: u16,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The address of the client.
    pub peer: Option<SocketAddr>,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// Further requests that were rejected for the same reason since the last record.
    pub more: u64,
}

impl Rejection {
    /// A text that a client chose, shortened and with control characters and direction marks escaped.
    #[must_use]
    pub fn shown(text: &str) -> Cow<'_, str> {
        let is_plain = |c: char| c.is_ascii_graphic() || c == ' ' || (c.is_alphanumeric());
        if text.len() <= MAX_CHARACTERS && text.chars().all(is_plain) {
            return Cow::Borrowed(text);
        }
        let mut shown = String::new();
        for c in text.chars().take(MAX_CHARACTERS) {
            if is_plain(c) {
                shown.push(c);
            } else {
                shown.extend(c.escape_unicode());
            }
        }
        if text.chars().nth(MAX_CHARACTERS).is_some() {
            shown.push('…');
        }
        shown.into()
    }

    /// Writes the record, a JSON object.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> About {
        let about = About::now("rejected");
        let mut record = RecordWriter::new(out);
        record.time("ts", about.at);
        record.plain("event", "rejected");
        record.value("status", &self.status);
        record.plain("reason", self.reason);
        record.some_text("peer", self.peer.map(|peer| peer.to_string()).as_deref());
        record.text("method", &Self::shown(&self.method));
        record.text("path", &Self::shown(&self.path));
        if self.more > 0 {
            record.value("more", &self.more);
        }
        record.end();
        about
    }
}
