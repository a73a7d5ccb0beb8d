//! The names of the presets, as in `chain = "libtmux"`. [`presets`](crate::presets) defines their chains.

use std::fmt;

/// A chain that follows another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// libtmux-mcp: five middlewares around a terminal.
    Libtmux,
    /// `MetaMCP`: functional middleware over listings and calls.
    Metamcp,
    /// mcp-core: four layers, of which the last one records.
    McpCore,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::Libtmux, Self::Metamcp, Self::McpCore];

    /// The name in `chain = "…"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Libtmux => "libtmux",
            Self::Metamcp => "metamcp",
            Self::McpCore => "mcp-core",
        }
    }

    /// The preset of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
