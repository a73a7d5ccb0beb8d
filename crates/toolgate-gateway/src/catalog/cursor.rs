//! Cursors of lists: opaque to clients, and authenticated with a key of this process, so that clients cannot forge them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::upstream::manifest::ListName;

/// The length of list, generation and offset.
const CONTENT_LENGTH: usize = 1 + 8 + 4;
/// The length of the truncated seal.
const SEAL_LENGTH: usize = 16;

/// Why a cursor is not valid: the message of the error `-32602`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadCursor {
    #[error("the list has changed since this cursor was given: list again without a cursor")]
    Stale,
    #[error(
        "this cursor was not given to you for this list, or was changed: list again without a cursor"
    )]
    Tampered,
}

/// Makes and verifies cursors.
#[derive(Clone)]
pub(crate) struct Cursors(Hmac<Sha256>);

impl Cursors {
    /// Creates a random key.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 64];
        getrandom::fill(&mut key)?;
        Ok(Self(Hmac::new(&key.into())))
    }

    /// A cursor for one principal, list and generation that continues at this offset.
    pub(crate) fn seal(
        &self,
        kind: ListName,
        generation: u64,
        offset: u32,
        principal: &str,
    ) -> String {
        let mut bytes = Vec::with_capacity(CONTENT_LENGTH + SEAL_LENGTH);
        bytes.push(kind as u8);
        bytes.extend(generation.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        let seal = self.mac(&bytes, principal).finalize().into_bytes();
        bytes.extend(seal.iter().take(SEAL_LENGTH));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Verifies a cursor and returns its offset.
    pub(crate) fn open(
        &self,
        cursor: &str,
        kind: ListName,
        generation: u64,
        principal: &str,
    ) -> Result<u32, BadCursor> {
        let mut bytes = [0; CONTENT_LENGTH + SEAL_LENGTH];
        let length = URL_SAFE_NO_PAD.decode_slice(cursor, &mut bytes);
        if length != Ok(bytes.len()) {
            return Err(BadCursor::Tampered);
        }
        let (said, seal) = bytes.split_at(CONTENT_LENGTH);
        // Compares in constant time.
        if self.mac(said, principal).verify_truncated_left(seal).is_err() {
            return Err(BadCursor::Tampered);
        }
        let Some((&[of], rest)) = said.split_first_chunk() else { return Err(BadCursor::Tampered) };
        let (Some((made, _)), Some((_, offset))) =
            (rest.split_first_chunk(), rest.split_last_chunk())
        else {
            return Err(BadCursor::Tampered);
        };
        if of != kind as u8 {
            return Err(BadCursor::Tampered);
        }
        if u64::from_be_bytes(*made) != generation {
            return Err(BadCursor::Stale);
        }
        Ok(u32::from_be_bytes(*offset))
    }

    /// The seal covers the principal, which the cursor does not contain. The part before it has a fixed length, so the
    /// boundary between the two is unambiguous.
    fn mac(&self, said: &[u8], principal: &str) -> Hmac<Sha256> {
        self.0.clone().chain_update(said).chain_update(principal)
    }
}

impl fmt::Debug for Cursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursors").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [ListName; 4] =
        [ListName::Tools, ListName::Prompts, ListName::Resources, ListName::Templates];

    #[test]
    fn a_cursor_is_for_one_principal_one_list_and_one_generation() {
        let cursors = Cursors::new().unwrap();
        let cursor = cursors.seal(ListName::Tools, 7, 1000, "key:ci");
        assert_eq!(cursors.open(&cursor, ListName::Tools, 7, "key:ci"), Ok(1000));
        assert_eq!(cursors.open(&cursor, ListName::Tools, 8, "key:ci"), Err(BadCursor::Stale));
        assert_eq!(cursors.open(&cursor, ListName::Prompts, 7, "key:ci"), Err(BadCursor::Tampered));
        assert_eq!(cursors.open(&cursor, ListName::Tools, 7, "key:c"), Err(BadCursor::Tampered));
        assert_eq!(
            cursors.open(&cursor, ListName::Tools, 7, "anonymous"),
            Err(BadCursor::Tampered)
        );
        let others = Cursors::new().unwrap();
        assert_eq!(others.open(&cursor, ListName::Tools, 7, "key:ci"), Err(BadCursor::Tampered));
        assert!(!format!("{cursors:?}").contains('['));
    }

    proptest! {
        #[test]
        fn what_was_sealed_is_opened_and_nothing_else(
            kind in 0..4_usize,
            generation: u64,
            offset: u32,
            principal in ".{0,20}",
            flipped in 0..(CONTENT_LENGTH + SEAL_LENGTH) * 8,
        ) {
            let kind = KINDS[kind];
            let cursors = Cursors::new().unwrap();
            let cursor = cursors.seal(kind, generation, offset, &principal);
            prop_assert_eq!(cursors.open(&cursor, kind, generation, &principal), Ok(offset));
            let mut bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
            bytes[flipped / 8] ^= 1 << (flipped % 8);
            let changed = URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(
                cursors.open(&changed, kind, generation, &principal),
                Err(BadCursor::Tampered)
            );
        }

        #[test]
        fn each_bit_of_its_text_counts(place: prop::sample::Index, bit in 0..7_u8) {
            let cursors = Cursors::new().unwrap();
            let cursor = cursors.seal(ListName::Tools, 1, 2, "p");
            let mut text = cursor.clone().into_bytes();
            let place = place.index(text.len());
            text[place] ^= 1 << bit;
            let text = String::from_utf8(text).unwrap();
            prop_assert_eq!(cursors.open(&text, ListName::Tools, 1, "p"), Err(BadCursor::Tampered));
        }

        #[test]
        fn other_texts_are_refused(text in ".{0,60}") {
            let cursors = Cursors::new().unwrap();
            let opened = cursors.open(&text, ListName::Tools, 0, "");
            prop_assert_eq!(opened, Err(BadCursor::Tampered));
        }
    }
}
