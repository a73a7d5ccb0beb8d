//! Adds the nearest valid key or value to errors of a config file.

/// The message; for an unknown key or value, with the nearest valid one.
pub(super) fn with_guess(message: &str) -> String {
    let Some(guess) = guess(message) else { return message.to_owned() };
    format!("{}\nhelp: did you mean `{guess}`?\n", message.trim_end())
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
}
