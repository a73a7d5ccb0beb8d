//! CORS: the headers that allow the web pages in `serve.origins` to use the gateway.

use hyper::{
    HeaderMap, Method, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, ORIGIN, VARY,
    },
    http::request::Parts,
};

use super::empty;
use crate::transports::http::{body::ResponseBody, guard::Guard, rejection};

/// The headers of a response that a page may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, Allow",
);
/// The same methods for every path, so that the response does not reveal which paths exist.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const HEADERS: &str = "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, \
    Mcp-Name, Last-Event-ID";
/// A browser caches the response to a preflight for this many seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const TRUE: HeaderValue = HeaderValue::from_static("true");

const WANTS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Whether a request is a browser's preflight, which has no token.
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The response to a preflight. It is the same for every path, so that it does not reveal which namespaces exist.
pub(super) fn preflight(guard: &Guard, headers: &HeaderMap) -> Response<ResponseBody> {
    if page(guard, headers).is_none() {
        return rejection(
            StatusCode::FORBIDDEN,
            "unknown_origin",
            "pages of this origin may not use the gateway: add it to `serve.origins`\n",
        );
    }
    let mut answer = empty(StatusCode::NO_CONTENT);
    let allowed = answer.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    // The servers choose the names of the headers that mirror arguments.
    let wanted = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let wanted = wanted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let wanted = wanted.map(str::trim).filter(|name| is_mirror(name)).take(32);
    let names: Vec<&str> = std::iter::once(HEADERS).chain(wanted).collect();
    if let Ok(names) = HeaderValue::from_str(&names.join(", ")) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    allowed.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if headers.get(WANTS_PRIVATE) == Some(&TRUE) {
        allowed.insert(ALLOWS_PRIVATE, TRUE);
    }
    answer
}

fn is_mirror(name: &str) -> bool {
    let start = name.get(.."mcp-param-".len());
    start.is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-"))
        && name.len() <= 128
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Adds the headers that allow a page of `serve.origins` to read this response.
pub(super) fn add_headers(
    guard: &Guard,
    head: &Parts,
    mut answer: Response<ResponseBody>,
) -> Response<ResponseBody> {
    if let Some(origin) = page(guard, &head.headers) {
        let headers = answer.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
    answer
}

/// The origin of a request, if it is one of `serve.origins`.
fn page<'a>(guard: &Guard, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (values.next(), values.next()) else { return None };
    guard.lists_origin(origin.to_str().ok()?).then_some(origin)
}
