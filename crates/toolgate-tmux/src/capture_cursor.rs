//! The cursors of `capture_since`: opaque, and valid only for the pane, the tmux server and the process that issued
//! them.

use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use toolgate::{Executed, Failure};

use crate::baseline::Baseline;

/// The prefix of every cursor.
const PREFIX: &str = "capture-since-v2:";
/// The length of the authentication tag in bytes.
const TAG_BYTES: usize = 12;
const BASE64_DIGITS: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The content of a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The pane, as `%1`.
    pub(crate) pane: String,
    /// The process id of the pane's program.
    pub(crate) pid: i64,
    /// Process id and start time of the tmux server.
    pub(crate) server: (i64, i64),
    /// The path of the server's socket.
    pub(crate) socket: String,
    /// The baseline of the normal screen.
    pub(crate) main: Baseline,
    /// The baseline of the alternate screen, if a full-screen program showed it.
    pub(crate) alternate: Option<Baseline>,
}

impl Cursor {
    /// Encodes and authenticates the cursor.
    pub(crate) fn seal(&self) -> Result<String, Failure> {
        let mut bytes = ByteWriter::default();
        bytes.text(&self.pane);
        bytes.text(&self.socket);
        for number in [self.pid, self.server.0, self.server.1] {
            bytes.number(number);
        }
        bytes.number(i64::from(self.alternate.is_some()));
        for baseline in [&self.main].into_iter().chain(&self.alternate) {
            bytes.baseline(baseline);
        }
        let tag = mac(&bytes.0)?.finalize().into_bytes();
        bytes.0.extend(tag.iter().take(TAG_BYTES));
        Ok(format!("{PREFIX}{}", encode(&bytes.0)))
    }

    /// Decodes a cursor, and checks its tag.
    pub(crate) fn open(text: &str) -> Result<Self, Failure> {
        let encoded = text.strip_prefix(PREFIX).ok_or_else(|| bad("unsupported cursor format"))?;
        let bytes = decode(encoded).ok_or_else(|| bad("could not decode payload"))?;
        let at =
            bytes.len().checked_sub(TAG_BYTES).ok_or_else(|| bad("could not decode payload"))?;
        let (body, tag) = bytes.split_at(at);
        let genuine = mac(body)?.verify_truncated_left(tag);
        genuine.map_err(|_| bad("it was changed, or another run of this server gave it"))?;
        Self::read(&mut ByteReader(body)).ok_or_else(|| bad("unsupported cursor version"))
    }

    fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        let (pane, socket) = (from.text()?, from.text()?);
        let (pid, server) = (from.number()?, (from.number()?, from.number()?));
        let has_alternate = from.number()? == 1;
        let main = from.baseline()?;
        let alternate = if has_alternate { Some(from.baseline()?) } else { None };
        Some(Self { pane, pid, server, socket, main, alternate })
    }
}

/// The failure for an invalid cursor.
pub(crate) fn bad(why: &str) -> Failure {
    Failure::tool("ExpectedToolError", format!("invalid capture_since cursor: {why}"))
        .with_executed(Executed::No)
        .suggest("Call capture_since without a cursor; it gives the screen and a new one.")
}

fn mac(bytes: &[u8]) -> Result<Hmac<Sha256>, Failure> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = [0; 32];
        getrandom::fill(&mut key).ok().map(|()| key)
    });
    // Without a random key a cursor could be forged, so there is none.
    let mac = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok());
    let mut mac = mac.ok_or_else(|| {
        Failure::tool("NoRandomness", "The system gives no random numbers for cursors.")
            .expected(false)
    })?;
    mac.update(bytes);
    Ok(mac)
}

/// Writes numbers in as few bytes as they need, seven bits each.
#[derive(Default)]
struct ByteWriter(Vec<u8>);

impl ByteWriter {
    fn number(&mut self, number: i64) {
        let mut left = u64::try_from(number).unwrap_or_default();
        while left >= 0x80 {
            self.0.push((left & 0x7F) as u8 | 0x80);
            left >>= 7;
        }
        self.0.push((left & 0x7F) as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(i64::try_from(text.len()).unwrap_or_default());
        self.0.extend(text.as_bytes());
    }

    fn baseline(&mut self, of: &Baseline) {
        for number in [of.history, of.cursor, of.height, of.width, of.first] {
            self.number(number);
        }
        self.number(i64::try_from(of.lines.len()).unwrap_or_default());
        let mut above = of.first;
        for (row, hash) in &of.lines {
            self.number(row - above);
            self.0.extend(hash.to_le_bytes().iter().take(3));
            above = *row;
        }
    }
}

struct ByteReader<'a>(&'a [u8]);

impl ByteReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return i64::try_from(number).ok();
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn baseline(&mut self) -> Option<Baseline> {
        let (history, cursor, height) = (self.number()?, self.number()?, self.number()?);
        let (width, first, count) = (self.number()?, self.number()?, self.number()?);
        let mut lines = Vec::new();
        let mut row = first;
        for _ in 0..count {
            row += self.number()?;
            let hash = [self.byte()?, self.byte()?, self.byte()?, 0, 0, 0, 0, 0];
            lines.push((row, u64::from_le_bytes(hash)));
        }
        Some(Baseline { history, cursor, height, width, first, lines })
    }
}

/// URL-safe base64 without padding: three bytes become four characters.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for chunk in bytes.chunks(3) {
        let three = chunk.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let three = three << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let digit =
                BASE64_DIGITS.get(three >> (18 - 6 * place) & 63).copied().unwrap_or_default();
            out.push(char::from(digit));
        }
    }
    out
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut four = 0_u32;
        for digit in chunk {
            let value = BASE64_DIGITS.iter().position(|known| known == digit)?;
            four = four << 6 | u32::try_from(value).ok()?;
        }
        four <<= 6 * (4 - chunk.len());
        let bytes = four.to_be_bytes();
        // Four characters are three bytes, three are two, two are one.
        out.extend(bytes.get(1..chunk.len())?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> Cursor {
        let main = Baseline {
            history: 1990,
            cursor: 2029,
            height: 40,
            width: 120,
            first: 1988,
            lines: vec![(1988, 1), (1990, 0x00FF_FFFE), (2029, 77)],
        };
        let alternate = Some(Baseline { lines: Vec::new(), ..main.clone() });
        let (pane, socket) = ("%7".to_owned(), "/tmp/é".to_owned());
        Cursor { pane, pid: 4_000_000, server: (1, 1_800_000_000), socket, main, alternate }
    }

    #[test]
    fn a_cursor_comes_back_as_it_went() {
        let all = [cursor(), Cursor { alternate: None, ..cursor() }];
        for cursor in all {
            assert_eq!(Cursor::open(&cursor.seal().unwrap()).unwrap(), cursor);
        }
        for length in 0..20_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(97)).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn whatever_is_changed_is_refused() {
        let sealed = cursor().seal().unwrap();
        for at in PREFIX.len()..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // Some bits of the last character belong to no byte.
            assert!(at + 1 == sealed.len() || Cursor::open(&changed).is_err(), "{at}");
        }
        for text in ["", "x", PREFIX, "capture-since-v2:é", "capture-since-v2:AAAA"] {
            assert!(Cursor::open(text).is_err(), "{text}");
        }
    }
}
