//! Selectors of tools by identity: `server/tool` globs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer};

use crate::{identity::ToolId, tier::Tier};

/// A `server/tool` glob over identities.
///
/// Server and tool are matched separately: `*` matches any characters or none, `?` exactly one, every other character
/// itself, case-sensitively. The first `/` separates the two, so a tool's name may contain more of them.
///
/// ```
/// use toolgate::{Selector, ToolId};
///
/// let selector: Selector = "files/write_*".parse()?;
/// assert!(selector.covers(&ToolId::new("files", "write_text")));
/// assert!(!selector.covers(&ToolId::new("files", "read")));
/// # Ok::<(), toolgate::BadSelector>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    server: String,
    tool: String,
}

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct BadSelector {
    text: String,
    /// A character of other patterns, if the text has one.
    sign: Option<char>,
}

/// Characters of regular expressions and of other globs. The names of tools have none of them, so a selector with one
/// would match nothing.
const OTHER_PATTERNS: [char; 7] = ['[', ']', '{', '}', '^', '$', '|'];

impl fmt::Display for BadSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        if let Some(sign) = self.sign {
            return write!(
                f,
                "`{text}` does not select tools: `{sign}` stands for itself, and no name has it; write `*` for any text \
                 and `?` for one character, or several selectors"
            );
        }
        if text.parse::<Tier>().is_ok() {
            return write!(
                f,
                "`{text}` is a tier, not a tool: write {{ tier = \"{text}\" }} in a list of selections, or `server/tool`"
            );
        }
        write!(
            f,
            "`{text}` does not select tools: write `server/tool`, for example `main/*` or `*/delete_*`"
        )
    }
}

impl Selector {
    /// Whether the selector covers this tool.
    #[must_use]
    pub fn covers(&self, tool: &ToolId) -> bool {
        glob(&self.server, tool.server()) && glob(&self.tool, tool.name())
    }

    /// Like [`covers`](Self::covers), for a selector that a client sent; `None` if it takes more steps than are left.
    pub(crate) fn covers_within(&self, tool: &ToolId, steps: &mut Steps) -> Option<bool> {
        let covers = glob_within(&self.server, tool.server(), &mut steps.0)?
            && glob_within(&self.tool, tool.name(), &mut steps.0)?;
        Some(covers)
    }

    /// The tool that the selector names exactly, if it does.
    #[must_use]
    pub fn exact(&self) -> Option<ToolId> {
        self.is_exact().then(|| ToolId::new(self.server.as_str(), self.tool.as_str()))
    }

    /// Whether it names exactly one tool.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.server.contains(['*', '?']) && !self.tool.contains(['*', '?'])
    }
}

/// The steps left for matching the patterns of one request. A step compares one character.
#[derive(Debug)]
pub struct Steps(u32);

impl Steps {
    /// Steps per request: about ten milliseconds of CPU time.
    pub const MAX: u32 = 5_000_000;
}

impl Default for Steps {
    fn default() -> Self {
        Self(Self::MAX)
    }
}

impl FromStr for Selector {
    type Err = BadSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(sign) = text.chars().find(|c| OTHER_PATTERNS.contains(c)) {
            return Err(BadSelector { text: text.to_owned(), sign: Some(sign) });
        }
        match text.split_once('/') {
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
                Ok(Self { server: server.to_owned(), tool: tool.to_owned() })
            }
            _ => Err(BadSelector { text: text.to_owned(), sign: None }),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether the whole text matches the pattern, by the rules of [`Selector`]. Allocates nothing. Linear in practice and
/// never exponential, because only the last `*` is retried.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let mut steps = u32::MAX;
    glob_within(pattern, text, &mut steps).unwrap_or(false)
}

/// Like [`matches`], in a limited number of steps; `None` if it takes more.
fn glob_within(pattern: &str, text: &str, steps: &mut u32) -> Option<bool> {
    let (mut pattern, mut text) = (pattern, text);
    let mut retry: Option<(&str, &str)> = None;
    loop {
        *steps = steps.checked_sub(1)?;
        let (mut wanted, mut given) = (pattern.chars(), text.chars());
        match (wanted.next(), given.next()) {
            (Some('*'), _) => {
                pattern = wanted.as_str();
                retry = Some((pattern, text));
            }
            (Some(want), Some(got)) if want == '?' || want == got => {
                (pattern, text) = (wanted.as_str(), given.as_str());
            }
            (None, None) => return Some(true),
            // Let the last `*` match one character more.
            (_, Some(_)) => {
                let Some((after_star, from)) = retry else { return Some(false) };
                let mut longer = from.chars();
                longer.next();
                (pattern, text) = (after_star, longer.as_str());
                retry = Some((after_star, text));
            }
            (Some(_), None) => return Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        let hit = |selector: &str, server: &str, name: &str| {
            selector.parse::<Selector>().unwrap().covers(&ToolId::new(server, name))
        };
        assert!(hit("main/*", "main", "anything"));
        assert!(hit("*/delete*", "files", "delete_all"));
        assert!(!hit("*/delete*", "files", "undelete"));
        assert!(hit("main/a?c", "main", "abc"));
        assert!(!hit("main/a?c", "main", "ac"));
        assert!(hit("main/*_*_x", "main", "a_b_c_x"));
        assert!(!hit("main/Echo", "main", "echo"));
        assert!(hit("main/a/b", "main", "a/b"));
        assert!(!hit("main/**********b", "main", &"a".repeat(5000)));
    }

    #[test]
    fn a_text_without_both_halves_is_refused() {
        for wrong in ["echo", "/echo", "main/", ""] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong:?}");
        }
    }
}
