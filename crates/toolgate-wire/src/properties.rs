//! Properties that hold for any bytes. The fuzz targets and the tests call the same functions.

mod lines;
mod message;
mod oracle;
mod single_line;
mod splice;

pub use lines::check_lines;
pub use message::check_message;
pub use single_line::check_single_line;
pub use splice::check_splice;

/// A violated property is returned as an error, without a panic.
type Check = Result<(), String>;

fn ensure(holds: bool, what: &str) -> Check {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// A small random generator (xorshift), so that a check depends only on its input.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Seeded by the bytes.
    fn of(bytes: &[u8]) -> Self {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let drawn = usize::try_from(self.0 >> 32).unwrap_or_default();
        drawn.checked_rem(bound).unwrap_or_default()
    }
}
