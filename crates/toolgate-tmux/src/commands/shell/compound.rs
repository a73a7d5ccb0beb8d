//! Reads `for`, `case`, functions and `[[ ]]`.

use super::{
    Piece, Pipeline, ShellCommand, ShellScript, SimpleCommand, Word,
    parser::{Parser, ScriptEnd, is_end},
};

impl Parser {
    pub(super) fn each(&mut self) -> ShellCommand {
        self.blanks();
        if self.eat("((") {
            let inner = self.arithmetic();
            let body = self.deeper(|parser| parser.script(ScriptEnd::Word("done")));
            return ShellCommand::For { name: String::new(), values: vec![inner], body };
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
        let body = self.deeper(|parser| parser.script(ScriptEnd::Word("done")));
        ShellCommand::For { name, values, body }
    }

    /// Reads `case`. Every branch may run.
    pub(super) fn case(&mut self) -> ShellCommand {
        self.blanks();
        let word = self.word();
        let mut all = vec![Pipeline(vec![ShellCommand::For {
            name: String::new(),
            values: vec![word],
            body: ShellScript::default(),
        }])];
        self.between(ScriptEnd::End);
        self.unclear |= !self.eat("in");
        loop {
            self.between(ScriptEnd::End);
            if self.peek().is_none() {
                self.cut_off();
                break;
            }
            if self.eat("esac") {
                break;
            }
            // The pattern of a branch.
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
            all.extend(self.deeper(|parser| parser.script(ScriptEnd::Case)).0);
        }
        let body = ShellScript(all);
        ShellCommand::Group { body, redirects: self.redirects(), subshell: false }
    }

    pub(super) fn function(&mut self) -> ShellCommand {
        self.blanks();
        let name = self.word().bare().unwrap_or_default().to_owned();
        self.blanks();
        if self.eat("(") {
            self.blanks();
            self.eat(")");
        }
        self.body(name)
    }

    pub(super) fn body(&mut self, name: String) -> ShellCommand {
        self.between(ScriptEnd::End);
        let body = self.deeper(|parser| Some(parser.command()));
        ShellCommand::Function {
            name,
            body: ShellScript(vec![Pipeline(body.into_iter().collect())]),
        }
    }

    /// Reads `[[ … ]]`: its words, without interpreting its operators.
    pub(super) fn test(&mut self) -> ShellCommand {
        let mut simple = SimpleCommand::default();
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
        ShellCommand::Simple(simple)
    }
}
