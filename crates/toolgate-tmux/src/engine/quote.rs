//! Quotes text so that it reaches tmux exactly as it is.

use super::error::TmuxError;

/// Quotes one argument for tmux's command parser, which reads the lines of control mode.
///
/// Inside double quotes the parser interprets `"`, `\`, `$` and a leading `~`, and a newline ends the line: all of
/// these are escaped. Other characters between the quotes (`;`, `#`, spaces) stand for themselves.
pub(crate) fn quoted(text: &str, line: &mut String) {
    line.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' | '$' | '~' => line.extend(['\\', char]),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            control if control.is_ascii_control() => {
                let octal = format!("\\{:03o}", u32::from(control));
                line.push_str(&octal);
            }
            plain => line.push(plain),
        }
    }
    line.push('"');
}

/// Escapes one argument of a `tmux` process: tmux reads a `;` at the end of an argument as the end of the command.
pub(crate) fn argument(text: &str) -> String {
    match text.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => text.to_owned(),
    }
}

/// Escapes a text where tmux expects a format, so that nothing in it is expanded.
///
/// `##` stands for `#`, except before `[`, where tmux leaves any number of `#` as they are.
#[must_use]
pub fn no_format(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('#') {
        let (before, from) = rest.split_at(at);
        let after = from.trim_start_matches('#');
        let run = from.len() - after.len();
        out.push_str(before);
        out.push_str(&"#".repeat(if after.starts_with('[') { run } else { 2 * run }));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Refuses a NUL: tmux would ignore the rest of the argument.
pub(crate) fn check(text: &str) -> Result<(), TmuxError> {
    if text.contains('\0') { Err(TmuxError::Nul) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_parser_knows_is_escaped() {
        let mut line = String::new();
        quoted("~a \"b\" $C \\ ;\n\x1b#{x}é", &mut line);
        assert_eq!(line, "\"\\~a \\\"b\\\" \\$C \\\\ ;\\n\\033#{x}é\"");
    }

    #[test]
    fn a_trailing_semicolon_stays_an_argument() {
        assert_eq!(argument("echo;"), "echo\\;");
        assert_eq!(argument("echo\\;"), "echo\\\\;");
        assert_eq!(argument("a;b"), "a;b");
    }

    #[test]
    fn formats_stand_for_themselves() {
        assert_eq!(no_format("#(touch x) ##a #[b] ##[c] #"), "##(touch x) ####a #[b] ##[c] ##");
    }
}
