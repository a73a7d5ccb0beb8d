//! The hash chain of records: each line has a digest of itself and of the line before.

use std::{fmt, io, ops::Range, path::Path};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};

use super::output::About;

/// The version of the records' fields, and the start of the number.
const BEFORE_CHAIN: &[u8] = b",\"schema\":1,\"seq\":";
/// Smallest length of a key, in bytes. Shorter ones could be guessed.
const MIN_KEY: usize = 16;
const BEFORE_SEQ: &[u8] = b",\"seq\":";
const BEFORE_HASH: &[u8] = b",\"hash\":\"";
const AFTER_HASH: &[u8] = b"\"}";
const DIGITS: usize = 64;
/// Largest number of bytes that the chain adds to a record.
pub(super) const MAX_CHAIN_BYTES: usize = 160;

/// A digest in 64 hexadecimal digits, as in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; DIGITS]);

impl Hash {
    pub(super) const ZERO: Self = Self([b'0'; DIGITS]);

    pub(super) fn parse(digits: &[u8]) -> Option<Self> {
        let digits: [u8; DIGITS] = digits.try_into().ok()?;
        let is_hex = digits.iter().all(|d| d.is_ascii_digit() || (b'a'..=b'f').contains(d));
        is_hex.then_some(Self(digits))
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| HEX.get(usize::from(half)).copied().unwrap_or(b'0');
        let mut digits = [b'0'; DIGITS];
        // Written by hand, because a formatter would cost more than the digest.
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        Self(digits)
    }

    /// The SHA-256 without a key.
    pub(super) fn sha256(bytes: &[u8]) -> Self {
        Self::of_bytes(&Sha256::digest(bytes))
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A position in the chain: the number and digest of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

impl Point {
    /// Before the first record.
    pub(super) const START: Self = Self { seq: 0, hash: Hash::ZERO };
}

/// Computes the digests: SHA-256, or HMAC-SHA-256 with a key.
pub(super) struct Seal {
    /// The HMAC, initialized with the key.
    key: Option<Hmac<Sha256>>,
}

impl Seal {
    pub(super) fn plain() -> Self {
        Self { key: None }
    }

    pub(super) fn keyed(key: &[u8]) -> io::Result<Self> {
        if key.len() < MIN_KEY {
            let why = format!("a key has at least {MIN_KEY} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let key = Hmac::new_from_slice(key).map_err(io::Error::other)?;
        Ok(Self { key: Some(key) })
    }

    pub(super) fn read(key_file: Option<&Path>) -> io::Result<Self> {
        match key_file {
            Some(path) => Self::keyed(&std::fs::read(path)?),
            None => Ok(Self::plain()),
        }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        if self.key.is_some() { "hmac-sha256" } else { "sha256" }
    }

    /// The digest of the concatenated pieces.
    pub(super) fn digest(&self, pieces: &[&[u8]]) -> Hash {
        if let Some(mut mac) = self.key.clone() {
            for piece in pieces {
                mac.update(piece);
            }
            return Hash::of_bytes(&mac.finalize().into_bytes());
        }
        let mut sha = Sha256::new();
        for piece in pieces {
            sha.update(piece);
        }
        Hash::of_bytes(&sha.finalize())
    }

    /// The digest of a line that follows the line with the digest `previous`. `body` is the line without its member
    /// `hash` and its closing brace.
    pub(super) fn link(&self, previous: &Hash, body: &[u8]) -> Hash {
        self.digest(&[&previous.0, b"\n", body, b"}"])
    }
}

/// Lines of the chain that are ready to be written.
#[derive(Default)]
pub(super) struct ChainedLines {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Vec<(Range<usize>, About)>,
}

impl ChainedLines {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.bytes.clear();
        if self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
    }

    /// Appends one record, given as a JSON object, as the next of the chain.
    pub(super) fn push(&mut self, seal: &Seal, point: &mut Point, record: &[u8], about: About) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.strip_suffix(b"}").unwrap_or(record));
        point.seq += 1;
        self.bytes.extend_from_slice(BEFORE_CHAIN);
        // Writing to memory cannot fail. `write!` costs several times as much.
        let _ = serde_json::to_writer(&mut self.bytes, &point.seq);
        point.hash = seal.link(&point.hash, self.bytes.get(start..).unwrap_or_default());
        self.bytes.extend_from_slice(BEFORE_HASH);
        self.bytes.extend_from_slice(&point.hash.0);
        self.bytes.extend_from_slice(AFTER_HASH);
        self.lines.push((start..self.bytes.len(), about));
        self.bytes.push(b'\n');
    }
}

/// A parsed line of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainLine<'a> {
    /// The line without its member `hash` and its closing brace.
    pub(super) body: &'a [u8],
    pub(super) point: Point,
}

impl<'a> ChainLine<'a> {
    /// Parses a line without its newline; `None` if it is not a line of a chain.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_suffix(AFTER_HASH)?;
        let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
        let hash = Hash::parse(digits)?;
        let body = rest.strip_suffix(BEFORE_HASH)?;
        let count = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (rest, number) = body.split_at_checked(body.len() - count)?;
        if !rest.ends_with(BEFORE_SEQ) || number.first() == Some(&b'0') {
            return None;
        }
        let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Self { body, point: Point { seq, hash } })
    }

    /// Whether it follows the record with the digest `previous`.
    pub(super) fn follows(&self, seal: &Seal, previous: &Hash) -> bool {
        seal.link(previous, self.body) == self.point.hash
    }
}
