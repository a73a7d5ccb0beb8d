//! The chain for requests that are not calls: a resource is read as a call of the tool that returns the same data.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{RoleServer, service::RequestContext};
use serde_json::{Value, json};
use toolgate::{Failure, TierRules, ToolId};
use toolgate_rmcp::ChainAccess;
use toolgate_wire::Json;

use crate::{name::NAME, tool::Tool};

/// Runs resource requests through the chain. Without a chain, everything is allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct GovernedResources(Option<Arc<ResourceChain>>);

#[derive(Debug)]
struct ResourceChain {
    chain: ChainAccess,
    tools: Arc<[Tool]>,
    tools_by_name: Mutex<ChainTools>,
}

/// The tools as the chain identifies them, with the tiers that its rules give them.
#[derive(Debug, Default)]
struct ChainTools {
    rules: TierRules,
    tools: HashMap<&'static str, Arc<toolgate::Tool>>,
}

impl GovernedResources {
    pub(crate) fn new(chain: ChainAccess, tools: Arc<[Tool]>) -> Self {
        Self(Some(Arc::new(ResourceChain { chain, tools, tools_by_name: Mutex::default() })))
    }

    /// Runs `run` as a call of the tool with this name.
    pub(crate) async fn run<F, Fut>(
        &self,
        tool: &'static str,
        arguments: &Value,
        request: &RequestContext<RoleServer>,
        run: F,
    ) -> Result<String, Failure>
    where
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<String, Failure>> + Send,
    {
        match &self.0 {
            None => run().await,
            Some(resources) => {
                let (tool, arguments) = (resources.tool(tool), Some(Json::value(arguments)));
                resources.chain.run(tool, arguments, request, run).await
            }
        }
    }

    /// Whether the chain would allow a call of this tool.
    pub(crate) fn allows(&self, tool: &'static str, arguments: &Value) -> bool {
        self.0.as_ref().is_none_or(|resources| {
            resources.chain.allows(resources.tool(tool), Some(Json::value(arguments)))
        })
    }
}

impl ResourceChain {
    fn tool(&self, name: &'static str) -> Arc<toolgate::Tool> {
        let rules = self.chain.active_chain().rules;
        let mut known = self.tools_by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if known.rules != rules {
            *known = ChainTools { rules, tools: HashMap::new() };
        }
        let ChainTools { rules, tools } = &mut *known;
        Arc::clone(tools.entry(name).or_insert_with(|| Arc::new(self.chain_tool(name, rules))))
    }

    fn chain_tool(&self, name: &'static str, rules: &TierRules) -> toolgate::Tool {
        let id = ToolId::new(NAME, name);
        let tool = self.tools.iter().find(|tool| tool.name() == name);
        let mut definition = match tool.map(|tool| serde_json::to_value(tool.published())) {
            Some(Ok(definition)) => definition,
            _ => json!({"name": name, "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": true}}),
        };
        // A resource is text, also if the tool itself has structured output.
        definition.as_object_mut().map(|definition| definition.remove("outputSchema"));
        toolgate::Tool::listed(id, Json::value(&definition), rules)
    }
}
