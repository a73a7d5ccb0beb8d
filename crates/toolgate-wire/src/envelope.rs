//! Reads the envelope of a message, and the members of its body, in one pass.

use bytes::Bytes;

use crate::error::{Reason, WireError};
use crate::id::Id;
use crate::json::{Json, Kind};
use crate::keys::{self, ENVELOPE, GuardedKeys, Match, SeenKeys};
use crate::limits::Limits;
use crate::number::Number;
use crate::scan::{Member, Scanner, Span, inside_quotes};

/// A member of the envelope, in the order of [`ENVELOPE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvelopePart {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl EnvelopePart {
    const ALL: [Self; 6] =
        [Self::Jsonrpc, Self::Id, Self::Method, Self::Params, Self::Result, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        ENVELOPE.name(self as usize)
    }

    /// The watched keys in its value, if it is a body.
    fn watched(self) -> Option<&'static GuardedKeys> {
        match self {
            Self::Params => Some(&keys::PARAMS),
            Self::Result => Some(&keys::RESULT),
            Self::Error => Some(&keys::ERROR),
            Self::Jsonrpc | Self::Id | Self::Method => None,
        }
    }
}

/// The maximum number of recorded members; watched ones are always recorded. A larger object is scanned again when a
/// member is requested, so that a hostile message cannot make the record larger than itself.
const MAX_RECORDED: usize = 1024;

/// The result of one pass: the positions of the members. Their types and combination are checked afterwards.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    spans: [Option<Span>; 6],
    seen: SeenKeys<'static>,
    /// The members of the body, in order.
    pub(crate) members: Vec<Member>,
    /// Whether `members` has all of them.
    pub(crate) recorded: bool,
    /// The first broken rule. The scan continues after it, since the id may follow.
    pub(crate) fault: Option<WireError>,
    /// Whether there are two ids, or a key that resembles `id`.
    pub(crate) unclear_id: bool,
    /// Whether the text was read to its end.
    pub(crate) complete: bool,
}

impl Envelope {
    /// Reads the text of a line. A syntax error ends the scan, a broken rule does not.
    pub(crate) fn read(line: &[u8], text: Span, limits: &Limits) -> Self {
        let mut found = Self::default();
        match found.scan(line, text, limits) {
            Ok(()) => found.complete = true,
            // A syntax error takes precedence over a broken rule.
            Err(error) => found.fault = Some(error),
        }
        found
    }

    pub(crate) fn span(&self, part: EnvelopePart) -> Option<Span> {
        self.spans.get(part as usize).copied().flatten()
    }

    /// Whether the key exists, even if its value was cut off.
    pub(crate) fn has(&self, part: EnvelopePart) -> bool {
        self.seen.has(part as usize)
    }

    /// The id, if there is exactly one and it is a string or a number.
    pub(crate) fn id(&self, line: &Bytes) -> Option<Id> {
        let span = self.span(EnvelopePart::Id).filter(|_| !self.unclear_id)?;
        // At this point the line may not have been checked as a whole.
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
            let value = match part.and_then(EnvelopePart::watched) {
                Some(watched) if scanner.token() == b'{' => {
                    self.body(&mut scanner, line, watched)?
                }
                _ => scanner.value()?,
            };
            // If the text ends after a number, more digits may have followed.
            scanner.member_ends()?;
            if let Some(slot) = part.and_then(|part| self.spans.get_mut(part as usize)) {
                *slot = Some(value);
            }
        }
        scanner.end()
    }

    /// The part that a key belongs to, if it may occur here.
    fn part(&mut self, line: &[u8], key: Span) -> Option<EnvelopePart> {
        let spelling = inside_quotes(key.of(line));
        let (index, reason) = match ENVELOPE.find(spelling) {
            Match::None => return None,
            Match::Key(index) if self.seen.first(index) => {
                return EnvelopePart::ALL.get(index).copied();
            }
            Match::Key(index) => (index, Reason::Duplicate(ENVELOPE.name(index))),
            Match::Variant(index) => (index, keys::misspelled(spelling, ENVELOPE.name(index))),
        };
        self.unclear_id |= index == EnvelopePart::Id as usize;
        self.blame(key.start, reason);
        None
    }

    /// Reads the object of params, result or error, and records its members.
    fn body(
        &mut self,
        scanner: &mut Scanner<'_>,
        line: &[u8],
        watched: &GuardedKeys,
    ) -> Result<Span, WireError> {
        let start = scanner.at();
        scanner.open_object()?;
        self.members.clear();
        self.recorded = true;
        let mut seen = SeenKeys::default();
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

    /// Reads the value of a key of a watched object; whether the key is watched. Also reads into the value if its keys
    /// are watched: to the depth of the tables in `keys`.
    fn watched_value<'a>(
        &mut self,
        scanner: &mut Scanner<'_>,
        line: &'a [u8],
        (key, watched): (Span, &GuardedKeys),
        seen: &mut SeenKeys<'a>,
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
        let mut seen = SeenKeys::default();
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

    /// Checks the types that do not depend on the shape.
    pub(crate) fn check_types(&self, line: &[u8]) -> Result<(), WireError> {
        self.check(line, EnvelopePart::Jsonrpc, "the string \"2.0\"", |text| text == b"\"2.0\"")?;
        self.check(line, EnvelopePart::Method, "a string", |text| Kind::of(text) == Kind::String)?;
        self.check(line, EnvelopePart::Params, "an object or an array", |text| {
            matches!(Kind::of(text), Kind::Object | Kind::Array | Kind::Null)
        })?;
        self.check(line, EnvelopePart::Error, "an object", |text| Kind::of(text) == Kind::Object)
    }

    fn check(
        &self,
        line: &[u8],
        part: EnvelopePart,
        want: &'static str,
        fits: fn(&[u8]) -> bool,
    ) -> Result<(), WireError> {
        match self.span(part) {
            Some(span) => check_type(line, part.name(), span, want, fits),
            None => Ok(()),
        }
    }

    /// Checks that an error object has an integer `code` and a string `message`.
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
