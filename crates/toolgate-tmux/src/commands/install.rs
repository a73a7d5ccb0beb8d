//! The guard's place in the chain.

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
use crate::{call::Shared, server::NAME};

/// Adds the command guard to what a chain is built from, where the chain has a place for it.
pub(crate) fn install(shared: &Arc<Shared>, settings: &mut Settings, parts: &mut Parts) {
    let config = &shared.options.commands;
    if !config.enabled {
        return;
    }
    // A person is asked only about what nothing else refuses; libtmux-mcp's own order has safety last.
    let fits = |preset: Preset| {
        let place = |layer| preset.order().iter().position(|(name, _)| *name == layer);
        place(preconditions::NAME) > place(safety::NAME)
    };
    if let Some(preset) = settings.chain.preset().filter(|preset| !fits(*preset)) {
        tracing::warn!("the command guard is off: the chain `{preset}` has no place for it");
        return;
    }
    let tools = TOOLS.iter().filter_map(|tool| format!("{NAME}/{tool}").parse().ok());
    let when = tools.map(Selection::Glob).collect();
    settings.preconditions.push(PreconditionRule { when, require: vec![ID.to_owned()] });
    let guard = CommandGuard::new(config.clone(), Some(Arc::clone(shared)));
    parts.preconditions.push(Arc::new(guard));
}
