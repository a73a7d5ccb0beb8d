//! Keys that decide something: which they are, and the other ways in which one could write them.

use std::borrow::Cow;

use crate::error::Reason;
use crate::text::unescape;

/// Whether a key, spelled like this between its quotes, is this one.
#[inline]
pub(crate) fn says(spelling: &[u8], key: &str) -> bool {
    match memchr::memchr(b'\\', spelling) {
        None => spelling == key.as_bytes(),
        Some(_) => &*unescape(spelling) == key.as_bytes(),
    }
}

/// Whether a lenient parser could take the key for this one: other case, other spelling.
///
/// Go's `encoding/json` folds case by Unicode, where two letters outside of ASCII fold into it:
/// `ſ` (U+017F) is an `s` and `K` (U+212A) is a `k`.
fn resembles(key: &str, name: &str) -> bool {
    let folded = key.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|c| c.to_ascii_lowercase()))
}

/// The keys of one object that decide something: none may stand there twice.
#[derive(Debug)]
pub(crate) struct Watched {
    names: &'static [&'static str],
    /// How many of them, from the front, must also be spelled exactly so.
    exact: usize,
}

/// The envelope, in the order of [`crate::envelope::Part`].
pub(crate) const ENVELOPE: Watched =
    Watched { names: &["jsonrpc", "id", "method", "params", "result", "error"], exact: 6 };

/// The first three are what a policy looks at.
pub(crate) const PARAMS: Watched = Watched {
    names: &["name", "arguments", "_meta", "cursor", "uri", "requestId", "progressToken"],
    exact: 3,
};

pub(crate) const RESULT: Watched = Watched {
    names: &[
        "content",
        "isError",
        "structuredContent",
        "_meta",
        "resultType",
        "tools",
        "nextCursor",
        "contents",
    ],
    exact: 0,
};

/// Their types are checked, so the ones that were checked must be the only ones.
pub(crate) const ERROR: Watched = Watched { names: &["code", "message"], exact: 0 };

/// Which watched key this is.
pub(crate) enum Match {
    None,
    /// This one, spelled as it should be (or in a way that does no harm).
    Key(usize),
    /// One that must be spelled exactly, in another spelling.
    Variant(usize),
}

impl Watched {
    pub(crate) fn name(&self, index: usize) -> &'static str {
        self.names.get(index).copied().unwrap_or_default()
    }

    /// Which watched key is spelled like this.
    pub(crate) fn find(&self, spelling: &[u8]) -> Match {
        if let Some(index) = self.position(spelling) {
            return Match::Key(index);
        }
        let key = unescape(spelling);
        if let Some(index) = self.variant(&String::from_utf8_lossy(&key)) {
            return Match::Variant(index);
        }
        match key {
            Cow::Owned(key) => self.position(&key).map_or(Match::None, Match::Key),
            Cow::Borrowed(_) => Match::None,
        }
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        // The first byte spares most calls to memcmp.
        let mut names = self.names.iter().map(|name| name.as_bytes());
        names.position(|name| name.first() == key.first() && name == key)
    }

    fn variant(&self, key: &str) -> Option<usize> {
        let mut exact = self.names.iter().take(self.exact);
        exact.position(|name| resembles(key, name))
    }
}

/// Which watched keys of one object have been seen.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen(u32);

impl Seen {
    /// False if it was there already.
    pub(crate) fn first(&mut self, index: usize) -> bool {
        let bit = 1 << index;
        let first = self.0 & bit == 0;
        self.0 |= bit;
        first
    }

    pub(crate) fn has(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    /// Checks a key of a body object against the rules; true if it is a watched one.
    pub(crate) fn check(&mut self, spelling: &[u8], watched: &Watched) -> Result<bool, Reason> {
        match watched.find(spelling) {
            Match::Key(index) if self.first(index) => Ok(true),
            Match::Key(index) => Err(Reason::Duplicate(watched.name(index))),
            Match::Variant(index) => Err(misspelled(spelling, watched.name(index))),
            Match::None => Ok(false),
        }
    }
}

pub(crate) fn misspelled(spelling: &[u8], want: &'static str) -> Reason {
    Reason::Spelling { found: String::from_utf8_lossy(spelling).into(), want }
}
