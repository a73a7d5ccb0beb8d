//! Parses arguments strictly, so that the checked value is what the tool reads.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use toolgate_wire::Json;

/// Parsed arguments and their size.
#[derive(Debug)]
pub(super) struct Arguments {
    pub(super) value: Value,
    /// The number of values, nested ones included.
    pub(super) count: u64,
    /// The depth of nesting.
    pub(super) depth: usize,
}

impl Arguments {
    /// Removes these top-level members; `names` is sorted.
    pub(super) fn remove(&mut self, names: &[String]) {
        if names.is_empty() {
            return;
        }
        if let Some(object) = self.value.as_object_mut() {
            object.retain(|name, _| names.binary_search(name).is_err());
        }
        (self.count, self.depth) = extent(&self.value);
    }
}

/// The number of values, nested ones included, and their depth. The JSON parser's depth limit also limits the recursion.
fn extent(value: &Value) -> (u64, usize) {
    let inner = |all: &mut dyn Iterator<Item = &Value>| {
        all.map(extent)
            .fold((1, 0), |(count, depth), (more, below)| (count + more, depth.max(below + 1)))
    };
    match value {
        Value::Object(members) => inner(&mut members.values()),
        Value::Array(elements) => inner(&mut elements.iter()),
        _ => (1, 0),
    }
}

/// Why arguments cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// An object contains this key twice: one parser may take the first value, another the last.
    DuplicateKey(String),
    /// A number out of range, a lone surrogate, or too many levels.
    Other,
}

/// Parses the arguments. A call without arguments has an empty object.
pub(super) fn read(json: Option<&Json>) -> Result<Arguments, Unreadable> {
    let Some(json) = json else {
        return Ok(Arguments { value: Value::Object(Map::new()), count: 1, depth: 0 });
    };
    let mut state = ParseState::default();
    let mut reader = serde_json::Deserializer::from_slice(json.as_bytes());
    match (ValueVisitor { state: &mut state, depth: 0 }).deserialize(&mut reader) {
        Ok(value) => Ok(Arguments { value, count: state.count, depth: state.depth }),
        Err(_) => Err(state.duplicate_key.map_or(Unreadable::Other, Unreadable::DuplicateKey)),
    }
}

#[derive(Default)]
struct ParseState {
    count: u64,
    depth: usize,
    duplicate_key: Option<String>,
}

struct ValueVisitor<'a> {
    state: &'a mut ParseState,
    depth: usize,
}

impl ValueVisitor<'_> {
    fn inner(&mut self) -> ValueVisitor<'_> {
        ValueVisitor { state: self.state, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.state.count += 1;
        self.state.depth = self.state.depth.max(self.depth);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("no such number"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(self.inner())? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if map.contains_key(&key) {
                self.state.duplicate_key = Some(key);
                return Err(A::Error::custom("a key occurs twice"));
            }
            let value = members.next_value_seed(self.inner())?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
