//! The table of incidents in SECURITY.md is generated from the tests: `TOOLGATE_UPDATE=1 cargo test -p toolgate-cli --test suite incidents::table` writes it.

use std::{fmt::Write as _, fs, path::Path};

const START: &str = "<!-- incidents: generated from crates/toolgate-cli/tests/suite/incidents -->";
const END: &str = "<!-- end of incidents -->";

/// One test with its source and sentence.
#[derive(Debug)]
struct Incident {
    source: String,
    sentence: String,
    test: String,
}

/// The tests of a file whose first doc line names a source.
fn incidents(module: &str, text: &str) -> Vec<Incident> {
    let mut found = Vec::new();
    let mut doc: Option<String> = None;
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            match &mut doc {
                Some(doc) => drop(write!(doc, " {comment}")),
                None => doc = Some(comment.to_owned()),
            }
        } else if line == "#[test]" {
            is_test = true;
        } else if line.starts_with("#[") {
        } else {
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let (true, Some(name), Some(doc)) = (is_test, name, doc.as_deref())
                && let Some((source, sentence)) =
                    doc.strip_prefix('[').and_then(|rest| rest.split_once("] "))
            {
                // The first sentence is for the table; more is for the reader of the test.
                let sentence = first_sentence(sentence);
                found.push(Incident {
                    source: source.to_owned(),
                    sentence: sentence.trim_end_matches('.').to_owned(),
                    test: format!("{module}::{name}"),
                });
            }
            doc = None;
            is_test = false;
        }
    }
    found
}

/// The text up to the first full stop that is not inside backticks.
fn first_sentence(text: &str) -> &str {
    let mut is_code = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' => is_code = !is_code,
            '.' if !is_code && text[at..].starts_with(". ") => return &text[..at],
            _ => {}
        }
    }
    text
}

fn generated(folder: &Path) -> String {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let module = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !["main", "table"].contains(&module.as_str()) {
            all.extend(incidents(&module, &fs::read_to_string(&file).unwrap()));
        }
    }
    let key = |source: &str| -> (String, Vec<u32>) {
        let kind = source.split(' ').next().unwrap_or_default().to_owned();
        let number = |part: &str| part.parse().ok();
        (kind, source.split(|c: char| !c.is_ascii_digit()).filter_map(number).collect())
    };
    all.sort_by_key(|incident| key(&incident.source));
    let mut table = String::from("| source | what happened | test |\n|---|---|---|\n");
    for Incident { source, sentence, test } in &all {
        let sentence = sentence.replace('|', "\\|");
        writeln!(table, "| {source} | {sentence} | `{test}` |").unwrap();
    }
    table
}

#[test]
fn security_md_has_the_table_of_these_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../SECURITY.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(START).expect("the start mark is missing");
    let (_, after) = rest.split_once(END).expect("the end mark is missing");
    let table = generated(&root.join("tests/suite/incidents"));
    let wanted = format!("{before}{START}\n\n{table}\n{END}{after}");
    if std::env::var_os("TOOLGATE_UPDATE").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert!(
        page == wanted,
        "SECURITY.md is not up to date: run `TOOLGATE_UPDATE=1 cargo test -p toolgate-cli --test suite incidents::table` twice"
    );
}

#[test]
fn the_table_reads_docs_of_tests() {
    let text = "/// [review 1] A line break cut a message. More.\n#[test]\nfn smuggled() {\n}\n/// No source.\n#[test]\nfn other() {\n}\n";
    let found = incidents("wire", text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].test, "wire::smuggled");
    assert_eq!(found[0].sentence, "A line break cut a message");
    assert_eq!(first_sentence("`a`, `. b` and `c` ran. More."), "`a`, `. b` and `c` ran");
}
