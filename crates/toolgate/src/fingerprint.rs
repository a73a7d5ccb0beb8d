//! Fingerprints: digests of a request's meaning, independent of white space, key order and escapes.

use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind};

/// Digests parts and JSON values. Two requests have the same fingerprint only if every parser reads the same in both:
/// numbers count as they are spelt, and a value that parsers could read differently has no fingerprint.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

/// An object contains a key twice: one parser may take the first value, another the last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key `{0}` occurs twice")]
pub struct DuplicateKey(pub String);

impl Fingerprint {
    /// Adds a part with its length, so that different lists of parts have different digests.
    pub fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Adds a value without regard to white space, key order and escapes, because a client that repeats a request may
    /// serialize it again. The JSON parser's depth limit also limits the recursion.
    pub fn value(&mut self, json: &Json) -> Result<(), DuplicateKey> {
        match json.kind() {
            Kind::Object => {
                let object = json.object().unwrap_or_default();
                let mut members: Vec<_> = object.iter().collect();
                members.sort_by(|(one, _), (two, _)| one.cmp(two));
                let twice = members.windows(2).find_map(|pair| match pair {
                    [(one, _), (two, _)] if one == two => Some(one.to_string()),
                    _ => None,
                });
                if let Some(name) = twice {
                    return Err(DuplicateKey(name));
                }
                self.0.update(b"{");
                self.0.update((members.len() as u64).to_be_bytes());
                for (name, member) in &members {
                    self.part(name.as_bytes());
                    self.value(member)?;
                }
            }
            Kind::Array => {
                let elements = json.array().unwrap_or_default();
                self.0.update(b"[");
                self.0.update((elements.len() as u64).to_be_bytes());
                for element in &elements {
                    self.value(element)?;
                }
            }
            Kind::String => {
                self.0.update(b"\"");
                match json.text() {
                    Some(text) => self.part(text.as_bytes()),
                    // A lone surrogate: digest the text as it was written.
                    None => self.part(json.as_bytes()),
                }
            }
            Kind::Number | Kind::Bool | Kind::Null => {
                self.0.update(b"=");
                self.part(json.as_bytes());
            }
        }
        Ok(())
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
