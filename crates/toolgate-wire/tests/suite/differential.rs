//! What the gateway forwards, Python, Node and `serde_json` read exactly as the gateway did, and as one line.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::Value;
use toolgate_wire::{Id, Json, Kind, Limits, Message, Sender, Shape};

/// Reads lines as the official SDK does (text with universal newlines), and tells how it understood each.
const PYTHON: &str = r#"
import io, json, struct, sys
def number(n):
    try: n = float(n)
    except OverflowError: n = float("inf") if n > 0 else float("-inf")
    return "N" + struct.pack(">d", n + 0.0 if n else 0.0).hex()
def text(s): return "s" + s.encode("utf-16-be", "surrogatepass").hex()
def canon(v):
    if v is None: return "n"
    if v is True: return "t"
    if v is False: return "f"
    if isinstance(v, str): return text(v)
    if isinstance(v, (int, float)): return number(v)
    if isinstance(v, list): return "[" + ",".join(canon(x) for x in v) + "]"
    return "{" + ",".join(k + ":" + c for k, c in sorted((text(k), canon(x)) for k, x in v.items())) + "}"
sys.set_int_max_str_digits(0)
for line in io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"):
    try: said = canon(json.loads(line))
    except Exception as e: said = "unread " + type(e).__name__
    sys.stdout.write(said + "\n")
    sys.stdout.flush()
"#;

/// The same for Node, which is fed in pieces and ends lines at CR and LF.
const NODE: &str = r"
const hex = n => { const b = Buffer.alloc(8); b.writeDoubleBE(n === 0 ? 0 : n); return b.toString('hex') }
const text = s => { let h = 's'; for (let i = 0; i < s.length; i++) h += s.charCodeAt(i).toString(16).padStart(4, '0'); return h }
const canon = v => {
  if (v === null) return 'n'
  if (v === true) return 't'
  if (v === false) return 'f'
  if (typeof v === 'string') return text(v)
  if (typeof v === 'number') return 'N' + hex(v)
  if (Array.isArray(v)) return '[' + v.map(canon).join(',') + ']'
  const members = []
  for (const k of Object.keys(v)) members.push([text(k), canon(v[k])])
  members.sort((a, b) => a[0] < b[0] ? -1 : 1)
  return '{' + members.map(m => m[0] + ':' + m[1]).join(',') + '}'
}
let rest = Buffer.alloc(0)
process.stdin.on('data', piece => {
  rest = Buffer.concat([rest, piece])
  for (;;) {
    const at = rest.findIndex(b => b === 10 || b === 13)
    if (at < 0) return
    const line = rest.subarray(0, at).toString('utf8')
    rest = rest.subarray(at + 1)
    let said
    try { said = canon(JSON.parse(line)) } catch (e) { said = 'unread ' + e.name }
    process.stdout.write(said + '\n')
  }
})
";

struct Reader {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Reader {
    fn start(name: &'static str, option: &str, program: &str) -> Self {
        let mut command = Command::new(name);
        command.args([option, program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("this test needs `{name}` on the PATH: {error}"));
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { name, child, input, output }
    }

    /// How it reads a line. A second line, as from a message that is two, would answer the next question.
    fn read(&mut self, line: &[u8]) -> String {
        self.input.write_all(line).unwrap();
        self.input.write_all(b"\n").unwrap();
        self.input.flush().unwrap();
        let mut said = String::new();
        self.output.read_line(&mut said).unwrap();
        said.trim_end().to_owned()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(units: impl Iterator<Item = u16>) -> String {
    units.fold("s".to_owned(), |mut text, unit| {
        write!(text, "{unit:04x}").unwrap();
        text
    })
}

/// The UTF-16 of a string with lone surrogates, by its spelling.
fn units(spelling: &str) -> Vec<u16> {
    let mut units = Vec::new();
    let mut chars = spelling.trim_matches('"').chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (_, Some('u')) => {
                let digits: String = chars.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).unwrap());
            }
            (_, Some(c)) => units.push(match c {
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                other => u16::try_from(u32::from(other)).unwrap(),
            }),
            (c, None) => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
        }
    }
    units
}

fn number(value: f64) -> String {
    let value = if value == 0.0 { 0.0 } else { value };
    format!("N{:016x}", value.to_bits())
}

/// How the gateway reads a value. Of members with one name the last counts, as for the others.
fn gateway(json: &Json) -> String {
    match json.kind() {
        Kind::Null => "n".to_owned(),
        Kind::Bool => if json.bool() == Some(true) { "t" } else { "f" }.to_owned(),
        Kind::Number => number(json.as_str().parse().unwrap()),
        Kind::String => match json.text() {
            Some(said) => text(said.encode_utf16()),
            None => text(units(json.as_str()).into_iter()),
        },
        Kind::Array => {
            let all: Vec<String> = json.array().unwrap().iter().map(gateway).collect();
            format!("[{}]", all.join(","))
        }
        Kind::Object => {
            let object = json.object().unwrap();
            let members: BTreeMap<String, String> = object
                .iter()
                .map(|(key, value)| (text(key.encode_utf16()), gateway(&value)))
                .collect();
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn serde(value: &Value) -> String {
    match value {
        Value::Null => "n".to_owned(),
        Value::Bool(yes) => if *yes { "t" } else { "f" }.to_owned(),
        Value::Number(n) => number(n.as_f64().unwrap()),
        Value::String(said) => text(said.encode_utf16()),
        Value::Array(all) => {
            format!("[{}]", all.iter().map(serde).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => {
            let members: BTreeMap<String, String> = members
                .iter()
                .map(|(key, value)| (text(key.encode_utf16()), serde(value)))
                .collect();
            let members: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Without the last bits of numbers, which `serde_json` rounds in its own way.
fn rough(text: &str) -> String {
    let mut parts = text.split('N');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "N" + &part[..12] + &part[16..])
}

/// The members that the gateway decides by are those that a reader finds which takes the last of each name.
fn check_members(message: &Message, line: &Json) -> Result<(), TestCaseError> {
    let last = |object: &Json, key: &str| {
        object.object().and_then(|object| {
            object.iter().filter(|(name, _)| name == key).last().map(|(_, value)| value)
        })
    };
    let method = last(line, "method").map(|json| json.text().unwrap().into_owned());
    prop_assert_eq!(method.unwrap_or_default(), message.method());
    let id = last(line, "id").and_then(Id::from_json);
    prop_assert_eq!(id.as_ref(), message.id());
    let body = ["params", "result", "error"].iter().find_map(|part| last(line, part));
    let Some(body) = body.filter(|body| body.kind() == Kind::Object) else { return Ok(()) };
    let is_result = message.shape() == Shape::Response;
    if message.shape() == Shape::Error {
        return Ok(());
    }
    // What decides something in a request may be anything in a result, and the other way round.
    let decides = |key: &str| match (RESULT.contains(&key), PARAMS_TOO.contains(&key)) {
        (true, is_both) => is_result || is_both,
        (false, _) => !is_result,
    };
    for key in DECIDING.into_iter().filter(|key| decides(key)) {
        prop_assert_eq!(last(&body, key), message.member(key), "{}", key);
    }
    let inner = |key: &str, inner: &str| {
        (
            last(&body, key).and_then(|value| last(&value, inner)),
            message.member(key).and_then(|value| value.get(inner)),
        )
    };
    for (key, within) in INNER.into_iter().filter(|(key, _)| decides(key)) {
        let (theirs, ours) = inner(key, within);
        prop_assert_eq!(theirs, ours, "{}.{}", key, within);
    }
    Ok(())
}

const DECIDING: [&str; 16] = [
    "name",
    "arguments",
    "_meta",
    "uri",
    "ref",
    "cursor",
    "taskId",
    "level",
    "requestId",
    "progressToken",
    "requestState",
    "inputResponses",
    "protocolVersion",
    "capabilities",
    "content",
    "isError",
];

/// Those of them that decide something in a result.
const RESULT: [&str; 7] =
    ["_meta", "content", "isError", "requestState", "protocolVersion", "capabilities", "taskId"];

/// Those of these that decide something in a request as well.
const PARAMS_TOO: [&str; 5] =
    ["_meta", "requestState", "protocolVersion", "capabilities", "taskId"];

const INNER: [(&str, &str); 8] = [
    ("ref", "name"),
    ("ref", "uri"),
    ("ref", "type"),
    ("_meta", "progressToken"),
    ("_meta", "policyId"),
    ("_meta", "allowedTools"),
    ("_meta", "io.modelcontextprotocol/protocolVersion"),
    ("capabilities", "elicitation"),
];

/// What stands between tokens: mostly nothing, sometimes what is no whitespace of JSON.
fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => Just(String::new()),
        3 => "[ \t\r\n]{1,3}",
        1 => prop::sample::select(vec!["\u{b}", "\u{c}", "\u{a0}", "\u{2028}", "\u{85}", "\u{feff}", "/**/", "\0"])
            .prop_map(str::to_owned),
    ]
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zA-Z0-9 {}\\[\\]:,/_.-]{0,8}",
        2 => prop::sample::select(vec![
            "\\n", "\\r\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u000a", "\\ud83d\\ude00", "\\ud800", "\\uDFFF\\ud800",
            "\u{2028}", "\u{2029}", "\u{85}", "\u{e9}", "\u{1f600}", "\u{7f}", "\u{feff}", "\\u0000",
            "\\u2028", "\\b\\f\\t",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["\n", "\r", "\0", "\t", "\\x41", "\\u12", "\\'"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => string(),
        2 => "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        2 => prop::sample::select(vec!["true", "false", "null", "-0", "1e400", "-1e400", "9007199254740993", "0.10"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["NaN", "Infinity", "01", "+1", ".5", "1.", "0x10", "True", "'a'", "1_0"])
            .prop_map(str::to_owned),
    ]
}

fn spaced(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (blank(), inner, blank()).prop_map(|(before, inner, after)| format!("{before}{inner}{after}"))
}

/// Keys that decide something, in odd spellings now and then, and others.
fn key() -> impl Strategy<Value = String> {
    let deciding: Vec<&str> =
        DECIDING.iter().copied().chain(INNER.iter().map(|(_, key)| *key)).collect();
    (prop::sample::select(deciding), 0..24_u8, "[a-z]{0,3}").prop_map(|(key, way, other)| {
        let key = match way {
            0 => key.to_uppercase(),
            1 => key.replacen('s', "\u{17f}", 1),
            2 => key.replacen('k', "\\u212a", 1),
            3 => format!("\\u{:04x}{}", u32::from(key.chars().next().unwrap()), &key[1..]),
            4 => key.replace('/', "\\/"),
            5 => format!("{key} "),
            6..=13 => other,
            _ => key.to_owned(),
        };
        format!("\"{key}\"")
    })
}

fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(3, 20, 4, |inner| {
        let member = (spaced(key()), spaced(inner.clone()))
            .prop_map(|(key, value)| format!("{key}:{value}"));
        prop_oneof![
            prop::collection::vec(spaced(inner), 0..4)
                .prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

fn message() -> impl Strategy<Value = String> {
    let method = prop::sample::select(vec![
        "\"tools/call\"",
        "\"notifications/x\"",
        "\"tools\\/call\"",
        "\"notifications/cancelled\"",
        "\"m\\u0065\"",
        "\"\u{2028}\"",
    ]);
    let body = prop::collection::vec(
        (spaced(key()), spaced(value())).prop_map(|(key, value)| format!("{key}:{value}")),
        0..5,
    );
    let id = prop_oneof![3 => Just("7".to_owned()), 1 => scalar()];
    let extra = prop::option::weighted(0.2, (spaced(key()), value()));
    (method, id, body, 0..5_u8, extra, blank(), any::<prop::sample::Index>()).prop_map(
        |(method, id, body, shape, extra, blank, turn)| {
            let body = format!("{{{}}}", body.join(","));
            let mut members = vec!["\"jsonrpc\":\"2.0\"".to_owned()];
            match shape {
                0 | 1 => members.extend([
                    format!("\"id\":{id}"),
                    format!("\"method\":{method}"),
                    format!("\"params\":{body}"),
                ]),
                2 => members
                    .extend([format!("\"method\":{method}"), format!("\"params\":{blank}{body}")]),
                3 => members.extend([format!("\"id\":{id}"), format!("\"result\":{body}")]),
                _ => members.extend([
                    format!("\"id\":{id}"),
                    format!("\"error\":{{\"code\":1,\"message\":\"m\",\"data\":{body}}}"),
                ]),
            }
            members.extend(extra.map(|(key, value)| format!("{key}:{value}")));
            let turn = turn.index(members.len());
            members.rotate_left(turn);
            format!("{blank}{{{}}}", members.join(&format!("{blank},")))
        },
    )
}

/// All lines that a message can leave as.
fn forwarded(message: &Message) -> Vec<Bytes> {
    let mut lines = vec![message.line().clone(), message.with_id(&Id::string("a\n\u{2028}b"))];
    if let Some(mut body) = message.body()
        && message.shape() != Shape::Error
    {
        body.set("arguments", Json::list(&[Json::string("\r\n"), Json::null()]));
        lines.push(message.with_body(body.finish()));
    }
    lines
}

#[test]
fn others_read_what_the_gateway_read() {
    let mut readers = [Reader::start("python3", "-c", PYTHON), Reader::start("node", "-e", NODE)];
    let config =
        ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    let limits = Limits::default();
    let readers = std::cell::RefCell::new(&mut readers);
    let counted = std::cell::Cell::new(0);
    let run = TestRunner::new(config).run(&message(), |text| {
        let sender = if text.len() % 2 == 0 { Sender::Client } else { Sender::Server };
        let Ok(message) = Message::receive(text.into(), &limits, sender) else { return Ok(()) };
        counted.set(counted.get() + 1);
        for line in forwarded(&message) {
            prop_assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n')));
            let again = Message::parse(line.clone(), &limits);
            let again = again.map_err(|refused| TestCaseError::fail(refused.to_string()))?;
            let json = Json::parse(line.clone(), &limits).unwrap();
            check_members(&again, &json)?;
            let ours = gateway(&json);
            if let Ok(value) = serde_json::from_slice::<Value>(&line) {
                prop_assert_eq!(rough(&serde(&value)), rough(&ours), "serde_json");
            }
            for reader in readers.borrow_mut().iter_mut() {
                let theirs = reader.read(&line);
                prop_assert_eq!(&theirs, &ours, "{}", reader.name);
            }
        }
        Ok(())
    });
    let accepted = counted.get();
    run.unwrap_or_else(|failed| panic!("{failed}"));
    assert!(accepted > 200, "only {accepted} messages were forwarded: the generator is too wild");
}

/// Some readers end lines at U+0085, U+2028 and U+2029 too. These stand in strings only, so no piece is a message.
#[test]
fn no_piece_between_other_separators_is_a_message() {
    let limits = Limits::default();
    let config =
        ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&message(), |text| {
        let Ok(message) = Message::parse(text.into(), &limits) else { return Ok(()) };
        let line = std::str::from_utf8(message.line()).unwrap();
        let pieces: Vec<&str> =
            line.split(['\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}']).collect();
        if pieces.len() > 1 {
            for piece in pieces {
                let read: Option<Value> = serde_json::from_str(piece).ok();
                prop_assert!(!read.is_some_and(|read| read.is_object()), "{}", piece);
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|failed| panic!("{failed}"));
}
