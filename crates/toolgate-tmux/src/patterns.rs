//! The search patterns of callers: plain text, or regular expressions that match in linear time.

use regex::{Regex, RegexBuilder};
use toolgate::{Executed, Failure};

use crate::tool::invalid_arguments;

/// The maximum memory of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// How a pattern is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternOptions {
    /// Whether it is a regular expression.
    pub(crate) regex: bool,
    /// Whether upper and lower case differ.
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
        // The last line of the error says what is wrong; those before it show the pattern.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        Failure::tool("error", format!("Invalid regex pattern: {why}"))
            .with_executed(Executed::No)
            .suggest("Write it without look-around and back-references, or set regex=false.")
    })
}

/// Compiles several patterns; none may be empty.
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

/// The index of the first pattern that matches any line, and the lines that it matches.
pub(crate) fn first<'a>(patterns: &[Regex], lines: &[&'a str]) -> Option<(usize, Vec<&'a str>)> {
    let hits = |pattern: &Regex| -> Vec<&'a str> {
        lines.iter().copied().filter(|line| pattern.is_match(line)).collect()
    };
    let mut found = patterns.iter().map(hits).enumerate();
    found.find(|(_, lines)| !lines.is_empty())
}
