//! The media types that a client accepts, and the one that it sends.

use hyper::{
    HeaderMap,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};

/// The `Accept` header that MCP clients usually send.
const USUAL: &[u8] = b"application/json, text/event-stream";

/// The media types that a client accepts in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

impl Accepts {
    /// Reads the `Accept` headers; without any, a client accepts everything.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(ACCEPT).iter().peekable();
        match values.peek() {
            None => return Self { json: true, events: true },
            Some(value) if value.as_bytes() == USUAL => return Self { json: true, events: true },
            Some(_) => {}
        }
        let (mut json, mut events) = (ClosestRange::default(), ClosestRange::default());
        for range in values.filter_map(text).flat_map(|value| split(value, b',')) {
            let mut parts = split(range, b';');
            let name = parts.next().unwrap_or_default();
            let wanted = parts.all(|parameter| !is_zero_quality(parameter));
            json.consider(name, "application/json", wanted);
            events.consider(name, "text/event-stream", wanted);
        }
        Self { json: json.wanted, events: events.wanted }
    }
}

/// The most specific range that matches a media type, and whether that range wants the type.
#[derive(Default)]
struct ClosestRange {
    closeness: u8,
    wanted: bool,
}

impl ClosestRange {
    fn consider(&mut self, range: &str, kind: &str, wanted: bool) {
        let closeness = closeness(range, kind);
        if closeness > self.closeness {
            *self = Self { closeness, wanted };
        } else if closeness > 0 && closeness == self.closeness {
            self.wanted |= wanted;
        }
    }
}

/// How specifically a range matches a type; 0 if it does not match.
fn closeness(range: &str, kind: &str) -> u8 {
    if range.eq_ignore_ascii_case(kind) {
        return 3;
    }
    if range == "*/*" {
        return 1;
    }
    let (Some(main), Some((of, _))) = (range.strip_suffix("/*"), kind.split_once('/')) else {
        return 0;
    };
    if main.eq_ignore_ascii_case(of) { 2 } else { 0 }
}

/// Whether a parameter is `q=0`, in any notation.
fn is_zero_quality(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    let value = value.trim_matches([' ', '\t']);
    name.trim_matches([' ', '\t']).eq_ignore_ascii_case("q")
        && value.starts_with('0')
        && value.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

/// Whether there is exactly one `Content-Type`, and it is JSON. Parameters are ignored, except for a charset other than
/// UTF-8.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    if value.as_bytes() == b"application/json" {
        return true;
    }
    let Some(value) = text(value) else { return false };
    let mut parts = split(value, b';');
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
        && parts.all(is_no_other_charset)
}

fn is_no_other_charset(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return true };
    let value = value.trim_matches([' ', '\t', '"']);
    !name.trim_matches([' ', '\t']).eq_ignore_ascii_case("charset")
        || value.eq_ignore_ascii_case("utf-8")
        || value.eq_ignore_ascii_case("utf8")
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

/// Splits a value at separators outside of quotes, and trims the parts.
fn split(value: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = text.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                byte => return byte == separator && !is_quoted,
            }
            false
        });
        let (part, after) = end.and_then(|end| text.split_at_checked(end)).unwrap_or((text, ""));
        rest = after.get(1..);
        Some(part.trim_matches([' ', '\t']))
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        let value = |value: &&'static str| (name.clone(), HeaderValue::from_static(value));
        values.iter().map(value).collect()
    }

    #[test]
    fn accept_is_read_as_it_is_meant() {
        for (values, json, events) in [
            (&[] as &[&str], true, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/json"], true, false),
            (&["text/event-stream"], false, true),
            (&["Text/Event-Stream ; q=0.5"], false, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["*/*"], true, true),
            (&["application/*"], true, false),
            (&["APPLICATION/*, text/html"], true, false),
            (&["text/html"], false, false),
            (&[""], false, false),
            (&[" , ,"], false, false),
            (&["*/*;q=0.1, application/json;q=0"], false, true),
            (&["application/json;q=0, */*"], false, true),
            (&["text/*;q=0, */*"], true, false),
            (&["text/*;q=0, text/event-stream"], false, true),
            (&["application/json; Q = 0.000"], false, false),
            (&["application/json;q=0.001"], true, false),
            (&["application/json;charset=utf-8;q=1"], true, false),
            (&["application/json;x=\"a,b;q=0\", text/event-stream"], true, true),
            (&["application/json;x=\"\\\",q=0\";q=0"], false, false),
            (&["application/jsonp"], false, false),
            (&["application"], false, false),
            (&["/*"], false, false),
            (&["*"], false, false),
        ] {
            let accepts = Accepts::of(&headers(&ACCEPT, values));
            assert_eq!(accepts, Accepts { json, events }, "{values:?}");
        }
    }

    #[test]
    fn only_one_type_and_only_json() {
        for (values, expected) in [
            (&["application/json"] as &[&str], true),
            (&["Application/JSON"], true),
            (&["application/json; charset=utf-8"], true),
            (&["application/json;charset=\"UTF-8\""], true),
            (&["application/json ; x=y"], true),
            (&["application/json;"], true),
            (&["application/json; charset=latin1"], false),
            (&["application/jsonp"], false),
            (&["application/json, text/plain"], false),
            (&["text/plain; a=\"application/json\""], false),
            (&["text/plain"], false),
            (&[""], false),
            (&[], false),
            (&["application/json", "application/json"], false),
        ] {
            assert_eq!(is_json(&headers(&CONTENT_TYPE, values)), expected, "{values:?}");
        }
    }
}
