//! The open containers: one bit each, without an allocation up to 64 levels.

/// The kind of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Array,
    Object,
}

/// A stack of containers.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    /// The innermost levels. The lowest bit is the innermost one: 1 is an object.
    bits: u64,
    /// Full words of outer levels.
    outer: Vec<u64>,
}

const WORD: usize = 64;

impl Nesting {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    #[inline]
    pub(super) fn push(&mut self, container: Container) {
        if self.depth > 0 && self.depth.is_multiple_of(WORD) {
            self.outer.push(self.bits);
        }
        self.bits = (self.bits << 1) | u64::from(container == Container::Object);
        self.depth += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.bits >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(WORD) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }

    /// The innermost container; an array if none is open.
    #[inline]
    pub(super) fn innermost(&self) -> Container {
        match self.bits & 1 {
            0 => Container::Array,
            _ => Container::Object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_three_words_of_levels() {
        let kind = |level: usize| match level % 3 {
            0 => Container::Array,
            _ => Container::Object,
        };
        let mut open = Nesting::default();
        for level in 0..200 {
            open.push(kind(level));
        }
        for level in (0..200).rev() {
            assert_eq!(open.depth(), level + 1);
            assert_eq!(open.innermost(), kind(level), "level {level}");
            open.pop();
        }
        assert_eq!(open.depth(), 0);
    }
}
