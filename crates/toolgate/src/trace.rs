//! How a request arrived: transport, protocol version and trace context.

use std::{fmt, sync::Arc};

use toolgate_wire::{Json, Object};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// Largest length of a `tracestate`; longer ones are dropped. W3C requires at least 512 characters.
const MAX_STATE_BYTES: usize = 8192;

/// A span of a trace, as in W3C Trace Context.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

impl Trace {
    /// The span with these ids; `None` if one of them is zero, which is invalid.
    #[must_use]
    pub fn new(trace_id: u128, span_id: u64, flags: u8, state: Option<Arc<str>>) -> Option<Self> {
        (trace_id != 0 && span_id != 0).then_some(Self { id: trace_id, span_id, flags, state })
    }

    /// The span in a request's `_meta`. Invalid values count as absent.
    #[must_use]
    pub fn of(meta: &Json) -> Option<Self> {
        let parent = meta.get(PARENT)?;
        let state = meta.get(STATE);
        Self::read(&parent.text()?, state.as_ref().and_then(Json::text).as_deref())
    }

    /// Parses the two values. Without a valid `traceparent`, the `tracestate` is ignored.
    #[must_use]
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.splitn(5, '-');
        let version = hex(parts.next()?, 2)?;
        let (trace_id, span_id) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
        let flags = hex(parts.next()?, 2)?;
        // Version 00 has four parts; later versions may add some.
        if version == 0xff || version == 0 && parts.next().is_some() {
            return None;
        }
        let state = tracestate.filter(|state| !state.is_empty() && state.len() <= MAX_STATE_BYTES);
        Self::new(trace_id, span_id.try_into().ok()?, flags.try_into().ok()?, state.map(Arc::from))
    }

    /// Writes the span into a `_meta` and replaces the one there.
    pub fn put(&self, meta: &mut Object) {
        meta.set(PARENT, Json::string(&self.traceparent()));
        match &self.state {
            Some(state) => meta.set(STATE, Json::string(state)),
            None => drop(meta.remove(STATE)),
        }
    }

    /// The value of `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.id, self.span_id, self.flags)
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> u128 {
        self.id
    }

    /// The id of the span.
    #[must_use]
    pub fn span_id(&self) -> u64 {
        self.span_id
    }

    /// The flags; the lowest bit is `sampled`.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The value of `tracestate`, as it arrived.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({})", self.traceparent())
    }
}

/// Parses a number of exactly `N` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// The transport of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Pipes.
    Stdio,
    /// Streamable HTTP.
    Http,
}

impl Transport {
    /// The name in records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// How a request arrived. Empty if the transport does not set it.
#[derive(Clone, Debug, Default)]
pub struct Ingress {
    /// The transport.
    pub transport: Option<Transport>,
    /// The protocol version.
    pub protocol: Option<Arc<str>>,
    /// The trace context.
    pub trace: Option<Trace>,
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(meta: &str) -> Option<Trace> {
        Trace::of(&Json::parse(meta.to_owned(), &Limits::default()).unwrap())
    }

    #[test]
    fn a_valid_parent_is_read_and_written_back_as_it_was() {
        let trace = Trace::read(VALID, Some("a=1,b=2")).unwrap();
        assert_eq!(trace.traceparent(), VALID);
        assert_eq!((trace.span_id(), trace.flags()), (0xb7ad_6b71_6920_3331, 1));
        assert_eq!(trace.state(), Some("a=1,b=2"));
    }

    #[test]
    fn what_w3c_calls_invalid_is_as_if_it_were_not_there() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for odd in [
            String::new(),
            "00".to_owned(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-1"),
            format!("00-+af7651916cd43dd8448eb211c80319c-{span}-01"),
            format!("00-{trace}-{span}-01 "),
            "é".repeat(40),
            "-".repeat(1_000_000),
        ] {
            assert_eq!(Trace::read(&odd, Some("a=1")), None, "{odd:.80}");
        }
        let later = format!("cc-{trace}-{span}-01-what-comes-later");
        assert_eq!(Trace::read(&later, None).unwrap().traceparent(), VALID);
    }

    #[test]
    fn values_of_another_type_are_ignored() {
        assert_eq!(of(r#"{"traceparent":5}"#), None);
        assert_eq!(of("[]"), None);
        let odd_state = of(&format!(r#"{{"traceparent":"{VALID}","tracestate":["a=1"]}}"#));
        assert_eq!(odd_state.unwrap().state(), None);
    }

    #[test]
    fn it_replaces_what_stands_in_a_meta_and_nothing_else() {
        let text = r#"{"a": 1e5, "tracestate":"old=1","baggage":"k=v","traceparent":"x"}"#;
        let json = Json::parse(text, &Limits::default()).unwrap();
        let mut meta = json.object().unwrap();
        Trace::read(VALID, None).unwrap().put(&mut meta);
        let expected = format!(r#"{{"a": 1e5,"baggage":"k=v","traceparent":"{VALID}"}}"#);
        assert_eq!(meta.finish().as_str(), expected);
    }
}
