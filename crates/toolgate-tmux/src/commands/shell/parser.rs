//! Reads the structure of a script: lists, pipelines, compound commands, redirects.

use super::{
    HereDocument, MAX_DEPTH, MAX_TEXT_BYTES, ParsedScript, Piece, Pipeline, ShellCommand,
    ShellScript, SimpleCommand, Word,
};

/// Reads a text. Parts that are too long or too deeply nested are skipped, and reported by `overlong`.
pub(in crate::commands) fn parse(text: &str) -> ParsedScript {
    if text.len() > MAX_TEXT_BYTES {
        return ParsedScript { overlong: true, ..ParsedScript::default() };
    }
    let mut parser = Parser::new(text, 0, Vec::new());
    let script = parser.script(ScriptEnd::End);
    parser.documents();
    ParsedScript {
        script,
        docs: parser.docs,
        unclear: parser.unclear,
        open: parser.open,
        overlong: parser.overlong,
    }
}

/// Where a script ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ScriptEnd {
    End,
    /// Before `)`.
    Paren,
    /// After this word.
    Word(&'static str),
    /// Before `;;` or `esac`.
    Case,
}

/// A here-document whose redirect was read, and whose text was not.
pub(super) struct PendingDocument {
    pub(super) number: usize,
    /// The line that ends it.
    pub(super) end: String,
    /// Whether tabs at the start of its lines are removed.
    pub(super) tabs: bool,
    /// Whether its text is not expanded.
    pub(super) quoted: bool,
}

pub(super) struct Parser {
    text: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) docs: Vec<HereDocument>,
    /// The here-documents whose text follows after this line.
    pub(super) pending: Vec<PendingDocument>,
    pub(super) unclear: bool,
    pub(super) open: bool,
    pub(super) overlong: bool,
}

impl Parser {
    pub(super) fn new(text: &str, depth: usize, docs: Vec<HereDocument>) -> Self {
        let text = text.chars().collect();
        let pending = Vec::new();
        Self { text, at: 0, depth, docs, pending, unclear: false, open: false, overlong: false }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    pub(super) fn ahead(&self, by: usize) -> Option<char> {
        self.text.get(self.at + by).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let fits = text.chars().enumerate().all(|(by, c)| self.ahead(by) == Some(c));
        if fits {
            self.at += text.chars().count();
        }
        fits
    }

    /// The text ends where more must follow.
    pub(super) fn cut_off(&mut self) {
        self.unclear = true;
        self.open |= self.peek().is_none();
    }

    /// Reads a nested script and the `)` after it.
    pub(super) fn nested(&mut self) -> ShellScript {
        let script = self.deeper(|parser| parser.script(ScriptEnd::Paren));
        if !self.eat(")") {
            self.cut_off();
        }
        script
    }

    /// Reads one level deeper; at the maximum, skips the rest of the text.
    pub(super) fn deeper<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= MAX_DEPTH {
            self.overlong = true;
            self.at = self.text.len();
            return T::default();
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Reads the whole text.
    pub(super) fn whole(&mut self) -> ShellScript {
        self.script(ScriptEnd::End)
    }

    pub(super) fn script(&mut self, stop: ScriptEnd) -> ShellScript {
        let mut pipelines = Vec::new();
        loop {
            self.between(stop);
            match self.peek() {
                None => {
                    if stop != ScriptEnd::End {
                        self.cut_off();
                    }
                    break;
                }
                Some(')') if matches!(stop, ScriptEnd::Paren) => break,
                Some(';') if stop == ScriptEnd::Case => break,
                Some(')' | '|') => {
                    self.unclear = true;
                    self.next();
                    continue;
                }
                Some(_) => {}
            }
            match (self.keyword().as_deref(), stop) {
                (Some(word), ScriptEnd::Word(end)) if word == end => {
                    self.eat(end);
                    break;
                }
                (Some("esac"), ScriptEnd::Case) => break,
                (Some(word @ ("then" | "else" | "elif" | "do")), _) => {
                    self.at += word.len();
                    continue;
                }
                (Some(word @ ("fi" | "done" | "esac" | "}")), _) => {
                    self.unclear = true;
                    self.at += word.len();
                    continue;
                }
                _ => {}
            }
            pipelines.push(self.pipeline());
        }
        ShellScript(pipelines)
    }

    /// Skips the operators between two pipelines.
    pub(super) fn between(&mut self, stop: ScriptEnd) {
        loop {
            match self.peek() {
                Some(';')
                    if stop == ScriptEnd::Case && matches!(self.ahead(1), Some(';' | '&')) =>
                {
                    return;
                }
                Some('&') if self.ahead(1) == Some('>') => return,
                Some('\n') => self.newline(),
                Some('&' | '|') if self.peek() == self.ahead(1) => {
                    self.at += 2;
                    // A list continues in the next line.
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    if rest.iter().all(|c| c.is_whitespace()) {
                        self.at = self.text.len();
                        self.cut_off();
                    }
                }
                Some(' ' | '\t' | '\r' | ';' | '&') => self.at += 1,
                Some('\\') if self.ahead(1) == Some('\n') => self.at += 2,
                Some('#') => self.comment(),
                _ => return,
            }
        }
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.ahead(1) == Some('\n') => self.at += 2,
                _ => return,
            }
        }
    }

    pub(super) fn newline(&mut self) {
        self.at += 1;
        self.documents();
    }

    /// Reads the texts of the pending here-documents.
    fn documents(&mut self) {
        for PendingDocument { number, end, tabs, quoted } in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            loop {
                if self.peek().is_none() {
                    self.cut_off();
                    break;
                }
                let mut line = String::new();
                while let Some(c) = self.next().filter(|c| *c != '\n') {
                    line.push(c);
                }
                let line = if tabs { line.trim_start_matches('\t') } else { &line };
                if line == end {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let body = if quoted {
                Word(vec![Piece::Text { text, quoted: true }])
            } else {
                self.unquoted(&text)
            };
            if let Some(doc) = self.docs.get_mut(number) {
                doc.body = body;
            }
        }
    }

    /// The keyword at this position, if there is one.
    fn keyword(&self) -> Option<String> {
        const KEYWORDS: &[&str] = &[
            "if", "then", "else", "elif", "fi", "while", "until", "for", "select", "do", "done",
            "case", "esac", "{", "}", "!", "time", "function", "coproc", "[[",
        ];
        let word: String =
            (0..9).map_while(|by| self.ahead(by)).take_while(|c| !is_end(*c)).collect();
        KEYWORDS.contains(&&*word).then_some(word)
    }

    fn pipeline(&mut self) -> Pipeline {
        let mut commands = Vec::new();
        loop {
            if self.peek().is_none() && !commands.is_empty() {
                self.cut_off();
                return Pipeline(commands);
            }
            while let Some(word @ ("!" | "time" | "coproc")) = self.keyword().as_deref() {
                self.at += word.len();
                self.blanks();
                if word == "coproc" {
                    self.coprocess();
                }
                // `time -p`
                if word == "time" && self.eat("-p") {
                    self.blanks();
                }
            }
            commands.extend(self.deeper(|parser| Some(parser.command())));
            self.blanks();
            if self.peek() != Some('|') || self.ahead(1) == Some('|') {
                return Pipeline(commands);
            }
            self.at += 1;
            self.eat("&");
            while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n' | '#')) {
                match self.peek() {
                    Some('\n') => self.newline(),
                    Some('#') => self.comment(),
                    _ => self.at += 1,
                }
            }
            self.blanks();
        }
    }

    /// Skips the name of a coprocess. Only a compound command has one.
    fn coprocess(&mut self) {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        self.blanks();
        if self.at == start || !(self.peek() == Some('(') || self.keyword().is_some()) {
            self.at = start;
        }
    }

    pub(super) fn command(&mut self) -> ShellCommand {
        if self.peek() == Some('(') && self.is_arithmetic(1) {
            self.eat("((");
            let inner = self.arithmetic();
            let words = vec![Word(vec![Piece::Unknown(inner)])];
            return ShellCommand::For {
                name: String::new(),
                values: words,
                body: ShellScript::default(),
            };
        }
        if self.eat("(") {
            let body = self.nested();
            return ShellCommand::Group { body, redirects: self.redirects(), subshell: true };
        }
        let Some(keyword) = self.keyword() else { return self.simple() };
        self.at += keyword.len();
        let end = match &*keyword {
            "{" => "}",
            "if" => "fi",
            "while" | "until" => "done",
            "for" | "select" => return self.each(),
            "case" => return self.case(),
            "function" => return self.function(),
            "[[" => return self.test(),
            _ => {
                self.unclear = true;
                return ShellCommand::Simple(SimpleCommand::default());
            }
        };
        let body = self.deeper(|parser| parser.script(ScriptEnd::Word(end)));
        ShellCommand::Group { body, redirects: self.redirects(), subshell: false }
    }

    fn simple(&mut self) -> ShellCommand {
        let mut simple = SimpleCommand::default();
        loop {
            self.blanks();
            match self.peek() {
                Some('&') if self.ahead(1) == Some('>') => {}
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('#') => {
                    self.comment();
                    break;
                }
                Some('(') => {
                    let name = match (simple.words.as_slice(), simple.assigned.is_empty()) {
                        ([word], true) => word.bare().map(str::to_owned),
                        _ => None,
                    };
                    self.at += 1;
                    self.blanks();
                    match name {
                        Some(name) if self.eat(")") => return self.body(name),
                        _ => self.unclear = true,
                    }
                    continue;
                }
                Some(_) => {}
            }
            if let Some(redirect) = self.redirect() {
                simple.redirects.push(redirect);
                continue;
            }
            if simple.words.is_empty()
                && let Some(assigned) = self.assignment()
            {
                simple.assigned.push(assigned);
                continue;
            }
            let before = self.at;
            simple.words.push(self.word());
            self.at = self.at.max(before + 1);
        }
        ShellCommand::Simple(simple)
    }
}

/// Whether a word ends before this character.
pub(super) fn is_end(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
