//! Reads words: quotes, expansions, substitutions.

use super::{
    Piece, ShellScript, Word,
    parser::{Parser, is_end},
};

/// The end of a nested text.
#[derive(Clone, Copy, PartialEq)]
enum TextEnd {
    /// `"`
    Quote,
    /// `}`
    Brace,
    /// `))`
    Arithmetic,
    /// The end of the text.
    End,
}

/// Collects the pieces of a word. Adjacent text is joined.
#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, c: char, quoted: bool) {
        if let Some(Piece::Text { text, quoted: before }) = self.0.last_mut()
            && *before == quoted
        {
            text.push(c);
            return;
        }
        self.0.push(Piece::Text { text: c.to_string(), quoted });
    }

    /// Adds quoted text, which may be empty.
    fn quote(&mut self, text: &str) {
        if text.is_empty() {
            self.0.push(Piece::Text { text: String::new(), quoted: true });
        }
        text.chars().for_each(|c| self.push(c, true));
    }
}

impl Parser {
    /// Reads a word; empty if none begins here.
    pub(super) fn word(&mut self) -> Word {
        self.deeper(|parser| Word(parser.pieces()))
    }

    fn pieces(&mut self) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        if self.peek() == Some('~') {
            self.next();
            // `~name`: another user's home folder is treated like the own one.
            while self
                .peek()
                .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
            {
                self.next();
            }
            pieces.0.push(Piece::Home);
        }
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.ahead(1) == Some('(') => {
                    self.next();
                    self.next();
                    let script = self.nested();
                    pieces.0.push(Piece::Process { script, reads: c == '<' });
                }
                // `@(a|b)` and similar patterns: their matches are unknown.
                '(' if matches!(pieces.0.last(), Some(Piece::Text { text, quoted: false }) if text.ends_with(['@', '!', '+', '*', '?'])) =>
                {
                    while self.next().is_some_and(|c| c != ')') {}
                    pieces.push('*', false);
                }
                c if is_end(c) => break,
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => pieces.push(c, true),
                        None => self.cut_off(),
                    }
                }
                '\'' => {
                    self.next();
                    let text = self.single();
                    pieces.quote(&text);
                }
                '"' => {
                    self.next();
                    self.double(&mut pieces);
                }
                '$' | '`' => self.expansion(&mut pieces, false),
                c => {
                    self.next();
                    pieces.push(c, false);
                }
            }
        }
        pieces.0
    }

    fn single(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => return text,
                Some(c) => text.push(c),
                None => {
                    self.cut_off();
                    return text;
                }
            }
        }
    }

    fn double(&mut self, pieces: &mut Pieces) {
        pieces.quote("");
        let inner = self.deeper(|parser| parser.until(TextEnd::Quote));
        pieces.0.extend(inner);
    }

    /// Reads text in which only expansions are interpreted.
    fn until(&mut self, end: TextEnd) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                None => {
                    if end != TextEnd::End {
                        self.cut_off();
                    }
                    return pieces.0;
                }
                Some('"') if end == TextEnd::Quote => {
                    self.next();
                    return pieces.0;
                }
                Some('}') if end == TextEnd::Brace => {
                    self.next();
                    return pieces.0;
                }
                Some(')') if end == TextEnd::Arithmetic => {
                    self.next();
                    if open == 0 {
                        self.eat(")");
                        return pieces.0;
                    }
                    open -= 1;
                }
                Some('(') if end == TextEnd::Arithmetic => {
                    self.next();
                    open += 1;
                }
                Some('\'') if matches!(end, TextEnd::Brace) => {
                    self.next();
                    let text = self.single();
                    pieces.quote(&text);
                }
                Some('"') if matches!(end, TextEnd::Brace | TextEnd::Arithmetic) => {
                    self.next();
                    self.double(&mut pieces);
                }
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some('\n') | None => {}
                        Some(c @ ('$' | '`' | '"' | '\\' | '}')) => pieces.push(c, true),
                        Some(c) => {
                            pieces.push('\\', true);
                            pieces.push(c, true);
                        }
                    }
                }
                Some('$' | '`') => self.expansion(&mut pieces, true),
                Some(c) => {
                    self.next();
                    pieces.push(c, end != TextEnd::Brace);
                }
            }
        }
    }

    /// Whether a `(`, after which the next one stands `by` characters ahead, begins arithmetic: the two closing `)` are
    /// adjacent or missing. Otherwise it is a subshell in a subshell.
    pub(super) fn is_arithmetic(&self, by: usize) -> bool {
        if self.ahead(by) != Some('(') {
            return false;
        }
        let (mut at, mut open) = (by + 1, 2_usize);
        while let Some(c) = self.ahead(at) {
            match c {
                '\\' => at += 1,
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            at += 1;
            if open == 1 {
                return self.ahead(at) == Some(')');
            }
        }
        true
    }

    /// Reads `(( … ))` after its beginning.
    pub(super) fn arithmetic(&mut self) -> Word {
        Word(self.deeper(|parser| parser.until(TextEnd::Arithmetic)))
    }

    /// Reads the text of a here-document, in which only expansions are interpreted.
    pub(super) fn unquoted(&mut self, text: &str) -> Word {
        self.apart(text, |parser| Word(parser.until(TextEnd::End)))
    }

    /// Reads another text, one level deeper.
    fn apart<T: Default>(&mut self, text: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut inner = Self::new(text, self.depth, std::mem::take(&mut self.docs));
        let read = inner.deeper(read);
        self.docs = inner.docs;
        self.unclear |= inner.unclear;
        self.overlong |= inner.overlong;
        read
    }

    /// Reads an expansion: `$…` or a backtick.
    fn expansion(&mut self, pieces: &mut Pieces, quoted: bool) {
        if self.eat("`") {
            let script = self.backticks();
            pieces.0.push(Piece::Command { script, quoted });
        } else if self.ahead(1) == Some('(') && self.is_arithmetic(2) {
            self.eat("$((");
            let inner = self.arithmetic();
            pieces.0.push(Piece::Unknown(inner));
        } else if self.eat("$(") {
            let script = self.nested();
            pieces.0.push(Piece::Command { script, quoted });
        } else if self.eat("${") {
            let piece = self.deeper(|parser| Some(parser.parameter(quoted)));
            pieces.0.extend(piece);
        } else if !quoted && self.eat("$'") {
            let text = self.escaped();
            pieces.quote(&text);
        } else if !quoted && self.eat("$\"") {
            self.double(pieces);
        } else {
            self.next();
            let name = self.name();
            if name.is_empty() {
                pieces.push('$', true);
            } else {
                let quoted = quoted && name != "@";
                pieces.0.push(Piece::Variable { name, or: None, quoted });
            }
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        match self.peek() {
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.next();
                name.push(c);
            }
            _ => {
                while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    self.next();
                    name.push(c);
                }
            }
        }
        name
    }

    /// Reads `${ … }` after its beginning.
    fn parameter(&mut self, quoted: bool) -> Piece {
        let plain = self.peek().is_some_and(|c| !matches!(c, '!' | '#'));
        let name = if plain { self.name() } else { String::new() };
        // The elements of an array are separate words, also in quotes.
        let array = plain && (name == "@" || self.eat("[@]") || self.eat("[*]"));
        let quoted = quoted && !array;
        if plain && self.eat("}") {
            return Piece::Variable { name, or: None, quoted };
        }
        let or = [":-", ":=", ":+", "-", "=", "+"].into_iter().any(|op| plain && self.eat(op));
        let inner = Word(self.until(TextEnd::Brace));
        if or {
            return Piece::Variable { name, or: Some(inner), quoted };
        }
        Piece::Unknown(inner)
    }

    fn backticks(&mut self) -> ShellScript {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    c => text.extend(['\\'].into_iter().chain(c)),
                },
                Some(c) => text.push(c),
                None => {
                    self.cut_off();
                    break;
                }
            }
        }
        self.apart(&text, Self::whole)
    }

    /// Reads `$'…'` after its beginning.
    fn escaped(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.next() {
                Some('\'') => return text,
                Some('\\') => text.extend(self.escape()),
                Some(c) => text.push(c),
                None => {
                    self.cut_off();
                    return text;
                }
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let c = self.next()?;
        let (radix, most) = match c {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 2),
            'n' => return Some('\n'),
            't' => return Some('\t'),
            'r' => return Some('\r'),
            'e' | 'E' => return Some('\u{1b}'),
            other => return Some(other),
        };
        let mut code = if radix == 8 { c.to_digit(8)? } else { 0 };
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            self.next();
            code = code.saturating_mul(radix).saturating_add(digit);
        }
        char::from_u32(code)
    }

    /// Reads `NAME=value`, if it begins here.
    pub(super) fn assignment(&mut self) -> Option<(String, Word)> {
        let mut by = 0;
        while self.ahead(by).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            by += 1;
        }
        let is_name = by > 0 && self.peek().is_some_and(|c| !c.is_ascii_digit());
        let adds = self.ahead(by) == Some('+');
        if !is_name || self.ahead(by + usize::from(adds)) != Some('=') {
            return None;
        }
        let name = self.name();
        self.eat("+");
        self.eat("=");
        if self.eat("(") {
            return Some((name, self.array()));
        }
        let mut value = self.word();
        if adds {
            value.0.insert(0, Piece::Variable { name: name.clone(), or: None, quoted: true });
        }
        Some((name, value))
    }

    /// Reads an array as its elements, separated by spaces.
    fn array(&mut self) -> Word {
        let mut all = Word::default();
        loop {
            while self.peek().is_some_and(char::is_whitespace) {
                self.next();
            }
            if self.peek().is_none() || self.eat(")") {
                return all;
            }
            let word = self.word();
            if word.0.is_empty() {
                self.next();
            }
            if !all.0.is_empty() {
                all.0.push(Piece::Text { text: " ".to_owned(), quoted: true });
            }
            all.0.extend(word.0);
        }
    }
}
