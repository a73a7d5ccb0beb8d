//! The map between names on the wire and tools.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Original, OverrideConfig, replace::Replacement};
use crate::identity::ToolId;

/// Largest length of a tool's name.
const MAX_NAME: usize = 128;

/// The overrides of a namespace: a one-to-one mapping, checked when it is built, immutable.
///
/// Names are unique per server; tools of different servers do not affect each other.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    // INVARIANT: within a server no two renamed tools share a name, and no renamed tool has a name by which another
    // tool with an override can be called.
    renamed: Vec<(ToolId, Arc<str>)>,
    tools: Arc<HashMap<ToolId, Replacement>>,
    names: HashMap<ToolId, Arc<str>>,
    meanings: HashMap<Box<str>, HashMap<Arc<str>, Meaning>>,
}

#[derive(Clone, Debug)]
enum Meaning {
    /// The tool with this original name.
    Tool(Arc<str>),
    /// The own name of a renamed tool with `original = "retired"`: calls by it are refused.
    Gone,
}

/// The resolution of a name on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedName<'a> {
    /// The tool, by its server's own name.
    Tool(&'a str),
    /// The original name of a renamed tool. It counts as the name of a tool that does not exist.
    Gone,
}

/// Why overrides are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A tool has more than one override.
    #[error("`{0}` has two overrides: put them together")]
    DuplicateTool(ToolId),
    /// An invalid name.
    #[error(
        "`{name}` cannot be the name of `{tool}`: write 1 to {MAX_NAME} letters, digits, `_`, `-`, `.` \
         or `/`"
    )]
    BadName {
        /// The tool.
        tool: ToolId,
        /// The name.
        name: String,
    },
    /// An empty title.
    #[error("the title of `{0}` is empty: write one, or leave it out to keep the tool's own")]
    EmptyTitle(ToolId),
    /// Two tools get one name.
    #[error("`{first}` and `{second}` are both named `{name}`: give one of them another name")]
    SameName {
        /// The first tool.
        first: ToolId,
        /// The second tool.
        second: ToolId,
        /// The name.
        name: String,
    },
    /// A tool gets the name of another tool that keeps it.
    #[error(
        "`{tool}` is named `{name}`, and `{other}` is still called so: choose another name, or rename \
         `{other}` too, with `original = \"retired\"`"
    )]
    Taken {
        /// The tool that gets the name.
        tool: ToolId,
        /// The name.
        name: String,
        /// The tool that has it.
        other: ToolId,
    },
    /// An argument is both hidden and given a default.
    #[error(
        "argument `{argument}` of `{tool}` is hidden and has a default: keep one of the two, a hidden \
         one always has its value"
    )]
    HiddenDefault {
        /// The tool.
        tool: ToolId,
        /// The argument.
        argument: String,
    },
}

impl Overrides {
    /// Checks and compiles the overrides.
    pub fn new(overrides: Vec<(ToolId, OverrideConfig)>) -> Result<Self, OverrideError> {
        let mut tools = HashMap::new();
        let mut renamed = Vec::new();
        for (tool, config) in overrides {
            check(&tool, &config)?;
            // A tool whose new name is its own name is not renamed.
            if let Some(name) = config.name.as_deref().filter(|name| *name != tool.name()) {
                renamed.push((tool.clone(), Arc::from(name)));
            }
            if tools.insert(tool.clone(), Replacement::new(&config)).is_some() {
                return Err(OverrideError::DuplicateTool(tool));
            }
        }
        let overrides = Self::joined(Arc::new(tools), renamed);
        overrides.check_names()?;
        Ok(overrides)
    }

    /// A copy in which exactly these tools are renamed.
    pub(super) fn joined(
        tools: Arc<HashMap<ToolId, Replacement>>,
        renamed: Vec<(ToolId, Arc<str>)>,
    ) -> Self {
        let mut meanings: HashMap<Box<str>, HashMap<Arc<str>, Meaning>> = HashMap::new();
        for (tool, _) in &renamed {
            let names = meanings.entry(tool.server().into()).or_default();
            if tools.get(tool).is_some_and(|tool| tool.original() == Original::Retired) {
                names.insert(tool.name().into(), Meaning::Gone);
            }
        }
        // Insert after the retired names, because another tool may have taken one of them.
        for (tool, name) in &renamed {
            let names = meanings.entry(tool.server().into()).or_default();
            names.insert(Arc::clone(name), Meaning::Tool(tool.name().into()));
        }
        let names = renamed.iter().cloned().collect();
        Self { renamed, tools, names, meanings }
    }

    fn check_names(&self) -> Result<(), OverrideError> {
        let mut owners: HashMap<(&str, &str), &ToolId> = HashMap::new();
        for (tool, name) in &self.renamed {
            if let Some(first) = owners.insert((tool.server(), name), tool) {
                let (first, second) = (first.clone(), tool.clone());
                return Err(OverrideError::SameName { first, second, name: name.to_string() });
            }
            let other = ToolId::new(tool.server(), Arc::clone(name));
            if self.tools.contains_key(&other) && self.keeps_own_name(&other) {
                let (tool, name) = (tool.clone(), name.to_string());
                return Err(OverrideError::Taken { tool, name, other });
            }
        }
        Ok(())
    }

    /// Whether the tool can be called by its own name, according to its own override.
    fn keeps_own_name(&self, tool: &ToolId) -> bool {
        let retired = |tool: &Replacement| tool.original() == Original::Retired;
        !(self.names.contains_key(tool) && self.tools.get(tool).is_some_and(retired))
    }

    /// Resolves a name on the wire to the own name of a tool of `server`.
    #[must_use]
    pub fn resolve<'a>(&'a self, server: &str, wire_name: &'a str) -> ResolvedName<'a> {
        match self.meanings.get(server).and_then(|names| names.get(wire_name)) {
            None => ResolvedName::Tool(wire_name),
            Some(Meaning::Tool(name)) => ResolvedName::Tool(name),
            Some(Meaning::Gone) => ResolvedName::Gone,
        }
    }

    /// The name that a tool has on the wire.
    #[must_use]
    pub fn wire_name<'a>(&'a self, tool: &'a ToolId) -> &'a str {
        self.names.get(tool).map_or_else(|| tool.name(), AsRef::as_ref)
    }

    /// The tools with an override, and their new names. For explanations.
    pub fn iter(&self) -> impl Iterator<Item = (&ToolId, Option<&str>)> {
        self.tools.keys().map(|tool| (tool, self.names.get(tool).map(|name| &**name)))
    }

    /// The number of renamed tools.
    #[must_use]
    pub fn renames(&self) -> usize {
        self.renamed.len()
    }

    /// Whether any override fills in arguments.
    pub(super) fn changes_arguments(&self) -> bool {
        self.tools.values().any(Replacement::changes_arguments)
    }

    /// The override of this tool.
    pub(super) fn of(&self, tool: &ToolId) -> Option<&Replacement> {
        self.tools.get(tool)
    }

    /// The new name of this tool.
    pub(super) fn new_name(&self, tool: &ToolId) -> Option<&str> {
        self.names.get(tool).map(|name| &**name)
    }

    /// New names that collide with another listed tool's own name. They must not be used, because they would receive
    /// the other tool's calls.
    #[must_use]
    pub fn collisions(&self, listed: &[ToolId]) -> Vec<Collision> {
        self.settle(listed).1
    }

    /// The overrides without colliding names, and the collisions. A tool without its new name keeps its own; its other
    /// settings apply.
    #[must_use]
    pub fn settle(&self, listed: &[ToolId]) -> (Self, Vec<Collision>) {
        let listed: HashSet<&ToolId> = listed.iter().collect();
        let mut settled = self.clone();
        let mut collisions = Vec::new();
        // A tool that keeps its own name may cause a further collision: repeat until there is none.
        loop {
            let before = collisions.len();
            let mut free = Vec::new();
            for (tool, name) in &settled.renamed {
                let other = ToolId::new(tool.server(), Arc::clone(name));
                let exists = listed.contains(&other) || self.tools.contains_key(&other);
                if exists && settled.keeps_own_name(&other) {
                    collisions.push(Collision { tool: tool.clone(), other });
                } else {
                    free.push((tool.clone(), Arc::clone(name)));
                }
            }
            if collisions.len() == before {
                return (settled, collisions);
            }
            settled = Self::joined(Arc::clone(&self.tools), free);
        }
    }
}

/// A new name that is another tool's own name and so cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{tool}` is not renamed to `{name}`: `{other}` is called so; choose another name, or rename \
     `{other}` too",
    name = other.name()
)]
pub struct Collision {
    /// The tool that should get the name. It keeps its own.
    pub tool: ToolId,
    /// The tool whose own name it is.
    pub other: ToolId,
}

fn check(tool: &ToolId, config: &OverrideConfig) -> Result<(), OverrideError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if let Some(name) = config.name.as_deref().filter(|name| *name != tool.name())
        && (name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fits))
    {
        return Err(OverrideError::BadName { tool: tool.clone(), name: name.to_owned() });
    }
    if config.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(OverrideError::EmptyTitle(tool.clone()));
    }
    match config.hidden.keys().find(|name| config.defaults.contains_key(*name)) {
        Some(argument) => {
            let (tool, argument) = (tool.clone(), argument.clone());
            Err(OverrideError::HiddenDefault { tool, argument })
        }
        None => Ok(()),
    }
}
