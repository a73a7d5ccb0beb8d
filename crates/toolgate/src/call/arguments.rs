//! Reads arguments as a type, with errors that name the argument and not its value.

use serde::de::DeserializeOwned;
use toolgate_wire::Json;

use crate::{failure::Failure, registry::Code};

/// The arguments as this type; `{}` if there are none.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<&Json>) -> Result<T, Failure> {
    let empty = Json::empty_object();
    let arguments = arguments.unwrap_or(&empty);
    arguments.decode().map_err(|error| {
        let what = expectation(&error.to_string());
        let message = match argument_at(arguments, error.column()) {
            Some(name) => format!("argument `{name}`: {what}"),
            None => format!("arguments: {what}"),
        };
        Failure::new(Code::InvalidArguments, message)
    })
}

pub(super) fn no_object() -> Failure {
    Failure::new(Code::InvalidArguments, "arguments: expected an object")
}

/// The part of serde's message that does not quote a value.
fn expectation(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let keys = ["missing field `", "unknown field `", "duplicate field `"];
    if keys.iter().any(|start| message.starts_with(start)) {
        return message.to_owned();
    }
    // "invalid type: string \"the value\", expected u32", "unknown variant `the value`, expected `a` or `b`"
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => "the value does not fit".to_owned(),
    }
}

/// The argument whose value contains this column, counted from 1, of the text on one line.
fn argument_at(arguments: &Json, column: usize) -> Option<String> {
    let start = arguments.as_bytes().as_ptr().addr();
    let object = arguments.object()?;
    let mut members = object.iter();
    members.find_map(|(name, value)| {
        // The value is a slice of the text.
        let at = value.as_bytes().as_ptr().addr().checked_sub(start)?;
        (at <= column && column <= at + value.len()).then(|| name.into_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use toolgate_wire::Limits;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        #[serde(default)]
        count: u32,
        #[serde(default)]
        unit: Option<Unit>,
        name: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Unit {
        Celsius,
    }

    fn read_text(text: Option<&str>) -> Result<Arguments, Failure> {
        read(text.map(|text| Json::parse(text.to_owned(), &Limits::default()).unwrap()).as_ref())
    }

    #[test]
    fn arguments_that_fit_are_read() {
        let read = read_text(Some(r#"{"name":"a","count":3,"unit":"celsius"}"#)).unwrap();
        assert_eq!((read.name.as_str(), read.count), ("a", 3));
        assert!(matches!(read.unit, Some(Unit::Celsius)));
    }

    #[test]
    fn a_misfit_names_the_argument_and_what_is_expected_but_not_the_value() {
        for (text, message) in [
            (None, "arguments: missing field `name`"),
            (Some(r#"{"name":"a","count":"a secret"}"#), "argument `count`: expected u32"),
            (Some(r#"{ "name" : ["a secret"] }"#), "argument `name`: expected a string"),
            (
                Some(r#"{"unit":"a secret, expected nothing","name":"a"}"#),
                "argument `unit`: expected `celsius`",
            ),
            (Some(r#"["a secret"]"#), "expected"),
        ] {
            let failure = read_text(text).unwrap_err();
            assert_eq!(failure.code(), Code::InvalidArguments);
            assert!(failure.message().contains(message), "{text:?}: {failure}");
            assert!(!failure.message().contains("secret"), "{failure}");
        }
        let unknown = read_text(Some(r#"{"nmae":1}"#)).unwrap_err();
        assert!(unknown.message().contains("unknown field `nmae`"), "{unknown}");
    }
}
