//! Every command of toolgate that a page names exists, with its options.

use std::{collections::HashMap, process::Command};

use super::{blocks, pages, words};
use crate::harness::toolgate;

/// `toolgate COMMAND --help`, each once. `None`: there is no such command.
#[derive(Default)]
struct Help(HashMap<String, Option<String>>);

impl Help {
    fn of(&mut self, command: &str) -> Option<&str> {
        let read = || {
            let output = Command::new(toolgate()).args(command.split(' ')).arg("--help").output();
            let output = output.unwrap();
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        };
        self.0.entry(command.to_owned()).or_insert_with(read).as_deref()
    }

    /// What is wrong with the words after `toolgate`.
    fn wrong(&mut self, words: &[String]) -> Option<String> {
        let own = words.split(|word| word == "--").next().unwrap_or_default();
        let (command, rest) = own.split_first()?;
        // `toolgate --help`, and a placeholder such as `toolgate COMMAND`.
        if command.starts_with('-') || !command.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        {
            return None;
        }
        let Some(mut help) = self.of(command) else {
            return Some(format!("there is no command `{command}`"));
        };
        if let Some(sub) = rest.first().filter(|_| help.contains("<COMMAND>")) {
            help = match self.of(&format!("{command} {sub}")) {
                Some(help) => help,
                None => return Some(format!("there is no command `{command} {sub}`")),
            };
        }
        let options = rest.iter().filter(|word| word.starts_with('-') && word.len() > 1);
        let named =
            |word: &String| word.split(['=', '[', '…']).next().unwrap_or_default().to_owned();
        let unknown = options.map(named).find(|option| {
            let signs = |sign: char| sign == '-' || sign.is_ascii_alphanumeric();
            !help.split(|sign| !signs(sign)).any(|word| word == option)
        });
        unknown.map(|option| format!("`{command}` has no option `{option}`"))
    }
}

/// The commands of toolgate in a line of a shell: each as the words after `toolgate`.
fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    let mut found = Vec::new();
    for part in line.split(['|', ';', '&', '(', ')']) {
        let words = words(part.split('>').next().unwrap_or_default());
        let start = words.iter().position(|word| word == "toolgate").filter(|at| *at < 3);
        found.extend(start.map(|at| words[at + 1..].to_vec()));
    }
    found
}

#[test]
fn every_command_of_a_page_exists_with_its_options() {
    let (mut help, mut wrong, mut count) = (Help::default(), Vec::new(), 0);
    for (page, text) in pages() {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for block in blocks(&page, &text) {
            for (at, line) in block.text.replace("\\\n", " ").lines().enumerate() {
                let line = match block.language.as_str() {
                    "sh" => line,
                    "console" => line.strip_prefix("$ ").unwrap_or_default(),
                    _ => continue,
                };
                lines.push((block.line + at + 1, line.to_owned()));
            }
        }
        // Code within a text may go on in the next line.
        let unfenced = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n\n");
        for paragraph in unfenced.split("\n\n") {
            let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let inline = paragraph.split('`').skip(1).step_by(2);
            let inline = inline.filter(|code| code.starts_with("toolgate "));
            lines.extend(inline.map(|code| (0, code.to_owned())));
        }
        for (at, line) in lines {
            for words in commands(&line) {
                count += 1;
                wrong.extend(help.wrong(&words).map(|what| format!("{page}:{at}: {what}: {line}")));
            }
        }
    }
    assert!(count > 150, "{count} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let mut help = Help::default();
    for (line, is_wrong) in [
        ("toolgate serve --listen 127.0.0.1:1", false),
        ("toolgate wrap --safety readonly -- npx --yes x", false),
        ("FOO=1 toolgate log -f | jq .", false),
        ("toolgate sevre", true),
        ("toolgate serve --lisen x", true),
        ("toolgate audit verfy", true),
    ] {
        let words = commands(line).remove(0);
        assert_eq!(help.wrong(&words).is_some(), is_wrong, "{line}");
    }
}
