//! Redacts arguments for records: secrets become digests, long texts are shortened.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    io,
};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind, Limits};

use super::{DigestAlgorithm, RedactConfig, secret_names};
use crate::printable;

/// Arguments that are payloads of terminal and file tools, by exact name.
const PAYLOADS: [&str; 7] = ["keys", "text", "command", "value", "content", "shell", "environment"];

/// Names that hold a secret in some tools and harmless values in others: records hide their values, previews show
/// them.
const AMBIGUOUS_NAMES: [&str; 2] = ["key", "session"];

/// Arguments that are lists of nested calls. Elements that are not objects are replaced by their type.
pub(super) const BATCHES: [&str; 1] = ["operations"];

/// Largest length of a text in a record, in characters.
pub(super) const MAX_TEXT: usize = 200;
/// Bytes of a text that are searched for secrets before it is shortened: a secret's replacement may be shorter.
const SEARCHED: usize = 4096;
const CUT: &str = "...<truncated>";
/// Deeper values are replaced by their type.
const MAX_DEPTH: usize = 12;
/// Largest number of entries of a list or map in a record.
const MAX_ENTRIES: usize = 100;
/// Largest number of values of one call in a record. Further ones are replaced by their type.
const MAX_VALUES: usize = 1000;
/// Smallest length of a key for `hmac`, in bytes. Shorter ones could be guessed.
const MIN_KEY: usize = 16;
/// Bytes of a digest in a record.
pub(super) const PREFIX_BYTES: usize = 6;
/// Limits for JSON within a text.
const SHALLOW: Limits = Limits { max_bytes: usize::MAX, max_depth: 128 };

/// Redacts arguments, so that no secret remains.
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
    /// A redactor with these settings. Reads the key for `hmac` if the settings name a file.
    pub fn new(config: &RedactConfig) -> io::Result<Self> {
        let hmac = match (config.digest, &config.key_file) {
            (DigestAlgorithm::Sha256, None) => None,
            (DigestAlgorithm::Sha256, Some(_)) => {
                let why = "a key needs `redact.digest = \"hmac\"`";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            (DigestAlgorithm::Hmac, Some(path)) => Some(std::fs::read(path)?),
            (DigestAlgorithm::Hmac, None) => Some(random_key()),
        };
        if hmac.as_ref().is_some_and(|key| key.len() < MIN_KEY) {
            let why = format!("a key has at least {MIN_KEY} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self {
            keys: config.keys.iter().map(|key| key.to_lowercase()).collect(),
            defaults: config.defaults,
            hmac,
        })
    }

    /// The redacted arguments of a call. Arguments that are not an object have no names, so they are replaced by their
    /// type.
    #[must_use]
    pub fn arguments(&self, arguments: &Json) -> Value {
        if arguments.kind() == Kind::Object { self.summary(arguments) } else { shape(arguments) }
    }

    /// Writes the redacted arguments as JSON.
    pub(super) fn write_arguments(&self, arguments: &Json, out: &mut Vec<u8>) {
        if self.write_simple(arguments, out) {
            return;
        }
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(out, &self.arguments(arguments));
    }

    /// Whether digests have a key.
    pub(super) fn is_keyed(&self) -> bool {
        self.hmac.is_some()
    }

    /// The redacted value.
    #[must_use]
    pub fn summary(&self, arguments: &Json) -> Value {
        let mut redaction = Redaction { redactor: self, left: MAX_VALUES };
        let mut redacted = redaction.summarize(arguments, 0);
        self.hide_repeats(arguments, &mut redacted);
        redacted
    }

    pub(in crate::middleware) fn is_sensitive(&self, key: &str) -> bool {
        self.defaults
            && (PAYLOADS.contains(&key)
                || AMBIGUOUS_NAMES.iter().any(|name| key.eq_ignore_ascii_case(name)))
            || self.names_secret(key)
    }

    /// Whether a name sounds like a secret. Payloads are not secrets: a person who confirms a command must see it.
    pub(in crate::middleware) fn names_secret(&self, key: &str) -> bool {
        if self.defaults && secret_names::sounds_secret(key) || secret_names::is_confirmation(key) {
            return true;
        }
        !self.keys.is_empty() && self.keys.contains(&key.to_lowercase())
    }

    /// Whether a text is JSON with a key that sounds like a secret.
    pub(in crate::middleware) fn is_secret_json(&self, text: &str) -> bool {
        text.trim_start().starts_with(['{', '['])
            && (self.has_secret_word(&text.to_lowercase())
                || Json::parse(text.to_owned(), &SHALLOW)
                    .is_ok_and(|json| self.has_secret_key(&json)))
    }

    fn has_secret_key(&self, json: &Json) -> bool {
        let object = json.object().unwrap_or_default();
        let list = json.array().unwrap_or_default();
        object.iter().any(|(key, value)| self.names_secret(&key) || self.has_secret_key(&value))
            || list.iter().any(|json| self.has_secret_key(json))
    }

    /// Whether a text is JSON with a sensitive key, as from clients that send nested arguments as text. A text that
    /// only starts like JSON is searched for words.
    pub(in crate::middleware) fn is_sensitive_json(&self, text: &str) -> bool {
        if !text.trim_start().starts_with(['{', '[']) {
            return false;
        }
        let Ok(json) = Json::parse(text.to_owned(), &SHALLOW) else {
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
        self.defaults && secret_names::has_secret_word(lower)
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

    /// The text without secrets of known formats.
    pub(in crate::middleware) fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.defaults { secret_names::clean(text) } else { secret_names::unsealed(text) }
    }

    /// The start of a text, without secrets and shortened for a record.
    fn start(&self, text: &str) -> String {
        let end = printable::floor_char_boundary(text, SEARCHED);
        let start = text.get(..end).unwrap_or_default();
        let mut redacted = cut(&self.clean(start));
        if end < text.len() && !redacted.ends_with(CUT) {
            redacted.push_str(CUT);
        }
        redacted
    }

    /// Whether a list element is the name of a secret that follows.
    pub(in crate::middleware) fn is_name(&self, json: &Json) -> bool {
        secret_names::is_name_in_list(json, |name| self.names_secret(name))
    }

    /// Length and the first twelve digits of a digest, by which equal values can be recognized.
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

/// The redaction of one call's arguments.
struct Redaction<'a> {
    redactor: &'a Redactor,
    left: usize,
}

impl Redaction<'_> {
    /// Redacts a value whose name is not sensitive.
    fn summarize(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            _ if !self.has_room(depth) => shape(json),
            Kind::Object => self.members(json, |redaction, (key, value), names_one| {
                if secret_names::is_confirmation(key) {
                    shape(value)
                } else if redaction.redactor.is_sensitive(key)
                    || names_one && !secret_names::is_naming(key)
                {
                    redaction.hide(value, depth + 1)
                } else if names_one {
                    // The name of the secret in the neighbouring member.
                    json!(value.text().map_or_else(|| shape(value), |text| json!(cut(&text))))
                } else if BATCHES.contains(&key) {
                    redaction.batch(value, depth + 1)
                } else {
                    redaction.summarize(value, depth + 1)
                }
            }),
            Kind::Array => {
                let mut is_named = false;
                self.elements(json, |redaction, element| {
                    let hides =
                        std::mem::replace(&mut is_named, redaction.redactor.is_name(element));
                    if hides {
                        redaction.hide(element, depth + 1)
                    } else {
                        redaction.summarize(element, depth + 1)
                    }
                })
            }
            Kind::String => match json.text() {
                Some(text) if self.redactor.is_sensitive_json(&text) => self.redactor.digest(&text),
                Some(text) => json!(self.redactor.start(&text)),
                None => shape(json),
            },
            Kind::Number | Kind::Bool | Kind::Null => {
                json.to_value().unwrap_or_else(|_| json!(cut(json.as_str())))
            }
        }
    }

    /// Redacts a list of nested calls, each like a call of its own.
    fn batch(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            Kind::Array if self.has_room(depth) => self.elements(json, |redaction, element| {
                if element.kind() == Kind::Object {
                    redaction.summarize(element, depth + 1)
                } else {
                    shape(element)
                }
            }),
            Kind::String => self.hide(json, depth),
            Kind::Null => Value::Null,
            _ => shape(json),
        }
    }

    /// Redacts a sensitive value: texts become digests, objects keep their keys, other values are replaced by their
    /// type.
    fn hide(&mut self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            _ if !self.has_room(depth) => shape(json),
            Kind::String => match json.text() {
                Some(text) => self.redactor.digest(&text),
                None => shape(json),
            },
            Kind::Object => self.members(json, |redaction, (key, value), _| {
                if secret_names::is_confirmation(key) {
                    shape(value)
                } else {
                    redaction.hide(value, depth + 1)
                }
            }),
            // `null` is not secret, and shows that no value was given.
            Kind::Null => Value::Null,
            _ => shape(json),
        }
    }

    fn has_room(&mut self, depth: usize) -> bool {
        let has_room = self.left > 0 && depth < MAX_DEPTH;
        self.left = self.left.saturating_sub(1);
        has_room
    }

    fn members(
        &mut self,
        json: &Json,
        mut each: impl FnMut(&mut Self, (&str, &Json), bool) -> Value,
    ) -> Value {
        let object = json.object().unwrap_or_default();
        let names_one = secret_names::names_one(&object, |name| self.redactor.names_secret(name));
        let mut map = Map::new();
        for (key, value) in object.iter().take(MAX_ENTRIES) {
            let redacted = each(self, (&key, &value), names_one);
            // Keys are shortened too, and two may then be equal.
            insert(&mut map, self.redactor.start(&key), redacted);
        }
        if object.len() > MAX_ENTRIES {
            let more = object.len() - MAX_ENTRIES;
            map.insert(format!("...<{more} more>"), Value::Null);
        }
        Value::Object(map)
    }

    fn elements(&mut self, json: &Json, mut each: impl FnMut(&mut Self, &Json) -> Value) -> Value {
        let elements = json.array().unwrap_or_default();
        let redacted = elements.iter().take(MAX_ENTRIES);
        let mut list: Vec<Value> = redacted.map(|element| each(self, element)).collect();
        if elements.len() > MAX_ENTRIES {
            list.push(json!(format!("...<{} more>", elements.len() - MAX_ENTRIES)));
        }
        Value::Array(list)
    }
}

/// Adds a member. If the name exists, it gets a number, so that no member is lost.
pub(in crate::middleware) fn insert(map: &mut Map<String, Value>, name: String, value: Value) {
    if !map.contains_key(&name) {
        map.insert(name, value);
        return;
    }
    let mut number = 2;
    while map.contains_key(&format!("{name} ({number})")) {
        number += 1;
    }
    map.insert(format!("{name} ({number})"), value);
}

/// Whether the value is a list of objects only.
pub(super) fn is_batch(json: &Json) -> bool {
    let elements = json.array();
    elements.is_some_and(|all| all.iter().all(|json| json.kind() == Kind::Object))
}

fn prefix(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * PREFIX_BYTES);
    for byte in bytes.iter().take(PREFIX_BYTES) {
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

/// A text shortened for a record.
pub(in crate::middleware) fn cut(text: &str) -> String {
    shortened(text).into_owned()
}

/// Like [`cut`]; borrowed if the text is short enough.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}{CUT}", text.get(..end).unwrap_or_default()).into(),
        None => Cow::Borrowed(text),
    }
}

/// A random key from the standard library's hash keys (128 bits from the system), so that no further crate is needed.
/// It only has to be hard to guess from the digests of one process.
fn random_key() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    (0..4_u64).flat_map(|i| RandomState::new().hash_one(i).to_le_bytes()).collect()
}
