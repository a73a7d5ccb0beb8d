//! Seals: confirmation tokens and question states. Each is valid for one call, for a limited time, and once.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::time::Instant;
use toolgate_wire::Json;

use super::binding::Binding;
use crate::client_input::InputRound;

/// The prefix of seals. A letter for the purpose follows.
pub(super) const PREFIX: &str = "tgc1";

/// Largest number of used seals that are remembered until they expire. At the limit further seals are refused, because
/// a forgotten one could be used twice.
const MAX_USED: usize = 65_536;

/// The bytes of a seal: a nonce, the second in which it expires, and two tags.
const NONCE: usize = 10;
const EXPIRY: usize = 4;
const HEAD: usize = NONCE + EXPIRY;
const TAG: usize = 10;

/// The purpose of a seal. A seal is valid for its purpose only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A token with which the caller repeats its call.
    Token,
    /// The state of a question to a client that repeats its call with the answer.
    Question,
    /// The state of a confirmed call for which the server asks for input.
    ServerState,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Token, Self::Question, Self::ServerState];

    const fn letter(self) -> char {
        match self {
            Self::Token => 't',
            Self::Question => 'q',
            Self::ServerState => 'c',
        }
    }
}

/// Why a seal is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealError {
    /// It was not issued by this process, or was changed.
    Tampered,
    /// It has expired.
    Expired,
    /// It was used before.
    Replayed,
    /// It is for another call: another caller, tool, definition or arguments.
    Mismatch,
    /// Too many seals were used in a short time.
    Crowded,
}

/// Issues and redeems seals. It is independent of the chain, so seals stay valid when the config changes.
pub struct Seals {
    key: [u8; 32],
    born: Instant,
    used: Mutex<HashMap<[u8; NONCE], Instant>>,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals")
    }
}

impl Seals {
    /// Creates a random key, so seals are valid until the process ends.
    pub fn new() -> Result<Self, String> {
        let mut key = [0; 32];
        random(&mut key)?;
        Ok(Self { key, born: Instant::now(), used: Mutex::default() })
    }

    /// A seal for this call. It contains `inner`, which can be read but not changed.
    pub(super) fn issue(
        &self,
        purpose: Purpose,
        binding: &Binding,
        ttl: Duration,
        inner: &str,
    ) -> Result<String, String> {
        let mut head = [0; HEAD];
        random(&mut head[..NONCE])?;
        let expires = (self.born.elapsed() + ttl).as_secs().saturating_add(1);
        let expires = u32::try_from(expires).unwrap_or(u32::MAX);
        head[NONCE..].copy_from_slice(&expires.to_be_bytes());
        let (genuine, bound) = self.tags(purpose, &head, inner, binding);
        let mut text = format!("{PREFIX}{}-", purpose.letter());
        for byte in head.iter().chain(&genuine).chain(&bound) {
            let _ = write!(text, "{byte:02x}");
        }
        if purpose == Purpose::ServerState {
            text.push('.');
            text.push_str(inner);
        }
        Ok(text)
    }

    /// Redeems a seal for this call, once, and returns its inner text.
    pub(super) fn redeem<'a>(
        &self,
        purpose: Purpose,
        text: &'a str,
        binding: &Binding,
    ) -> Result<&'a str, SealError> {
        let (bytes, inner) = read(purpose, text).ok_or(SealError::Tampered)?;
        let (head, tags) = bytes.split_at_checked(HEAD).ok_or(SealError::Tampered)?;
        let (genuine, bound) = self.tags(purpose, head, inner, binding);
        let (told_genuine, told_bound) = tags.split_at_checked(TAG).ok_or(SealError::Tampered)?;
        if !same(told_genuine, &genuine) {
            return Err(SealError::Tampered);
        }
        let (nonce, expires) = head.split_at_checked(NONCE).ok_or(SealError::Tampered)?;
        let expires: [u8; EXPIRY] = expires.try_into().map_err(|_| SealError::Tampered)?;
        let expires = self.born + Duration::from_secs(u32::from_be_bytes(expires).into());
        let now = Instant::now();
        if now >= expires {
            return Err(SealError::Expired);
        }
        let nonce = nonce.try_into().map_err(|_| SealError::Tampered)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(&nonce) {
            return Err(SealError::Replayed);
        }
        if !same(told_bound, &bound) {
            return Err(SealError::Mismatch);
        }
        if used.len() >= MAX_USED {
            used.retain(|_, until| *until > now);
            if used.len() >= MAX_USED {
                return Err(SealError::Crowded);
            }
        }
        used.insert(nonce, expires);
        Ok(inner)
    }

    /// Two tags: one proves that this process issued the seal, one that it is for this call. So a seal for another
    /// call can be distinguished from an invented one.
    fn tags(
        &self,
        purpose: Purpose,
        head: &[u8],
        inner: &str,
        binding: &Binding,
    ) -> ([u8; TAG], [u8; TAG]) {
        let tag = |of: &[u8]| -> [u8; TAG] {
            let mut tag = [0; TAG];
            // HMAC accepts a key of 32 bytes.
            if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) {
                mac.update(&[purpose.letter() as u8]);
                mac.update(head);
                mac.update(of);
                mac.update(inner.as_bytes());
                let whole = mac.finalize().into_bytes();
                tag.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
            }
            tag
        };
        (tag(b"genuine"), tag(&binding.0))
    }
}

impl InputRound {
    /// Whether the state is toolgate's own, which no server may see.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let state = self.state.as_ref().and_then(Json::text);
        state.is_some_and(|state| is_seal(&state))
    }
}

/// Whether a text has the format of a seal.
pub(super) fn is_seal(text: &str) -> bool {
    Purpose::ALL.into_iter().any(|purpose| after_prefix(purpose, text).is_some())
}

/// The purpose of a seal, by its prefix.
pub(super) fn purpose_of(text: &str) -> Option<Purpose> {
    Purpose::ALL.into_iter().find(|purpose| after_prefix(*purpose, text).is_some())
}

fn after_prefix(purpose: Purpose, text: &str) -> Option<&str> {
    text.strip_prefix(PREFIX)?.strip_prefix(purpose.letter())?.strip_prefix('-')
}

/// The bytes of a seal and its inner text.
fn read(purpose: Purpose, text: &str) -> Option<(Vec<u8>, &str)> {
    let text = after_prefix(purpose, text)?;
    let (hex, inner) = match purpose {
        Purpose::ServerState => text.split_once('.')?,
        _ => (text, ""),
    };
    if hex.len() != 2 * (HEAD + 2 * TAG) || !hex.is_ascii() {
        return None;
    }
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.last()?)?);
    Some((hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?, inner))
}

/// Compares in constant time.
fn same(one: &[u8], two: &[u8]) -> bool {
    one.len() == two.len() && one.iter().zip(two).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn random(bytes: &mut [u8]) -> Result<(), String> {
    getrandom::fill(bytes).map_err(|error| format!("the system gives no randomness: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn binding(seed: u8) -> Binding {
        Binding([seed; 32])
    }

    #[tokio::test(start_paused = true)]
    async fn a_seal_is_taken_once_for_its_call_and_its_time() {
        let seals = Seals::new().unwrap();
        let issue = || seals.issue(Purpose::Token, &binding(1), MINUTE, "").unwrap();
        let take =
            |text: &str, seed| seals.redeem(Purpose::Token, text, &binding(seed)).map(str::len);
        let seal = issue();
        assert_eq!(take(&seal, 2), Err(SealError::Mismatch));
        assert_eq!(take(&seal, 1), Ok(0));
        assert_eq!(take(&seal, 1), Err(SealError::Replayed));
        let late = issue();
        tokio::time::advance(MINUTE + Duration::from_secs(2)).await;
        assert_eq!(take(&late, 1), Err(SealError::Expired));
        let others = Seals::new().unwrap().issue(Purpose::Token, &binding(1), MINUTE, "");
        assert_eq!(take(&others.unwrap(), 1), Err(SealError::Tampered));
    }

    #[test]
    fn any_change_is_found_and_no_kind_is_taken_for_another() {
        let seals = Seals::new().unwrap();
        let seal = seals.issue(Purpose::ServerState, &binding(1), MINUTE, "server.state").unwrap();
        for at in 0..seal.len() {
            let mut changed = seal.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            let taken = seals.redeem(Purpose::ServerState, &changed, &binding(1));
            // Changing the binding's tag leads to `Mismatch`.
            assert!(
                matches!(taken, Err(SealError::Tampered | SealError::Mismatch)),
                "{at}: {taken:?}"
            );
        }
        let as_token = seal.replacen("tgc1c", "tgc1t", 1);
        assert_eq!(seals.redeem(Purpose::Token, &as_token, &binding(1)), Err(SealError::Tampered));
        assert_eq!(seals.redeem(Purpose::ServerState, &seal, &binding(1)), Ok("server.state"));
        assert!(is_seal(&seal) && !is_seal("rs1.AAAA") && !is_seal("tgc1x-00"));
    }
}
