//! The output of `printf` and `echo -e`.

use super::{arg::Arg, argv::after_options};

/// The output of `printf`, for the most common formats.
pub(super) fn formatted(args: &[Arg]) -> String {
    let args = after_options(args, "v", &[]);
    let Some((format, values)) = args.split_first() else { return String::new() };
    let mut values = values.iter();
    let format = unescaped(&format.text);
    let mut text = String::new();
    let mut rest = format.as_str();
    while let Some((before, after)) = rest.split_once("%s") {
        text.push_str(before);
        text.extend(values.next().map(|value| value.text.as_str()));
        rest = after;
    }
    text.push_str(rest);
    for value in values {
        text.push_str(&value.text);
        text.push(' ');
    }
    text
}

/// Replaces the escapes of `printf` and `echo -e`.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let (radix, most) = match chars.next() {
            Some('n') => {
                out.push('\n');
                continue;
            }
            Some('t') => {
                out.push('\t');
                continue;
            }
            Some('x') => (16, 2),
            Some('0') => (8, 3),
            Some(c @ '1'..='7') => {
                let mut code = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    chars.next();
                }
                out.extend(char::from_u32(code));
                continue;
            }
            Some(c) => {
                out.extend(['\\', c]);
                continue;
            }
            None => break,
        };
        let mut code = 0;
        for _ in 0..most {
            let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
            code = code * radix + digit;
            chars.next();
        }
        out.extend(char::from_u32(code));
    }
    out
}
