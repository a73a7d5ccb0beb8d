//! `TOOLGATE_*` variables and `MCP_SCOPES`: they override the config file, and the command line overrides them.

use std::{ffi::OsString, path::PathBuf};

/// Every variable that toolgate reads, with its meaning.
pub const VARIABLES: &[(&str, &str)] = &[
    ("TOOLGATE_CONFIG", "the config file, as `--config`"),
    ("TOOLGATE_CHAIN", "the chain, as `--chain`"),
    ("TOOLGATE_SAFETY", "the highest tier that is allowed, as `--safety`"),
    ("TOOLGATE_CONFIRM", "the tier from which on calls are confirmed, as `--confirm`"),
    ("TOOLGATE_DRY_RUN", "`true` or `false`: whether calls are only shown, as `--dry-run`"),
    ("TOOLGATE_AUDIT", "where the audit goes, as `--audit`"),
    ("TOOLGATE_LIMIT", "the most bytes of one result, as `--limit`"),
    ("TOOLGATE_TIMEOUT", "how long a call may take, as `--timeout`"),
    ("TOOLGATE_RETRY", "how often readonly calls are tried again, as `--retry`"),
    ("TOOLGATE_STORE", "the store of the call log, as `--store`"),
    ("MCP_SCOPES", "the scopes that are granted at most, with commas: `read,write`"),
    ("TOOLGATE_OTLP", "the collector of spans and metrics, as `--otlp`"),
    ("TOOLGATE_LOG", "how many messages toolgate writes on stderr: off, error, warn, info, debug"),
];

/// The folder of toolgate's state: `toolgate` in `XDG_STATE_HOME`, or in `.local/state` of `HOME`. `None` if neither
/// variable is an absolute path.
#[must_use]
pub fn state_folder() -> Option<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map(|state| state.join("toolgate"))
}

/// The set variables that begin with `TOOLGATE_` but that toolgate does not read, each with the nearest known name.
#[must_use]
pub fn unknown() -> Vec<(String, Option<&'static str>)> {
    unknown_among(std::env::vars_os().map(|(name, _)| name))
}

fn unknown_among(names: impl Iterator<Item = OsString>) -> Vec<(String, Option<&'static str>)> {
    let is_known = |name: &str| VARIABLES.iter().any(|(known, _)| *known == name);
    let ours = names.filter_map(|name| name.into_string().ok());
    let ours = ours.filter(|name| name.starts_with("TOOLGATE_") && !is_known(name));
    let mut unknown: Vec<_> = ours.map(|name| (name.clone(), nearest(&name))).collect();
    unknown.sort();
    unknown
}

fn nearest(name: &str) -> Option<&'static str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let known = VARIABLES.iter().map(|(known, _)| *known);
    known.min_by_key(|known| distance(known)).filter(|known| distance(known) <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_with_our_prefix_are_reported() {
        let set = ["PATH", "TOOLGATE_SAFETY", "TOOLGATE_SAFTEY", "TOOLGATE_X"];
        let unknown = unknown_among(set.into_iter().map(OsString::from));
        assert_eq!(
            unknown,
            [
                ("TOOLGATE_SAFTEY".to_owned(), Some("TOOLGATE_SAFETY")),
                ("TOOLGATE_X".to_owned(), None)
            ]
        );
    }
}
