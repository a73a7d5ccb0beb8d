//! Adds the nearest valid key or value to errors of a config file.

/// The message with the next step: for an unknown key or value the nearest valid one, for a value of the wrong type the
/// right form. `top` are the keys at the top of the text, `first` is the first line of a key that occurs twice.
pub(super) fn with_help(message: &str, top: &[String], first: Option<usize>) -> String {
    let help = match guess(message) {
        Some(guess) => Some(format!("did you mean `{guess}`?")),
        None => form(message, top, first),
    };
    let message = in_terms_of_toml(message, help.is_some());
    let message = message.trim_end();
    match help {
        Some(help) => format!("{message}\nhelp: {help}\n"),
        None => format!("{message}\n"),
    }
}

/// serde speaks of Rust's types. With a guess, the other valid words are left out.
fn in_terms_of_toml(message: &str, has_help: bool) -> String {
    let reworded = message.lines().map(|line| {
        if line.starts_with("unknown ") {
            let (start, expected) = line.split_once(", expected ").unwrap_or((line, ""));
            let is_long = quoted(expected).count() > MAX_WORDS;
            return if has_help && is_long { start.to_owned() } else { line.to_owned() };
        }
        if line == "wanted string or table" {
            return "invalid type, expected a string".to_owned();
        }
        if !line.starts_with("invalid type") && !line.starts_with("invalid value") {
            return line.to_owned();
        }
        let (found, expected) = line.split_once(", expected ").unwrap_or((line, ""));
        let found = found.replace(": sequence", ": a list").replace(": map", ": a table");
        let expected = match expected {
            "a sequence" => "a list",
            "a map" => "a table",
            kind if NUMBERS.contains(&kind) => "a number",
            kind if kind.starts_with("struct ") => "a table",
            kind => kind,
        };
        if expected.is_empty() { found } else { format!("{found}, expected {expected}") }
    });
    reworded.collect::<Vec<_>>().join("\n")
}

/// The types of numbers, as serde names them.
const NUMBERS: [&str; 11] =
    ["usize", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "isize", "f64"];

/// The most valid words that an error lists beside a guess.
const MAX_WORDS: usize = 4;

/// What to write instead of a value of the wrong type, or instead of a key of another table or another file.
fn form(message: &str, top: &[String], first: Option<usize>) -> Option<String> {
    const AT_THE_TOP: &str = "`namespaces`";
    let starts = ["unknown ", "invalid type", "invalid value", "duplicate key", "wanted string"];
    let line = message.lines().find(|line| starts.iter().any(|start| line.starts_with(start)))?;
    let says = |part: &str| line.contains(part);
    let is_unknown = |key: &str| line.starts_with(&format!("unknown field `{key}`"));
    if line.starts_with("duplicate key") {
        let first = first.map_or_else(String::new, |line| format!(", first in line {line}"));
        return Some(format!("the key or table stands in this file twice{first}: merge them"));
    }
    let unknown = line.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    if let Some(key) = unknown.filter(|key| !says(AT_THE_TOP) && top.iter().any(|top| top == key)) {
        return Some(format!(
            "`{key}` belongs to the top of the file: write it before the first [table], or as a table [{key}]"
        ));
    }
    let help = if says(AT_THE_TOP) && is_unknown("tools") {
        "write [namespaces.default.tools.\"server/tool\"]"
    } else if says(AT_THE_TOP) && is_unknown("mcpServers") {
        "write [servers.NAME], or keep the client's file and run `toolgate serve mcp.json`"
    } else if says(AT_THE_TOP)
        && ["safety", "policy", "chain", "principals", "scopes", "grants", "prefix"]
            .into_iter()
            .any(is_unknown)
    {
        "this key belongs to a namespace: write it below [namespaces.default]"
    } else if says("expected a sequence") {
        "write a list: [\"one\", \"two\"]"
    } else if says("expected a map") {
        "write a table: { NAME = \"value\" }"
    } else if says("expected struct") {
        "write its keys: { KEY = … }, or below a header of its own"
    } else if says("expected a boolean") {
        "write true or false, without quotes"
    } else if says("expected a string") || says("wanted string") {
        "write it in quotes; a time needs a unit, for example \"60s\""
    } else if NUMBERS.iter().any(|kind| line.ends_with(&format!("expected {kind}"))) {
        "write a number, without quotes and without a unit"
    } else {
        return None;
    };
    Some(help.to_owned())
}

/// serde's message is ``unknown field `x`, expected one of `a`, `b` ``: returns the nearest of the expected words.
fn guess(message: &str) -> Option<&str> {
    let line = message.lines().find(|line| line.starts_with("unknown "))?;
    let (wrong, expected) = line.split_once(", expected ")?;
    let wrong = quoted(wrong).next()?;
    let distance = |word: &&str| strsim::damerau_levenshtein(wrong, word);
    let nearest = quoted(expected).min_by_key(distance)?;
    // If more than a third of the letters differ, the word is probably not a misspelling.
    (distance(&nearest) <= wrong.len().max(3) / 3).then_some(nearest)
}

pub(super) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_only_what_is_near() {
        let message =
            "at line 2\nunknown field `respnse_bytes`, expected one of `timeout`, `response_bytes`";
        assert_eq!(guess(message), Some("response_bytes"));
        assert_eq!(
            guess("unknown variant `readonl`, expected `readonly` or `mutating`"),
            Some("readonly")
        );
        assert_eq!(guess("unknown field `policies`, expected one of `audit`, `limits`"), None);
        assert_eq!(guess("invalid type: integer"), None);
    }

    #[test]
    fn a_value_of_the_wrong_type_gets_the_right_form() {
        for (message, expected) in [
            ("invalid type: integer `60`, expected a string", "for example \"60s\""),
            ("invalid type: a string, expected a sequence", "write a list"),
            ("invalid type: a string, expected a boolean", "true or false"),
            ("invalid type: a string, expected usize", "write a number"),
            (
                "unknown field `tools`, expected one of `servers`, `namespaces`",
                "[namespaces.default.tools",
            ),
            (
                "unknown field `safety`, expected one of `servers`, `namespaces`",
                "below [namespaces.default]",
            ),
            ("duplicate key", "merge them"),
        ] {
            let told = with_help(&format!("line 1, column 1\n{message}\n"), &[], None);
            assert!(told.contains(expected), "{told}");
        }
        assert!(!with_help("invalid type: x, expected y", &[], None).contains("help"));
        let told = with_help("invalid type: integer `5`, expected struct RateRule", &[], None);
        assert!(told.starts_with("invalid type: integer `5`, expected a table\nhelp: "), "{told}");
        let told = with_help("invalid type: sequence, expected u32", &[], None);
        assert!(told.starts_with("invalid type: a list, expected a number\nhelp: "), "{told}");
        let told = with_help(
            "unknown field `sevrer`, expected one of `server`, `b`, `c`, `d`, `e`",
            &[],
            None,
        );
        assert_eq!(told, "unknown field `sevrer`\nhelp: did you mean `server`?\n");
    }
}
