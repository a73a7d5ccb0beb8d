//! What callers look for: plain text or regular expressions, of a kind that cannot run away.

use regex::{Regex, RegexBuilder};
use toolgate::{Executed, Failure};

use crate::tool::invalid_arguments;

/// The most memory of one compiled pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// How patterns are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternOptions {
    /// As regular expressions.
    pub(crate) regex: bool,
    /// Upper and lower case are different.
    pub(crate) match_case: bool,
}

/// Compiles one pattern.
pub(crate) fn compile(pattern: &str, how: PatternOptions) -> Result<Regex, Failure> {
    let source = if how.regex { pattern.to_owned() } else { regex::escape(pattern) };
    let mut builder = RegexBuilder::new(&source);
    builder
        .case_insensitive(!how.match_case)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    builder.build().map_err(|error| {
        // The last line says what is wrong; those before it show the pattern.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        Failure::tool("error", format!("Invalid regex pattern: {why}"))
            .with_executed(Executed::No)
            .suggest("Write it without look-around and back-references, or set regex=false.")
    })
}

/// Compiles several; none may be empty.
pub(crate) fn compile_all(
    label: &str,
    patterns: &[String],
    how: PatternOptions,
) -> Result<Vec<Regex>, Failure> {
    let one = |pattern: &String| {
        if pattern.is_empty() {
            return Err(invalid_arguments(format!("{label} pattern must be a non-empty string")));
        }
        compile(pattern, how)
    };
    patterns.iter().map(one).collect()
}

/// The first pattern that is found in any of the lines, and the lines that it is found in.
pub(crate) fn first<'a>(patterns: &[Regex], lines: &[&'a str]) -> Option<(usize, Vec<&'a str>)> {
    let hits = |pattern: &Regex| -> Vec<&'a str> {
        lines.iter().copied().filter(|line| pattern.is_match(line)).collect()
    };
    let mut found = patterns.iter().map(hits).enumerate();
    found.find(|(_, lines)| !lines.is_empty())
}
