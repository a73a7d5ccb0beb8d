//! Writes a record's JSON object directly into the buffer for the file.

use std::io::Write as _;

use serde::Serialize;

/// A JSON object under construction.
pub(super) struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl<'a> RecordWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_first: true }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    /// Starts a member whose name needs no escapes. The caller writes its value.
    pub(super) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Adds a member whose value is JSON.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.member(name).extend_from_slice(json.as_bytes());
    }

    /// Adds a text that needs no escapes.
    pub(super) fn plain(&mut self, name: &str, text: &str) {
        let out = self.member(name);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }

    /// Adds bytes in hexadecimal.
    pub(super) fn hex(&mut self, name: &str, bytes: &[u8]) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let out = self.member(name);
        out.push(b'"');
        for byte in bytes {
            let digits = [byte >> 4, byte & 0xf];
            out.extend(digits.iter().filter_map(|digit| HEX.get(usize::from(*digit))));
        }
        out.push(b'"');
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        text(value, self.member(name));
    }

    pub(super) fn some_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// Adds a text that consists of these pieces.
    pub(super) fn joined(&mut self, name: &str, pieces: &[&str]) {
        let out = self.member(name);
        out.push(b'"');
        for piece in pieces {
            escape(piece, out);
        }
        out.push(b'"');
    }

    pub(super) fn value(&mut self, name: &str, value: &impl Serialize) {
        // Writing to memory cannot fail, and values are plain data.
        let _ = serde_json::to_writer(self.member(name), value);
    }

    /// Adds a time in UTC, to the microsecond.
    pub(super) fn time(&mut self, name: &str, at: jiff::Timestamp) {
        let time = jiff::tz::Offset::UTC.to_datetime(at);
        let out = self.member(name);
        let Ok(year @ 0..=9999) = u32::try_from(time.year()) else {
            let _ = write!(out, "\"{at:.6}\"");
            return;
        };
        let two = |part: i8| u32::from(part.unsigned_abs());
        out.push(b'"');
        digits::<4>(year, b'-', out);
        digits::<2>(two(time.month()), b'-', out);
        digits::<2>(two(time.day()), b'T', out);
        digits::<2>(two(time.hour()), b':', out);
        digits::<2>(two(time.minute()), b':', out);
        digits::<2>(two(time.second()), b'.', out);
        digits::<6>(time.subsec_nanosecond().unsigned_abs() / 1000, b'Z', out);
        out.push(b'"');
    }
}

/// Writes a number in `N` digits, followed by `then`.
fn digits<const N: usize>(mut value: u32, then: u8, out: &mut Vec<u8>) {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
    out.extend_from_slice(&digits);
    out.push(then);
}

/// Writes a JSON string.
pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

fn escape(text: &str, out: &mut Vec<u8>) {
    let needs_escape = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\');
    let mut rest = text.as_bytes();
    // Most texts need none. A loop without an exit looks at many bytes at once.
    if !rest.iter().fold(false, |found, byte| found | needs_escape(byte)) {
        out.extend_from_slice(rest);
        return;
    }
    while let Some(at) = rest.iter().position(needs_escape) {
        let Some((plain, [byte, after @ ..])) = rest.split_at_checked(at) else { break };
        out.extend_from_slice(plain);
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => {
                // Writing to memory cannot fail.
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn written(fill: impl FnOnce(&mut RecordWriter<'_>)) -> String {
        let mut out = Vec::new();
        let mut record = RecordWriter::new(&mut out);
        fill(&mut record);
        record.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_escaped_like_everybody_does() {
        let all: String =
            (0..0x180).filter_map(char::from_u32).chain("\u{2028}😀".chars()).collect();
        let expected = serde_json::json!({ "t": all }).to_string();
        assert_eq!(written(|record| record.text("t", &all)), expected);
        let (one, other) = all.split_at(all.find('\u{100}').unwrap());
        assert_eq!(written(|record| record.joined("t", &[one, other])), expected);
        assert_eq!(written(|record| record.some_text("t", None)), "{}");
    }

    #[test]
    fn bytes_are_written_as_a_formatter_does() {
        let number = 0x00ff_0a10_9e37_79b9_u64;
        let told = written(|record| record.hex("h", &number.to_be_bytes()));
        assert_eq!(told, format!("{{\"h\":\"{number:016x}\"}}"));
    }

    #[test]
    fn times_are_written_like_the_library_does() {
        let mut dice = Random::new(7);
        let number = |dice: &mut Random, below| i64::try_from(dice.roll(below)).unwrap();
        let any = |dice: &mut Random| {
            let second = number(dice, 700_000) * 1_000_000 + number(dice, 1_000_000);
            let nano = i32::try_from(dice.roll(1_000_000_000)).unwrap();
            jiff::Timestamp::new(jiff::Timestamp::MIN.as_second() + second, nano).ok()
        };
        let rolled = (0..2000).filter_map(|_| any(&mut dice));
        let now = jiff::Timestamp::now();
        for at in rolled.chain([now, jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::MAX]) {
            let expected = format!("{{\"ts\":\"{at:.6}\",\"x\":1}}");
            let told = written(|record| {
                record.time("ts", at);
                record.raw("x", "1");
            });
            assert_eq!(told, expected);
        }
    }
}
