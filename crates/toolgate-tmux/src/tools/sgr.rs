//! Colours and attributes of a captured screen: the state in which a text leaves a terminal.

/// Escape sequences that bring a terminal from any state into the state after this text; empty if the text has no
/// escape sequence.
pub(super) fn state_after(text: &str) -> String {
    let mut state = SgrState::default();
    let mut rest = text;
    while let Some(at) = rest.find(['\x1b', '\x0e', '\x0f']) {
        let (_, from) = rest.split_at(at);
        if let Some(after) = from.strip_prefix("\x1b[") {
            let end = after.find(|char: char| !matches!(char, '0'..='9' | ';' | ':'));
            let (codes, after) = after.split_at(end.unwrap_or(after.len()));
            if after.starts_with('m') {
                state.take(codes);
            }
            rest = after;
        } else {
            let mut chars = from.chars();
            match chars.next() {
                Some('\x0e') => state.lines = true,
                Some('\x0f') => state.lines = false,
                _ => {}
            }
            rest = chars.as_str();
        }
    }
    state.sequence(rest.len() != text.len())
}

/// The attributes that are set, as the codes that set them.
#[derive(Default)]
struct SgrState {
    foreground: Option<String>,
    background: Option<String>,
    underline: Option<String>,
    attributes: Vec<String>,
    /// Whether letters are drawn as lines (SO and SI).
    lines: bool,
}

impl SgrState {
    fn take(&mut self, codes: &str) {
        let mut codes = codes.split(';');
        while let Some(code) = codes.next() {
            let (number, _) = code.split_once(':').unwrap_or((code, ""));
            match number {
                "" | "0" => {
                    let lines = self.lines;
                    *self = Self { lines, ..Self::default() };
                }
                "38" => self.foreground = Some(extended(code, &mut codes)),
                "48" => self.background = Some(extended(code, &mut codes)),
                "58" => self.underline = Some(extended(code, &mut codes)),
                "39" => self.foreground = None,
                "49" => self.background = None,
                "59" => self.underline = None,
                "22" => self.clear(&["1", "2"]),
                "24" => self.clear(&["4", "21"]),
                "23" => self.clear(&["3"]),
                "25" => self.clear(&["5"]),
                "27" => self.clear(&["7"]),
                "28" => self.clear(&["8"]),
                "29" => self.clear(&["9"]),
                "55" => self.clear(&["53"]),
                _ => match number.parse::<u8>() {
                    Ok(30..=37 | 90..=97) => self.foreground = Some(code.to_owned()),
                    Ok(40..=47 | 100..=107) => self.background = Some(code.to_owned()),
                    Ok(_) => {
                        self.clear(&[number]);
                        self.attributes.push(code.to_owned());
                    }
                    Err(_) => {}
                },
            }
        }
    }

    fn clear(&mut self, numbers: &[&str]) {
        self.attributes.retain(|code| {
            let (number, _) = code.split_once(':').unwrap_or((code, ""));
            !numbers.contains(&number)
        });
    }

    fn sequence(self, any: bool) -> String {
        if !any {
            return String::new();
        }
        let colours = [self.foreground, self.background, self.underline].into_iter().flatten();
        let codes: Vec<String> =
            std::iter::once("0".to_owned()).chain(self.attributes).chain(colours).collect();
        format!("\x1b[{}m{}", codes.join(";"), if self.lines { "\x0e" } else { "" })
    }
}

/// Reads `38;5;N` or `38;2;R;G;B` after `38`. With colons, it is one code.
fn extended<'a>(code: &'a str, codes: &mut impl Iterator<Item = &'a str>) -> String {
    let mut all = vec![code];
    if !code.contains(':')
        && let Some(kind) = codes.next()
    {
        all.push(kind);
        let more = if kind == "2" { 3 } else { 1 };
        all.extend(codes.take(more));
    }
    all.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_after_a_text_is_told_in_one_sequence() {
        for (text, state) in [
            ("plain\nlines", ""),
            ("\x1b[31mred\n", "\x1b[0;31m"),
            ("\x1b[31mred\x1b[0m none", "\x1b[0m"),
            ("\x1b[1;4:3;38;5;9m\x1b[48;2;1;2;3m x\x1b[39m", "\x1b[0;1;4:3;48;2;1;2;3m"),
            ("\x1b[31m\x1b[0;1m\x1b[32m\x1b[32m\x1b[22m", "\x1b[0;32m"),
            ("\x1b[7m\x0e", "\x1b[0;7m\x0e"),
            ("\x1b[2J\x1b[Hnot a colour", "\x1b[0m"),
            ("cut \x1b[3", "\x1b[0m"),
        ] {
            assert_eq!(state_after(text), state, "{text:?}");
        }
    }
}
