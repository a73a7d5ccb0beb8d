//! No file and no function outgrows the house, every file says what it is, and nothing is left
//! undone without an issue. Exceptions stand in `exceptions.toml`, with their reason.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many lines a file and a function may have.
struct Limits {
    file: usize,
    function: usize,
}

const SOURCE: Limits = Limits { file: 900, function: 80 };
const TEST: Limits = Limits { file: 900, function: 120 };

/// Names that say nothing about what is inside.
const GRAB_BAGS: &[&str] =
    &["common", "helper", "helpers", "misc", "type", "types", "util", "utils"];

/// Words for work that is left undone. In two pieces, so that this file does not contain them.
const UNDONE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// A Rust file, with its path from the root of the workspace.
struct Source {
    path: String,
    text: String,
}

/// A function of a file.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// A file or a function that may be larger.
struct Exception {
    path: String,
    function: Option<String>,
    lines: usize,
    reason: String,
}

impl Source {
    /// Tests, benches and examples may be longer: they are read one by one.
    fn limits(&self) -> Limits {
        let folders = ["tests", "benches", "examples"];
        let mut parts = self.path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let test = name == "tests.rs" || name.ends_with("_tests.rs");
        if test || parts.any(|part| folders.contains(&part)) { TEST } else { SOURCE }
    }

    fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// The functions of a text that rustfmt wrote: the end of one is the brace that stands as far in as
/// its first line.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = declared(line) else { continue };
        if let Some(lines) = extent(&lines, start) {
            found.push(Function { name: name.to_owned(), line: start + 1, lines });
        }
    }
    found
}

/// The name of the function that a line declares.
fn declared(line: &str) -> Option<&str> {
    const QUALIFIERS: &[&str] = &["async", "const", "default", "extern", "pub", "unsafe"];
    let mut words = line.split_whitespace();
    let keyword = words.by_ref().find(|word| {
        let abi = word.starts_with('"');
        let word = word.split('(').next().unwrap_or_default();
        !abi && !QUALIFIERS.contains(&word)
    })?;
    let name = words.next().filter(|_| keyword == "fn")?;
    name.split(['(', '<']).next()
}

/// How many lines the function has that starts at a line; none if it has no body.
fn extent(lines: &[&str], start: usize) -> Option<usize> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let base = depth(lines.get(start)?);
    let mut open = false;
    for (index, line) in lines.iter().enumerate().skip(start) {
        let level = depth(line) == base && !line.is_empty();
        let end = line.trim_end();
        if open {
            if level && end.trim_start().starts_with('}') {
                return Some(index - start + 1);
            }
        } else if end.ends_with(';') {
            return None;
        } else if level && end.ends_with('}') {
            return Some(index - start + 1);
        } else if level && end.ends_with('{') {
            open = true;
        }
    }
    None
}

/// Everything that is wrong with the files, in words.
fn complaints(sources: &[Source], exceptions: &[Exception]) -> Vec<String> {
    let each = sources.iter().flat_map(|source| {
        [sizes(source, exceptions), contents(source), grab_bags(source)].concat()
    });
    each.chain(needless(sources, exceptions)).collect()
}

/// What is larger than the limits and the exceptions allow.
fn sizes(source: &Source, exceptions: &[Exception]) -> Vec<String> {
    let (path, limits) = (&source.path, source.limits());
    let allowed = |function: Option<&str>, limit: usize| {
        let fits = |e: &&Exception| e.path == *path && e.function.as_deref() == function;
        exceptions.iter().find(fits).map_or(limit, |exception| exception.lines)
    };
    let mut found = Vec::new();
    let limit = allowed(None, limits.file);
    if source.lines() > limit {
        found.push(format!("{path} has {} lines, {limit} are allowed", source.lines()));
    }
    for Function { name, line, lines } in functions(&source.text) {
        let limit = allowed(Some(&name), limits.function);
        if lines > limit {
            found.push(format!("{path}:{line} `{name}` has {lines} lines, {limit} are allowed"));
        }
    }
    found
}

/// A missing `//!` line, and work left undone without an issue.
fn contents(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut found = Vec::new();
    // A page of its own says it as well.
    let page = source.text.starts_with("#![doc = include_str!(");
    if !page && !source.text.starts_with("//! ") {
        found.push(format!("{path} does not start with a `//!` line that says what it is"));
    }
    for (index, line) in source.text.lines().enumerate() {
        let issue =
            line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        for word in UNDONE.iter().filter(|word| line.contains(**word) && !issue) {
            found.push(format!("{path}:{} {word} without an issue, as `#12`", index + 1));
        }
    }
    found
}

/// Modules whose name says nothing, as a file, a folder or inline.
fn grab_bags(source: &Source) -> Vec<String> {
    let path = &source.path;
    let parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
    let inline = source.text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
        let keyword = words.next();
        words.next().filter(|_| keyword == Some("mod")).map(|name| name.trim_end_matches(';'))
    });
    parts
        .chain(inline)
        .filter(|name| GRAB_BAGS.contains(name))
        .map(|name| format!("{path}: `{name}` does not say what is inside"))
        .collect()
}

/// Exceptions that nothing needs, or that give no reason.
fn needless(sources: &[Source], exceptions: &[Exception]) -> Vec<String> {
    let mut found = Vec::new();
    for Exception { path, function, lines, reason } in exceptions {
        let what = function.as_deref().unwrap_or("the file");
        if reason.trim().is_empty() {
            found.push(format!("exception for {path}, {what}: it gives no reason"));
        }
        let source = sources.iter().find(|source| source.path == *path);
        let needed = source.is_some_and(|source| {
            let limits = source.limits();
            match function {
                None => source.lines() > limits.file,
                Some(name) => functions(&source.text)
                    .iter()
                    .any(|function| function.name == *name && function.lines > limits.function),
            }
        });
        if !needed {
            found.push(format!("exception for {path}, {what} ({lines} lines): no longer needed"));
        }
    }
    found
}

/// Reads `exceptions.toml`.
fn exceptions(text: &str) -> Vec<Exception> {
    let table: toml::Table = text.parse().expect("exceptions.toml is TOML");
    for key in table.keys() {
        assert!(key == "file" || key == "function", "exceptions.toml: unknown table `{key}`");
    }
    let read = |kind: &str| {
        let rows = table.get(kind).and_then(|rows| rows.as_array()).cloned().unwrap_or_default();
        let named = kind == "function";
        rows.into_iter().map(move |row| {
            let text = |key: &str| {
                let value = row.get(key).and_then(|value| value.as_str());
                value
                    .unwrap_or_else(|| panic!("exceptions.toml: `{key}` is missing: {row:?}"))
                    .to_owned()
            };
            let lines = row.get("lines").and_then(toml::Value::as_integer);
            let lines = lines.and_then(|lines| usize::try_from(lines).ok());
            Exception {
                path: text("path"),
                function: named.then(|| text("name")),
                lines: lines.expect("exceptions.toml: `lines` is a number"),
                reason: text("reason"),
            }
        })
    };
    read("file").chain(read("function")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file of the workspace.
fn sources() -> Vec<Source> {
    let root = root();
    let mut folders = vec![root.join("crates"), root.join("house")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.extend((path.file_name().unwrap() != "target").then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|left, right| left.path.cmp(&right.path));
    sources
}

#[test]
fn the_workspace_keeps_the_rules() {
    let sources = sources();
    assert!(sources.iter().any(|source| source.path == "house/tests/suite/sizes.rs"));
    let exceptions = exceptions(&fs::read_to_string(root().join("house/exceptions.toml")).unwrap());
    let complaints = complaints(&sources, &exceptions);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

// What follows shows that the rules can fail.

fn source(path: &str, text: impl Into<String>) -> Source {
    Source { path: path.into(), text: text.into() }
}

/// A file of this many lines, which keeps every other rule.
fn long(path: &str, lines: usize) -> Source {
    source(path, "//! A file.\n".repeat(lines))
}

/// A function of this many lines, as rustfmt writes it.
fn function(name: &str, lines: usize) -> String {
    let body = "    let _ = ();\n".repeat(lines - 2);
    ["pub(crate) async fn ", name, "<T>(t: T) {\n", &body, "}\n"].concat()
}

fn exception(path: &str, function: Option<&str>, lines: usize) -> Exception {
    let function = function.map(str::to_owned);
    Exception { path: path.into(), function, lines, reason: "a table".into() }
}

#[test]
fn a_file_that_is_too_long_is_found() {
    let check = |path, lines| complaints(&[long(path, lines)], &[]).len();
    for path in ["crates/a/src/b.rs", "crates/a/src/tests_of_b.rs", "house/build.rs"] {
        assert_eq!((check(path, 900), check(path, 901)), (0, 1), "{path}");
    }
    for path in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "crates/a/benches/c/d.rs"] {
        assert_eq!((check(path, 900), check(path, 901)), (0, 1), "{path}");
    }
}

#[test]
fn a_function_that_is_too_long_is_found() {
    let check = |path, lines| {
        let text = ["//! A file.\n", &function("long", lines)].concat();
        complaints(&[source(path, text)], &[])
    };
    assert_eq!(check("crates/a/src/b.rs", 80), [""; 0]);
    let found = check("crates/a/src/b.rs", 81);
    assert_eq!(found, ["crates/a/src/b.rs:2 `long` has 81 lines, 80 are allowed"]);
    assert_eq!(check("crates/a/tests/b.rs", 120), [""; 0]);
    assert_eq!(check("crates/a/tests/b.rs", 121).len(), 1);
}

#[test]
fn functions_are_found_as_rustfmt_writes_them() {
    let text = [
        "trait A {",
        "    fn declared(&self) -> u8;",
        "    fn where_declared(&self)",
        "    where",
        "        Self: Sized;",
        "    unsafe extern \"C\" fn many(",
        "        a: u8,",
        "    ) -> u8",
        "    where",
        "        Self: Sized,",
        "    {",
        "        if a == 0 {",
        "        }",
        "    }",
        "    const fn one_line() {}",
        "}",
        "// fn in_a_comment() {",
        "fn last() {",
        "    fn inner() {",
        "    }",
        "}",
    ];
    let found: Vec<_> = functions(&text.join("\n"))
        .into_iter()
        .map(|function| (function.name, function.line, function.lines))
        .collect();
    let name = str::to_owned;
    let expected = [
        (name("many"), 6, 9),
        (name("one_line"), 15, 1),
        (name("last"), 18, 4),
        (name("inner"), 19, 2),
    ];
    assert_eq!(found, expected);
}

#[test]
fn exceptions_raise_a_limit_and_must_be_needed() {
    let file = [long("crates/a/src/b.rs", 950)];
    let check = |exceptions: &[Exception]| complaints(&file, exceptions);
    let path = "crates/a/src/b.rs";
    assert_eq!(check(&[exception(path, None, 950)]), [""; 0]);
    assert_eq!(check(&[exception(path, None, 949)]).len(), 1);
    let two = [exception(path, None, 950), exception(path, Some("gone"), 90)];
    assert_eq!(check(&two).len(), 1);
    let two = [exception(path, None, 950), exception("crates/a/src/gone.rs", None, 950)];
    assert_eq!(check(&two).len(), 1);
    let silent = Exception { reason: " ".into(), ..exception(path, None, 950) };
    assert_eq!(check(&[silent]).len(), 1);

    let text = ["//! A file.\n", &function("long", 90)].concat();
    let file = [source(path, text)];
    assert_eq!(complaints(&file, &[exception(path, Some("long"), 90)]), [""; 0]);
    assert_eq!(complaints(&file, &[exception(path, Some("long"), 89)]).len(), 1);
    let needless = [exception(path, Some("long"), 90), exception(path, None, 1000)];
    assert_eq!(complaints(&file, &needless).len(), 1);
}

#[test]
fn exceptions_are_read_from_toml() {
    let text = r#"
        [[file]]
        path = "a.rs"
        lines = 500
        reason = "r"
        [[function]]
        path = "b.rs"
        name = "f"
        lines = 90
        reason = "s"
    "#;
    let [file, function] = &exceptions(text)[..] else { panic!("two rows") };
    assert_eq!((file.path.as_str(), file.lines, &file.function), ("a.rs", 500, &None));
    assert_eq!((function.function.as_deref(), function.reason.as_str()), (Some("f"), "s"));
}

#[test]
fn a_file_without_its_first_line_is_found() {
    assert_eq!(complaints(&[source("crates/a/src/b.rs", "use std::fs;\n")], &[]).len(), 1);
    assert_eq!(complaints(&[source("crates/a/src/b.rs", "")], &[]).len(), 1);
    let page = "#![doc = include_str!(\"../README.md\")]\n";
    assert_eq!(complaints(&[source("crates/a/src/lib.rs", page)], &[]).len(), 0);
}

#[test]
fn undone_work_without_an_issue_is_found() {
    for word in UNDONE {
        let check = |comment: &str| {
            let text = ["//! A file.\n// ", word, comment].concat();
            complaints(&[source("crates/a/src/b.rs", text)], &[]).len()
        };
        assert_eq!(check(": later"), 1);
        assert_eq!(check("(#): later"), 1);
        assert_eq!(check("(#12): later"), 0);
    }
}

#[test]
fn a_name_that_says_nothing_is_found() {
    let check = |path, text| complaints(&[source(path, text)], &[]).len();
    assert_eq!(check("crates/a/src/utils.rs", "//! A file.\n"), 1);
    assert_eq!(check("crates/a/tests/common/mod.rs", "//! A file.\n"), 1);
    assert_eq!(check("crates/a/src/b.rs", "//! A file.\npub(crate) mod helpers;\n"), 1);
    assert_eq!(check("crates/a/src/b.rs", "//! A file.\nmod misc {\n}\n"), 1);
    assert_eq!(check("crates/a/src/utility_bills.rs", "//! A file.\n"), 0);
}
