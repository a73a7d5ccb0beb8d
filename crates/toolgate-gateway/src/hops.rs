//! Detects loops of gateways: each request carries the ids of the gateways that it has passed (its hops), and a gateway
//! that finds its own id there rejects the request.
//!
//! Over HTTP the sending gateway puts its id into a header of every request. Over stdio it puts its id into `_meta` of
//! the requests that open a connection (`initialize`, `server/discover`). Only a request that came from another gateway,
//! or goes to a gateway over stdio, gets a list in its own `_meta`; the gateway leaves every other request unchanged.
//! The list has no other purpose than rejecting loops.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    sync::{Arc, LazyLock},
};

use hyper::{HeaderMap, Uri, header::HeaderName};
use toolgate_wire::Json;

use crate::config::{ServerConfig, Text};

/// The HTTP header with the ids.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("toolgate-hops");
/// The `_meta` key with the ids.
pub(crate) const META: &str = "toolgate/hops";
/// A request that has passed more gateways than this counts as looping.
const MAX_HOPS: usize = 16;
/// The length of an id, in hexadecimal digits.
const ID_LENGTH: usize = 16;

static OWN: LazyLock<String> = LazyLock::new(|| {
    let mut bytes = [0; ID_LENGTH / 2];
    // An error is ignored: without randomness the gateway does not start at all.
    let _ = getrandom::fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
});

/// The id of this process.
pub(crate) fn own() -> &'static str {
    &OWN
}

/// The gateways that a request has passed, in order: their ids, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hops(Arc<str>);

impl Hops {
    /// The list to send to the server: these gateways and this one.
    pub(crate) fn onwards(&self) -> Json {
        Json::string(&format!("{},{}", self.0, own()))
    }
}

/// The list for a request that has passed no other gateway.
pub(crate) fn from_here() -> Json {
    Json::string(own())
}

/// Reads the gateways that a request has passed from its session, its headers and its `_meta`. An error is the reason to
/// reject the request: this gateway is among them, there are too many, or the list is malformed.
pub(crate) fn read(
    session: Option<&Hops>,
    headers: Option<&HeaderMap>,
    meta: Option<&Json>,
) -> Result<Option<Hops>, String> {
    let meta = meta.and_then(|meta| meta.get(META));
    let header = headers.filter(|headers| headers.contains_key(HEADER));
    if meta.is_none() && header.is_none() {
        return Ok(session.cloned());
    }
    let mut passed: Vec<String> = Vec::new();
    let mut take = |text: &str| {
        for id in text.split(',').map(str::trim) {
            if id.len() != ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!("`{META}` is no list of gateways: the request did not run"));
            }
            if !passed.iter().any(|other| other == id) {
                passed.push(id.to_owned());
            }
            if passed.len() > MAX_HOPS {
                return Err(format!(
                    "the request has passed more than {MAX_HOPS} gateways, so it is taken for a loop: it did not run"
                ));
            }
        }
        Ok(())
    };
    if let Some(session) = session {
        take(&session.0)?;
    }
    if let Some(meta) = meta {
        take(&meta.text().unwrap_or_default())?;
    }
    for value in header.into_iter().flat_map(|headers| headers.get_all(HEADER)) {
        take(value.to_str().unwrap_or_default())?;
    }
    if let Some(at) = passed.iter().position(|id| id == own()) {
        let mut way: Vec<&str> = passed.iter().skip(at).map(String::as_str).collect();
        way.push(own());
        return Err(format!(
            "a loop of gateways: the request came back to the gateway that it passed before ({}), and did not run; \
             remove the server that leads back from one of their configs",
            way.join(" -> ")
        ));
    }
    Ok(Some(Hops(passed.join(",").into())))
}

/// The error for a configured server that is this gateway itself or leads back to it; `None` for any other server.
/// `listen` has the addresses that this gateway listens on.
pub(crate) fn leads_here(
    name: &str,
    server: &ServerConfig,
    listen: &[SocketAddr],
) -> Option<String> {
    let words = server.command.iter().chain(&server.args).map(Text::as_str);
    let words = words.flat_map(|text| text.split([' ', '\t', '\'', '"', '=', ',', ';']));
    let in_command =
        words.filter(|word| leads_to(word, listen, UrlSource::Command)).map(str::to_owned).next();
    let url = server
        .url
        .as_ref()
        .map(Text::as_str)
        .filter(|url| leads_to(url, listen, UrlSource::ServerUrl));
    let (what, url) = match (url, in_command) {
        (Some(url), _) => ("is this gateway itself", url.to_owned()),
        (None, Some(url)) => ("leads back to this gateway", url),
        (None, None) => return None,
    };
    // The query may contain a secret.
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    Some(format!(
        "the server `{name}` {what} (`{shown}`): each call would call itself without end. Remove it from the config that \
         toolgate reads, which lists the servers; in the config of your client, toolgate stands in place of the servers"
    ))
}

/// Where a URL was found. One in a command may be for anything, so its path must be an endpoint of the gateway too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlSource {
    ServerUrl,
    Command,
}

/// Whether a URL leads to one of these addresses.
fn leads_to(url: &str, listen: &[SocketAddr], source: UrlSource) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let usual = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let port = uri.port_u16().unwrap_or(usual);
    let Some(host) = uri.host().map(|host| host.trim_matches(['[', ']'])) else { return false };
    let path = uri.path();
    if source == UrlSource::Command && !(path.starts_with("/mcp") || path.starts_with("/sse")) {
        return false;
    }
    // Resolve host names only if the port matches.
    let here: Vec<IpAddr> =
        listen.iter().filter(|a| a.port() == port).map(SocketAddr::ip).collect();
    if here.is_empty() {
        return false;
    }
    let there: Vec<IpAddr> = match host.parse() {
        Ok(address) => vec![address],
        Err(_) if is_localhost(host) => {
            vec![Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => match (host, port).to_socket_addrs() {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(_) => return false,
        },
    };
    there.iter().any(|there| here.iter().any(|here| is_same(*here, *there)))
}

fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// Whether a connection to `there` arrives at a socket that listens on `here`.
fn is_same(here: IpAddr, there: IpAddr) -> bool {
    let (here, there) = (here.to_canonical(), there.to_canonical());
    if here == there {
        return true;
    }
    // A connection to the unspecified address (0.0.0.0, ::) goes to this machine.
    if there.is_unspecified() {
        return here.is_loopback() || here.is_unspecified();
    }
    // An address belongs to this machine if a socket can bind to it.
    here.is_unspecified() && (there.is_loopback() || UdpSocket::bind((there, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Option<Hops>, String> {
        let mut meta = toolgate_wire::Object::new();
        meta.set(META, Json::string(text));
        read(None, None, Some(&meta.finish()))
    }

    #[test]
    fn a_gateway_finds_itself_and_nothing_else() {
        assert_eq!(read(None, None, None), Ok(None));
        let one = list("0123456789abcdef").unwrap().unwrap();
        assert_eq!(one.onwards().text().unwrap(), format!("0123456789abcdef,{}", own()));
        let looped = list(&format!("0123456789abcdef,{},fedcba9876543210", own())).unwrap_err();
        assert!(looped.contains("loop") && looped.contains("did not run"), "{looped}");
        assert!(looped.contains("fedcba9876543210 -> "), "{looped}");
        for odd in ["", "x", "0123456789abcdef,", "0123456789abcdeg", &"a".repeat(70_000)] {
            assert!(list(odd).is_err(), "{odd}");
        }
        let many: Vec<String> = (0..=MAX_HOPS).map(|n| format!("{n:016x}")).collect();
        assert!(list(&many.join(",")).unwrap_err().contains("more than"));
    }

    #[test]
    fn every_spelling_of_our_own_address_is_known() {
        let at = |listen: &str, url: &str| {
            leads_to(url, &[listen.parse().unwrap()], UrlSource::ServerUrl)
        };
        for url in [
            "http://127.0.0.1:8642/mcp",
            "http://localhost:8642",
            "HTTP://LOCALHOST.:8642/mcp/x",
            "http://0.0.0.0:8642/",
            "http://[::ffff:127.0.0.1]:8642/mcp",
            "http://me.localhost:8642/sse",
        ] {
            assert!(at("127.0.0.1:8642", url), "{url}");
            assert!(at("0.0.0.0:8642", url), "{url}");
        }
        assert!(at("0.0.0.0:8642", "http://127.8.9.10:8642/mcp"));
        assert!(at("[::1]:8642", "http://[::1]:8642/mcp") && at("[::]:8642", "http://[::1]:8642/"));
        for url in
            ["http://127.0.0.1:8643/mcp", "http://192.0.2.7:8642/mcp", "ftp://127.0.0.1:8642"]
        {
            assert!(!at("127.0.0.1:8642", url) && !at("0.0.0.0:8642", url), "{url}");
        }
    }
}
