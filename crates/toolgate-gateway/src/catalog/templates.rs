//! Matches URIs against the URI templates (RFC 6570) of servers, so that the gateway knows which server has a resource.
//!
//! A template becomes a regular expression, which matches in linear time, whatever a server lists.

use std::fmt::Write as _;

use regex::bytes::{Regex, RegexBuilder};

/// A longer template matches only its own text.
const MAX_TEMPLATE_LENGTH: usize = 1024;
/// A longer URI matches no template.
const MAX_URI_LENGTH: usize = 32 * 1024;
/// The memory limit of one template's expression, and of the matcher's cache.
const EXPRESSION_BYTES: usize = 1 << 20;

/// The bytes that the value of a variable may have. Servers are lenient about percent-encoding, so the pattern is, too.
const ANY: &str = ".";
const SEGMENT: &str = "[^/]";
const QUERY: &str = "[^&#]";

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// The prefix of every match.
    start: Box<str>,
    /// `None`: only `start` itself matches.
    expression: Option<Regex>,
}

impl Template {
    /// Parses a template. A malformed template matches only its own text.
    pub(crate) fn parse(text: &str) -> Self {
        let is_template = text.len() <= MAX_TEMPLATE_LENGTH && text.contains('{');
        let pattern = is_template.then(|| template(text)).flatten();
        let expression = pattern.and_then(|pattern| {
            let mut builder = RegexBuilder::new(&format!(r"\A{pattern}\z"));
            builder.unicode(false).dot_matches_new_line(true);
            builder.size_limit(EXPRESSION_BYTES).dfa_size_limit(EXPRESSION_BYTES).build().ok()
        });
        let start = match &expression {
            Some(_) => text.split('{').next().unwrap_or_default(),
            None => text,
        };
        Self { start: start.into(), expression }
    }

    /// The length of the fixed prefix: a longer prefix is more specific.
    pub(crate) fn literal(&self) -> usize {
        self.start.len()
    }

    /// Whether the template fixes the scheme (`file:`) of all matches.
    pub(crate) fn has_scheme(&self) -> bool {
        let (scheme, _) = self.start.split_once(':').unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(fits)
    }

    /// Whether the template can produce this URI.
    pub(crate) fn matches(&self, address: &str) -> bool {
        match &self.expression {
            None => *address == *self.start,
            Some(expression) => {
                address.len() <= MAX_URI_LENGTH
                    && address.starts_with(&*self.start)
                    && expression.is_match(address.as_bytes())
            }
        }
    }
}

/// The pattern of a template; `None` if it is malformed.
fn template(text: &str) -> Option<String> {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}')?;
        pattern += &outside(before)?;
        pattern += &expression(inside)?;
        rest = after;
    }
    pattern += &outside(rest)?;
    Some(pattern)
}

fn outside(text: &str) -> Option<String> {
    (!text.contains('}')).then(|| regex::escape(text))
}

fn expression(text: &str) -> Option<String> {
    let operator = text.chars().next().filter(|c| "+#./;?&".contains(*c));
    let names = text.get(operator.map_or(0, char::len_utf8)..)?;
    let variables: Vec<_> = names.split(',').map(variable).collect::<Option<_>>()?;
    let is_many = variables.iter().any(|variable| variable.is_many);
    Some(match operator {
        // Some servers use `{path*}` for the rest of a path, slashes included.
        None if is_many => format!("{ANY}+"),
        None => format!("{SEGMENT}+"),
        Some('+') => format!("{ANY}*"),
        Some('#') => format!("(?:#{ANY}*)?"),
        Some('.') => format!(r"(?:\.{SEGMENT}*)?"),
        Some('/') if is_many => format!("(?:/{SEGMENT}*)*"),
        Some('/') => format!("(?:/{SEGMENT}*)?").repeat(variables.len()),
        Some(';') => format!("(?:;{})*", pair(&variables, SEGMENT)),
        Some('&') => format!("(?:&{})*", pair(&variables, QUERY)),
        Some(_) => {
            let pair = pair(&variables, QUERY);
            format!(r"(?:\?{pair}(?:&{pair})*)?")
        }
    })
}

/// The pattern for the name of one of the variables and an optional value. A list (`*`) may have any names.
fn pair(variables: &[Variable<'_>], value: &str) -> String {
    if variables.iter().any(|variable| variable.is_many) {
        return format!("{value}*");
    }
    let mut names = String::new();
    for variable in variables {
        let or = if names.is_empty() { "" } else { "|" };
        let _ = write!(names, "{or}{}", regex::escape(variable.name));
    }
    format!("(?:{names})(?:={value}*)?")
}

/// A variable of an expression.
#[derive(Clone, Copy)]
struct Variable<'a> {
    name: &'a str,
    /// `*`: a list, or names with values.
    is_many: bool,
}

/// `name`, `name*` or `name:3`.
fn variable(text: &str) -> Option<Variable<'_>> {
    let (name, is_many) = match text.strip_suffix('*') {
        Some(name) => (name, true),
        None => (text, false),
    };
    // Ignore the maximum length of the value: the server checks it.
    let name = match name.split_once(':') {
        Some((name, length)) if !is_many => {
            let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some(name)?
        }
        _ => name,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%-".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    is_name.then_some(Variable { name, is_many })
}

#[cfg(test)]
mod tests;
