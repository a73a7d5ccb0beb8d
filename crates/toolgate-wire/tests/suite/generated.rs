//! Messages, objects and streams made up by proptest: what is valid passes through unchanged.

use bytes::Bytes;
use proptest::prelude::*;
use toolgate_wire::properties::{check_lines, check_message, check_single_line, check_splice};
use toolgate_wire::{Id, Json, Limits, Message, Shape, salvage_id};

/// JSON whitespace, mostly none.
fn blank() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// The spelling of a string: plain, escaped, beyond ASCII, lone surrogates.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zA-Z0-9 ,:{}\\[\\]/_.-]{0,12}",
        1 => prop::sample::select(vec![
            "\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\uDFFF", "é", "😀", "\u{7f}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
        prop::sample::select(vec!["1e400", "-0", "0.10", "1E5", "-0.0e-0"]).prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        string(),
        number(),
        prop::sample::select(vec!["true", "false", "null"]).prop_map(str::to_owned),
    ];
    scalar.prop_recursive(4, 24, 5, |inner| {
        let array = prop::collection::vec(spaced(inner.clone()), 0..5);
        let member =
            (spaced(string()), spaced(inner)).prop_map(|(key, value)| format!("{key}:{value}"));
        prop_oneof![
            array.prop_map(|elements| format!("[{}]", elements.join(","))),
            prop::collection::vec(member, 0..5)
                .prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

fn spaced(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (blank(), inner, blank()).prop_map(|(before, inner, after)| format!("{before}{inner}{after}"))
}

/// An object that holds nothing that is watched, as its keys start with `x`.
fn object() -> impl Strategy<Value = String> {
    let member = (spaced("\"x[a-z\u{e9}]{0,6}\""), spaced(value()));
    let member = member.prop_map(|(key, value)| format!("{key}:{value}"));
    prop::collection::vec(member, 1..6).prop_map(|members| format!("{{{}}}", members.join(",")))
}

#[derive(Debug, Clone)]
struct Made {
    line: String,
    shape: Shape,
    id: Option<String>,
    body: Option<String>,
}

fn message() -> impl Strategy<Value = Made> {
    let id = prop_oneof![number(), string()];
    let body = prop_oneof![3 => object(), 1 => Just("[]".to_owned()), 1 => Just("null".to_owned())];
    let shape = prop::sample::select(vec![
        Shape::Request,
        Shape::Notification,
        Shape::Response,
        Shape::Error,
    ]);
    let extra = ("\"x-[a-z]{0,5}\"", value());
    (
        shape,
        id,
        body,
        any::<bool>(),
        prop::option::of(extra),
        any::<prop::sample::Index>(),
        blank(),
        blank(),
    )
        .prop_map(|(shape, id, body, with_params, extra, turn, before, after)| {
            let id = (shape != Shape::Notification).then_some(id);
            let body = match shape {
                Shape::Error => Some(format!(r#"{{"code": -32603 ,"message":"m","x":{body}}}"#)),
                Shape::Response => Some(body),
                _ => with_params.then_some(body),
            };
            let name = match shape {
                Shape::Error => "error",
                Shape::Response => "result",
                _ => "params",
            };
            let mut members = vec![r#""jsonrpc" : "2.0""#.to_owned()];
            members.extend(id.iter().map(|id| format!("\"id\":{id}")));
            members.extend(body.iter().map(|body| format!("{before}\"{name}\"{after}:{body}")));
            members.extend(extra.map(|(key, value)| format!("{key}:{value}")));
            match shape {
                Shape::Request => members.push(r#""method":"tools/call""#.to_owned()),
                Shape::Notification => members.push(r#""method":"notifications/x""#.to_owned()),
                Shape::Response | Shape::Error => {}
            }
            let turn = turn.index(members.len());
            members.rotate_left(turn);
            let line = format!("{before}{{{}{after}}}{after}\n", members.join(","));
            Made { line, shape, id, body }
        })
}

/// What becomes of line breaks between tokens.
fn flat(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn read(line: &str) -> Message {
    let line = Bytes::copy_from_slice(line.as_bytes());
    Message::parse(line, &Limits::default()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_message_is_read_and_kept(made in message()) {
        let message = read(&made.line);
        prop_assert_eq!(message.line(), &flat(made.line.trim_end()));
        prop_assert_eq!(message.shape(), made.shape);
        prop_assert_eq!(message.id().map(ToString::to_string), made.id);
        let body = message.params().or(message.result()).or(message.error());
        let flat_body = made.body.as_deref().map(flat);
        prop_assert_eq!(body.as_ref().map(Json::as_str), flat_body.as_deref());
        if let Some(body) = body {
            prop_assert_eq!(message.with_body(body), flat(made.line.trim()));
        }
        prop_assert_eq!(check_message(made.line.as_bytes()), Ok(()));
        prop_assert_eq!(check_single_line(made.line.as_bytes()), Ok(()));
    }

    #[test]
    fn everything_that_makes_a_line_makes_one(all in prop::collection::vec(message(), 1..4), text in spaced(value())) {
        let lines: Vec<&str> = all.iter().map(|made| made.line.as_str()).collect();
        prop_assert_eq!(check_single_line(format!("[{}]", lines.join("\r,\n")).as_bytes()), Ok(()));
        prop_assert_eq!(check_single_line(text.as_bytes()), Ok(()));
        let event = format!("data: {}\n\n", lines[0].trim().replace(['\r', '\n'], "\ndata: "));
        prop_assert_eq!(check_single_line(event.as_bytes()), Ok(()));
    }

    #[test]
    fn an_edit_leaves_the_rest_of_the_line(made in message(), n in any::<i64>(), body in object()) {
        let message = read(&made.line);
        let id = Id::number(n);
        let edited = message.with_id(&id);
        if let Some(old) = &made.id {
            let text = flat(made.line.trim());
            let at = text.find(&format!("\"id\":{old}")).unwrap();
            let rest = &text[at + 5 + old.len()..];
            let expected = format!("{}\"id\":{n}{rest}", &text[..at]);
            prop_assert_eq!(&edited[..], expected.as_bytes());
        } else {
            prop_assert_eq!(edited, flat(made.line.trim()));
        }
        if made.shape != Shape::Error {
            let body = Json::parse(body, &Limits::default()).unwrap();
            let edited = read(std::str::from_utf8(&message.with_body(body.clone())).unwrap());
            prop_assert_eq!(edited.params().or(edited.result()), Some(body));
            prop_assert_eq!(edited.id(), message.id());
        }
    }

    #[test]
    fn an_id_at_either_end_is_found(made in message()) {
        let text = made.line.trim();
        let salvaged = salvage_id(text.as_bytes(), text.as_bytes());
        prop_assert_eq!(salvaged, read(&made.line).id().cloned());
    }

    #[test]
    fn objects_are_spliced(text in spaced(value())) {
        prop_assert_eq!(check_splice(text.as_bytes()), Ok(()));
        prop_assert_eq!(check_message(text.as_bytes()), Ok(()));
    }

    #[test]
    fn objects_of_few_keys_are_spliced(members in prop::collection::vec(("[ab]", value()), 0..6)) {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let text = format!("{{{}}}", members.join(" , "));
        prop_assert_eq!(check_splice(text.as_bytes()), Ok(()));
    }

    #[test]
    fn any_bytes_are_judged_as_serde_judges_them(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(check_message(&bytes), Ok(()));
    }

    #[test]
    fn almost_json_is_judged_as_serde_judges_it(text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ -]{0,24}") {
        prop_assert_eq!(check_message(text.as_bytes()), Ok(()));
    }

    #[test]
    fn a_mutated_message_is_judged_as_serde_judges_it(
        made in message(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = made.line.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert_eq!(check_message(&bytes), Ok(()));
        bytes.truncate(at);
        prop_assert_eq!(check_message(&bytes), Ok(()));
    }

    #[test]
    fn lines_do_not_depend_on_pieces(parts in prop::collection::vec("[a-z{}\" \r]{0,90}", 0..8)) {
        prop_assert_eq!(check_lines(parts.join("\n").as_bytes()), Ok(()));
    }
}
