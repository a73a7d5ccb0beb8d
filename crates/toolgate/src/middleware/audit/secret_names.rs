//! Recognizes names and texts of secrets: one table for the audit, the call log, spans and previews.

use std::borrow::Cow;

use toolgate_wire::{Json, Kind, Object};

use crate::middleware::sanitize::without_secrets;

/// Words that mark a secret anywhere in a name, in any case, with or without `_`, `-` and spaces.
const ANYWHERE: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "bearer",
    "credential",
    "cookie",
];
const MIN_ANYWHERE: usize = 5;

/// Short words that mark a secret only as the last word of a name: `db_pw`, `basicAuth`, but not `passport` or
/// `author`.
const LAST: [&str; 15] = [
    "pw",
    "pwd",
    "pass",
    "passcode",
    "auth",
    "oauth",
    "jwt",
    "cred",
    "creds",
    "otp",
    "totp",
    "psk",
    "sid",
    "sessionid",
    "sessid",
];

/// Words that may follow such a word.
const BEHIND: [&str; 8] = ["value", "header", "string", "data", "text", "b64", "base64", "plain"];

/// Words before `key` that mark a secret; `primary_key` and `issue_key` are not secrets.
const KEYS_FOR: [&str; 19] = [
    "api",
    "access",
    "private",
    "secret",
    "signing",
    "encryption",
    "decryption",
    "ssh",
    "gpg",
    "pgp",
    "master",
    "auth",
    "client",
    "service",
    "account",
    "storage",
    "shared",
    "deploy",
    "hmac",
];

/// Members of an object that contain the name of another member's value.
const NAMING: [&str; 6] = ["name", "key", "header", "field", "k", "n"];

/// The prefix of toolgate's confirmation tokens. A token confirms a call, so it is a secret.
const SEALS: [&str; 2] = ["tgc1", "tgp1"];
/// Smallest length of a token, in bytes. A shorter word only starts like one.
const MIN_SEAL: usize = 16;
const SEALED: &str = "[redacted: confirmation]";

/// The reserved argument and its name in `_meta`.
const CONFIRMATIONS: [&str; 2] = ["__confirm", "toolgate/confirm"];

/// Whether a name carries a confirmation.
pub(in crate::middleware) fn is_confirmation(key: &str) -> bool {
    CONFIRMATIONS.contains(&key)
}

/// Whether a name sounds like a secret.
pub(super) fn sounds_secret(key: &str) -> bool {
    let is_lower = key.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    let lower = if is_lower { Cow::from(key) } else { key.to_lowercase().into() };
    has_secret_word(&lower) || has_last_word(key) || is_confirmation(key)
}

/// Whether a lower-case text contains one of the long words.
pub(super) fn has_secret_word(lower: &str) -> bool {
    let spaces = ['_', '-', ' '];
    let plain =
        if lower.contains(spaces) { lower.replace(spaces, "").into() } else { Cow::from(lower) };
    let is_word = |rest: &[u8]| ANYWHERE.iter().any(|word| rest.starts_with(word.as_bytes()));
    // One pass, because twelve searches would cost more than the rest of a record.
    let bytes = plain.as_bytes();
    (0..bytes.len().saturating_sub(MIN_ANYWHERE - 1)).any(|at| {
        let rest = bytes.get(at..).unwrap_or_default();
        rest.first().is_some_and(|first| b"pstabc".contains(first)) && is_word(rest)
    })
}

fn has_last_word(key: &str) -> bool {
    let is = |word: &str, list: &[&str]| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    let words = words(key);
    let mut words = words.iter().rev().copied().peekable();
    while words
        .next_if(|word| is(word, &BEHIND) || word.bytes().all(|b| b.is_ascii_digit()))
        .is_some()
    {}
    let Some(last) = words.next() else { return false };
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    is(last, &LAST)
        // `phpsessid`, `jsessionid`, `sessionId`
        || ends_with(key, "sessid")
        || ends_with(key, "sessionid")
        || (is(last, &["key", "keys"]) && words.next().is_some_and(|kind| is(kind, &KEYS_FOR)))
}

fn ends_with(key: &str, end: &str) -> bool {
    let start = key.len().checked_sub(end.len());
    start.and_then(|start| key.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// The words of a name: `db_pw`, `db-pw`, `dbPw`, `DB.PW` and `HTTPAuth` have two.
fn words(key: &str) -> Vec<&str> {
    let bytes = key.as_bytes();
    let (mut words, mut start) = (Vec::new(), 0);
    let mut push = |start: usize, end: usize| {
        words.extend(key.get(start..end).filter(|word| !word.is_empty()));
    };
    for at in 0..bytes.len() {
        let here = bytes.get(at).copied().unwrap_or_default();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or_default();
        let after = bytes.get(at + 1).copied().unwrap_or_default();
        if here.is_ascii() && !here.is_ascii_alphanumeric() {
            push(start, at);
            start = at + 1;
        } else if here.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && after.is_ascii_lowercase())
        {
            push(start, at);
            start = at;
        }
    }
    push(start, bytes.len());
    words
}

/// Whether one member of the object names a secret that another contains, as in `{"name": "Authorization", "value":
/// "…"}`.
pub(in crate::middleware) fn names_one(object: &Object, is_secret: impl Fn(&str) -> bool) -> bool {
    object.len() <= 8
        && object.iter().any(|(key, value)| {
            NAMING.contains(&&*key) && value.text().is_some_and(|name| is_secret(name.trim()))
        })
}

/// Whether a member of such an object contains the name.
pub(in crate::middleware) fn is_naming(key: &str) -> bool {
    NAMING.contains(&key)
}

/// Whether a list element names a secret that follows, as in `["Authorization", "…"]` or `["--password", "…"]`.
pub(in crate::middleware) fn is_name_in_list(
    json: &Json,
    is_secret: impl Fn(&str) -> bool,
) -> bool {
    json.kind() == Kind::String
        && json.len() <= 64
        && json.text().is_some_and(|text| {
            let name = text.trim_start_matches('-');
            !name.contains(char::is_whitespace)
                && !name.contains('=')
                && is_secret(name.trim_end_matches(':'))
        })
}

/// The text without secrets of known formats: tokens of well-known services, passwords in addresses and toolgate's own
/// confirmation tokens.
pub(in crate::middleware) fn clean(text: &str) -> Cow<'_, str> {
    match unsealed(text) {
        Cow::Borrowed(text) => without_secrets(text),
        Cow::Owned(text) => Cow::Owned(without_secrets(&text).into_owned()),
    }
}

/// The text without toolgate's confirmation tokens.
pub(in crate::middleware) fn unsealed(text: &str) -> Cow<'_, str> {
    // `str::find` looks at one byte at a time, which is most of the work on a long text.
    let find = |rest: &str, seal: &str| memchr::memmem::find(rest.as_bytes(), seal.as_bytes());
    let next = |rest: &str| SEALS.iter().filter_map(|seal| find(rest, seal)).min();
    if text.len() < MIN_SEAL || next(text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = next(rest) {
        let (before, seal) = rest.split_at(at);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let end = seal.find(|c| !is_part(c)).unwrap_or(seal.len());
        let (seal, after) = seal.split_at(end);
        shown.push_str(before);
        shown.push_str(if seal.len() >= MIN_SEAL { SEALED } else { seal });
        rest = after;
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_words_count_at_word_boundaries_only() {
        for name in [
            "pw",
            "PW",
            "pwd",
            "dbPwd",
            "PASS",
            "db_pass",
            "smtp-pass",
            "auth",
            "basicAuth",
            "X-Auth",
            "proxy.auth",
            "jwt",
            "userJWT",
            "sessionid",
            "sessionId",
            "JSESSIONID",
            "PHPSESSID",
            "sid",
            "otp",
            "auth_header",
            "signing_key",
            "sshKey",
            "SSH_KEYS",
            "masterKey",
            "pass2",
            "__confirm",
            "HTTPAuth",
            "creds",
        ] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in [
            "passport",
            "bypass",
            "compass",
            "author",
            "authority",
            "keyboard",
            "key_name",
            "primary_key",
            "issueKey",
            "monkey",
            "session_name",
            "session_id",
            "passThrough",
            "pass_count",
            "path",
            "pwned",
            "side",
        ] {
            assert!(!sounds_secret(name), "{name}");
        }
    }

    #[test]
    fn our_own_seals_are_masked_wherever_they_stand() {
        let seal = format!("tgc1t-{}", "0a".repeat(40));
        assert_eq!(unsealed(&format!("use `{seal}` now")), format!("use `{SEALED}` now"));
        assert_eq!(unsealed("tgc1 is a prefix"), "tgc1 is a prefix");
        assert!(!clean(&seal).contains("0a0a"));
    }
}
