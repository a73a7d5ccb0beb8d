//! The hosts under which the gateway may be reached, and the web pages that may use the gateway.
//!
//! A page in a browser can reach a program on the same machine under a host name that the page's owner controls. The
//! browser then sends that name in `Host`, and the page's origin in `Origin`: the guard rejects a request if either is
//! unknown.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::{
    HeaderMap, Response, StatusCode,
    header::{HOST, HeaderName, ORIGIN},
    http::request::Parts,
};

use super::{body::ResponseBody, rejection, text};

/// The known hosts and origins, parsed from the config once.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Vec<AllowedHost>,
    origins: Vec<Box<str>>,
}

/// A setting that is no host or no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GuardError {
    #[error("`serve.hosts`: `{0}` is no host: write a name or an address, with or without a port")]
    Host(String),
    #[error("`serve.origins`: `{0}` is no origin: write it as `https://app.example`")]
    Origin(String),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardRejection {
    /// There is no `Host`, or more than one.
    HostUnclear,
    HostUnknown,
    OriginUnknown,
}

impl GuardRejection {
    pub(crate) fn response(self) -> Response<ResponseBody> {
        match self {
            Self::HostUnclear => {
                text(StatusCode::BAD_REQUEST, "a request has exactly one `Host` header\n")
            }
            Self::HostUnknown => rejection(
                StatusCode::FORBIDDEN,
                "unknown_host",
                "the gateway is not known under this host: add it to `serve.hosts`\n",
            ),
            Self::OriginUnknown => rejection(
                StatusCode::FORBIDDEN,
                "unknown_origin",
                "pages of this origin may not use the gateway: add it to `serve.origins`\n",
            ),
        }
    }
}

impl Guard {
    /// Knows the addresses in `listen` and the names in `hosts`, besides the loopback names, which are always known.
    pub(crate) fn new(
        listen: &[SocketAddr],
        hosts: &[String],
        origins: &[String],
    ) -> Result<Self, GuardError> {
        let listened = listen.iter().map(|address| AllowedHost {
            name: AllowedName::Address(address.ip().to_canonical()),
            port: None,
        });
        let mut known: Vec<_> = listened.collect();
        for host in hosts {
            known.push(AllowedHost::parse(host).ok_or_else(|| GuardError::Host(host.clone()))?);
        }
        let origins = origins.iter().map(|origin| {
            as_browsers_write(origin).ok_or_else(|| GuardError::Origin(origin.clone()))
        });
        Ok(Self { hosts: known, origins: origins.collect::<Result<_, _>>()? })
    }

    /// Checks that a request names a known host, and that its origin, if it has one, is known.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), GuardRejection> {
        let host = only(&head.headers, &HOST).map_err(|()| GuardRejection::HostUnclear)?;
        let host = host.ok_or(GuardRejection::HostUnclear)?;
        if !self.knows_host(host) {
            return Err(GuardRejection::HostUnknown);
        }
        // A request line in absolute form names the host too, and takes precedence over `Host`.
        if head.uri.authority().is_some_and(|authority| !self.knows_host(authority.as_str())) {
            return Err(GuardRejection::HostUnknown);
        }
        match only(&head.headers, &ORIGIN) {
            Ok(None) => Ok(()),
            Ok(Some(origin)) if self.knows_origin(origin) => Ok(()),
            _ => Err(GuardRejection::OriginUnknown),
        }
    }

    fn knows_host(&self, host: &str) -> bool {
        let Some(authority) = Authority::parse(host) else { return false };
        authority.name.is_loopback() || self.hosts.iter().any(|known| known.is(&authority))
    }

    /// Whether `serve.origins` lists an origin.
    pub(crate) fn lists_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        if self.lists_origin(origin) {
            return true;
        }
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        is_web && Authority::parse(authority).is_some_and(|page| page.name.is_loopback())
    }
}

/// The value of a header that may occur once; an error if it occurs more often.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        // A value that is not ASCII is read as an empty one, which is no known name.
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or_default())),
        _ => Err(()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name<'a> {
    Address(IpAddr),
    /// Without a trailing dot.
    Domain(&'a str),
}

impl Name<'_> {
    fn is_loopback(self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Domain(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// A name and a port, as in a `Host` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Authority<'a> {
    name: Name<'a>,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Parses the forms that clients write, and rejects ambiguous ones.
    fn parse(text: &'a str) -> Option<Self> {
        let (name, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (Name::Address(IpAddr::V6(address).to_canonical()), port)
        } else {
            let (name, port) = text.split_at_checked(text.find(':').unwrap_or(text.len()))?;
            (domain_or_address(name)?, port)
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(number(port)?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Self { name, port })
    }
}

fn domain_or_address(name: &str) -> Option<Name<'_>> {
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return Some(Name::Address(address.into()));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let are_labels = name.split('.').all(|part| !part.is_empty() && part.bytes().all(is_plain));
    // Some parsers read `127.1` and `0x7f000001` as addresses, others as names.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    (are_labels && !is_number).then_some(Name::Domain(name))
}

fn number(port: &str) -> Option<u16> {
    let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port| is_plain && *port != 0)
}

#[derive(Debug)]
enum AllowedName {
    Address(IpAddr),
    Domain(Box<str>),
}

/// A host that is known besides the loopback names.
#[derive(Debug)]
struct AllowedHost {
    name: AllowedName,
    /// `None`: any port.
    port: Option<u16>,
}

impl AllowedHost {
    fn parse(host: &str) -> Option<Self> {
        // An IPv6 address without a port needs no brackets.
        let bare = host.parse::<Ipv6Addr>().ok().map(|address| Self {
            name: AllowedName::Address(IpAddr::V6(address).to_canonical()),
            port: None,
        });
        bare.or_else(|| {
            let Authority { name, port } = Authority::parse(host)?;
            let name = match name {
                Name::Address(address) => AllowedName::Address(address),
                Name::Domain(domain) => AllowedName::Domain(domain.into()),
            };
            Some(Self { name, port })
        })
    }

    fn is(&self, authority: &Authority<'_>) -> bool {
        let is_name = match (&self.name, authority.name) {
            (AllowedName::Address(known), Name::Address(address)) => *known == address,
            (AllowedName::Domain(known), Name::Domain(domain)) => {
                known.eq_ignore_ascii_case(domain)
            }
            _ => false,
        };
        // Clients omit the default ports.
        let is_port =
            |known: u16| authority.port.map_or(matches!(known, 80 | 443), |port| port == known);
        is_name && self.port.is_none_or(is_port)
    }
}

/// An origin as browsers write it in the header: without a trailing slash and without the default port.
fn as_browsers_write(origin: &str) -> Option<Box<str>> {
    let origin = origin.strip_suffix('/').unwrap_or(origin);
    let (scheme, authority) = origin.split_once("://")?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
        return None;
    }
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let Some(parsed) = Authority::parse(authority) else {
        // Pages of browser extensions have other forms of hosts, but no paths either.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/*@?#".contains(&byte);
        let is_own_kind = usual.is_none() && !authority.is_empty();
        return (is_own_kind && authority.bytes().all(is_plain)).then(|| origin.into());
    };
    let shown = match (parsed.port, usual) {
        (Some(port), Some(usual)) if port == usual => {
            origin.rsplit_once(':').map_or(origin, |(shown, _)| shown)
        }
        _ => origin,
    };
    Some(shown.into())
}

#[cfg(test)]
mod tests;
