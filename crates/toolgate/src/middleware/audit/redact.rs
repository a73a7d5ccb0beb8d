//! Summing up arguments for the record: secrets become digests, long texts are cut.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind};

use super::{Digest, RedactConfig};

/// Payloads of terminal and file tools, by their exact names.
const PAYLOADS: [&str; 7] =
    ["keys", "text", "command", "value", "content", "shell", "environment"];

/// Words that make a name sound like a secret, wherever they stand in it, in any case.
const SECRETS: [&str; 13] = [
    "password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "api-key",
    "authorization", "credential", "private_key", "privatekey", "cookie",
];

/// Texts that are no secret are cut after this many characters.
const LONGEST_TEXT: usize = 200;
/// Deeper values are told by their shape only.
const DEEPEST: usize = 12;
/// Of longer lists and maps only the first entries are told.
const MOST_ENTRIES: usize = 100;

/// Sums up arguments so that no secret stays in them.
pub struct Redactor {
    keys: Vec<String>,
    defaults: bool,
    hmac: Option<Vec<u8>>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Redactor {
    /// With these settings; reads the key for `hmac` if a file is given.
    pub fn new(config: &RedactConfig) -> std::io::Result<Self> {
        let hmac = match (config.digest, &config.key_file) {
            (Digest::Sha256, _) => None,
            (Digest::Hmac, Some(path)) => Some(std::fs::read(path)?),
            (Digest::Hmac, None) => Some(random_key()),
        };
        Ok(Self { keys: config.keys.clone(), defaults: config.defaults, hmac })
    }

    /// The arguments as they may be recorded.
    #[must_use]
    pub fn summary(&self, arguments: &Json) -> Value {
        self.walk(arguments, 0)
    }

    fn walk(&self, json: &Json, depth: usize) -> Value {
        if depth >= DEEPEST && matches!(json.kind(), Kind::Object | Kind::Array) {
            return shape(json);
        }
        match json.kind() {
            Kind::Object => self.members(json, |key, value| {
                if self.is_sensitive(key) {
                    self.hide(value, depth + 1)
                } else {
                    self.walk(value, depth + 1)
                }
            }),
            Kind::Array => {
                let elements = json.array().unwrap_or_default();
                let told = elements.iter().take(MOST_ENTRIES);
                let mut list: Vec<Value> = told.map(|e| self.walk(e, depth + 1)).collect();
                if elements.len() > MOST_ENTRIES {
                    list.push(json!(format!("...<{} more>", elements.len() - MOST_ENTRIES)));
                }
                Value::Array(list)
            }
            Kind::String => json.text().map_or_else(|| shape(json), |text| cut(&text)),
            Kind::Number | Kind::Bool | Kind::Null => {
                json.to_value().unwrap_or_else(|_| cut(json.as_str()))
            }
        }
    }

    /// A sensitive value: texts become digests, maps keep their keys, the rest tells its shape only.
    fn hide(&self, json: &Json, depth: usize) -> Value {
        match json.kind() {
            Kind::String => json.text().map_or_else(|| shape(json), |text| self.digest(&text)),
            Kind::Object if depth < DEEPEST => {
                self.members(json, |_, value| self.hide(value, depth + 1))
            }
            // `null` hides nothing, and says that nothing was given.
            Kind::Null => Value::Null,
            _ => shape(json),
        }
    }

    fn members(&self, json: &Json, mut each: impl FnMut(&str, &Json) -> Value) -> Value {
        let object = json.object().unwrap_or_default();
        let mut map = Map::new();
        for (key, value) in object.iter().take(MOST_ENTRIES) {
            // A key may be as long as any text.
            let name = if key.chars().count() > LONGEST_TEXT {
                key.chars().take(LONGEST_TEXT).collect()
            } else {
                key.to_string()
            };
            map.insert(name, each(&key, &value));
        }
        if object.len() > MOST_ENTRIES {
            map.insert(format!("...<{} more>", object.len() - MOST_ENTRIES), Value::Null);
        }
        Value::Object(map)
    }

    fn is_sensitive(&self, key: &str) -> bool {
        let lower = key.to_lowercase();
        self.keys.iter().any(|name| name.to_lowercase() == lower)
            || (self.defaults
                && (PAYLOADS.contains(&key) || SECRETS.iter().any(|word| lower.contains(word))))
    }

    /// Length and the first twelve digits of a digest: enough to see that two values are the same.
    fn digest(&self, text: &str) -> Value {
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

fn prefix(bytes: &[u8]) -> String {
    bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
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

fn cut(text: &str) -> Value {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => {
            json!(format!("{}...<truncated>", text.get(..end).unwrap_or_default()))
        }
        None => json!(text),
    }
}

/// 256 bits from the standard library's per-instance random hash keys: no further crate needed for a
/// key that only has to be unguessable from the digests of one run.
fn random_key() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    (0..4_u64).flat_map(|i| RandomState::new().hash_one(i).to_le_bytes()).collect()
}
