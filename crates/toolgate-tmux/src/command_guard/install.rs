//! Adds the command guard to the settings and parts of a chain.

use std::sync::Arc;

use toolgate::{
    Selection,
    middleware::{
        preconditions::{self, PreconditionRule},
        safety,
    },
    presets::Preset,
    settings::Settings,
    stack::Parts,
};

use super::{CommandGuard, ID, TOOLS};
use crate::{call::ServerState, name::NAME};

/// Requires the command guard in the chain, where the chain asks for confirmations.
pub(crate) fn require(shared: &ServerState, settings: &mut Settings) {
    if !shared.options.commands.enabled {
        return;
    }
    // The guard asks a person only about calls that no other layer refuses. In libtmux-mcp's own order the safety layer
    // is last.
    let fits = |preset: Preset| {
        let place = |layer| preset.order().iter().position(|place| place.name == layer);
        place(preconditions::NAME) > place(safety::NAME)
    };
    if let Some(preset) = settings.chain.preset().filter(|preset| !fits(*preset)) {
        tracing::warn!("the command guard is off: the chain `{preset}` has no place for it");
        return;
    }
    let tools = TOOLS.iter().filter_map(|tool| format!("{NAME}/{tool}").parse().ok());
    let when = tools.map(Selection::Glob).collect();
    let rules = settings.preconditions.get_or_insert_default();
    rules.push(PreconditionRule { when, require: vec![ID.to_owned()] });
}

/// Adds the command guard to the parts. A chain without it may be replaced by one with it.
pub(crate) fn install(shared: &Arc<ServerState>, parts: &mut Parts) {
    let config = &shared.options.commands;
    if config.enabled {
        let guard = CommandGuard::new(config.clone(), Some(Arc::clone(shared)));
        parts.preconditions.push(Arc::new(guard));
    }
}
