//! Hosts and origins: what clients write, and what tricks look like.

use hyper::{Request, header::HeaderValue};

use super::*;

fn guard(hosts: &[&str], origins: &[&str]) -> Result<Guard, GuardError> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let listen = ["127.0.0.1:8642", "192.0.2.7:8642", "[2001:db8::7]:8642"];
    let listen = listen.map(|address| address.parse().unwrap());
    Guard::new(&listen, &owned(hosts), &owned(origins))
}

fn usual() -> Guard {
    let hosts =
        ["gate.example", "Port.Example:8443", "web.example:443", "2001:db8::8", "[2001:db8::9]:1"];
    let origins = [
        "https://app.example",
        "https://Slash.example/",
        "https://usual.example:443",
        "vscode-webview://0a1b",
    ];
    guard(&hosts, &origins).unwrap()
}

fn check(uri: &str, headers: &[(HeaderName, &str)]) -> Result<(), GuardRejection> {
    let (mut head, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
    for (name, value) in headers {
        head.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    usual().check(&head)
}

#[test]
fn hosts_of_this_machine_and_known_ones_come_in() {
    for host in [
        "localhost",
        "LOCALHOST:8642",
        "localhost.",
        "localhost.:80",
        "127.0.0.1",
        "127.0.0.1:8642",
        "127.255.0.9:1",
        "[::1]",
        "[::1]:65535",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:80",
        "192.0.2.7",
        "192.0.2.7:9",
        "[2001:db8::7]:8642",
        "[2001:db8::8]",
        "[2001:DB8::9]:1",
        "gate.example",
        "Gate.Example.:8642",
        "port.example:8443",
        "web.example",
        "web.example:443",
    ] {
        assert_eq!(check("/mcp", &[(HOST, host)]), Ok(()), "{host}");
    }
}

#[test]
fn other_hosts_and_tricks_do_not() {
    for host in [
        "",
        ".",
        "..",
        "evil.example",
        "localhost.evil.example",
        "evil.localhost",
        "localhost..",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:+80",
        "localhost:8 0",
        "localhost:80:80",
        "localhost:80@evil.example",
        "localhost@evil.example",
        "user@localhost",
        "localhost/",
        "localhost#",
        "localhost?x",
        "localhost\\",
        "localhost,evil.example",
        "localhost evil",
        "127.0.0.1.evil.example",
        "127.0.0.1.",
        "127.1",
        "0127.0.0.1",
        "0x7f000001",
        "2130706433",
        "0.0.0.0",
        "128.0.0.1",
        "::1",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[::1%lo]",
        "[::2]",
        "[127.0.0.1]",
        "[localhost]",
        "[]",
        "gate.example:x",
        "xgate.example",
        "gate.example.evil",
        "port.example",
        "port.example:8444",
        "[2001:db8::9]:2",
        "[2001:db8::9]",
        "l\u{f6}calhost",
    ] {
        assert_eq!(check("/mcp", &[(HOST, host)]), Err(GuardRejection::HostUnknown), "{host}");
    }
}

#[test]
fn a_host_is_named_once_and_the_first_line_counts_too() {
    assert_eq!(check("/", &[]), Err(GuardRejection::HostUnclear));
    let twice = [(HOST, "localhost"), (HOST, "localhost")];
    assert_eq!(check("/", &twice), Err(GuardRejection::HostUnclear));
    let local = [(HOST, "localhost")];
    assert_eq!(check("http://localhost:8642/mcp", &local), Ok(()));
    assert_eq!(check("http://evil.example/mcp", &local), Err(GuardRejection::HostUnknown));
    assert_eq!(check("http://localhost@evil.example/", &local), Err(GuardRejection::HostUnknown));
    assert_eq!(check("http://a@localhost/", &local), Err(GuardRejection::HostUnknown));
}

#[test]
fn pages_of_this_machine_and_known_ones_may_call() {
    for origin in [
        "http://localhost",
        "https://localhost:3000",
        "HTTP://Localhost:3000",
        "http://127.0.0.1:6274",
        "http://[::1]:6274",
        "https://app.example",
        "https://APP.example",
        "https://slash.example",
        "https://usual.example",
        "vscode-webview://0a1b",
    ] {
        assert_eq!(check("/", &[(HOST, "localhost"), (ORIGIN, origin)]), Ok(()), "{origin}");
    }
}

#[test]
fn other_pages_may_not() {
    for origin in [
        "",
        "null",
        "NULL",
        "*",
        "localhost",
        "http://",
        "http://evil.example",
        "http://192.0.2.7:8642",
        "http://gate.example",
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil",
        "https://app.example/",
        "http://localhost/",
        "http://localhost:80/x",
        "http://localhost@evil.example",
        "http://evil.example#localhost",
        "http://localhost.evil.example",
        "http://localhost http://evil.example",
        "http://localhost, http://evil.example",
        "file://localhost",
        "file://",
        "chrome-extension://localhost",
        "vscode-webview://0a1c",
        "javascript://localhost",
        "http:localhost",
        "http:///localhost",
        "http://l\u{f6}calhost",
    ] {
        let headers = [(HOST, "localhost"), (ORIGIN, origin)];
        assert_eq!(check("/", &headers), Err(GuardRejection::OriginUnknown), "{origin}");
    }
    let twice = [(HOST, "localhost"), (ORIGIN, "http://localhost"), (ORIGIN, "http://localhost")];
    assert_eq!(check("/", &twice), Err(GuardRejection::OriginUnknown));
}

#[test]
fn settings_that_name_nothing_are_refused() {
    for host in ["", "https://gate.example", "*.example", "*", "a b", "gate.example/x", "u@gate"] {
        let error = guard(&[host], &[]).unwrap_err();
        assert_eq!(error, GuardError::Host(host.to_owned()));
        assert!(error.to_string().contains("with or without a port"), "{error}");
    }
    for origin in [
        "",
        "*",
        "null",
        "app.example",
        "https://",
        "https://*.example",
        "https://app.example/x",
        "x://a/b",
        "https://u@app.example",
    ] {
        let error = guard(&[], &[origin]).unwrap_err();
        assert_eq!(error, GuardError::Origin(origin.to_owned()));
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    for (stranger, status) in [
        (GuardRejection::HostUnclear, StatusCode::BAD_REQUEST),
        (GuardRejection::HostUnknown, StatusCode::FORBIDDEN),
        (GuardRejection::OriginUnknown, StatusCode::FORBIDDEN),
    ] {
        assert_eq!(stranger.response().status(), status);
    }
}
