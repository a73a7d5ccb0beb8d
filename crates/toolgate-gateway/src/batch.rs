//! JSON-RPC batches, which only protocol version 2025-03-26 has: which sessions accept them, and the size limit of
//! their responses.

use bytes::Bytes;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{Id, Limits, RefusedMessage};

use crate::refusal;

/// The limit for the size of all responses to one batch together.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// The message with which the gateway refuses a whole batch.
pub(crate) const REFUSED: &str = "a batch is part of protocol version 2025-03-26 only, which this session does not speak: \
     send each message on its own";

/// The failure for a batch in a session of another version.
pub(crate) fn refused() -> Failure {
    Failure::new(Code::InvalidRequest, REFUSED)
}

/// Whether a session of this version accepts batches.
pub(crate) fn are_allowed(version: Option<&str>) -> bool {
    version == Some("2025-03-26")
}

/// The responses to one batch: an array of limited size.
#[derive(Debug)]
pub(crate) struct Responses {
    text: Vec<u8>,
    max_bytes: usize,
    is_full: bool,
}

impl Responses {
    pub(crate) fn new(limits: &Limits) -> Self {
        let max_bytes = MAX_RESPONSE_BYTES.min(limits.max_bytes);
        Self { text: Vec::new(), max_bytes, is_full: false }
    }

    /// Whether the array has reached its limit. The caller must then refuse the remaining requests.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds the response to a request. A response that exceeds the limit is replaced by an error.
    pub(crate) fn add(&mut self, id: Option<&Id>, line: &[u8]) {
        let line = line.trim_ascii();
        if self.text.len() + line.len() > self.max_bytes {
            self.is_full = true;
            let text = format!(
                "the responses to a batch may have {} bytes in all, and this one is beyond that: the request ran",
                self.max_bytes
            );
            return self.push(&refusal(id, text, Executed::Maybe));
        }
        self.push(line);
    }

    /// Adds the error for an unreadable message, if its sender may expect a response.
    pub(crate) fn add_unreadable(&mut self, refused: &RefusedMessage) {
        let failure = refusal::unreadable(refused);
        if refusal::expects_response(refused) {
            self.add(refused.id.as_ref(), &refusal::line(refused.id.as_ref(), &failure));
        } else {
            tracing::warn!("a message of the client is refused: {failure}");
        }
    }

    /// Adds the error for a request that comes after the limit was reached.
    pub(crate) fn refuse(&mut self, id: Option<&Id>) {
        let text = format!(
            "the responses to a batch may have {} bytes in all, which those before have reached: the request did not run",
            self.max_bytes
        );
        self.push(&refusal(id, text, Executed::No));
    }

    fn push(&mut self, line: &[u8]) {
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        self.text.extend_from_slice(line);
    }

    /// The finished array; `None` if the batch needs no response.
    pub(crate) fn finish(mut self) -> Option<Bytes> {
        if self.text.is_empty() {
            return None;
        }
        self.text.push(b']');
        Some(self.text.into())
    }
}

fn refusal(id: Option<&Id>, text: String, executed: Executed) -> Bytes {
    let failure = Failure::new(Code::MessageTooLarge, text)
        .suggest("Send fewer at once.")
        .with_executed(executed);
    refusal::line(id, &failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_version_has_batches() {
        for version in toolgate_wire::mcp::VERSIONS {
            assert_eq!(are_allowed(Some(version)), version == "2025-03-26", "{version}");
        }
        assert!(!are_allowed(None));
    }

    #[test]
    fn responses_beyond_the_bound_become_errors() {
        let limits = Limits { max_bytes: 20, ..Limits::default() };
        let mut responses = Responses::new(&limits);
        assert!(Responses::new(&limits).finish().is_none());
        responses.add(Some(&1.into()), b"{\"a\":1}\n");
        assert!(!responses.is_full());
        responses.add(Some(&2.into()), &[b'x'; 30]);
        assert!(responses.is_full());
        responses.refuse(Some(&3.into()));
        let text = responses.finish().unwrap();
        let all: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[0], serde_json::json!({"a": 1}));
        for (at, id) in [(1, 2), (2, 3)] {
            assert_eq!(all[at]["id"], id);
            assert_eq!(all[at]["error"]["code"], -32600);
            assert!(all[at]["error"]["message"].as_str().unwrap().contains("20 bytes"));
        }
    }
}
