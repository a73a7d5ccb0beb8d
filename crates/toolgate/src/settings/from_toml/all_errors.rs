//! Reads a TOML text as a whole, so that all of its errors are reported and not only the first one.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue, Deserializer},
};

use super::explained;

/// The most errors that are reported of one text.
const MAX_ERRORS: usize = 20;

/// What a text says, and everything that is wrong with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TomlText<T> {
    /// The value, without the keys that are invalid; `None` if no value is left.
    pub value: Option<T>,
    /// The errors, each with its line and without values. None: the value is whole.
    pub errors: Vec<String>,
    /// The invalid keys, each with the tables around it.
    pub left_out: Vec<Vec<String>>,
}

/// Reads a value from a text. An invalid key is left out, and the rest is read again, until no error is left.
#[must_use]
pub fn read_all<T: DeserializeOwned>(text: &str) -> TomlText<T> {
    match toml::from_str(text) {
        Ok(value) => TomlText { value: Some(value), errors: Vec::new(), left_out: Vec::new() },
        Err(_) => read_again(text),
    }
}

fn read_again<T: DeserializeOwned>(text: &str) -> TomlText<T> {
    let (mut table, unreadable) = DeTable::parse_recoverable(text);
    let top = known_keys::<T>();
    let located = |error: toml::de::Error| {
        let at = error.span().map_or(0, |at| at.start);
        (at, explained(text, error, &top))
    };
    let is_readable = unreadable.is_empty();
    let mut found: Vec<(usize, String)> =
        unreadable.into_iter().take(MAX_ERRORS).map(located).collect();
    let (mut value, mut left_out) = (None, Vec::<Vec<String>>::new());
    while is_readable && found.len() < MAX_ERRORS {
        let error = match T::deserialize(Deserializer::from(table.clone())) {
            Ok(read) => {
                value = Some(read);
                break;
            }
            Err(error) => error,
        };
        let removed = error.span().and_then(|at| remove(table.get_mut(), &at));
        // A required key is also missing if it was misspelt, or had an invalid value.
        let is_missing = error.message().starts_with("missing field");
        let follows = removed
            .as_ref()
            .is_some_and(|keys| is_missing && left_out.iter().any(|other| other.starts_with(keys)));
        if !follows {
            found.push(located(error));
        }
        let Some(keys) = removed else { break };
        left_out.push(keys);
    }
    found.sort_by_key(|(at, _)| *at);
    let errors = found.into_iter().map(|(_, error)| error).collect();
    TomlText { value, errors, left_out }
}

/// The keys that a value has at the top, as serde lists them in the error for an unknown key.
fn known_keys<T: DeserializeOwned>() -> Vec<String> {
    let error = toml::from_str::<T>("\"\" = 0").err().map(|error| error.message().to_owned());
    let expected = error.as_deref().and_then(|error| error.split_once(", expected ")).map(|e| e.1);
    super::nearest::quoted(expected.unwrap_or_default()).map(str::to_owned).collect()
}

/// Removes the innermost key at a place, and returns it with the tables around it.
fn remove(table: &mut DeTable<'_>, at: &Range<usize>) -> Option<Vec<String>> {
    for (key, value) in table.iter_mut() {
        if let Some(mut keys) = remove_inside(value.get_mut(), at) {
            keys.insert(0, key.get_ref().to_string());
            return Some(keys);
        }
    }
    let mut members = table.iter();
    let (key, _) =
        members.find(|(key, value)| covers(&key.span(), at) || covers(&value.span(), at))?;
    let key = key.clone();
    table.remove(&key);
    Some(vec![key.into_inner().into_owned()])
}

/// Removes the innermost key at a place inside of a value, or the table of an array; it has no name.
fn remove_inside(value: &mut DeValue<'_>, at: &Range<usize>) -> Option<Vec<String>> {
    let items = match value {
        DeValue::Table(table) => return remove(table, at),
        DeValue::Array(items) => items,
        _ => return None,
    };
    if let Some(keys) = items.iter_mut().find_map(|item| remove_inside(item.get_mut(), at)) {
        return Some(keys);
    }
    let is_there = |item: &Spanned<DeValue<'_>>| {
        matches!(item.get_ref(), DeValue::Table(_)) && covers(&item.span(), at)
    };
    if !items.iter().any(is_there) {
        return None;
    }
    let mut rest = DeArray::new();
    std::mem::replace(items, DeArray::new())
        .into_iter()
        .filter(|item| !is_there(item))
        .for_each(|item| rest.push(item));
    *items = rest;
    Some(Vec::new())
}

fn covers(span: &Range<usize>, at: &Range<usize>) -> bool {
    span.start == at.start || span.contains(&at.start)
}

/// The line on which a key or table occurs first, of one that occurs twice. `at` is the second place.
pub(super) fn first_line(text: &str, at: usize) -> Option<usize> {
    let line_of = |at: usize| text.get(..at).map(|before| before.matches('\n').count());
    let second = line_of(at)?;
    let lines: Vec<&str> = text.lines().collect();
    let header = |line: &str| {
        let line = line.trim_start();
        line.starts_with('[').then(|| line.split(']').next().unwrap_or_default().trim().to_owned())
    };
    let own = lines.get(second)?;
    if let Some(name) = header(own) {
        let first = lines.iter().position(|line| header(line).as_deref() == Some(&name))?;
        return (first < second).then_some(first + 1);
    }
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let start = lines.iter().take(second).rposition(|line| header(line).is_some());
    let start = start.map_or(0, |start| start + 1);
    let mut before = lines.iter().enumerate().take(second).skip(start);
    before.find(|(_, line)| line.contains('=') && key(line) == key(own)).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct File {
        top: Option<String>,
        limits: Limits,
        servers: BTreeMap<String, Server>,
        rules: Vec<Rule>,
    }

    impl Default for File {
        fn default() -> Self {
            let limits = Limits::default();
            Self { top: None, limits, servers: BTreeMap::new(), rules: Vec::new() }
        }
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Limits {
        bytes: u32,
        keep: bool,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Server {
        #[serde(default)]
        args: Vec<String>,
        url: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        limit: u32,
    }

    #[test]
    fn every_error_of_a_text_is_reported_in_its_order() {
        let text = "[limits]\nbytes = \"s3cret\"\nkeep = 5\n[servers.a]\nargs = \"x\"\nurl = \"u\"\nulr = 1\n\
                    [servers.b]\nargs = []\n[[rules]]\nlimit = 1\n[[rules]]\nlimt = 2\n[servers.c]\nurl = \"u\"\ntop = 1\n";
        let read = read_all::<File>(text);
        let told = read.errors.join("\n");
        let lines = ["line 2,", "line 3,", "line 5,", "line 7,", "line 8,", "line 13,", "line 16,"];
        let mut from = 0;
        for line in lines {
            let found = told.get(from..).unwrap().find(line);
            from += found.unwrap_or_else(|| panic!("{line}\n{told}"));
        }
        assert!(!told.contains("s3cret"), "{told}");
        assert!(told.contains("`top` belongs to the top of the file"), "{told}");
        let (file, left_out) = (read.value, read.left_out);
        assert!(left_out.contains(&vec!["servers".to_owned(), "a".to_owned(), "ulr".to_owned()]));
        let file = file.unwrap_or_else(|| panic!("{told}"));
        assert_eq!((file.limits.bytes, file.limits.keep), (0, false));
        assert_eq!((file.servers["a"].url.as_str(), file.servers["a"].args.len()), ("u", 0));
        assert!(!file.servers.contains_key("b"), "an entry without its required key is left out");
        assert!(file.top.is_none() && file.rules.iter().all(|rule| rule.limit == 1));
    }

    #[test]
    fn a_text_that_is_not_toml_has_all_its_errors_too() {
        let read = read_all::<File>("top = \nlimits = {\n[servers.a\n");
        assert!(read.value.is_none() && read.errors.len() > 1, "{:?}", read.errors);
        assert!(read_all::<File>("").errors.is_empty());
    }

    #[test]
    fn a_repeated_key_is_found_where_it_was_first() {
        for (text, line) in [
            ("[servers.a]\nurl = \"x\"\n[limits]\n[servers.a]\n", 1),
            ("[servers.b]\nurl = \"x\"\n[servers.a]\nurl = \"x\"\nargs = []\nurl = \"y\"\n", 4),
        ] {
            let told = read_all::<File>(text).errors.join("\n");
            assert!(told.contains(&format!("twice, first in line {line}: merge them")), "{told}");
        }
    }
}
