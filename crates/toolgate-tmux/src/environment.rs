//! The argument `environment`: variables for the programs that a tool starts in a pane.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::Failure;

use crate::{engine::Command, tool::invalid_arguments};

/// An object, or the JSON text of an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Environment {
    /// Values by name.
    Map(BTreeMap<String, String>),
    /// The same as JSON text.
    Text(String),
}

/// The variables that keep shells from writing a history, with the values that a caller may give, too.
const NO_HISTORY: &[(&str, &str)] =
    &[("HISTFILE", ""), ("fish_history", ""), ("fish_private_mode", "1")];

/// Checks the variables, and adds those against a shell history if `no_history` is set. Errors do not repeat values.
pub fn variables(
    environment: Option<&Environment>,
    no_history: bool,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = match environment {
        None => BTreeMap::new(),
        Some(Environment::Map(map)) => map.clone(),
        Some(Environment::Text(text)) if text.trim().is_empty() => BTreeMap::new(),
        Some(Environment::Text(text)) => serde_json::from_str(text).map_err(|_| {
            invalid_arguments("environment must be a JSON object of strings".to_owned())
        })?,
    };
    if all.keys().any(|name| name.is_empty() || name.contains('=')) {
        return Err(invalid_arguments(
            "environment names must not be empty or contain `=`".to_owned(),
        ));
    }
    if no_history {
        for (name, value) in NO_HISTORY {
            let given = all.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
            if given != value {
                return Err(invalid_arguments(format!(
                    "environment variable {name} conflicts with suppress_persistent_history=True; omit it \
                     or set it to an empty string"
                )));
            }
        }
        let control = all.entry("HISTCONTROL".to_owned()).or_default();
        if !control.split(':').any(|word| matches!(word, "ignorespace" | "ignoreboth")) {
            let separator = if control.is_empty() { "" } else { ":" };
            *control = format!("{control}{separator}ignorespace");
        }
    }
    Ok(all)
}

/// Adds the variables to a command that starts a program.
#[must_use]
pub fn with_variables(command: Command, variables: &BTreeMap<String, String>) -> Command {
    let add = |command: Command, (name, value): (&String, &String)| {
        command.option("-e", format!("{name}={value}"))
    };
    variables.iter().fold(command, add)
}
