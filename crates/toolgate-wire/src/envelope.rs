//! The one pass over a message: its envelope, and the members of its body.

use bytes::Bytes;

use crate::error::{Reason, WireError};
use crate::id::Id;
use crate::json::{Json, Kind};
use crate::keys::{self, ENVELOPE, Match, Seen, Watched};
use crate::limits::Limits;
use crate::number::Number;
use crate::scan::{Member, Scanner, Span, inside_quotes};

/// A member of the envelope. The order is that of [`ENVELOPE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Part {
    const ALL: [Self; 6] =
        [Self::Jsonrpc, Self::Id, Self::Method, Self::Params, Self::Result, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        ENVELOPE.name(self as usize)
    }

    /// The keys to watch in it, if it is one that carries a body.
    fn watched(self) -> Option<&'static Watched> {
        match self {
            Self::Params => Some(&keys::PARAMS),
            Self::Result => Some(&keys::RESULT),
            Self::Error => Some(&keys::ERROR),
            Self::Jsonrpc | Self::Id | Self::Method => None,
        }
    }
}

/// Members are recorded up to this many, watched ones always; an object with more is scanned again
/// when it is asked for, so that a hostile one cannot make the record larger than itself.
const MAX_RECORDED: usize = 1024;

/// What one pass has found. Members are where they stand; whether they fit is asked afterwards.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    spans: [Option<Span>; 6],
    seen: Seen<'static>,
    /// Members of the body, in order.
    pub(crate) members: Vec<Member>,
    /// Whether that is all of them.
    pub(crate) recorded: bool,
    /// The first broken rule. The scan goes on behind it: the id may still come.
    pub(crate) fault: Option<WireError>,
    /// The id stands there twice, or under a key that only resembles `id`.
    pub(crate) unclear_id: bool,
    /// The text was read to its end.
    pub(crate) complete: bool,
}

impl Envelope {
    /// Reads `text` of a line. An error in the grammar ends the scan, a broken rule does not.
    pub(crate) fn read(line: &[u8], text: Span, limits: &Limits) -> Self {
        let mut found = Self::default();
        match found.scan(line, text, limits) {
            Ok(()) => found.complete = true,
            // Where the text cannot be read any further, that is what has to be said.
            Err(error) => found.fault = Some(error),
        }
        found
    }

    pub(crate) fn span(&self, part: Part) -> Option<Span> {
        self.spans.get(part as usize).copied().flatten()
    }

    /// Whether the key was there, though its value may have been cut short.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.seen.has(part as usize)
    }

    /// The id, if there is exactly one and it is a string or a number.
    pub(crate) fn id(&self, line: &Bytes) -> Option<Id> {
        let span = self.span(Part::Id).filter(|_| !self.unclear_id)?;
        // Before the scan the line may not have been checked as a whole.
        std::str::from_utf8(span.of(line)).ok()?;
        Id::from_json(Json::scanned(line, span))
    }

    fn scan(&mut self, line: &[u8], text: Span, limits: &Limits) -> Result<(), WireError> {
        let inner = line.get(..text.end).unwrap_or_default();
        let mut scanner = Scanner::new(inner, text.start, limits.max_depth);
        if scanner.token() != b'{' {
            let mut whole = Scanner::new(inner, text.start, limits.max_depth);
            whole.value()?;
            whole.end()?;
            return Err(WireError::new(text.start, Reason::NotAnObject));
        }
        scanner.open_object()?;
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            let part = self.part(line, key);
            let value = match part.and_then(Part::watched) {
                Some(watched) if scanner.token() == b'{' => {
                    self.body(&mut scanner, line, watched)?
                }
                _ => scanner.value()?,
            };
            // Where the text breaks off behind a number, more digits may have followed.
            scanner.member_ends()?;
            if let Some(slot) = part.and_then(|part| self.spans.get_mut(part as usize)) {
                *slot = Some(value);
            }
        }
        scanner.end()
    }

    /// Which part of the envelope a key starts, if it may.
    fn part(&mut self, line: &[u8], key: Span) -> Option<Part> {
        let spelling = inside_quotes(key.of(line));
        let (index, reason) = match ENVELOPE.find(spelling) {
            Match::None => return None,
            Match::Key(index) if self.seen.first(index) => return Part::ALL.get(index).copied(),
            Match::Key(index) => (index, Reason::Duplicate(ENVELOPE.name(index))),
            Match::Variant(index) => (index, keys::misspelled(spelling, ENVELOPE.name(index))),
        };
        self.unclear_id |= index == Part::Id as usize;
        self.blame(key.start, reason);
        None
    }

    /// The object that is params, result or error: its members are recorded.
    fn body(
        &mut self,
        scanner: &mut Scanner<'_>,
        line: &[u8],
        watched: &Watched,
    ) -> Result<Span, WireError> {
        let start = scanner.at();
        scanner.open_object()?;
        self.members.clear();
        self.recorded = true;
        let mut seen = Seen::default();
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            let (value, decides) = self.watched_value(scanner, line, (key, watched), &mut seen)?;
            if decides || self.members.len() < MAX_RECORDED {
                self.members.push(Member { key, value });
            } else {
                self.recorded = false;
            }
        }
        let end = scanner.at();
        Ok(Span { start, end })
    }

    /// The value of a key of a watched object, and whether the key is a watched one. Looks into the value where keys
    /// are watched there too: as deep as the tables in `keys` go.
    fn watched_value<'a>(
        &mut self,
        scanner: &mut Scanner<'_>,
        line: &'a [u8],
        (key, watched): (Span, &Watched),
        seen: &mut Seen<'a>,
    ) -> Result<(Span, bool), WireError> {
        let found = match seen.check(inside_quotes(key.of(line)), watched) {
            Ok(found) => found,
            Err(reason) => {
                self.blame(key.start, reason);
                None
            }
        };
        let Some(inner) = found.and_then(|index| watched.inner(index)) else {
            return Ok((scanner.value()?, found.is_some()));
        };
        if scanner.token() != b'{' {
            return Ok((scanner.value()?, true));
        }
        let start = scanner.at();
        scanner.open_object()?;
        let mut seen = Seen::default();
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first)? {
            self.watched_value(scanner, line, (key, inner), &mut seen)?;
        }
        Ok((Span { start, end: scanner.at() }, true))
    }

    fn blame(&mut self, position: usize, reason: Reason) {
        if self.fault.is_none() {
            self.fault = Some(WireError::new(position, reason));
        }
    }

    /// Checks the types of the parts that do not depend on the shape.
    pub(crate) fn check_types(&self, line: &[u8]) -> Result<(), WireError> {
        self.check(line, Part::Jsonrpc, "the string \"2.0\"", |text| text == b"\"2.0\"")?;
        self.check(line, Part::Method, "a string", |text| Kind::of(text) == Kind::String)?;
        self.check(line, Part::Params, "an object or an array", |text| {
            matches!(Kind::of(text), Kind::Object | Kind::Array | Kind::Null)
        })?;
        self.check(line, Part::Error, "an object", |text| Kind::of(text) == Kind::Object)
    }

    fn check(
        &self,
        line: &[u8],
        part: Part,
        want: &'static str,
        fits: fn(&[u8]) -> bool,
    ) -> Result<(), WireError> {
        match self.span(part) {
            Some(span) => check_type(line, part.name(), span, want, fits),
            None => Ok(()),
        }
    }

    /// An error object must have an integer `code` and a string `message`.
    pub(crate) fn check_error(&self, line: &[u8], error: Span) -> Result<(), WireError> {
        let member = |key: &'static str| {
            let mut members = self.members.iter();
            let found = members.find(|member| keys::says(member.key_text(line), key));
            found
                .map(|member| member.value)
                .ok_or_else(|| WireError::new(error.start, Reason::Missing(key)))
        };
        check_type(line, "code", member("code")?, "an integer", |text| {
            Kind::of(text) == Kind::Number && matches!(Number::of(text), Number::Integer(_))
        })?;
        check_type(line, "message", member("message")?, "a string", |text| {
            Kind::of(text) == Kind::String
        })
    }
}

fn check_type(
    line: &[u8],
    key: &'static str,
    span: Span,
    want: &'static str,
    fits: fn(&[u8]) -> bool,
) -> Result<(), WireError> {
    if fits(span.of(line)) {
        return Ok(());
    }
    Err(WireError::new(span.start, Reason::WrongType { key, want }))
}
