//! Issues of arguments and results. Their messages name positions and rules and never repeat a value.

use std::fmt::Write as _;

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

/// Largest number of reported issues.
pub(super) const MAX_ISSUES: usize = 20;
/// Largest length of a position or of a schema's text, in characters.
const MAX_TEXT: usize = 200;

/// An issue: position, message and a machine-readable code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// A JSON pointer; empty for the arguments as a whole.
    pub(super) path: String,
    pub(super) message: String,
    pub(super) code: String,
}

impl Issue {
    fn new(path: String, message: impl Into<String>, code: &str) -> Self {
        Self { path, message: message.into(), code: code.to_owned() }
    }

    /// The same name twice in one object.
    pub(super) fn twice(root: &str, name: &str) -> Self {
        Self::new(inside(root, name), "Given more than once", "duplicate_argument")
    }

    /// Arguments that cannot be parsed.
    pub(super) fn unreadable(root: &str) -> Self {
        let message = "Holds a number that is too large, half a character, or too many levels";
        Self::new(root.to_owned(), message, "unreadable")
    }

    /// Arguments that are not an object.
    pub(super) fn no_object() -> Self {
        Self::new(String::new(), "Input should be a valid object", "object_type")
    }

    /// A result without structured content.
    pub(super) fn no_content(root: &str) -> Self {
        Self::new(root.to_owned(), "The result has no structured content", "missing")
    }

    /// An argument that the tool does not have.
    pub(super) fn unexpected(name: &str) -> Self {
        unexpected_name("", name)
    }

    /// Whether both issues have the same meaning.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.path == other.path && self.code == other.code
    }

    /// The issues of a validation error, with `root` before their positions. An error about several members is several
    /// issues.
    pub(super) fn of(error: &ValidationError<'_>, root: &str) -> Vec<Self> {
        let path = format!("{root}{}", error.instance_path());
        match error.kind() {
            Kind::Required { property } => vec![missing(&path, property.as_str().unwrap_or("?"))],
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let names = unexpected.iter().take(MAX_ISSUES + 1);
                names.map(|name| unexpected_name(&path, name)).collect()
            }
            kind => {
                let (message, code) = words(kind);
                vec![Self::new(path, message, &code)]
            }
        }
    }
}

/// The JSON pointer of a member.
fn inside(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn missing(path: &str, name: &str) -> Issue {
    let (message, code) = if path.is_empty() {
        ("Missing required argument", "missing_argument")
    } else {
        ("Field required", "missing")
    };
    Issue::new(inside(path, name), message, code)
}

fn unexpected_name(path: &str, name: &str) -> Issue {
    let (message, code) = if path.is_empty() {
        ("Unexpected keyword argument", "unexpected_keyword_argument")
    } else {
        ("Extra inputs are not permitted", "extra_forbidden")
    };
    Issue::new(inside(path, name), message, code)
}

/// Message and code of an error. The message uses only words of the schema.
fn words(kind: &Kind) -> (String, String) {
    let (message, code) = match kind {
        Kind::Type { kind: TypeKind::Single(one) } => {
            return (format!("Input should be a valid {one}"), format!("{one}_type"));
        }
        Kind::Type { kind: TypeKind::Multiple(many) } => {
            let names: Vec<&str> = many.iter().map(JsonType::as_str).collect();
            (format!("Input should be one of the types {}", names.join(", ")), "type")
        }
        Kind::Enum { options } => (format!("Input should be one of {}", list(options)), "enum"),
        Kind::Constant { expected_value } => (format!("Input should be {expected_value}"), "const"),
        Kind::Minimum { limit } => {
            (format!("Input should be greater than or equal to {limit}"), "greater_than_equal")
        }
        Kind::Maximum { limit } => {
            (format!("Input should be less than or equal to {limit}"), "less_than_equal")
        }
        Kind::ExclusiveMinimum { limit } => {
            (format!("Input should be greater than {limit}"), "greater_than")
        }
        Kind::ExclusiveMaximum { limit } => {
            (format!("Input should be less than {limit}"), "less_than")
        }
        Kind::MultipleOf { multiple_of } => {
            (format!("Input should be a multiple of {multiple_of}"), "multiple_of")
        }
        Kind::MinLength { limit } => {
            (format!("String should have at least {limit} characters"), "string_too_short")
        }
        Kind::MaxLength { limit } => {
            (format!("String should have at most {limit} characters"), "string_too_long")
        }
        Kind::Pattern { pattern } => {
            (format!("String should match pattern '{pattern}'"), "string_pattern_mismatch")
        }
        Kind::Format { format } => (format!("Input should be a valid {format}"), "format"),
        Kind::MinItems { limit } => {
            (format!("List should have at least {limit} items"), "too_short")
        }
        Kind::MaxItems { limit } => (format!("List should have at most {limit} items"), "too_long"),
        Kind::MinProperties { limit } => {
            (format!("Input should have at least {limit} members"), "too_short")
        }
        Kind::MaxProperties { limit } => {
            (format!("Input should have at most {limit} members"), "too_long")
        }
        Kind::UniqueItems => ("List should have no item twice".to_owned(), "unique_items"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            ("Input fits none of the allowed forms".to_owned(), "no_form_fits")
        }
        Kind::OneOfMultipleValid { .. } => (
            "Input fits several forms of which it may fit one only".to_owned(),
            "several_forms_fit",
        ),
        Kind::PropertyNames { .. } => ("A name in it is not allowed".to_owned(), "property_names"),
        Kind::FalseSchema => ("Nothing is allowed here".to_owned(), "not_allowed"),
        other => {
            (format!("Input does not fit `{}` of the schema", other.keyword()), other.keyword())
        }
    };
    (message, code.to_owned())
}

fn list(options: &Value) -> String {
    let options = options.as_array().map_or(&[][..], Vec::as_slice);
    let options: Vec<String> = options.iter().map(ToString::to_string).collect();
    options.join(", ")
}

/// The message for the caller: the number of issues, and position, message and code of each.
pub(super) fn text(tool: &str, issues: &[Issue]) -> String {
    let count = match issues.len() {
        1 => "1 validation error".to_owned(),
        more if more > MAX_ISSUES => format!("More than {MAX_ISSUES} validation errors"),
        count => format!("{count} validation errors"),
    };
    format!("{count} for call[{}]{}", plain(tool), lines(issues))
}

/// Two lines per issue: its position; its message and code.
pub(super) fn lines(issues: &[Issue]) -> String {
    let mut text = String::new();
    for issue in issues.iter().take(MAX_ISSUES) {
        let place = if issue.path.is_empty() { "(arguments)" } else { issue.path.as_str() };
        let _ = write!(
            text,
            "\n{}\n  {} [type={}]",
            plain(place),
            plain(&issue.message),
            plain(&issue.code)
        );
    }
    text
}

/// The issues as machine-readable facts.
pub(super) fn facts(issues: &[Issue]) -> Value {
    let fact = |issue: &Issue| {
        let [path, message, code] = [&issue.path, &issue.message, &issue.code].map(|t| plain(t));
        serde_json::json!({"path": path, "message": message, "code": code})
    };
    issues.iter().take(MAX_ISSUES).map(fact).collect()
}

/// Positions and codes only, in one line.
pub(super) fn places(issues: &[Issue]) -> String {
    let shown = issues.iter().take(MAX_ISSUES);
    let shown = shown.map(|issue| format!("{} ({})", plain(&issue.path), plain(&issue.code)));
    shown.collect::<Vec<_>>().join(", ")
}

/// The text on one short line, so that a name cannot look like a line of the message.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if plain.len() > MAX_TEXT {
            plain.push_str("...");
            break;
        }
        crate::printable::push(&mut plain, c);
    }
    plain
}
