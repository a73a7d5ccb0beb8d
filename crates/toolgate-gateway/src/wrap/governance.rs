//! What governs calls at one moment: the chain, and the server's tools as that chain judges them.
//!
//! Never changes; a new config makes a new one, which is swapped in whole. A call keeps the one that it
//! started with, so no call is judged half by an old rule and half by a new one.

use std::sync::Arc;

use toolgate::{
    Chain, ToolId,
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
}

impl Governance {
    /// The first one.
    pub(crate) fn new(
        server: Arc<str>,
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StackError> {
        let stack = stack::build_with(&settings, parts)?;
        let tools = Tools::new(server, settings.tier_rules());
        Ok(Self { stack, tools, settings })
    }

    /// The next one, by new settings; what is known of the tools comes along.
    pub(crate) fn successor(&self, settings: Settings) -> Result<Self, StackError> {
        let stack = self.stack.successor(&self.settings, &settings)?;
        let tools = self.tools.judged_by(settings.tier_rules());
        let next = Self { stack, tools, settings };
        next.settle_names();
        Ok(next)
    }

    /// Names on the wire are settled against the tools that there are.
    pub(crate) fn settle_names(&self) {
        let listed: Vec<ToolId> = self.tools.all().iter().map(|tool| tool.id().clone()).collect();
        for collision in self.stack.overrides.learn(&listed) {
            tracing::error!("{collision}");
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.stack.chain
    }
}
