//! Expands words to arguments, as far as possible before the command runs.

use std::rc::Rc;

use super::{
    arg::{Arg, HOME, UNKNOWN, VariableValue},
    judge::Judge,
    shell::{Piece, Word},
};

/// The maximum number of words that braces expand to.
const MAX_BRACE_WORDS: usize = 64;

/// A word during expansion: its characters, each with whether it was quoted.
#[derive(Default)]
struct WordField {
    chars: Vec<(char, bool)>,
    quoted: bool,
    fetched: bool,
    content: Option<Rc<str>>,
}

impl WordField {
    fn is_there(&self) -> bool {
        self.quoted || !self.chars.is_empty()
    }
}

impl Judge<'_> {
    pub(super) fn args(&mut self, words: &[Word]) -> Vec<Arg> {
        words.iter().flat_map(|word| self.expand(word)).collect()
    }

    /// Expands a word to one text, as in assignments and here-documents.
    pub(super) fn value(&mut self, word: &Word) -> VariableValue {
        let mut fields = vec![WordField::default()];
        self.pieces(&word.0, &mut fields, Splitting::Off);
        let fetched = fields.iter().any(|field| field.fetched);
        let text = fields.iter().flat_map(|field| field.chars.iter().map(|(c, _)| *c)).collect();
        VariableValue { text, fetched }
    }

    fn expand(&mut self, word: &Word) -> Vec<Arg> {
        let mut fields = vec![WordField::default()];
        self.pieces(&word.0, &mut fields, Splitting::Unquoted);
        let fields = fields.into_iter().filter(WordField::is_there);
        fields.flat_map(finish).collect()
    }

    fn pieces(&mut self, pieces: &[Piece], fields: &mut Vec<WordField>, splitting: Splitting) {
        for piece in pieces {
            match piece {
                Piece::Text { text, quoted } => {
                    add(fields, text, Quoting::of(*quoted), Splitting::Off);
                }
                Piece::Home => add(fields, &HOME.to_string(), Quoting::Quoted, Splitting::Off),
                Piece::Variable { name, or, quoted } => {
                    let value = self.variable(name, or.as_ref());
                    mark(fields, value.fetched);
                    add(fields, &value.text, Quoting::of(*quoted), splitting);
                }
                Piece::Command { script, quoted } => {
                    let output = self.nested(script);
                    mark(fields, output.fetched);
                    let text = output.text.map(|text| text.trim_end_matches('\n').to_owned());
                    let text = text.unwrap_or_else(|| UNKNOWN.to_string());
                    add(fields, &text, Quoting::of(*quoted), splitting);
                }
                Piece::Process { script, reads } => {
                    let output = self.process(script, *reads);
                    mark(fields, output.fetched);
                    add(fields, "/dev/fd/63", Quoting::Quoted, Splitting::Off);
                    if let Some(field) = fields.last_mut() {
                        field.content = output.text.map(Into::into);
                    }
                }
                Piece::Unknown(inner) => {
                    // Judges what runs inside of it.
                    self.value(inner);
                    add(fields, &UNKNOWN.to_string(), Quoting::Quoted, Splitting::Off);
                }
            }
        }
    }

    fn variable(&mut self, name: &str, or: Option<&Word>) -> VariableValue {
        let or = or.map(|word| self.value(word));
        if let Some(value) = self.variables.get(name) {
            return value.clone();
        }
        let known = match name {
            "HOME" => HOME.to_string(),
            "PWD" => ".".to_owned(),
            "SHELL" | "BASH" | "0" => "sh".to_owned(),
            "TMPDIR" => "/tmp".to_owned(),
            "EDITOR" | "VISUAL" => "editor".to_owned(),
            "PAGER" => "less".to_owned(),
            "CC" | "CXX" => "cc".to_owned(),
            "BROWSER" => "browser".to_owned(),
            "PYTHON" => "python3".to_owned(),
            "IFS" => " ".to_owned(),
            _ => return or.unwrap_or(VariableValue { text: UNKNOWN.to_string(), fetched: false }),
        };
        VariableValue { text: known, fetched: false }
    }
}

fn mark(fields: &mut [WordField], fetched: bool) {
    if let Some(field) = fields.last_mut() {
        field.fetched |= fetched;
    }
}

/// Whether unquoted text is split into words at white space, as the shell splits the values of variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Splitting {
    Unquoted,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Quoted,
    Unquoted,
}

impl Quoting {
    fn of(quoted: bool) -> Self {
        if quoted { Self::Quoted } else { Self::Unquoted }
    }
}

fn add(fields: &mut Vec<WordField>, text: &str, quoting: Quoting, splitting: Splitting) {
    let quoted = quoting == Quoting::Quoted;
    let splits = splitting == Splitting::Unquoted && !quoted;
    for c in text.chars() {
        if splits && c.is_whitespace() {
            if fields.last().is_some_and(WordField::is_there) {
                fields.push(WordField::default());
            }
        } else if let Some(field) = fields.last_mut() {
            field.chars.push((c, quoted));
        }
    }
    if let Some(field) = fields.last_mut() {
        field.quoted |= quoted;
    }
}

fn finish(field: WordField) -> Vec<Arg> {
    let WordField { chars, fetched, content, .. } = field;
    let make = |chars: &[(char, bool)]| Arg {
        text: chars.iter().map(|(c, _)| *c).collect(),
        globs: chars.iter().any(|(c, quoted)| !quoted && matches!(c, '*' | '?' | '[')),
        fetched,
        content: content.clone(),
    };
    let mut all = Vec::new();
    braces(&chars, &mut all, 0);
    all.iter().map(|chars| make(chars)).collect()
}

/// Expands `{a,b}` to two words.
fn braces(chars: &[(char, bool)], all: &mut Vec<Vec<(char, bool)>>, depth: usize) {
    let Some((open, close, commas)) =
        brace(chars).filter(|_| depth < 8 && all.len() < MAX_BRACE_WORDS)
    else {
        all.push(chars.to_vec());
        return;
    };
    let mut start = open + 1;
    for end in commas.into_iter().chain([close]) {
        let parts = [chars.get(..open), chars.get(start..end), chars.get(close + 1..)];
        let word: Vec<(char, bool)> = parts.into_iter().flatten().flatten().copied().collect();
        braces(&word, all, depth + 1);
        start = end + 1;
    }
}

/// The first brace with commas: the positions of its ends and of its commas.
fn brace(chars: &[(char, bool)]) -> Option<(usize, usize, Vec<usize>)> {
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        match c {
            ('{', false) => open.push((at, Vec::new())),
            (',', false) => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            ('}', false) => match open.pop() {
                Some((start, commas)) if !commas.is_empty() => return Some((start, at, commas)),
                _ => {}
            },
            _ => {}
        }
    }
    None
}
