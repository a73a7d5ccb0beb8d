//! Random input for tests.

use toolgate_wire::Json;

/// A random number generator with a fixed start value: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) fn roll(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % bound
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }

    /// A text of up to `longest` characters, with those that JSON has to escape.
    pub(crate) fn text(&mut self, longest: usize) -> String {
        const CHARS: [char; 14] = [
            'a', 'b', ' ', '\n', '"', '\\', '\t', '\u{1}', '\u{8}', '\u{7f}', 'é', '漢', '😀', '/',
        ];
        let count = self.roll(longest + 1);
        (0..count).map(|_| *self.pick(&CHARS)).collect()
    }

    /// Random JSON of about this size, with all spellings of numbers.
    pub(crate) fn json(&mut self, size: usize, depth: usize) -> String {
        const PLAIN: [&str; 9] = [
            "null",
            "true",
            "false",
            "0",
            "-1.50",
            "1e400",
            "12345678901234567890123",
            "\"\"",
            "{}",
        ];
        match self.roll(if depth == 0 { 4 } else { 8 }) {
            0 | 1 => (*self.pick(&PLAIN)).to_owned(),
            2 | 3 => Json::string(&self.text(size)).as_str().to_owned(),
            4 | 5 => {
                let count = self.roll(6);
                let size = size / count.max(1);
                let elements = (0..count).map(|_| self.json(size, depth - 1));
                format!("[{}]", elements.collect::<Vec<_>>().join(","))
            }
            _ => {
                let count = self.roll(6);
                let size = size / count.max(1);
                let members = (0..count).map(|at| {
                    let key = Json::string(&format!("{at}{}", self.text(3)));
                    format!("{}: {}", key.as_str(), self.json(size, depth - 1))
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
