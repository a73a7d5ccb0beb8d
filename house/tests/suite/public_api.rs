//! The public API of the published library crates is the one in their `public-api.txt`, so that a change of it is seen
//! in review and gets its line in CHANGELOG.md.
//!
//! The lint `unreachable_pub` is an error here, so what is `pub` in the source can be reached from outside. rustfmt
//! wrote the source, so its indentation says where an item ends. Items that macros generate are not listed.
//!
//! `UPDATE_PUBLIC_API=1 cargo test -p house public_api` writes the files.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};

const CRATES: &[&str] = &["toolgate", "toolgate-rmcp", "toolgate-wire"];

/// Attributes that are part of the API.
const ATTRIBUTES: &[&str] = &["#[derive(", "#[non_exhaustive]", "#[cfg(feature", "#[cfg(any(test"];

/// The lines of one file, and the place of the reader.
struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        Self { lines: text.lines().collect(), at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The lines from here to the first that ends with one of `ends`, as one line.
    fn until(&mut self, ends: &[char]) -> String {
        let mut text = String::new();
        while let Some(line) = self.peek() {
            self.at += 1;
            let line = line.trim();
            if line.starts_with("//") {
                continue;
            }
            if !text.is_empty()
                && !text.ends_with(['(', '<', '['])
                && !line.starts_with([')', '>', ']'])
            {
                text.push(' ');
            }
            text.push_str(line);
            let is_balanced = text.matches('(').count() == text.matches(')').count();
            // The commas of parameters and of bounds end no function, those of a list of names no `use`.
            let goes_on = text.ends_with(',') && (text.contains("fn ") || text.contains(" where"));
            if is_balanced && !goes_on && text.ends_with(ends) {
                break;
            }
        }
        text.replace(",)", ")").replace(",>", ">")
    }

    /// Skips the lines up to the brace that closes a block of this depth.
    fn skip_block(&mut self, depth: usize) {
        while let Some(line) = self.peek() {
            self.at += 1;
            if indent(line) == depth && line.trim_start().starts_with('}') {
                break;
            }
        }
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A declaration without its body or its value.
fn head(text: &str) -> String {
    let text = text.trim_end_matches(" {}").trim_end_matches(['{', ';', ',', ' ']);
    let text = match text.split_once(" = ") {
        Some((before, _)) if before.contains("const ") || before.contains("static ") => before,
        _ => text,
    };
    let text = text.trim_end().replace("(mut self", "(self");
    match text.split_once('(') {
        // Private fields of a tuple are none of the API.
        Some((name, fields)) if name.contains("pub struct ") && !fields.contains("pub ") => {
            format!("{name}(_)")
        }
        _ => text,
    }
}

/// The first name after a keyword: `Next` of `pub struct Next<'a>`.
fn name_after<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{keyword} "))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The type that an `impl` is for, without its parameters.
fn implementor(header: &str) -> &str {
    let subject = match header.split_once(" for ") {
        Some((_, subject)) => subject,
        None => after_generics(header.trim_start_matches("impl")),
    };
    let subject = subject.trim_start().trim_start_matches("dyn ");
    subject.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn after_generics(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => return &text[at..],
            _ => (),
        }
    }
    text
}

/// The names that a `pub use` makes available.
fn reexports(text: &str) -> Vec<String> {
    let tree = text.trim_start_matches("pub use ").trim_end_matches(';');
    let names = tree.split(['{', '}', ',']).map(str::trim).filter(|part| !part.is_empty());
    let names = names.filter(|part| !part.ends_with("::"));
    names.map(|part| format!("pub use {}", part.rsplit("::").next().unwrap_or(part))).collect()
}

/// The API of one file: each line with the type whose `impl` it is in, if it is in one.
fn items(text: &str, found: &mut Vec<(Option<String>, String)>) {
    let mut reader = Reader::new(text);
    let (mut attributes, mut owner) = (String::new(), None::<(String, usize)>);
    while let Some(line) = reader.peek() {
        let (start, depth) = (line.trim_start(), indent(line));
        if start.starts_with("#[") {
            let attribute = reader.until(&[']']);
            if ATTRIBUTES.iter().any(|known| attribute.starts_with(known)) {
                attributes.push(' ');
                attributes.push_str(&attribute);
            }
            continue;
        }
        if start.starts_with("impl") && !start.starts_with("impl_") {
            let header = reader.until(&['{', '}', ';']);
            let closed = header.ends_with('}');
            let subject = implementor(&header).to_owned();
            if header.contains(" for ") {
                found.push((Some(subject), head(&header)));
                if !closed {
                    reader.skip_block(depth);
                }
            } else if !closed {
                owner = Some((subject, depth));
            }
        } else if start.starts_with("macro_rules!") {
            reader.skip_block(depth);
        } else if start.starts_with("pub ") {
            let is_use = start.starts_with("pub use ");
            let text = reader.until(if is_use { &[';'] } else { &['{', '}', ';', ','] });
            let subject = owner.as_ref().map(|(name, _)| name.as_str());
            item(&mut reader, depth, &attributes, &text, subject, found);
        } else {
            if start.starts_with('}') && owner.as_ref().is_some_and(|(_, level)| *level == depth) {
                owner = None;
            }
            reader.at += 1;
        }
        if !start.starts_with("//") {
            attributes.clear();
        }
    }
}

/// One `pub` item of which the text up to its body is read.
fn item(
    reader: &mut Reader<'_>,
    depth: usize,
    attributes: &str,
    text: &str,
    owner: Option<&str>,
    found: &mut Vec<(Option<String>, String)>,
) {
    if text.starts_with("pub use ") {
        found.extend(reexports(text).into_iter().map(|name| (None, name)));
        return;
    }
    let declared = head(text);
    let mut add = |line: String| found.push((owner.map(ToOwned::to_owned), line));
    match owner {
        Some(owner) => add(format!("{owner}: {declared}{attributes}")),
        None => add(format!("{declared}{attributes}")),
    }
    let (name, is_open) = (|keyword| name_after(&declared, keyword), text.ends_with('{'));
    if !is_open {
        return;
    }
    if let Some(name) = name("struct").or_else(|| name("enum")).or_else(|| name("trait")) {
        let is_struct = declared.contains("struct ");
        for member in members(reader, depth) {
            if !is_struct || member.starts_with("pub ") {
                add(format!("{name}: {member}"));
            }
        }
    } else if !declared.contains("mod ") {
        reader.skip_block(depth);
    }
}

/// The fields, variants, or functions of a block.
fn members(reader: &mut Reader<'_>, depth: usize) -> Vec<String> {
    let mut members = Vec::new();
    while let Some(line) = reader.peek() {
        let (start, level) = (line.trim_start(), indent(line));
        if level == depth && start.starts_with('}') {
            reader.at += 1;
            break;
        }
        if start.is_empty() || start.starts_with("//") {
            reader.at += 1;
        } else if start.starts_with("#[") {
            reader.until(&[']']);
        } else {
            let member = reader.until(&['{', '}', ';', ',']);
            let is_function = member.contains("fn ");
            let variant = member.ends_with('{') && !is_function;
            if member.ends_with('{') && is_function {
                reader.skip_block(level);
                members.push(format!("{} {{ default }}", head(&member)));
            } else if variant {
                let fields = members_of_variant(reader, level);
                members.push(format!("{} {{ {fields} }}", head(&member)));
            } else {
                members.push(head(&member));
            }
        }
    }
    members
}

fn members_of_variant(reader: &mut Reader<'_>, depth: usize) -> String {
    members(reader, depth).join(", ")
}

/// The API of a crate, from its files.
fn surface(files: &[String]) -> BTreeSet<String> {
    let mut found = Vec::new();
    for text in files {
        items(text, &mut found);
    }
    let declared: BTreeSet<String> = found
        .iter()
        .filter_map(|(_, line)| {
            ["pub struct", "pub enum", "pub trait", "pub type"]
                .iter()
                .find_map(|keyword| name_after(line, keyword))
        })
        .map(ToOwned::to_owned)
        .collect();
    // Implementations for private types are none of the API.
    let is_public = |owner: &Option<String>| owner.as_ref().is_none_or(|it| declared.contains(it));
    found.into_iter().filter(|(owner, _)| is_public(owner)).map(|(_, line)| line).collect()
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, files);
            }
        } else if path.extension().is_some_and(|it| it == "rs")
            && name != "tests.rs"
            && !name.ends_with("_tests.rs")
        {
            files.push(path);
        }
    }
}

#[test]
fn the_public_api_is_the_one_in_the_snapshot() {
    let mut changes = Vec::new();
    for krate in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(krate);
        let mut files = Vec::new();
        sources(&root.join("src"), &mut files);
        files.sort();
        let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let current = surface(&texts);
        let snapshot = root.join("public-api.txt");
        if env::var_os("UPDATE_PUBLIC_API").is_some() {
            let lines: Vec<_> = current.iter().map(String::as_str).collect();
            fs::write(&snapshot, lines.join("\n") + "\n").unwrap();
            continue;
        }
        let recorded = fs::read_to_string(&snapshot).unwrap_or_default();
        let recorded: BTreeSet<String> = recorded.lines().map(ToOwned::to_owned).collect();
        changes.extend(recorded.difference(&current).map(|line| format!("{krate} - {line}")));
        changes.extend(current.difference(&recorded).map(|line| format!("{krate} + {line}")));
    }
    assert!(
        changes.is_empty(),
        "the public API changed. If that is intended, say so in CHANGELOG.md and run \
         `UPDATE_PUBLIC_API=1 cargo test -p house public_api`:\n{}",
        changes.join("\n")
    );
}

#[test]
fn each_kind_of_item_is_found_and_private_ones_are_not() {
    let file = r"//! A file.
pub use call::{
    Answer,
    Call,
};
/// A limit.
pub const LIMIT: usize = 1;
#[derive(Debug)]
#[non_exhaustive]
pub struct Shown<'a> {
    /// A field.
    pub field: &'a str,
    hidden: u8,
}
struct Private;
impl Clone for Private {}
impl<'a> Shown<'a> {
    /// Does it.
    #[must_use]
    pub fn long<F>(
        self,
        with: F,
    ) -> Self
    where
        F: Fn(),
    {
        let x = 1;
    }
    pub(crate) fn inner(&self) {}
}
impl From<u8> for Shown<'_> {
    fn from(_: u8) -> Self {
    }
}
pub enum Kind {
    One,
    Two(u8),
    Three {
        /// Why.
        why: String,
    },
}
pub trait Does {
    fn must(&self);
    fn may(&self) -> u8
    where
        Self: Sized,
    {
        1
    }
}
#[cfg(test)]
mod tests {
    pub fn not_listed() {}
}
";
    let found: Vec<_> = surface(&[file.to_owned()]).into_iter().collect();
    assert_eq!(
        found,
        [
            "Does: fn may(&self) -> u8 where Self: Sized { default }",
            "Does: fn must(&self)",
            "Kind: One",
            "Kind: Three { why: String }",
            "Kind: Two(u8)",
            "Shown: pub field: &'a str",
            "Shown: pub fn long<F>(self, with: F) -> Self where F: Fn()",
            "impl From<u8> for Shown<'_>",
            "pub const LIMIT: usize",
            "pub enum Kind",
            "pub struct Shown<'a> #[derive(Debug)] #[non_exhaustive]",
            "pub trait Does",
            "pub use Answer",
            "pub use Call",
        ]
    );
}
