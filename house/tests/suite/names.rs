//! Names and wording: a public type has a name of its own in its crate, and neither names nor comments use words that an
//! engineer of this field would have to translate. CONTRIBUTING.md says what to write instead.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Types and constants that say nothing about what they are: participles, metaphors, measures without their object.
const BANNED_NAMES: &[&str] = &[
    "Said",
    "Heard",
    "Owed",
    "Kept",
    "Raised",
    "Begun",
    "Whose",
    "Ear",
    "Desk",
    "Paper",
    "Shelf",
    "Bag",
    "Charter",
    "Doorkeeper",
    "Entrance",
    "Stranger",
    "Parking",
    "Telling",
    "MOST",
    "PATIENCE",
    "ROOM",
    "LAST_WORDS",
    "ENOUGH",
    "Agreed",
    "By",
    "Known",
    "Lost",
    "Measured",
    "Named",
    "Only",
    "Own",
    "Passage",
    "Per",
    "Pump",
    "Refused",
    "Scratch",
    "Since",
    "Started",
    "Tally",
    "Traffic",
    "Twice",
    "Unanswered",
    "Unread",
    "Watched",
    "Well",
    "Whole",
    "Work",
];

/// Names of functions and variables that do not say what is computed or done.
const BANNED_VERBS: &[&str] = &[
    "fn already",
    "fn carry",
    "fn dress",
    "fn given",
    "fn has_spoken",
    "fn hush",
    "fn inward",
    "fn is_well",
    "fn minds",
    "fn obtain",
    "fn outward",
    "fn spot",
    "fn told",
    "fn turned_away",
    "fn wild",
    "let said",
];

/// Words in comments and messages whose actor or term is missing, in lower case.
const BANNED_WORDS: &[&str] = &["nobody", "whoever", "somebody", "of old", "heeded", "told of"];

struct Source {
    krate: String,
    path: String,
    text: String,
}

/// The code of our crates without tests: files, and what stands before the first `#[cfg(test)] mod`.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut sources = Vec::new();
    for krate in fs::read_dir(root.join("crates")).unwrap() {
        let krate = krate.unwrap().path();
        let name = krate.file_name().unwrap().to_string_lossy().into_owned();
        let mut folders: Vec<PathBuf> = vec![krate.join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let file = path.file_name().unwrap().to_string_lossy().into_owned();
                if path.is_dir() {
                    if file != "tests" {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|extension| extension == "rs")
                    && file != "tests.rs"
                    && !file.ends_with("_tests.rs")
                {
                    let text = fs::read_to_string(&path).unwrap();
                    let text =
                        text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
                    let path = path.strip_prefix(&root).unwrap().display().to_string();
                    sources.push(Source { krate: name.clone(), path, text });
                }
            }
        }
    }
    assert!(sources.len() > 300, "the crates are found");
    sources
}

/// The name of a type, trait or constant that a line declares, and whether other modules can see it.
fn declared(line: &str) -> Option<(&str, bool)> {
    let is_public = line.starts_with("pub ") || line.starts_with("pub(");
    let rest = if is_public { line.split_once(' ')?.1 } else { line };
    let (keyword, rest) = rest.split_once(' ')?;
    if !matches!(keyword, "struct" | "enum" | "trait" | "type" | "const" | "static" | "union") {
        return None;
    }
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some((name, is_public && !matches!(keyword, "const" | "static")))
}

/// What is wrong with these files, one sentence each.
fn complaints(sources: &[Source]) -> Vec<String> {
    let mut types: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.text.lines().enumerate() {
            let place = format!("{}:{}", source.path, number + 1);
            if let Some((name, is_public)) = declared(line) {
                if is_public {
                    types.entry((&source.krate, name)).or_default().push(place.clone());
                }
                if BANNED_NAMES.contains(&name) {
                    found.push(format!("{place}: `{name}` does not say what it is"));
                }
            }
            if !line.trim_start().starts_with("//")
                && let Some(name) = BANNED_VERBS.iter().find(|name| has_word(line, name))
            {
                found.push(format!("{place}: `{name}` does not say what it is"));
            }
            let lower = line.to_lowercase();
            for word in BANNED_WORDS.iter().filter(|word| has_word(&lower, word)) {
                found.push(format!("{place}: \"{word}\": name the actor, use the term"));
            }
        }
    }
    for ((krate, name), places) in types.iter().filter(|(_, places)| places.len() > 1) {
        found.push(format!(
            "{krate}: {} types are called `{name}`: {}",
            places.len(),
            places.join(", ")
        ));
    }
    found
}

/// Whether a text has these words, not as a part of longer ones.
fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) =
            (text.get(..at).unwrap_or_default(), text.get(at + word.len()..).unwrap_or_default());
        !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
    })
}

#[test]
fn names_and_words_are_those_of_the_field() {
    let found = complaints(&sources());
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_rule_finds_its_fault() {
    let source = |path: &str, text: &str| Source {
        krate: "one".to_owned(),
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let found = complaints(&[
        source("a.rs", "pub(crate) struct Page {}\nconst MOST: usize = 1;\n"),
        source("b.rs", "pub enum Page {}\n/// Whoever waits is told of it.\nstruct Page;\n"),
        source("d.rs", "    let said = 1;\n    pub fn told() {}\n    fn told_twice() {}\n"),
    ]);
    assert_eq!(found.len(), 6, "{found:#?}");
    for (sentence, part) in found.iter().zip([
        "`MOST`",
        "\"whoever\"",
        "\"told of\"",
        "`let said`",
        "`fn told`",
        "2 types are called `Page`: a.rs:1, b.rs:1",
    ]) {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(complaints(&[source("c.rs", "struct Almost;\n// Nobodys.\n")]).is_empty());
}
