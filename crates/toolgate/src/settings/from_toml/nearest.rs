//! Adds the nearest valid key or value to errors of a config file.

/// The message; for an unknown key or value with the nearest valid one, for a value of the wrong type with the right form.
pub(super) fn with_guess(message: &str) -> String {
    let help = match (guess(message), form(message)) {
        (Some(guess), _) => format!("did you mean `{guess}`?"),
        (None, Some(form)) => form.to_owned(),
        (None, None) => return message.to_owned(),
    };
    format!("{}\nhelp: {help}\n", message.trim_end())
}

/// What to write instead of a value of the wrong type, or instead of a key of another table or another file.
fn form(message: &str) -> Option<&'static str> {
    const AT_THE_TOP: &str = "`namespaces`";
    let line = message.lines().find(|line| {
        line.starts_with("unknown ")
            || line.starts_with("invalid type")
            || line.starts_with("duplicate key")
    })?;
    let says = |part: &str| line.contains(part);
    let is_unknown = |key: &str| line.starts_with(&format!("unknown field `{key}`"));
    let help = if line.starts_with("duplicate key") {
        "the key or table stands in this file twice: merge them"
    } else if says(AT_THE_TOP) && is_unknown("tools") {
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
    } else if says("expected a boolean") {
        "write true or false, without quotes"
    } else if says("expected a string") {
        "write it in quotes; a time needs a unit, for example \"60s\""
    } else if ["usize", "u16", "u32", "u64", "i64", "f64"]
        .iter()
        .any(|kind| says(&format!("expected {kind}")))
    {
        "write a number, without quotes and without a unit"
    } else {
        return None;
    };
    Some(help)
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

fn quoted(text: &str) -> impl Iterator<Item = &str> {
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
            let told = with_guess(&format!("TOML parse error\n{message}\n"));
            assert!(told.contains(expected), "{told}");
        }
        assert!(!with_guess("invalid type: x, expected y").contains("help"));
    }
}
