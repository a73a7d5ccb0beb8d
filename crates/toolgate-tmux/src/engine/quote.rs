//! Arguments are data: how a text reaches tmux exactly as it is.

use super::error::TmuxError;

/// One argument for tmux's command parser: what control mode reads from a line.
///
/// Inside double quotes the parser still knows `"`, `\`, `$` and a leading `~`, and a line ends at a newline; all
/// of these are escaped. Whatever else stands between the quotes (`;`, `#`, spaces) is itself.
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

/// One argument of a `tmux` process. tmux takes an argument that ends in `;` for the end of a command.
pub(crate) fn argument(text: &str) -> String {
    match text.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => text.to_owned(),
    }
}

/// A text where tmux expects a format: what would be expanded stands for itself.
///
/// `##` stands for `#`, except before `[`, where tmux leaves any run of them as it is.
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

/// tmux's arguments end at a NUL; what follows it would be lost in silence.
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
