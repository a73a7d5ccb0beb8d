//! The config file: the tables of the gateway, and `[tmux]` of the built-in server.

use std::path::Path;

use toolgate_gateway::config::{self, BuiltinTable, Config, ConfigError};
use toolgate_tmux::TmuxConfig;

fn builtin() -> BuiltinTable {
    BuiltinTable::of::<TmuxConfig>()
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<Config, ConfigError> {
    Config::read(path, builtin())
}

/// `[tmux]`, if the file has it. Relative paths in it start at the folder of the file.
pub(crate) fn tmux(config: &Config) -> Option<TmuxConfig> {
    let mut tmux: TmuxConfig = config.tmux()?;
    if let Some(folder) = config.path().parent() {
        tmux.anchor(folder);
    }
    Some(tmux)
}

/// The JSON Schema of the file.
pub(crate) fn schema() -> serde_json::Value {
    config::schema(builtin())
}

/// The reference page of the file.
pub(crate) fn reference() -> String {
    config::reference(builtin())
}
