//! `envFile`: lines of `NAME=VALUE`.

/// The variables of a file, or the number of the first line that is none.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found = Vec::new();
    let text = text.trim_start_matches('\u{feff}');
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(index + 1)?;
        let name = name.trim();
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        {
            return Err(index + 1);
        }
        found.push((name.to_owned(), unquoted(value.trim())));
    }
    Ok(found)
}

fn unquoted(value: &str) -> String {
    let inside = |quote: char| {
        let rest = value.strip_prefix(quote)?;
        rest.split_once(quote).map(|(inside, _)| inside)
    };
    if let Some(text) = inside('\'') {
        return text.to_owned();
    }
    if let Some(text) = inside('"') {
        return text.replace("\\n", "\n");
    }
    // A comment behind a value without quotes.
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_are_variables() {
        let text = "\u{feff}# c\n\nA=1\r\nexport B='x # y'\nC=\"a\\nb\" # c\nD=p=q # r\nE=\n";
        let pairs = super::parse(text).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "x # y"), ("C", "a\nb"), ("D", "p=q"), ("E", "")]);
        assert_eq!(super::parse("A=1\nnonsense\n"), Err(2));
    }
}
