//! The text that was recently typed into panes, so that its echo is not taken for output.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::command::{Batch, Command};

/// How long an echo may take.
const ECHO_TIMEOUT: Duration = Duration::from_secs(5);
/// How many lines are remembered of each pane.
const MAX_LINES: usize = 8;

/// The typed lines by pane.
#[derive(Default)]
pub(super) struct RecentInput(Mutex<HashMap<String, TypedLines>>);

struct TypedLines {
    at: Instant,
    /// The typed lines; the last one may not be complete.
    lines: Vec<String>,
}

impl RecentInput {
    /// Remembers the text that a batch types.
    pub(super) fn note(&self, batch: &Batch) {
        for command in batch.commands().filter(|command| command.name() == "send-keys") {
            if let Some((pane, keys)) = keys(command) {
                self.add(pane, &keys);
            }
        }
    }

    fn add(&self, pane: &str, keys: &[&str]) {
        let mut panes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        panes.retain(|_, typed| typed.at.elapsed() < ECHO_TIMEOUT);
        let new = || TypedLines { at: Instant::now(), lines: vec![String::new()] };
        let typed = panes.entry(pane.to_owned()).or_insert_with(new);
        typed.at = Instant::now();
        for key in keys {
            match typed.lines.last_mut() {
                Some(last) if *key != "Enter" => last.push_str(key),
                _ => typed.lines.push(String::new()),
            }
        }
        let old = typed.lines.len().saturating_sub(MAX_LINES);
        typed.lines.drain(..old);
    }

    /// The lines that were recently typed into a pane.
    pub(super) fn lines(&self, pane: &str) -> Vec<String> {
        let panes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = panes.get(pane).filter(|typed| typed.at.elapsed() < ECHO_TIMEOUT);
        let lines = recent.map(|typed| typed.lines.clone()).unwrap_or_default();
        lines.into_iter().filter(|line| !line.trim().is_empty()).collect()
    }
}

impl std::fmt::Debug for RecentInput {
    /// The lines may contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Typed")
    }
}

/// The pane, and the keys that a command sends to it.
fn keys(command: &Command) -> Option<(&str, Vec<&str>)> {
    let mut words = command.words().skip(1);
    let (mut pane, mut keys, mut flags) = (None, Vec::new(), true);
    while let Some(word) = words.next() {
        match word {
            "--" if flags => flags = false,
            "-t" if flags => pane = words.next(),
            // Keys as hexadecimal numbers, or for a mode.
            "-H" | "-X" if flags => return None,
            flag if flags && flag.starts_with('-') => {}
            key => {
                flags = false;
                keys.push(key);
            }
        }
    }
    Some((pane?, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_between_presses_of_enter() {
        let typed = RecentInput::default();
        let to = || Command::new("send-keys").target("%1");
        let literal = to().flag("-l").end().argument("-n make").argument(" all");
        typed.note(&Batch::write([to().end().argument("ls"), to().argument("Enter"), literal]));
        assert_eq!(typed.lines("%1"), ["ls", "-n make all"]);
        assert_eq!(typed.lines("%2"), [""; 0]);
    }
}
