//! What governs calls at one moment: the chain, and the server's tools as that chain judges them.
//!
//! Never changes; a new config makes a new one, which is swapped in whole. A call keeps the one that it
//! started with, so no call is judged half by an old rule and half by a new one.

use std::{path::PathBuf, sync::Arc};

use toolgate::{
    Chain, ToolId,
    middleware::filter::NewTools,
    settings::Settings,
    stack::{self, Parts, Stack, StackError},
};

use super::tools::Tools;

/// A chain with the tools that it judges.
#[derive(Debug)]
pub(crate) struct Governance {
    pub(crate) stack: Stack,
    pub(crate) tools: Tools,
    settings: Settings,
    /// What stood in the files that decide besides the settings.
    files: RuleFiles,
    refuses_unlisted: bool,
}

/// Files that decide besides settings, with what stood in them.
pub(crate) type RuleFiles = Vec<(PathBuf, Option<Vec<u8>>)>;

impl Governance {
    /// The first one.
    pub(crate) fn new(
        server: Arc<str>,
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StackError> {
        let stack = stack::build_with(&settings, parts)?;
        let tools = Tools::new(server, settings.tier_rules(), settings.cache_ttl.get());
        let (files, refuses_unlisted) = (settings.rule_files(), settings.names_tools());
        Ok(Self { stack, tools, settings, files, refuses_unlisted })
    }

    /// The next one, by new settings; what is known of the tools comes along.
    pub(crate) fn successor(&self, settings: Settings) -> Result<Self, StackError> {
        let stack = self.stack.successor(&self.settings, &settings)?;
        let tools = self.tools.judged_by(settings.tier_rules(), settings.cache_ttl.get());
        let (files, refuses_unlisted) = (settings.rule_files(), settings.names_tools());
        let next = Self { stack, tools, settings, files, refuses_unlisted };
        next.settle_names();
        if next.quarantines() && !self.quarantines() {
            // Which of the tools are known was of no interest before.
            next.tools.outdated();
        }
        Ok(next)
    }

    /// Names on the wire are settled against the tools that there are.
    pub(crate) fn settle_names(&self) {
        let listed: Vec<ToolId> = self.tools.all().iter().map(|tool| tool.id().clone()).collect();
        for collision in self.stack.overrides.learn(&listed) {
            tracing::error!("{collision}");
        }
    }

    /// Whether every tool of the server has to be known before any is judged: a name may be that of a tool
    /// on a later page, and what is new depends on what was there at first.
    pub(crate) fn needs_all_tools(&self) -> bool {
        self.quarantines() || self.stack.overrides.configured().renames() > 0
    }

    /// Whether a name that the server does not list is refused: some setting picks tools by name.
    pub(crate) fn refuses_unlisted(&self) -> bool {
        self.refuses_unlisted
    }

    /// Whether tools that nobody has looked at are kept away.
    pub(crate) fn quarantines(&self) -> bool {
        self.settings.new_tools == NewTools::Quarantine
    }

    pub(crate) fn files(&self) -> &RuleFiles {
        &self.files
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.stack.chain
    }
}
