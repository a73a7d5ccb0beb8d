//! `for`, `case`, functions and `[[ ]]`.

use super::{
    Command, Piece, Pipeline, Script, Simple, Word,
    parser::{Parser, Stop, is_end},
};

impl Parser {
    pub(super) fn each(&mut self) -> Command {
        self.blanks();
        if self.eat("((") {
            let inner = self.arithmetic();
            let body = self.deeper(|parser| parser.script(Stop::Word("done")));
            return Command::For { name: String::new(), values: vec![inner], body };
        }
        let name = self.word().bare().unwrap_or_default().to_owned();
        self.blanks();
        let mut values = Vec::new();
        while self.peek() == Some('\n') {
            self.newline();
            self.blanks();
        }
        if self.eat("in") {
            loop {
                self.blanks();
                if self.peek().is_none_or(|c| matches!(c, ';' | '\n' | '&' | '|' | ')')) {
                    break;
                }
                let before = self.at;
                values.push(self.word());
                if self.at == before {
                    self.at += 1;
                }
            }
        } else {
            values.push(Word(vec![Piece::Variable {
                name: "@".to_owned(),
                or: None,
                quoted: true,
            }]));
        }
        let body = self.deeper(|parser| parser.script(Stop::Word("done")));
        Command::For { name, values, body }
    }

    /// Every branch may run.
    pub(super) fn case(&mut self) -> Command {
        self.blanks();
        let word = self.word();
        let mut all = vec![Pipeline(vec![Command::For {
            name: String::new(),
            values: vec![word],
            body: Script::default(),
        }])];
        self.between(Stop::End);
        self.unclear |= !self.eat("in");
        loop {
            self.between(Stop::End);
            if self.peek().is_none() {
                self.cut_off();
                break;
            }
            if self.eat("esac") {
                break;
            }
            // The pattern.
            while let Some(c) = self.peek().filter(|c| *c != ')') {
                let before = self.at;
                if matches!(c, '(' | '|' | ' ' | '\t' | '\n' | ';' | '&' | '<' | '>') {
                    self.at += 1;
                } else {
                    self.word();
                }
                self.at = self.at.max(before + 1);
            }
            self.eat(")");
            all.extend(self.deeper(|parser| parser.script(Stop::Case)).0);
        }
        let body = Script(all);
        Command::Group { body, redirects: self.redirects(), subshell: false }
    }

    pub(super) fn function(&mut self) -> Command {
        self.blanks();
        let name = self.word().bare().unwrap_or_default().to_owned();
        self.blanks();
        if self.eat("(") {
            self.blanks();
            self.eat(")");
        }
        self.body(name)
    }

    pub(super) fn body(&mut self, name: String) -> Command {
        self.between(Stop::End);
        let body = self.deeper(|parser| Some(parser.command()));
        Command::Function { name, body: Script(vec![Pipeline(body.into_iter().collect())]) }
    }

    /// `[[ … ]]`: its words, whatever its operators are.
    pub(super) fn test(&mut self) -> Command {
        let mut simple = Simple::default();
        loop {
            while self.peek().is_some_and(is_end) {
                self.at += 1;
            }
            if self.peek().is_none() {
                self.cut_off();
                break;
            }
            let word = self.word();
            if word.bare() == Some("]]") {
                break;
            }
            simple.words.push(Word(vec![Piece::Unknown(word)]));
        }
        simple.words.insert(0, Word(vec![Piece::Text { text: "[[".to_owned(), quoted: true }]));
        simple.redirects = self.redirects();
        Command::Simple(simple)
    }
}
