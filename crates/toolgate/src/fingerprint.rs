//! Fingerprints: a digest of exactly what a request says, whatever its spaces, key order and escapes.

use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind};

/// Digests parts and JSON values. Two requests have the same fingerprint only if every reader reads the same in both:
/// numbers count as they are spelt, and a value that two readers could read differently has none.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint(Sha256);

/// A key stands twice in one object: of two readers one may take the first and one the last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key `{0}` stands there twice")]
pub struct DuplicateKey(pub String);

impl Fingerprint {
    /// Adds a part, with its length, so that no two lists of parts look the same.
    pub fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Adds a value apart from spaces, the order of keys and how texts are escaped: a client that sends the same again
    /// may write it anew. Recursion ends at the depth that the wire allows.
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
                    // Half a character: the text as it was written.
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
