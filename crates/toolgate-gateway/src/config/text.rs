//! Texts in a config file that can name an environment variable or a file instead of containing a secret.

use std::{borrow::Cow, cell::RefCell, fmt};

use serde::{Deserialize, Deserializer};

use crate::client_files::ResolvedText;

/// A text in which `${VAR}`, `${VAR:-default}` and `file:PATH` are replaced by their values. Debug output does not show
/// it, because it may be a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    value: String,
    /// The environment variables that the text names, with one entry for each occurrence.
    variables: Vec<String>,
}

impl Text {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.value
    }

    /// The environment variables that the text names.
    pub(super) fn variables(&self) -> &[String] {
        &self.variables
    }
}

thread_local! {
    /// The variables that are named by the texts of the file that this thread currently reads.
    static NAMED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Calls `read`, and returns its result with the variables of all texts that it reads, one entry for each occurrence.
pub(super) fn collect_variables<T>(read: impl FnOnce() -> T) -> (T, Vec<String>) {
    NAMED.take();
    let read = read();
    (read, NAMED.take())
}

/// A text from the command line: nothing is replaced in it.
impl From<String> for Text {
    fn from(text: String) -> Self {
        Self { value: text, variables: Vec::new() }
    }
}

/// A text of a client's file, in which the variables of that client were replaced.
impl From<ResolvedText> for Text {
    fn from(text: ResolvedText) -> Self {
        Self { value: text.value, variables: text.variables }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(…)")
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let variables = RefCell::new(Vec::new());
        let variable = |name: &str| {
            variables.borrow_mut().push(name.to_owned());
            std::env::var(name).ok()
        };
        let value = resolve(&text, variable).map_err(serde::de::Error::custom)?;
        let variables = variables.into_inner();
        NAMED.with_borrow_mut(|named| named.extend_from_slice(&variables));
        Ok(Self { value, variables })
    }
}

impl schemars::JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "examples": ["${TOKEN}", "${LOG:-warn}", "file:/run/secrets/token"],
        })
    }
}

/// Why a text cannot be resolved. The message names the variable or the file, never a value.
#[derive(Debug, thiserror::Error)]
enum BadText {
    #[error("the environment variable `{0}` is not set: set it, or write `${{{0}:-default}}`")]
    Unset(String),
    #[error("a `${{` has no `}}`: write `${{NAME}}`, or `$${{` for the characters themselves")]
    Open,
    #[error("`${{{0}}}` names no variable: write `${{NAME}}` or `${{NAME:-default}}`")]
    NoName(String),
    #[error("cannot read the file `{0}`: {1}")]
    File(String, std::io::Error),
}

/// Reads a file only if the text in the config begins with `file:`. `file:` in the value of a variable has no meaning.
fn resolve(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, BadText> {
    let Some(path) = text.strip_prefix("file:") else { return substitute(text, variable) };
    let path = substitute(path, variable)?;
    let content = std::fs::read_to_string(&path).map_err(|error| BadText::File(path, error))?;
    // Editors end a file with a newline; secrets do not.
    Ok(content.trim_end_matches(['\n', '\r']).to_owned())
}

fn substitute(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, BadText> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        let after = after.get(2..).unwrap_or_default();
        // `$${` stands for `${` itself.
        if let Some(plain) = before.strip_suffix('$') {
            out.push_str(plain);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (inner, behind) = after.split_once('}').ok_or(BadText::Open)?;
        out.push_str(&value(inner, &variable)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

fn value(inner: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, BadText> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    // Some clients write `${env:NAME}`.
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(BadText::NoName(name.to_owned()));
    }
    let set = variable(name).filter(|value| !(value.is_empty() && default.is_some()));
    set.or_else(|| default.map(str::to_owned)).ok_or_else(|| BadText::Unset(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str) -> Result<String, String> {
        let variable = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "FILE" => Some("file:/etc/hostname".to_owned()),
            _ => None,
        };
        resolve(text, variable).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_are_put_in() {
        for (text, expected) in [
            ("plain", "plain"),
            ("${A}", "1"),
            ("x${A}y${A}", "x1y1"),
            ("${B:-two}", "two"),
            ("${A:-two}", "1"),
            ("${EMPTY:-two}", "two"),
            ("${EMPTY}", ""),
            ("${B:-}", ""),
            ("${env:A}", "1"),
            ("$${A} $A $", "${A} $A $"),
            // Written in the variable and not in the file.
            ("${FILE}", "file:/etc/hostname"),
            ("${B:-file:/etc/hostname}", "file:/etc/hostname"),
        ] {
            assert_eq!(put(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_an_error_that_names_it() {
        assert!(put("${B}").unwrap_err().contains("`B` is not set"));
        assert!(put("${A").unwrap_err().contains("has no `}`"));
        assert!(put("${input:token}").unwrap_err().contains("names no variable"));
        assert!(put("${}").unwrap_err().contains("names no variable"));
        assert!(put("file:/no/such").unwrap_err().contains("`/no/such`"));
    }

    #[test]
    fn a_file_is_read_without_its_last_newline_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let text = Text::from(put(&format!("file:{}", file.path().display())).unwrap());
        assert_eq!(text.as_str(), "s3cret");
        assert!(!format!("{text:?}").contains("s3cret"));
    }
}
