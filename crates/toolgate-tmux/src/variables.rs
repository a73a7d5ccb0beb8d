//! The environment variables of libtmux-mcp. An invalid value is an error at startup: a guess could widen access.

use std::{path::PathBuf, time::Duration};

use toolgate::{Tier, duration};

use crate::{
    config::{TmuxConfig, check_wait},
    toolsets::Toolset,
};

/// Every supported variable, with its description.
pub const VARIABLES: &[(&str, &str)] = &[
    ("LIBTMUX_SAFETY", "the highest tier: readonly, mutating, destructive"),
    ("LIBTMUX_TOOLSETS", "groups of tools, with commas: inspect, manage, execute, teardown"),
    ("LIBTMUX_TOOLS", "single tools that there are too, with commas"),
    ("LIBTMUX_EXCLUDE_TOOLS", "single tools that there are not, with commas"),
    ("LIBTMUX_SOCKET", "the tmux server, by the name of its socket"),
    ("LIBTMUX_SOCKET_PATH", "the same by its path; wins over the name"),
    ("LIBTMUX_TMUX_BIN", "the tmux program"),
    ("LIBTMUX_SUPPRESS_HISTORY", "1 or 0: whether run_command keeps out of the shell's history"),
    ("LIBTMUX_MCP_WAIT_MAX_SECONDS", "how long a tool waits at most, from 1 to 120"),
    ("LIBTMUX_MCP_PROMPTS_AS_TOOLS", "1: prompts are tools, too"),
];

/// A variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the variable {name} {why}, or unset it")]
pub struct BadVariable {
    name: &'static str,
    why: String,
}

/// The settings from the variables.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// The settings that override the config file.
    pub config: TmuxConfig,
    /// The safety tier, if set.
    pub safety: Option<Tier>,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
}

impl Variables {
    /// Reads the variables of this process.
    pub fn read() -> Result<Self, BadVariable> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let mut variables = Self::from(&|name| std::env::var_os(name)?.into_string().ok())?;
        let is_known = |name: &String| VARIABLES.iter().any(|(known, _)| known == name);
        for name in names.filter(|name| name.starts_with("LIBTMUX_") && !is_known(name)) {
            variables.warnings.push(format!("the variable {name} means nothing to toolgate tmux"));
        }
        Ok(variables)
    }

    fn from(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, BadVariable> {
        let filled = |name| lookup(name).filter(|value| !value.is_empty());
        let mut warnings = Vec::new();
        let config = TmuxConfig {
            socket_name: filled("LIBTMUX_SOCKET").map(socket_name).transpose()?,
            socket_path: filled("LIBTMUX_SOCKET_PATH").map(PathBuf::from),
            bin: filled("LIBTMUX_TMUX_BIN").map(PathBuf::from),
            wait_max: wait(lookup, &mut warnings)?,
            suppress_history: history(lookup)?,
            prompts_as_tools: prompts(lookup)?,
            toolsets: toolsets(lookup)?,
            tools: list(lookup, "LIBTMUX_TOOLS"),
            exclude_tools: list(lookup, "LIBTMUX_EXCLUDE_TOOLS"),
            ..TmuxConfig::default()
        };
        let safety = lookup("LIBTMUX_SAFETY").map(|value| {
            let why = |error| format!("is refused: {error}");
            value.parse().map_err(|error| bad("LIBTMUX_SAFETY", why(error)))
        });
        Ok(Self { config, safety: safety.transpose()?, warnings })
    }
}

fn bad(name: &'static str, why: impl Into<String>) -> BadVariable {
    BadVariable { name, why: why.into() }
}

fn socket_name(name: String) -> Result<String, BadVariable> {
    let is_name = !name.contains(['/', '\0']) && !name.starts_with('.');
    let why = "is no name of a socket: write one without `/`, as `default`";
    is_name.then_some(name).ok_or_else(|| bad("LIBTMUX_SOCKET", why))
}

fn list(lookup: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<Vec<String>> {
    let words = lookup(name)?;
    let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
    Some(words.map(str::to_owned).collect())
}

fn toolsets(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Vec<Toolset>>, BadVariable> {
    const NAME: &str = "LIBTMUX_TOOLSETS";
    let Some(words) = list(lookup, NAME) else { return Ok(None) };
    let sets = words.iter().map(|word| word.parse());
    let sets = sets.collect::<Result<_, String>>();
    sets.map(Some).map_err(|error| bad(NAME, format!("is refused: {error}")))
}

fn history(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<bool>, BadVariable> {
    match lookup("LIBTMUX_SUPPRESS_HISTORY").as_deref() {
        None => Ok(None),
        Some("1") => Ok(Some(true)),
        Some("0") => Ok(Some(false)),
        Some(_) => {
            Err(bad("LIBTMUX_SUPPRESS_HISTORY", "must be unset, '0', or '1': write one of them"))
        }
    }
}

fn prompts(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<bool>, BadVariable> {
    match lookup("LIBTMUX_MCP_PROMPTS_AS_TOOLS").as_deref() {
        None => Ok(None),
        Some("1") => Ok(Some(true)),
        Some("0" | "") => Ok(Some(false)),
        Some(_) => {
            Err(bad("LIBTMUX_MCP_PROMPTS_AS_TOOLS", "is neither '0' nor '1': write one of them"))
        }
    }
}

/// Clamps a wait to its limits, as libtmux-mcp documents.
fn wait(
    lookup: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Option<Duration>, BadVariable> {
    const NAME: &str = "LIBTMUX_MCP_WAIT_MAX_SECONDS";
    let Some(text) = lookup(NAME) else { return Ok(None) };
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    let seconds = seconds.ok_or_else(|| bad(NAME, "is no number: write seconds, from 1 to 120"))?;
    let wait = Duration::from_secs_f64(seconds.clamp(1.0, 120.0));
    if Duration::try_from_secs_f64(seconds).is_ok_and(|given| check_wait(given).is_ok()) {
        return Ok(Some(wait));
    }
    let used = duration::format(wait);
    warnings.push(format!("{NAME}={seconds} is out of bounds (1 to 120): it is taken for {used}"));
    Ok(Some(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Variables, BadVariable> {
        Variables::from(&|name| {
            let found = pairs.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_would() {
        for (name, value, said) in [
            ("LIBTMUX_SAFETY", "Readonly", "unknown safety tier `Readonly`"),
            ("LIBTMUX_TOOLSETS", "inspect,all", "unknown toolset `all`: write core, inspect"),
            ("LIBTMUX_SUPPRESS_HISTORY", "yes", "must be unset, '0', or '1'"),
            ("LIBTMUX_MCP_PROMPTS_AS_TOOLS", "true", "neither '0' nor '1'"),
            ("LIBTMUX_MCP_WAIT_MAX_SECONDS", "inf", "write seconds, from 1 to 120"),
            ("LIBTMUX_SOCKET", "../x", "no name of a socket"),
        ] {
            let refused = from(&[(name, value)]).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn waits_are_brought_into_bounds_with_a_word() {
        for (given, taken, warned) in [("0", 1, 1), ("-5", 1, 1), ("1e9", 120, 1), ("45.0", 45, 0)]
        {
            let read = from(&[("LIBTMUX_MCP_WAIT_MAX_SECONDS", given)]).unwrap();
            assert_eq!(read.config.wait_max, Some(Duration::from_secs(taken)), "{given}");
            assert_eq!(read.warnings.len(), warned, "{given}");
        }
    }

    #[test]
    fn an_empty_list_of_toolsets_is_none_of_them() {
        assert_eq!(from(&[("LIBTMUX_TOOLSETS", "")]).unwrap().config.toolsets, Some(Vec::new()));
        assert_eq!(from(&[]).unwrap().config.toolsets, None);
        let tools = from(&[("LIBTMUX_TOOLS", " a, ,b")]).unwrap().config.tools;
        assert_eq!(tools, Some(vec!["a".to_owned(), "b".to_owned()]));
    }
}
