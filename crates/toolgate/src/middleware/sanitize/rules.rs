//! Compiled patterns and detectors, and their replacements in a text.

use std::{borrow::Cow, cell::OnceCell};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Captures, Regex, RegexBuilder};

use super::{
    config::SanitizeConfig,
    detectors::{Check, DEFAULTS, DETECTORS, Detector, MatchPosition},
};

/// Largest memory of one compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Why the settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSanitize {
    /// A pattern does not compile or takes too much memory.
    #[error("the pattern `{pattern}` of `[sanitize]` is refused: {why}")]
    Pattern {
        /// The pattern, as it was written.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// A pattern matches the empty text.
    #[error(
        "the pattern `{0}` of `[sanitize]` matches the empty text and would be replaced everywhere: \
         write `+` instead of `*`, or name what must be there"
    )]
    Empty(String),
    /// A replacement names a group that its pattern does not have.
    #[error(
        "`{replace}` names a group `{group}` that the pattern `{pattern}` of `[sanitize]` does not \
         have: write `${{1}}x` for the first group with an `x` after it, `$$` for a dollar"
    )]
    Group {
        /// The pattern.
        pattern: String,
        /// The replacement.
        replace: String,
        /// The group.
        group: String,
    },
    /// The settings clean nothing.
    #[error(
        "`[sanitize]` cleans nothing: set `secrets = true`, `defaults = true` or `patterns`, or \
         remove the table"
    )]
    Nothing,
}

/// All patterns and detectors with their replacements.
#[derive(Debug)]
pub(super) struct Rules {
    patterns: Vec<(Regex, String)>,
    defaults: Vec<(Regex, String)>,
    secrets: Option<Secrets>,
}

impl Rules {
    pub(super) fn new(config: &SanitizeConfig) -> Result<Self, BadSanitize> {
        if !config.is_on() {
            return Err(BadSanitize::Nothing);
        }
        let patterns = config.patterns.iter().map(|own| compile(&own.pattern, &own.replace));
        let defaults = DEFAULTS.iter().filter(|_| config.defaults);
        let defaults = defaults.map(|(pattern, replace)| compile(pattern, replace));
        Ok(Self {
            patterns: patterns.collect::<Result<_, _>>()?,
            defaults: defaults.collect::<Result<_, _>>()?,
            secrets: if config.secrets { Some(Secrets::new()?) } else { None },
        })
    }

    /// The number of patterns and whether the detectors are on, in words.
    pub(super) fn extent(&self) -> (usize, bool) {
        (self.patterns.len() + self.defaults.len(), self.secrets.is_some())
    }

    /// The cleaned text; `None` if it stays unchanged.
    pub(super) fn clean(&self, text: &str) -> Option<String> {
        let mut clean = Cow::Borrowed(text);
        replace_all(&self.patterns, &mut clean);
        // Each of the defaults contains this byte, and most texts do not.
        if memchr::memchr(b'=', clean.as_bytes()).is_some() {
            replace_all(&self.defaults, &mut clean);
        }
        if let Some(secrets) = &self.secrets {
            secrets.redact(&mut clean);
        }
        match clean {
            Cow::Owned(clean) if clean != text => Some(clean),
            _ => None,
        }
    }
}

fn replace_all(patterns: &[(Regex, String)], text: &mut Cow<'_, str>) {
    for (pattern, replace) in patterns {
        if let Cow::Owned(next) = pattern.replace_all(text, replace.as_str()) {
            *text = Cow::Owned(next);
        }
    }
}

fn build(pattern: &str) -> Result<Regex, BadSanitize> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build().map_err(|error| {
        BadSanitize::Pattern { pattern: pattern.to_owned(), why: error.to_string() }
    })
}

fn compile(pattern: &str, replace: &str) -> Result<(Regex, String), BadSanitize> {
    let regex = build(pattern)?;
    if regex.is_match("") {
        return Err(BadSanitize::Empty(pattern.to_owned()));
    }
    let has = |group: &str| match group.parse::<usize>() {
        Ok(number) => number < regex.captures_len(),
        Err(_) => regex.capture_names().flatten().any(|name| name == group),
    };
    if let Some(group) = groups(replace).find(|group| !has(group)) {
        let (pattern, replace) = (pattern.to_owned(), replace.to_owned());
        return Err(BadSanitize::Group { pattern, replace, group: group.to_owned() });
    }
    Ok((regex, replace.to_owned()))
}

/// The groups that a replacement names. The crate regex ignores unknown groups, so a misspelt one would go unnoticed.
fn groups(replace: &str) -> impl Iterator<Item = &str> {
    let mut rest = replace;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('$')?;
            if let Some(after) = after.strip_prefix('$') {
                rest = after;
                continue;
            }
            let braced = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let (group, after) = braced.unwrap_or_else(|| {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                after.split_at(end.unwrap_or(after.len()))
            });
            rest = after;
            if !group.is_empty() {
                return Some(group);
            }
        }
    })
}

/// The detectors: one search for all literals, then the patterns of the literals that occur.
#[derive(Debug)]
struct Secrets {
    literals: AhoCorasick,
    /// The detector of each literal.
    owners: Vec<usize>,
    patterns: Vec<Regex>,
}

impl Secrets {
    fn new() -> Result<Self, BadSanitize> {
        let (mut literals, mut owners) = (Vec::new(), Vec::new());
        for (at, detector) in DETECTORS.iter().enumerate() {
            for literal in detector.literals {
                literals.push(*literal);
                owners.push(at);
            }
        }
        let literals = AhoCorasick::builder()
            // Prefer the longer of `sk-ant-` and `sk-`.
            .match_kind(MatchKind::LeftmostLongest)
            .build(&literals)
            .map_err(|error| BadSanitize::Pattern {
                pattern: literals.join("|"),
                why: error.to_string(),
            })?;
        let patterns = DETECTORS.iter().map(|detector| build(detector.pattern));
        Ok(Self { literals, owners, patterns: patterns.collect::<Result<_, _>>()? })
    }

    fn redact(&self, text: &mut Cow<'_, str>) {
        let candidates = self.candidates(text.as_bytes());
        if candidates == 0 {
            return;
        }
        for (at, (detector, pattern)) in DETECTORS.iter().zip(&self.patterns).enumerate() {
            if candidates & (1_u64 << at) != 0
                && let Cow::Owned(next) =
                    pattern.replace_all(text, |found: &Captures<'_>| detector.replace(found))
            {
                *text = Cow::Owned(next);
            }
        }
    }

    /// The detectors that may match, one bit each.
    fn candidates(&self, text: &[u8]) -> u64 {
        let mut candidates = 0_u64;
        let last_at = OnceCell::new();
        for found in self.literals.find_iter(text) {
            let owner = self.owners.get(found.pattern().as_usize()).copied();
            let Some((at, detector)) = owner.and_then(|at| Some((at, DETECTORS.get(at)?))) else {
                continue;
            };
            let bit = 1_u64 << at;
            if candidates & bit == 0 && detector.place.fits(text, found.start(), &last_at) {
                candidates |= bit;
            }
        }
        candidates
    }
}

impl MatchPosition {
    /// Whether a literal at `start` can belong to a match. The last `@` is searched once.
    fn fits(self, text: &[u8], start: usize, last_at: &OnceCell<Option<usize>>) -> bool {
        match self {
            Self::Start => {
                let before = start.checked_sub(1).and_then(|at| text.get(at));
                before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
            }
            Self::Within => true,
            Self::BeforeAt => {
                let last_at = last_at.get_or_init(|| memchr::memrchr(b'@', text));
                last_at.is_some_and(|at| at > start)
            }
        }
    }
}

impl Detector {
    /// The replacement of a match.
    fn replace(&self, found: &Captures<'_>) -> String {
        let group = |name| found.name(name).map_or("", |group| group.as_str());
        let (keep, after) = (group("keep"), group("after"));
        let whole = found.get(0).map_or("", |whole| whole.as_str());
        let secret = whole.get(keep.len()..).unwrap_or_default();
        let is_mixed = || {
            secret.contains(|c: char| c.is_ascii_digit())
                && secret.contains(|c: char| c.is_ascii_alphabetic())
        };
        if self.check == Check::Mixed && !is_mixed() {
            return whole.to_owned();
        }
        format!("{keep}[redacted: {}]{after}", self.kind)
    }
}
