//! Request ids: compared by value, sent back as they were written.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::json::{Json, Kind};
use crate::number::Number;
use crate::scan::inside_quotes;
use crate::text::unescape;

/// The id of a JSON-RPC request: a string or a number, never `null`.
///
/// Two ids are equal if their values are: `5` and `5.0`, `"a"` and `"\u0061"`. `5` and `"5"` differ. [`Id::as_json`]
/// keeps the original spelling.
#[derive(Clone)]
pub struct Id {
    json: Json,
    meaning: Meaning,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Meaning {
    Number(Number),
    /// A string without escapes: the spelling is the value.
    Plain,
    /// The decoded value of a string with escapes.
    Decoded(Box<[u8]>),
}

impl Id {
    /// A number.
    #[must_use]
    pub fn number(n: i64) -> Self {
        Self {
            json: Json::composed(n.to_string().into_bytes()),
            meaning: Meaning::Number(Number::Integer(n.into())),
        }
    }

    /// A string.
    #[must_use]
    pub fn string(s: &str) -> Self {
        let json = Json::string(s);
        let meaning = string_meaning(&json);
        Self { json, meaning }
    }

    /// The id with this value; `None` for anything but a string or a number.
    #[must_use]
    pub fn from_json(json: Json) -> Option<Self> {
        let meaning = match json.kind() {
            Kind::Number => Meaning::Number(Number::of(json.as_bytes())),
            Kind::String => string_meaning(&json),
            _ => return None,
        };
        Some(Self { json, meaning })
    }

    /// The original spelling.
    #[must_use]
    pub fn as_json(&self) -> &Json {
        &self.json
    }

    /// The value to compare: a number, or the decoded bytes of a string.
    fn meaning(&self) -> Result<&Number, &[u8]> {
        match &self.meaning {
            Meaning::Number(number) => Ok(number),
            Meaning::Plain => Err(inside_quotes(self.json.as_bytes())),
            Meaning::Decoded(said) => Err(said),
        }
    }
}

fn string_meaning(json: &Json) -> Meaning {
    match unescape(inside_quotes(json.as_bytes())) {
        Cow::Borrowed(_) => Meaning::Plain,
        Cow::Owned(said) => Meaning::Decoded(said.into()),
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json.as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl From<i64> for Id {
    fn from(n: i64) -> Self {
        Self::number(n)
    }
}

impl From<&str> for Id {
    fn from(s: &str) -> Self {
        Self::string(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use std::collections::HashSet;

    fn id(text: &'static str) -> Id {
        let json = Json::parse(text.as_bytes(), &Limits::default()).unwrap();
        Id::from_json(json).unwrap()
    }

    #[test]
    fn equal_by_meaning_and_kept_by_spelling() {
        assert_eq!(id("5"), id("5.0"));
        assert_eq!(id("5"), Id::number(5));
        assert_ne!(id("5"), id("\"5\""));
        assert_ne!(id("5"), id("5.5"));
        assert_eq!(id(r#""a/\u0062""#), Id::string("a/b"));
        assert_eq!(id(r#""a\/b""#), id(r#""a/b""#));
        assert_eq!(id(r#""\ud800""#), id(r#""\uD800""#));
        assert_eq!(id(r#""a\/b""#).to_string(), r#""a\/b""#);
        assert_eq!(id("5.0").to_string(), "5.0");
    }

    #[test]
    fn equal_ids_have_equal_hashes() {
        let set: HashSet<Id> =
            ["5", "5.0", "50e-1", r#""5""#, r#""\u0035""#].into_iter().map(id).collect();
        assert_eq!(set.len(), 2);
    }

    #[test]
    fn only_strings_and_numbers_are_ids() {
        for other in ["null", "true", "[]", "{}"] {
            let json = Json::parse(other, &Limits::default()).unwrap();
            assert!(Id::from_json(json).is_none(), "{other}");
        }
    }
}
