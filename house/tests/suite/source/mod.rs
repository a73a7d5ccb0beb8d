//! Rust source as the rules of the house read it: the files of each crate as tokens, without tests and comments.

use std::{collections::BTreeSet, fs, path::Path};

/// A path of module names from the root of a crate.
pub(crate) type Module = Vec<String>;

/// A file of a crate: its module, its path below `src`, and its tokens without those of tests and comments.
pub(crate) struct Source {
    pub(crate) module: Module,
    pub(crate) path: String,
    pub(crate) tokens: Vec<String>,
}

/// A file's path below `src`, and its text.
pub(crate) type File = (String, String);

/// Every crate of the workspace by name, with the files below its `src`.
pub(crate) fn crates() -> Vec<(String, Vec<File>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut files = Vec::new();
        read(&path.join("src"), "", &mut files);
        found.push((path.file_name().unwrap().to_str().unwrap().to_owned(), files));
    }
    found
}

/// The files of one crate without those that only tests have.
pub(crate) fn sources(files: &[File]) -> Vec<Source> {
    let mut tests = BTreeSet::new();
    let mut sources = Vec::new();
    for (path, text) in files {
        let module = module(path);
        let (tokens, names) = without_tests(&tokens(text));
        tests.extend(names.into_iter().map(|name| child(&module, &name)));
        sources.push(Source { module, path: path.clone(), tokens });
    }
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    sources
}

/// The module that a file below `src` is.
fn module(path: &str) -> Module {
    let mut parts: Vec<_> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let last = parts.last().map(String::as_str);
    if matches!(last, Some("mod")) || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    parts
}

pub(crate) fn child(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The files of a folder and of those below it, with their paths from it.
fn read(folder: &Path, before: &str, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = [before, path.file_name().unwrap().to_str().unwrap()].concat();
        if path.is_dir() {
            read(&path, &[&name, "/"].concat(), files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Identifiers, numbers, literals and punctuation of a text, without its comments.
fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = literal(rest) {
            found.push(rest[..length].to_owned());
            rest = &rest[length..];
        } else if let Some(length) = comment(rest) {
            rest = &rest[length..];
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            // The `b` of `b"…"` counts as a word of its own, which does no harm.
            found.push(word.to_owned());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("::") {
            found.push("::".to_owned());
            rest = after;
        } else {
            found.extend((!first.is_whitespace()).then(|| first.to_string()));
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// How long the string, raw string or character is that a text starts with.
fn literal(text: &str) -> Option<usize> {
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r'));
    if let Some(raw) = raw {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(body) = raw[hashes..].strip_prefix('"') {
            let end = ["\"", &"#".repeat(hashes)].concat();
            let length = body.find(&end).map_or(body.len(), |at| at + end.len());
            return Some(text.len() - body.len() + length);
        }
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let body = &text[1..];
    if quote == '\'' && !body.starts_with('\\') {
        // A lifetime has no second quote after its first character.
        let width = body.chars().next()?.len_utf8();
        return body[width..].starts_with('\'').then_some(width + 2);
    }
    let mut escaped = false;
    let end = body.find(|c: char| {
        let end = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        end
    });
    Some(end.map_or(text.len(), |end| end + 2))
}

/// How long the comment is that a text starts with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// The tokens without the items that only tests have, and the names of the modules among those items.
fn without_tests(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    let test: Vec<String> = ["#", "[", "cfg", "(", "test", ")", "]"].map(str::to_owned).into();
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut rest = tokens;
    while !rest.is_empty() {
        if rest.starts_with(&test) {
            let item = item(&rest[test.len()..]);
            let at = item.iter().position(|token| token == "mod");
            modules.extend(at.and_then(|at| item.get(at + 1)).cloned());
            rest = &rest[test.len() + item.len()..];
        } else {
            kept.push(rest[0].clone());
            rest = &rest[1..];
        }
    }
    (kept, modules)
}

/// The item that tokens start with: up to a semicolon or comma, or the brace that closes it.
fn item(tokens: &[String]) -> &[String] {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                // The end of the surrounding block, which is not part of the item.
                let Some(outer) = depth.checked_sub(1) else { return &tokens[..index] };
                depth = outer;
                if depth == 0 && token == "}" {
                    return &tokens[..=index];
                }
            }
            ";" | "," if depth == 0 => return &tokens[..=index],
            _ => (),
        }
    }
    tokens
}
