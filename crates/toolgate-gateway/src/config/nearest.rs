//! Errors of a config file, with the nearest right key.

/// The message with a guess at what was meant, where a key or a word is unknown.
pub(super) fn with_guess(message: &str) -> String {
    let Some(guess) = guess(message) else { return message.to_owned() };
    format!("{}\nhelp: did you mean `{guess}`?\n", message.trim_end())
}

/// serde says ``unknown field `x`, expected one of `a`, `b` ``: the nearest of those, if one is near.
fn guess(message: &str) -> Option<&str> {
    let line = message.lines().find(|line| line.starts_with("unknown "))?;
    let (wrong, expected) = line.split_once(", expected ")?;
    let wrong = quoted(wrong).next()?;
    let distance = |word: &&str| strsim::damerau_levenshtein(wrong, word);
    let nearest = quoted(expected).min_by_key(distance)?;
    // Beyond a third of its letters it is another word, not a slip.
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
        let told =
            "at line 2\nunknown field `respnse_bytes`, expected one of `timeout`, `response_bytes`";
        assert_eq!(guess(told), Some("response_bytes"));
        assert_eq!(
            guess("unknown variant `readonl`, expected `readonly` or `mutating`"),
            Some("readonly")
        );
        assert_eq!(guess("unknown field `policies`, expected one of `audit`, `limits`"), None);
        assert_eq!(guess("invalid type: integer"), None);
    }
}
