//! JSON text as a part of what serde writes.

use serde::{Serialize, Serializer, ser::Error};
use serde_json::value::RawValue;

use super::Json;

/// Writes the original text, for a serializer of `serde_json`.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Json, Limits};

    #[test]
    fn the_text_stays() {
        let json = Json::parse("{\"n\":0.10}", &Limits::default()).unwrap();
        assert_eq!(serde_json::to_string(&[Some(&json), None]).unwrap(), "[{\"n\":0.10},null]");
        assert_eq!(serde_json::json!({"a": json}), serde_json::json!({"a": {"n": 0.1}}));
    }
}
