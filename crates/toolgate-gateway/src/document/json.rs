//! JSON with comments and trailing commas, as editors read it.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{ObjectPropName, Value},
    errors::ParseErrorKind,
};

use super::{Node, NodeMember, NodeValue, Parsed};

pub(super) fn parse(text: &str) -> Parsed {
    let strict = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict);
    let parsed = parsed.map_err(|error| {
        let range = error.range();
        vec![(range.start..range.end, words(error.kind()))]
    })?;
    Ok(parsed.value.map(node))
}

fn node(value: Value<'_>) -> Node {
    let (range, value) = match value {
        Value::StringLit(text) => (text.range, NodeValue::String(text.value.into_owned())),
        Value::NumberLit(number) => (number.range, NodeValue::Number(number.value.to_owned())),
        Value::BooleanLit(boolean) => (boolean.range, NodeValue::Bool(boolean.value)),
        Value::NullKeyword(null) => (null.range, NodeValue::Null),
        Value::Array(array) => {
            (array.range, NodeValue::List(array.elements.into_iter().map(node).collect()))
        }
        Value::Object(object) => {
            let members = object.properties.into_iter().map(|property| {
                let (key, range) = match property.name {
                    ObjectPropName::String(name) => (name.value.into_owned(), name.range),
                    ObjectPropName::Word(name) => (name.value.to_owned(), name.range),
                };
                let key_span = range.start..range.end;
                NodeMember { key, key_span, node: node(property.value) }
            });
            (object.range, NodeValue::Map(members.collect()))
        }
    };
    Node { span: range.start..range.end, value }
}

/// The error in our words, with the next step where there is one.
fn words(kind: &ParseErrorKind) -> String {
    let known = match kind {
        ParseErrorKind::ExpectedComma => "a comma is missing here",
        ParseErrorKind::ExpectedColonAfterObjectKey => "a `:` is missing after the key",
        ParseErrorKind::ExpectedObjectValue => "the key has no value: write one after the `:`",
        ParseErrorKind::ExpectedStringObjectProperty => "a key needs double quotes: write \"key\"",
        ParseErrorKind::SingleQuotedStringsNotAllowed => {
            "JSON has no single quotes: write \"text\""
        }
        ParseErrorKind::UnterminatedObject => "this `{` is not closed: a `}` is missing",
        ParseErrorKind::UnterminatedArray => "this `[` is not closed: a `]` is missing",
        ParseErrorKind::UnterminatedCommentBlock => "this comment is not closed: `*/` is missing",
        ParseErrorKind::UnexpectedWord => "a text needs double quotes: write \"text\"",
        ParseErrorKind::UnexpectedCloseBrace => "this `}` closes nothing: remove it",
        ParseErrorKind::UnexpectedCloseBracket => "this `]` closes nothing: remove it",
        ParseErrorKind::UnexpectedComma => "this comma separates nothing: remove it",
        ParseErrorKind::MultipleRootJsonValues => {
            "the file goes on after its last `}`: remove the rest"
        }
        _ => {
            let other = kind.to_string();
            let mut letters = other.chars();
            let first = letters.next().map(|letter| letter.to_lowercase().to_string());
            return format!("invalid JSON: {}{}", first.unwrap_or_default(), letters.as_str());
        }
    };
    known.to_owned()
}
