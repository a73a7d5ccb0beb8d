//! What passes the gateway passes as it was written: unknown members, methods and contents, spellings of numbers, escapes.
//! Where the eras differ, only the members that the protocol names differ.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value, json};

use crate::harness::{
    bytes::{elements, member, members},
    clients::{CAPABILITIES_KEY, MODERN, VERSION_KEY, either::Either},
    gateway::{Gateway, stdio, until},
    text,
    upstream::{Era, Upstream},
};

/// Nothing here survives a parser that makes values of it and writes them again.
const ODD: &str = r#"{"n":[1e5,0.10,-0,1E300,123456789012345678901234567890,1.0,0.1e-7],"e":"\u00e9\/\ud83d\ude00é\u007f","dup":{"a":1,"b":2}, "空":[ ],"":null,"deep":[[[[{"x":[]}]]]]  }"#;

/// Members that only the newer era has in results.
const MODERN_ONLY: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// The gateway before a server of this era, without a limit on results.
fn before(era: Era) -> (Upstream, Gateway) {
    let server = Upstream::start("srv", era);
    let gateway =
        Gateway::start(&format!("[limits]\nresponse_bytes = \"off\"\n{}", server.table("")));
    gateway.settled(14);
    (server, gateway)
}

/// The `_meta` that a client of the newer era has to send, and more.
fn meta(more: &str) -> String {
    format!(r#"{{"{VERSION_KEY}":"{MODERN}","{CAPABILITIES_KEY}":{{}}{more}}}"#)
}

/// A call of these arguments, and more members of `params`.
fn call(client: &Either, tool: &str, arguments: &str, more: &str) -> String {
    let meta = if client.is_modern() { format!(r#","_meta":{}"#, meta("")) } else { String::new() };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{more}{meta}}}}}"#
    );
    let (status, answer) = client.raw(&body);
    let answer = answer.unwrap();
    assert_eq!(status, 200, "{}: {}", client.era(), answer.raw);
    assert_eq!(answer["id"], 4711, "{}", answer.raw);
    answer.raw
}

#[test]
fn arguments_reach_the_server_as_they_were_written() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let (server, gateway) = before(era);
        for client in gateway.both() {
            let answer = call(&client, "see", ODD, r#","xNew":{"b":1e2,"a":[ 2 ]}"#);
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let seen = text(&answer);
            let at = format!("{} before {era:?}", client.era());
            assert_eq!(member(seen, &["params", "arguments"]).as_deref(), Some(ODD), "{at}");
            assert_eq!(
                member(seen, &["params", "xNew"]).as_deref(),
                Some(r#"{"b":1e2,"a":[ 2 ]}"#),
                "{at}"
            );
            let expected = if era == Era::Modern || client.is_modern() {
                // Without `_meta` where the server's era knows none of it.
                BTreeSet::from(["name", "arguments", "xNew", "_meta"])
            } else {
                BTreeSet::from(["name", "arguments", "xNew"])
            };
            let params = member(seen, &["params"]).unwrap();
            let found = members(&params);
            let mut found: BTreeSet<&str> = found.keys().map(String::as_str).collect();
            if era != Era::Modern && client.is_modern() && !found.contains("_meta") {
                found.insert("_meta");
            }
            assert_eq!(found, expected, "{at}");
        }
        assert_eq!(server.complaints(), Vec::<String>::new());
    }
}

#[test]
fn meta_of_vendors_and_traces_passes_and_what_belongs_to_the_hop_does_not() {
    for era in [Era::Legacy, Era::Modern] {
        let (server, gateway) = before(era);
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let more = format!(r#","example.com/vendor":{ODD},"traceparent":"{trace}""#);
        for client in gateway.both() {
            let meta = if client.is_modern() {
                meta(&more)
            } else {
                format!("{{{}}}", more.get(1..).unwrap())
            };
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"see","arguments":{{}},"_meta":{meta}}}}}"#
            );
            let (_, answer) = client.raw(&body);
            let answer = answer.unwrap();
            let seen = text(&answer);
            let at = format!("{} before {era:?}: {seen}", client.era());
            let vendor = member(seen, &["params", "_meta", "example.com/vendor"]);
            assert_eq!(vendor.as_deref(), Some(ODD), "{at}");
            assert_eq!(
                member(seen, &["params", "_meta", "traceparent"]),
                Some(format!("\"{trace}\"")),
                "{at}"
            );
            let says_version = member(seen, &["params", "_meta", VERSION_KEY]).is_some();
            assert_eq!(says_version, era == Era::Modern, "{at}");
        }
        assert_eq!(server.complaints(), Vec::<String>::new());
    }
}

/// Results that no two parsers would write the same.
fn results() -> Vec<String> {
    vec![
        format!(r#"{{"content":[{{"type":"text","text":"x"}}],"xVendor":{ODD}}}"#),
        format!(
            r#"{{ "content" : [ {{"type":"hologram","data":{ODD}}} ] , "structuredContent":{ODD}}}"#
        ),
        r#"{"content":[],"_meta":{"example.com/k":[1.50,1e3]},"isError":false}"#.to_owned(),
        r#"{"content":[{"type":"text","text":"\u0041\u00e9\/"}],"isError":true,"n":1E+2}"#
            .to_owned(),
    ]
}

#[test]
fn results_reach_the_client_as_they_were_written() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let (_server, gateway) = before(era);
        for client in gateway.both() {
            for result in results() {
                let at = format!("{} before {era:?}", client.era());
                let sent = if era == Era::Modern {
                    format!(r#"{{"resultType":"complete",{}"#, result.get(1..).unwrap())
                } else {
                    result.clone()
                };
                let answer = call(&client, "answer", &format!(r#"{{"result":{sent}}}"#), "");
                let got = member(&answer, &["result"]).unwrap();
                if client.is_modern() == (era == Era::Modern) {
                    assert_eq!(got, sent, "{at}: the same era, the same bytes");
                } else {
                    assert_eq!(without_modern(&got), without_modern(&sent), "{at}: {got}");
                    assert_eq!(
                        members(&got).contains_key("resultType"),
                        client.is_modern(),
                        "{at}"
                    );
                }
            }
        }
    }
}

/// The members of a result that both eras have.
fn without_modern(result: &str) -> Vec<(String, String)> {
    let members = members(result).into_iter();
    members.filter(|(key, _)| !MODERN_ONLY.contains(&key.as_str())).collect()
}

#[test]
fn servers_over_pipes_see_and_are_seen_exactly_too() {
    let gateway = Gateway::start(&stdio("srv", &["--answering"], ""));
    gateway.settled(15);
    for client in gateway.both() {
        let answer: Value =
            serde_json::from_str(&call(&client, "see_line", ODD, r#","xNew":[1E5]"#)).unwrap();
        let seen = text(&answer);
        assert_eq!(
            member(seen, &["params", "arguments"]).as_deref(),
            Some(ODD),
            "{}",
            client.era()
        );
        assert_eq!(member(seen, &["params", "xNew"]).as_deref(), Some("[1E5]"), "{}", client.era());
        assert!(!seen.contains('\n'));
    }
}

#[test]
fn definitions_of_tools_pass_as_they_were_written() {
    let definition = format!(
        r#"{{"inputSchema":{{"type":"object","properties":{{"a":{{"minimum":1e2,"x":{ODD}}}}}}},  "name":"odd_one","description":"\u00e9\/","xVendor":{ODD}}}"#
    );
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("srv", era);
        server.add_raw_tool(&definition);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(15);
        for client in gateway.both() {
            let list = client.request("tools/list", json!({}));
            let tools = elements(&member(&list.raw, &["result", "tools"]).unwrap());
            assert!(
                tools.contains(&definition),
                "{} before {era:?}: {}",
                client.era(),
                tools.first().unwrap()
            );
        }
    }
}

#[test]
fn a_name_with_a_prefix_changes_the_name_and_nothing_else() {
    let definition = format!(
        r#"{{"title":"T","name":"odd_one","inputSchema":{{"type":"object"}},"xVendor":{ODD}}}"#
    );
    let server = Upstream::legacy("srv");
    server.add_raw_tool(&definition);
    let gateway =
        Gateway::start(&format!("{}[namespaces.default]\nprefix = \"always\"\n", server.table("")));
    gateway.settled(15);
    for client in gateway.both() {
        let list = client.request("tools/list", json!({}));
        let tools = elements(&member(&list.raw, &["result", "tools"]).unwrap());
        let expected = definition.replace("odd_one", "srv__odd_one");
        assert!(tools.contains(&expected), "{}: {}", client.era(), tools.first().unwrap());
        let answer: Value =
            serde_json::from_str(&call(&client, "srv__see", ODD, r#","xNew":[ 1E5 ]"#)).unwrap();
        let params = member(text(&answer), &["params"]).unwrap();
        assert_eq!(member(&params, &["name"]).as_deref(), Some("\"see\""));
        assert_eq!(member(&params, &["arguments"]).as_deref(), Some(ODD));
        assert_eq!(member(&params, &["xNew"]).as_deref(), Some("[ 1E5 ]"));
    }
}

#[test]
fn unknown_methods_and_their_errors_pass() {
    for era in [Era::Legacy, Era::Modern] {
        let (_server, gateway) = before(era);
        for client in
            gateway.both().into_iter().filter(|client| client.is_modern() == (era == Era::Modern))
        {
            let at = format!("{} before {era:?}", client.era());
            let meta = if client.is_modern() {
                format!(r#","_meta":{}"#, meta(""))
            } else {
                String::new()
            };
            let error =
                format!(r#"{{"code":-31999,"message":"n\u00f6","data":{ODD},"xVendor":1e1}}"#);
            let ask = |method: &str, params: &str| {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}{meta}}}}}"#
                );
                client.raw(&body).1.unwrap().raw
            };
            let answer = ask("vendor/echo", &format!(r#""any":{ODD}"#));
            assert_eq!(member(&answer, &["result", "any"]).as_deref(), Some(ODD), "{at}: {answer}");
            let answer = ask("vendor/fail", &format!(r#""error":{error}"#));
            assert_eq!(member(&answer, &["error"]), Some(error), "{at}: {answer}");
        }
    }
}

#[test]
fn unknown_notifications_pass_both_ways_between_legacy_peers() {
    let (server, gateway) = before(Era::Legacy);
    let Either::Legacy(client) = &gateway.both()[0] else { panic!("the first is legacy") };
    let mut stream = client.listen();
    server.until("the gateway listens", |server| server.streams() > 0);
    let notice = format!(r#"{{ "jsonrpc":"2.0","method":"notifications/vendor","params":{ODD} }}"#);
    server.say_raw(&notice);
    let got = stream.wait_for(|message| message["method"] == "notifications/vendor");
    assert_eq!(member(&got.raw, &["params"]).as_deref(), Some(ODD));
    assert_eq!(client.raw(&notice.replace("vendor", "of-client")).0, 202);
    until("the server has it", || server.count("notifications/of-client") == 1);
    let seen = server.seen();
    let seen = seen.iter().find(|seen| seen.method == "notifications/of-client").unwrap();
    assert_eq!(member(&seen.raw, &["params"]).as_deref(), Some(ODD));
}

/// Random JSON, with every freedom of spelling that the grammar gives.
struct Scribe(u64);

impl Scribe {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn space(&mut self, out: &mut String) {
        for _ in 0..self.roll(5).saturating_sub(2) {
            out.push(
                [' ', '\t', ' ', ' ']
                    .into_iter()
                    .nth(usize::try_from(self.roll(4)).unwrap())
                    .unwrap(),
            );
        }
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.roll(8) {
            match self.roll(8) {
                0 => out.push_str("\\u00e9"),
                1 => out.push_str("\\/"),
                2 => out.push('\u{1f600}'),
                3 => out.push_str("\\ud83d\\uDE00"),
                4 => out.push_str("\\n\\t\\\\\\\""),
                5 => out.push('\u{7f}'),
                _ => write!(out, "{:x}", self.roll(4096)).unwrap(),
            }
        }
        out.push('"');
    }

    fn number(&mut self, out: &mut String) {
        let (a, b) = (self.roll(1_000_000), self.roll(99));
        match self.roll(7) {
            0 => write!(out, "{a}e{b}"),
            1 => write!(out, "-{a}.{b}0"),
            2 => write!(out, "{a}{a}{a}{a}{a}1"),
            3 => write!(out, "0.{b}E-{b}"),
            4 => write!(out, "-0"),
            5 => write!(out, "{a}.0E+0{b}"),
            _ => write!(out, "{a}"),
        }
        .unwrap();
    }

    fn value(&mut self, depth: usize, out: &mut String) {
        self.space(out);
        match self.roll(if depth == 0 { 5 } else { 8 }) {
            0 => out.push_str("null"),
            1 => out.push_str("true"),
            2 => self.string(out),
            3 | 4 => self.number(out),
            5 => {
                out.push('[');
                for n in 0..self.roll(4) {
                    if n > 0 {
                        out.push(',');
                    }
                    self.value(depth - 1, out);
                }
                out.push(']');
            }
            _ => self.object(depth - 1, out),
        }
        self.space(out);
    }

    fn object(&mut self, depth: usize, out: &mut String) {
        out.push('{');
        for n in 0..self.roll(5) {
            if n > 0 {
                out.push(',');
            }
            self.space(out);
            write!(out, "\"k{n}\\u00e9\"").unwrap();
            self.space(out);
            out.push(':');
            self.value(depth, out);
        }
        out.push('}');
    }
}

#[test]
fn whatever_is_written_comes_back_as_it_was_in_every_cell() {
    for era in [Era::Legacy, Era::Modern] {
        let (_server, gateway) = before(era);
        for client in gateway.both() {
            let mut scribe = Scribe(20_260_728);
            for round in 0..150 {
                let mut value = String::new();
                scribe.object(5, &mut value);
                let answer: Value =
                    serde_json::from_str(&call(&client, "see", &value, "")).unwrap();
                let seen = member(text(&answer), &["params", "arguments"]).unwrap();
                assert_eq!(seen, value, "{round}: arguments of a {} before {era:?}", client.era());
                let kind = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
                let result =
                    format!(r#"{{{kind}"content":[],"structuredContent":{value},"x":{value}}}"#);
                let answer = call(&client, "answer", &format!(r#"{{"result":{result}}}"#), "");
                for key in ["structuredContent", "x"] {
                    let got = member(&answer, &["result", key]);
                    assert_eq!(
                        got.as_deref(),
                        Some(value.as_str()),
                        "{round}: {key} for a {} before {era:?}",
                        client.era()
                    );
                }
            }
        }
    }
}

#[test]
fn a_large_result_passes_whole() {
    for era in [Era::Legacy, Era::Modern] {
        let (_server, gateway) = before(era);
        for client in gateway.both() {
            for size in [1_000, 100_000, 8_000_000] {
                let answer = client.call("big", json!({"size": size}));
                assert_eq!(text(&answer).len(), size, "{} before {era:?}", client.era());
            }
        }
    }
}

#[test]
fn a_server_of_both_eras_is_spoken_to_in_the_clients() {
    let (server, gateway) = before(Era::Dual);
    for client in gateway.both() {
        for result in results() {
            let sent = if client.is_modern() {
                format!(r#"{{"resultType":"complete",{}"#, result.get(1..).unwrap())
            } else {
                result.clone()
            };
            let answer = call(&client, "answer", &format!(r#"{{"result":{sent}}}"#), "");
            assert_eq!(member(&answer, &["result"]), Some(sent), "{}", client.era());
        }
        let seen = server.seen();
        let call = seen.iter().rfind(|seen| seen.name == "answer").unwrap();
        let version = call.headers.get("mcp-protocol-version").unwrap();
        assert_eq!(version == MODERN, client.is_modern(), "{}: {version}", client.era());
    }
    assert_eq!(server.complaints(), Vec::<String>::new());
}
