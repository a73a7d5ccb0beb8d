//! Summing up arguments for the record: secrets become digests, long texts are cut.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    io,
};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind, Limits};

use super::{Digest, RedactConfig};

/// Payloads of terminal and file tools, by their exact names.
const PAYLOADS: [&str; 7] = ["keys", "text", "command", "value", "content", "shell", "environment"];

/// Words that make a name sound like a secret, wherever they stand in it, in any case, with or
/// without `_`, `-` and spaces.
const SECRETS: [&str; 12] = [
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

/// No word of these is shorter.
const SHORTEST_SECRET: usize = 5;

/// Lists of calls within a call. What stands there and is no call is told by its shape only.
pub(super) const BATCHES: [&str; 1] = ["operations"];

/// Texts that are no secret are cut after this many characters.
pub(super) const LONGEST_TEXT: usize = 200;
/// Deeper values are told by their shape only.
const DEEPEST: usize = 12;
/// Of longer lists and maps only the first entries are told.
const MOST_ENTRIES: usize = 100;
/// So many values are told of one call; the rest is told by its shape only.
const MOST_VALUES: usize = 1000;
/// A key for `hmac` that is shorter could be guessed like the secrets that it protects.
const SHORTEST_KEY: usize = 16;

/// Sums up arguments so that no secret stays in them.
pub struct Redactor {
    keys: Vec<String>,
    defaults: bool,
    hmac: Option<Vec<u8>>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Redactor {
    /// With these settings; reads the key for `hmac` if a file is given.
    pub fn new(config: &RedactConfig) -> io::Result<Self> {
        let hmac = match (config.digest, &config.key_file) {
            (Digest::Sha256, None) => None,
            (Digest::Sha256, Some(_)) => {
                let why = "a key needs `redact.digest = \"hmac\"`";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            (Digest::Hmac, Some(path)) => Some(std::fs::read(path)?),
            (Digest::Hmac, None) => Some(random_key()),
        };
        if hmac.as_ref().is_some_and(|key| key.len() < SHORTEST_KEY) {
            let why = format!("a key has at least {SHORTEST_KEY} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self {
            keys: config.keys.iter().map(|key| key.to_lowercase()).collect(),
            defaults: config.defaults,
            hmac,
        })
    }

    /// The arguments of a call as they may be recorded. They have names: what has none cannot be told from
    /// a secret, and is told by its shape.
    #[must_use]
    pub fn arguments(&self, arguments: &Json) -> Value {
        if arguments.kind() == Kind::Object { self.summary(arguments) } else { shape(arguments) }
    }

    /// Writes the same, as JSON.
    pub(super) fn write_arguments(&self, arguments: &Json, out: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(out, &self.arguments(arguments));
    }

    /// A value as it may be recorded.
    #[must_use]
    pub fn summary(&self, arguments: &Json) -> Value {
        let mut walk = Walk { redactor: self, left: MOST_VALUES };
        let mut told = walk.tell(arguments, 0);
        self.hide_repeats(arguments, &mut told);
        told
    }

    pub(in crate::middleware) fn is_sensitive(&self, key: &str) -> bool {
        self.defaults && PAYLOADS.contains(&key) || self.names_secret(key)
    }

    /// Whether a name sounds like a secret. Payloads are none: who confirms a command must see it.
    pub(in crate::middleware) fn names_secret(&self, key: &str) -> bool {
        if self.keys.is_empty() && (!self.defaults || key.len() < SHORTEST_SECRET) {
            return false;
        }
        let lower = key.to_lowercase();
        self.keys.contains(&lower) || self.has_secret_word(&lower)
    }

    /// Whether a text is JSON in which something sounds like a secret.
    pub(in crate::middleware) fn is_secret_json(&self, text: &str) -> bool {
        text.trim_start().starts_with(['{', '[']) && self.names_secret(text)
    }

    /// Whether a text is JSON with a sensitive key in it, as from clients that write nested
    /// arguments as text. What only looks like JSON is searched for the words.
    pub(in crate::middleware) fn is_sensitive_json(&self, text: &str) -> bool {
        if !text.trim_start().starts_with(['{', '[']) {
            return false;
        }
        let limits = Limits { max_depth: 128, ..Limits::default() };
        let Ok(json) = Json::parse(text.to_owned(), &limits) else {
            return self.sounds_sensitive(text);
        };
        self.has_sensitive_key(&json)
    }

    fn sounds_sensitive(&self, text: &str) -> bool {
        let quoted = |key: &str| ['"', '\''].iter().any(|q| text.contains(&format!("{q}{key}{q}")));
        let mut exact = self.keys.iter().map(String::as_str).chain(PAYLOADS);
        self.has_secret_word(&text.to_lowercase()) || exact.any(quoted)
    }

    fn has_secret_word(&self, lower: &str) -> bool {
        if !self.defaults {
            return false;
        }
        let spaces = ['_', '-', ' '];
        let plain = if lower.contains(spaces) {
            lower.replace(spaces, "").into()
        } else {
            Cow::from(lower)
        };
        let is_word = |rest: &[u8]| SECRETS.iter().any(|word| rest.starts_with(word.as_bytes()));
        // One pass: twelve searches would cost more than the rest of a record.
        let bytes = plain.as_bytes();
        (0..bytes.len().saturating_sub(SHORTEST_SECRET - 1)).any(|at| {
            let rest = bytes.get(at..).unwrap_or_default();
            rest.first().is_some_and(|first| b"pstabc".contains(first)) && is_word(rest)
        })
    }

    fn has_sensitive_key(&self, json: &Json) -> bool {
        let is_sensitive = |key: &str, value: &Json| {
            self.is_sensitive(key)
                || BATCHES.contains(&key) && !is_batch(value)
                || self.has_sensitive_key(value)
        };
        match json.kind() {
            Kind::Object => {
                let members = json.object().unwrap_or_default();
                members.iter().any(|(key, value)| is_sensitive(&key, &value))
            }
            Kind::Array => {
                let elements = json.array().unwrap_or_default();
                elements.iter().any(|json| self.has_sensitive_key(json))
            }
            Kind::String => json.text().is_some_and(|text| self.is_sensitive_json(&text)),
            Kind::Number | Kind::Bool | Kind::Null => false,
        }
    }

    /// Length and the first twelve digits of a digest: enough to see that two values are the same.
    pub(in crate::middleware) fn digest(&self, text: &str) -> Value {
        let len = text.chars().count();
        match &self.hmac {
            None => json!({"len": len, "sha256_prefix": prefix(&Sha256::digest(text))}),
            Some(key) => {
                let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
                    return json!({"len": len, "redacted": true});
                };
                mac.update(text.as_bytes());
                json!({"len": len, "hmac_sha256_prefix": prefix(&mac.finalize().into_bytes())})
            }
        }
    }
}

/// One walk over the arguments of one call.
struct Walk<'a> {
    redactor: &'a Redactor,
    left: usize,
}

impl Walk<'_> {
    /// A value that nothing speaks against.
    fn tell(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            _ if !self.has_room(depth) => shape(json),
            Kind::Object => self.members(json, |walk, key, value| {
                if walk.redactor.is_sensitive(key) {
                    walk.hide(value, depth + 1)
                } else if BATCHES.contains(&key) {
                    walk.batch(value, depth + 1)
                } else {
                    walk.tell(value, depth + 1)
                }
            }),
            Kind::Array => self.elements(json, |walk, element| walk.tell(element, depth + 1)),
            Kind::String => match json.text() {
                Some(text) if self.redactor.is_sensitive_json(&text) => self.redactor.digest(&text),
                Some(text) => json!(cut(&text)),
                None => shape(json),
            },
            Kind::Number | Kind::Bool | Kind::Null => {
                json.to_value().unwrap_or_else(|_| json!(cut(json.as_str())))
            }
        }
    }

    /// A list of calls: each is walked like a call of its own.
    fn batch(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            Kind::Array if self.has_room(depth) => self.elements(json, |walk, element| {
                if element.kind() == Kind::Object {
                    walk.tell(element, depth + 1)
                } else {
                    shape(element)
                }
            }),
            Kind::String => self.hide(json, depth),
            Kind::Null => Value::Null,
            _ => shape(json),
        }
    }

    /// A sensitive value: texts become digests, maps keep their keys, the rest tells its shape only.
    fn hide(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            _ if !self.has_room(depth) => shape(json),
            Kind::String => match json.text() {
                Some(text) => self.redactor.digest(&text),
                None => shape(json),
            },
            Kind::Object => self.members(json, |walk, _, value| walk.hide(value, depth + 1)),
            // `null` hides nothing, and says that nothing was given.
            Kind::Null => Value::Null,
            _ => shape(json),
        }
    }

    fn has_room(&mut self, depth: usize) -> bool {
        let has_room = self.left > 0 && depth < DEEPEST;
        self.left = self.left.saturating_sub(1);
        has_room
    }

    fn members(
        &mut self,
        json: &Json,
        mut each: impl FnMut(&mut Self, &str, &Json) -> Value,
    ) -> Value {
        let object = json.object().unwrap_or_default();
        let mut map = Map::new();
        for (key, value) in object.iter().take(MOST_ENTRIES) {
            // A key may be as long as any text.
            map.insert(cut(&key), each(self, &key, &value));
        }
        if object.len() > MOST_ENTRIES {
            let more = object.len() - MOST_ENTRIES;
            map.insert(format!("...<{more} more>"), Value::Null);
        }
        Value::Object(map)
    }

    fn elements(&mut self, json: &Json, mut each: impl FnMut(&mut Self, &Json) -> Value) -> Value {
        let elements = json.array().unwrap_or_default();
        let told = elements.iter().take(MOST_ENTRIES);
        let mut list: Vec<Value> = told.map(|element| each(self, element)).collect();
        if elements.len() > MOST_ENTRIES {
            list.push(json!(format!("...<{} more>", elements.len() - MOST_ENTRIES)));
        }
        Value::Array(list)
    }
}

/// Whether it is a list of calls and of nothing else.
pub(super) fn is_batch(json: &Json) -> bool {
    let elements = json.array();
    elements.is_some_and(|all| all.iter().all(|json| json.kind() == Kind::Object))
}

fn prefix(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(12);
    for byte in bytes.iter().take(6) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn shape(json: &Json) -> Value {
    let kind = match json.kind() {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Bool => "bool",
        Kind::Null => "null",
    };
    json!({"type": kind, "redacted": true})
}

/// A text as it may be recorded: not longer than records should be.
pub(in crate::middleware) fn cut(text: &str) -> String {
    shortened(text).into_owned()
}

/// The same; borrowed if there is nothing to cut.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_TEXT {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...<truncated>", text.get(..end).unwrap_or_default()).into(),
        None => Cow::Borrowed(text),
    }
}

/// From the standard library's random hash keys (128 bits from the system): no further crate needed
/// for a key that only has to be unguessable from the digests of one run.
fn random_key() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    (0..4_u64).flat_map(|i| RandomState::new().hash_one(i).to_le_bytes()).collect()
}
