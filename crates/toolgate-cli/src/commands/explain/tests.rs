//! Every code has a complete page with a true example; `docs/errors` is generated from the pages:
//! `TOOLGATE_UPDATE=1 cargo test -p toolgate-cli explain` writes it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use super::{
    page::{Page, SECTIONS},
    *,
};

/// What clients read for each code. A test provokes them through the program.
const PROVOKED: &str = include_str!("../../../tests/suite/wrap/codes.txt");

/// Codes that the tests of the program do not provoke, with the file that has the words of the example.
const OTHERS: [(Code, &str, &str); 6] = [
    (
        Code::Refused,
        "toolgate-tmux/src/command_guard/precondition.rs",
        "The command was not typed: ",
    ),
    (
        Code::ClientIncapable,
        "toolgate-gateway/src/upstream/failures.rs",
        ", which the client cannot do",
    ),
    (
        Code::Deferred,
        "toolgate/src/middleware/preconditions/mod.rs",
        "` may not be called right now",
    ),
    (Code::ToolFailed, "toolgate-tmux/src/engine/error.rs", "Pane not found: "),
    (
        Code::Cancelled,
        "toolgate-gateway/src/gateway/upstream_call.rs",
        "the client cancelled the call",
    ),
    (
        Code::Internal,
        "toolgate-gateway/src/transports/line_front.rs",
        "toolgate failed while the call was under way",
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A text without what differs from run to run.
fn steady(text: &str) -> String {
    let mut steady = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() || c == '…' { '#' } else { c };
        if c != '#' || !steady.ends_with('#') {
            steady.push(c);
        }
    }
    steady
}

/// The message of each code in `PROVOKED`.
fn provoked() -> BTreeMap<&'static str, String> {
    let text = PROVOKED.trim();
    let entries = text.split("\n\n").filter_map(|entry| entry.split_once('\n'));
    entries
        .map(|(name, answer)| {
            // Numbers that differ from run to run stand there as an ellipsis.
            let answer: Value = serde_json::from_str(&answer.replace(": …", ": 0")).unwrap();
            let message = answer
                .pointer("/error/message")
                .or_else(|| answer.pointer("/result/content/0/text"));
            (name, message.and_then(Value::as_str).unwrap().to_owned())
        })
        .collect()
}

#[test]
fn every_code_has_a_page_without_empty_sections() {
    for code in Code::ALL {
        let sections: Vec<_> = Page::of(*code).sections().collect();
        let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
        let expected: Vec<&str> = SECTIONS.iter().map(|(heading, _)| *heading).collect();
        assert!(headings == expected || headings == expected[..5], "{code:?}: {headings:?}");
        assert!(sections.iter().all(|(_, text)| !text.is_empty()), "{code:?}");
        assert!(!Page::of(*code).example().is_empty(), "{code:?}");
        let long: Vec<&str> =
            Page::of(*code).text.lines().filter(|line| line.chars().count() > 78).collect();
        let in_example = |line: &&&str| Page::of(*code).example().contains(**line);
        assert!(long.iter().all(|line| in_example(&line)), "{code:?}: {long:?}");
    }
}

#[test]
fn every_example_is_what_a_client_reads() {
    let provoked = provoked();
    for code in Code::ALL {
        let example = Page::of(*code).example();
        if let Some(message) = provoked.get(code.name()) {
            assert_eq!(steady(example), steady(message), "{code:?}");
        } else {
            let (_, file, words) = OTHERS.iter().find(|(other, ..)| other == code).unwrap();
            let source = fs::read_to_string(root().join("crates").join(file)).unwrap();
            assert!(source.contains(words) && example.contains(words), "{code:?}: {words}");
        }
    }
}

/// The section of `docs/reference.md` that has this key.
fn anchor(setting: &str) -> String {
    let table = setting.rsplit_once('.').map_or("at-the-top", |(table, _)| table);
    table.replace('.', "").to_lowercase()
}

#[test]
fn every_setting_is_in_the_reference() {
    let reference = crate::config_file::reference();
    for code in Code::ALL {
        for setting in Page::of(*code).settings() {
            let (table, key) = setting.rsplit_once('.').unwrap_or(("", setting));
            let headings = [format!("\n## `[{table}]`\n"), format!("\n## `[[{table}]]`\n")];
            let heading = headings.iter().find(|heading| reference.contains(*heading));
            let heading = match table {
                "" => "\n## At the top\n",
                _ => heading.unwrap_or_else(|| panic!("{code:?}: no table of {setting}")),
            };
            let (_, section) = reference.split_once(heading).unwrap();
            let section = section.split("\n## ").next().unwrap();
            assert!(section.contains(&format!("\n| `{key}` |")), "{code:?}: {setting}");
        }
    }
}

/// Layers whose folder has another name.
const FOLDERS: [(&str, &str); 2] =
    [("errors-to-results", "error_results"), ("audit-intent", "audit")];

/// The text with links from the layers that decide to their pages.
fn with_layers(text: &str) -> String {
    let (before, rest) = text.split_once("## Who decided").unwrap();
    let (decided, after) = rest.split_once("\n## ").unwrap();
    let mut decided = decided.to_owned();
    for layer in toolgate::stack::default_order().map(|place| place.name) {
        let folder = FOLDERS.iter().find(|(name, _)| *name == layer).map(|(_, folder)| *folder);
        let folder = folder.map_or_else(|| layer.replace('-', "_"), str::to_owned);
        let page = format!("crates/toolgate/src/middleware/{folder}/README.md");
        if root().join(&page).exists() {
            decided = decided.replace(&format!("`{layer}`"), &format!("[`{layer}`](../../{page})"));
        }
    }
    format!("{before}## Who decided{decided}\n## {after}")
}

/// The page of a code in `docs/errors`.
fn markdown(page: &Page) -> String {
    let entry = page.code.entry();
    let mut text = format!("# {}\n\n{}\n\n", entry.name, entry.meaning);
    for (name, value) in page.facts() {
        writeln!(text, "- **{name}**: {value}").unwrap();
    }
    let (words, settings) = page.text.split_once("## Settings").unwrap_or((page.text, ""));
    write!(text, "\n{}", with_layers(words)).unwrap();
    if !settings.is_empty() {
        text.push_str("## Settings\n\n");
        for setting in page.settings() {
            writeln!(text, "- [`{setting}`](../reference.md#{})", anchor(setting)).unwrap();
        }
    }
    text
}

/// The list of all codes.
fn index() -> String {
    let mut text = "# Error codes\n\n\
        Every failure of toolgate has a code. Clients read it in `_meta.code` of a result with `isError`, or in `error.data.code` of a \
        JSON-RPC\nerror; `toolgate log` and `toolgate why` show it to operators. `toolgate explain CODE` prints the same pages in a terminal.\n\n\
        | code | what happened |\n|---|---|\n"
        .to_owned();
    for code in Code::ALL {
        let entry = code.entry();
        writeln!(text, "| [`{0}`]({0}.md) | {1} |", entry.name, entry.meaning).unwrap();
    }
    text
}

#[test]
fn docs_errors_is_generated_from_the_pages() {
    let folder = root().join("docs/errors");
    let mut wanted = BTreeMap::from([("README.md".to_owned(), index())]);
    wanted.extend(
        Code::ALL.iter().map(|code| (format!("{}.md", code.name()), markdown(&Page::of(*code)))),
    );
    if std::env::var_os("TOOLGATE_UPDATE").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in &wanted {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
    let found: BTreeMap<String, String> = files
        .map(|file| {
            let text = fs::read_to_string(file.path()).unwrap();
            (file.file_name().into_string().unwrap(), text)
        })
        .collect();
    assert!(
        found == wanted,
        "docs/errors is not up to date: run `TOOLGATE_UPDATE=1 cargo test -p toolgate-cli explain`"
    );
}

#[test]
fn a_code_is_found_by_name_number_type_and_words() {
    let found = |text: &str| find(text).unwrap();
    for text in ["TIER_DENIED", "tier_denied", "tier-denied", "Tier denied", "TierDenied"] {
        assert_eq!(found(text), [Code::TierDenied], "{text}");
    }
    assert_eq!(found("429").len(), 4);
    assert_eq!(found("-32700"), [Code::ParseError]);
    assert_eq!(found("reason  RATE_LIMITED by rate-limit"), [Code::RateLimited]);
    assert_eq!(found("midnight UTC"), [Code::QuotaExceeded]);
    for (message, code) in [
        ("Access denied to tool drop_table by policy team", Code::PolicyDenied),
        (
            "Tool \"move\" is currently inactive and disallowed in this namespace",
            Code::ToolInactive,
        ),
        (
            "Tool 'rm' is not available at the current safety level: it is destructive, and the level is mutating.",
            Code::TierDenied,
        ),
        ("Tool execution timed out after 5m", Code::TimedOut),
    ] {
        assert_eq!(found(message), [code], "{message}");
    }
    let error = find("TIER_DENID").unwrap_err().to_string();
    assert!(error.contains("did you mean `TIER_DENIED`?"), "{error}");
    let error = find("something else altogether").unwrap_err().to_string();
    assert!(error.ends_with("`: `toolgate explain` lists all codes"), "{error}");
}
