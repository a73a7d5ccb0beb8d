//! The methods of MCP and its error codes stand in one place, `toolgate_wire::mcp`: other code names the constants.
//! Tests may write them out.

use std::collections::BTreeSet;

use crate::source::{File, Source, crates, sources};

/// Where the constants are: a crate and a file below its `src`.
const HOME: (&str, &str) = ("toolgate-wire", "mcp.rs");

/// Files that may write a method or a code out, each with the reason. A row that is not needed fails the test.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("toolgate-tmux", "prompts.rs", "-32001 is libtmux-mcp's own code for an unknown prompt")];

/// The codes that JSON-RPC reserves, for itself and for protocols on top of it.
fn is_code(number: &str) -> bool {
    let number = number.trim_end_matches("_i64").trim_end_matches("i64").replace('_', "");
    number.parse().is_ok_and(|number: i64| (32000..=32768).contains(&number))
}

/// The methods that the home defines, with their quotes: `"tools/call"`.
fn methods(home: &Source) -> BTreeSet<&str> {
    let at = |word: &str| home.tokens.iter().position(|token| token == word).unwrap();
    let section = &home.tokens[at("method")..at("code")];
    section.iter().map(String::as_str).filter(|token| token.starts_with('"')).collect()
}

/// The methods and codes that a file writes out.
fn written_out<'a>(source: &'a Source, methods: &BTreeSet<&str>) -> Vec<&'a str> {
    let negative = source.tokens.windows(2).filter(|pair| pair[0] == "-" && is_code(&pair[1]));
    let codes = negative.map(|pair| pair[1].as_str());
    let texts = source.tokens.iter().map(String::as_str).filter(|token| methods.contains(token));
    codes.chain(texts).collect()
}

/// The rule over all crates.
fn complaints(crates: &[(String, Vec<File>)], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let all: Vec<_> = crates.iter().map(|(name, files)| (name.as_str(), sources(files))).collect();
    let files = || all.iter().flat_map(|(name, files)| files.iter().map(move |file| (*name, file)));
    let (_, home) = files().find(|(name, file)| (*name, file.path.as_str()) == HOME).unwrap();
    let methods = methods(home);
    assert!(methods.contains("\"tools/call\""), "{methods:?}");
    let mut found = Vec::new();
    let mut needed = BTreeSet::new();
    for (name, file) in files().filter(|(name, file)| (*name, file.path.as_str()) != HOME) {
        let literals = written_out(file, &methods);
        let path = &*file.path;
        if literals.is_empty() {
            continue;
        }
        if exceptions.iter().any(|(krate, excepted, _)| (*krate, *excepted) == (name, path)) {
            needed.insert((name, path));
            continue;
        }
        found.push(format!(
            "{name}/src/{path} writes {} out: use the constants of `toolgate_wire::mcp`",
            literals.join(", ")
        ));
    }
    for (name, path, reason) in exceptions {
        if !needed.contains(&(*name, *path)) {
            found.push(format!("exception for {name}/src/{path} ({reason}): no longer needed"));
        }
    }
    found
}

#[test]
fn methods_and_codes_are_named_by_their_constants() {
    let found = complaints(&crates(), EXCEPTIONS);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

// What follows shows that the rule can fail.

/// What the rule says of a file of this text, in a workspace that has the home too.
fn check(text: &str, exceptions: &[(&str, &str, &str)]) -> usize {
    let home = "pub mod method { X = \"tools/call\"; } pub mod code { Y = -32602; }";
    let crates = [
        (HOME.0.to_owned(), vec![(HOME.1.to_owned(), home.to_owned())]),
        ("x".to_owned(), vec![("a.rs".to_owned(), text.to_owned())]),
    ];
    complaints(&crates, exceptions).len()
}

#[test]
fn a_method_or_a_code_is_found() {
    for text in [
        "const A: &str = \"tools/call\";",
        "match method { \"tools/call\" => 1, _ => 2 }",
        "error(-32602, \"no\")",
        "const A: i64 = -32_042;",
        "match code { -32099..=-32020 => 1 }",
        "f(- 32700i64)",
    ] {
        assert_eq!(check(text, &[]), 1, "{text}");
        assert_eq!(check(text, &[("x", "a.rs", "r")]), 0, "{text}");
    }
}

#[test]
fn constants_other_text_tests_and_comments_pass() {
    for text in [
        "use toolgate_wire::mcp::{code, method}; f(method::TOOLS_CALL, code::INVALID_PARAMS)",
        "// \"tools/call\" is -32602\n/* -32602 */ f(\"call tools/call\", 32602, -1, -31999)",
        "#[cfg(test)] mod tests { const A: (&str, i64) = (\"tools/call\", -32602); }",
    ] {
        assert_eq!(check(text, &[]), 0, "{text}");
        assert_eq!(check(text, &[("x", "a.rs", "r")]), 1, "not needed: {text}");
    }
}
