//! Batches: arrays of messages, which only MCP 2025-03-26 allows.

use bytes::Bytes;

use crate::error::{Reason, WireError};
use crate::json::check_text;
use crate::limits::Limits;
use crate::scan::{Scanner, trimmed};

/// The maximum number of messages in a batch.
pub const MAX_BATCH: usize = 100;

/// Whether the line is an array: a batch, if it is valid.
#[must_use]
pub fn is_batch(line: &[u8]) -> bool {
    line.get(trimmed(line).start) == Some(&b'[')
}

/// The messages of a batch as slices of the line; `None` if the line is not an array.
///
/// The whole line is checked as JSON. [`Message::parse`](crate::Message::parse) checks whether an element is a message.
/// An empty batch is refused, as JSON-RPC requires.
#[must_use]
pub fn split_batch(line: &Bytes, limits: &Limits) -> Option<Result<Vec<Bytes>, WireError>> {
    is_batch(line).then(|| elements(line, limits))
}

fn elements(line: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, WireError> {
    let text = check_text(line, limits)?;
    let inner = line.get(..text.end).unwrap_or_default();
    let mut scanner = Scanner::new(inner, text.start, limits.max_depth);
    scanner.open_array()?;
    let mut elements = Vec::new();
    let mut first = true;
    while let Some(span) = scanner.next_element(&mut first)? {
        if elements.len() == MAX_BATCH {
            let limit = MAX_BATCH;
            return Err(WireError::new(span.start, Reason::TooMany { limit }));
        }
        elements.push(span.slice(line));
    }
    scanner.end()?;
    if elements.is_empty() {
        return Err(WireError::new(text.start, Reason::Empty));
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::WireErrorKind;

    fn split(line: &str) -> Option<Result<Vec<Bytes>, WireErrorKind>> {
        let line = Bytes::copy_from_slice(line.as_bytes());
        split_batch(&line, &Limits::default()).map(|all| all.map_err(|error| error.kind()))
    }

    #[test]
    fn gives_the_elements_as_they_stand() {
        let elements = split(" [ {\"a\": 1} ,2,\t[3]]\r\n").unwrap().unwrap();
        assert_eq!(elements, ["{\"a\": 1}", "2", "[3]"]);
    }

    #[test]
    fn other_lines_are_no_batch() {
        for line in ["", "  ", "{}", "1", "{\"a\":[]}"] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    #[test]
    fn refuses_what_is_broken_empty_or_too_much() {
        assert_eq!(split("[1,]"), Some(Err(WireErrorKind::Syntax)));
        assert_eq!(split("[1]2"), Some(Err(WireErrorKind::Syntax)));
        assert_eq!(split("[1"), Some(Err(WireErrorKind::Syntax)));
        assert_eq!(split("[]"), Some(Err(WireErrorKind::Empty)));
        let most = format!("[{}1]", "1,".repeat(MAX_BATCH - 1));
        assert_eq!(split(&most).unwrap().unwrap().len(), MAX_BATCH);
        let more = format!("[{}1]", "1,".repeat(MAX_BATCH));
        assert_eq!(split(&more), Some(Err(WireErrorKind::TooLarge)));
    }
}
