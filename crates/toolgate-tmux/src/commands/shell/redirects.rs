//! Reads redirects and here-documents.

use super::{
    HereDocument, Piece, Redirect, Word,
    parser::{Parser, PendingDocument},
};

impl Parser {
    pub(super) fn redirects(&mut self) -> Vec<Redirect> {
        let mut all = Vec::new();
        loop {
            self.blanks();
            match self.redirect() {
                Some(redirect) => all.push(redirect),
                None => return all,
            }
        }
    }

    /// Reads a redirect, if one begins here.
    pub(super) fn redirect(&mut self) -> Option<Redirect> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let both = self.at == start && self.eat("&>");
        let op = if both {
            if self.eat(">") { ">>" } else { ">" }
        } else if matches!((self.peek(), self.ahead(1)), (Some('<' | '>'), Some('('))) {
            self.at = start;
            return None;
        } else {
            let ops = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
            let Some(op) = ops.into_iter().find(|op| self.eat(op)) else {
                self.at = start;
                return None;
            };
            op
        };
        self.blanks();
        if op.starts_with("<<") && op != "<<<" {
            return Some(self.document(op == "<<-"));
        }
        let word = self.word();
        let copies = word.bare().is_some_and(|to| {
            !to.is_empty() && to.trim_end_matches('-').chars().all(|c| c.is_ascii_digit())
        });
        Some(match op {
            "<<<" => Redirect::Text(word),
            "<" => Redirect::Read(word),
            "<&" => Redirect::Copied,
            ">&" if copies => Redirect::Copied,
            ">>" | "<>" => Redirect::Append(word),
            _ => Redirect::Write(word),
        })
    }

    fn document(&mut self, tabs: bool) -> Redirect {
        let word = self.word();
        let quoted = word.bare().is_none();
        let end = word.0.iter().map(|piece| match piece {
            Piece::Text { text, .. } => text.as_str(),
            _ => "",
        });
        let number = self.docs.len();
        self.docs.push(HereDocument { body: Word::default() });
        self.pending.push(PendingDocument { number, end: end.collect(), tabs, quoted });
        Redirect::HereDocument(number)
    }
}
