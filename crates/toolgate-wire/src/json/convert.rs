//! Conversions of Rust values that have one form in JSON.

use super::{Json, Object};

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::string(&text)
    }
}

impl From<&String> for Json {
    fn from(text: &String) -> Self {
        Self::string(text)
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::value(&value)
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self::value(value)
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        object.finish()
    }
}

impl From<&Json> for Json {
    fn from(json: &Json) -> Self {
        json.clone()
    }
}

/// `None` is `null`.
impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::null, Into::into)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(values: Vec<T>) -> Self {
        let values: Vec<Self> = values.into_iter().map(Into::into).collect();
        Self::list(&values)
    }
}

/// A number that JSON does not have (NaN, infinity) is `null`.
impl From<f64> for Json {
    fn from(number: f64) -> Self {
        Self::value(&number.into())
    }
}

macro_rules! by_text {
    ($($type:ty)*) => {$(
        impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::composed(value.to_string().into_bytes())
            }
        }
    )*};
}
by_text!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_their_one_form() {
        let cases: [(Json, &str); 9] = [
            ("a\"b".into(), r#""a\"b""#),
            (String::from("x").into(), r#""x""#),
            (true.into(), "true"),
            ((-5_i64).into(), "-5"),
            (2.5.into(), "2.5"),
            (f64::NAN.into(), "null"),
            (None::<&str>.into(), "null"),
            (vec![1_u8, 2].into(), "[1,2]"),
            (serde_json::json!({"a": null}).into(), r#"{"a":null}"#),
        ];
        for (json, text) in cases {
            assert_eq!(json.as_str(), text);
        }
    }
}
