//! Tests of the readers: ranges, byte order marks, errors, and that excerpts show no values.

use super::*;

fn parse(text: &str, notation: Notation) -> Document {
    Document::parse(text.to_owned(), notation).unwrap()
}

fn problems(text: &str, notation: Notation) -> Vec<String> {
    let problems = Document::parse(text.to_owned(), notation).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// Every scalar and every key, as it is written.
fn written(document: &Document) -> Vec<&str> {
    fn walk<'a>(text: &'a str, node: &Node, out: &mut Vec<&'a str>) {
        match &node.value {
            NodeValue::List(items) => items.iter().for_each(|item| walk(text, item, out)),
            NodeValue::Map(members) => {
                for member in members {
                    out.push(&text[member.key_span.clone()]);
                    walk(text, &member.node, out);
                }
            }
            _ => out.push(&text[node.span.clone()]),
        }
    }
    let mut out = Vec::new();
    walk(&document.text, &document.root, &mut out);
    out
}

#[test]
fn ranges_are_those_of_the_text() {
    let json =
        "\u{feff}// ü\r\n{\"ä\": [\"x\\n\", 1.50, /* y */ true,], \"b\": {\"c\": null}, }\r\n";
    let expected = ["\"ä\"", "\"x\\n\"", "1.50", "true", "\"b\"", "\"c\"", "null"];
    assert_eq!(written(&parse(json, Notation::Json)), expected);
    let toml = "\u{feff}# ü\r\nz = 'ä'\n[a.\"b c\"]\nd = [\"x\", 1]\ne = { f = true }\n";
    let toml = parse(toml, Notation::Toml);
    let expected = ["z", "'ä'", "a", "\"b c\"", "d", "\"x\"", "1", "e", "f", "true"];
    assert_eq!(written(&toml), expected);
    let yaml =
        "\u{feff}# ü\nä:\n  - name: 'x ü'\n    args: [\"y\", -p]\n  - plain text # c\nb: 1.5\n";
    let yaml = parse(yaml, Notation::Yaml);
    let expected = ["ä", "name", "'x ü'", "args", "\"y\"", "-p", "plain text", "b", "1.5"];
    assert_eq!(written(&yaml), expected);
    assert!(parse("", Notation::Json).root.members().is_empty());
    assert!(parse("# only a comment\n", Notation::Yaml).root.members().is_empty());
}

#[test]
fn errors_have_their_place_and_no_values() {
    for (text, notation, place, message) in [
        (
            "{\n  \"a\": \"s3cret\"\n  \"b\": 1\n}",
            Notation::Json,
            "line 2, column 16",
            "comma is missing",
        ),
        ("{\n  'a': 's3cret' }", Notation::Json, "line 2, column 3", "single quotes"),
        ("{\n  a: \"s3cret\" }", Notation::Json, "line 2, column 3", "double quotes"),
        ("{\"a\": [1", Notation::Json, "line 1, column 7", "`]` is missing"),
        ("a = \"s3cret\nb = 2\n", Notation::Toml, "line 1", ""),
        ("a: [\"s3cret\"\nb: 1\n", Notation::Yaml, "line 2", "YAML"),
    ] {
        let told = problems(text, notation).join("\n");
        assert!(told.contains(place) && told.contains(message), "{text}\n{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn excerpts_show_keys_only() {
    for (line, notation, expected) in [
        (
            r#"  "env": {"A": "sec\"ret", "n": 12}, // why"#,
            Notation::Json,
            r#"  "env": {"A": "********", "n": 12}, ******"#,
        ),
        (r#""a": secret"#, Notation::Json, r#""a": ******"#),
        (r"a = 'secret' # x", Notation::Toml, r"a = '******' ***"),
        (r#"[mcp_servers."a b"]"#, Notation::Toml, r#"[mcp_servers."a b"]"#),
        ("  - key: secret text", Notation::Yaml, "  - key: ****** ****"),
        ("  - secret", Notation::Yaml, "  - ******"),
        ("  {a: secret}", Notation::Yaml, "  *** *******"),
    ] {
        let shown = match notation {
            Notation::Yaml => excerpt::blanked_yaml(line),
            _ => excerpt::blanked(line, notation),
        };
        assert_eq!(shown, expected);
    }
}

#[test]
fn a_key_that_occurs_twice_is_found() {
    let document = parse("{\"a\": [{\"x\": 1, \"x\": 2}], \"a\": 3}", Notation::Json);
    let keys: Vec<_> = document.repeated_keys().iter().map(|(one, _)| one.key.as_str()).collect();
    assert_eq!(keys, ["x", "a"]);
}
