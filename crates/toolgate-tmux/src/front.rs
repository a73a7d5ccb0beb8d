//! The chain as the server itself sees it: for what is no call, and tells what a tool tells.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{RoleServer, service::RequestContext};
use serde_json::{Value, json};
use toolgate::{Failure, TierRules, Tool as Judged, ToolId};
use toolgate_rmcp::SideDoor;
use toolgate_wire::Json;

use crate::{name::NAME, tool::Tool};

/// A way into the chain, with what the chain knows of the tools. Without a chain, everything is allowed.
#[derive(Debug, Default)]
pub(crate) struct Front(Option<Behind>);

#[derive(Debug)]
struct Behind {
    door: SideDoor,
    tools: Arc<[Tool]>,
    known: Mutex<Known>,
}

/// The tools as the chain judges them, by its rules.
#[derive(Debug, Default)]
struct Known {
    rules: TierRules,
    tools: HashMap<&'static str, Arc<Judged>>,
}

impl Front {
    pub(crate) fn new(door: SideDoor, tools: Arc<[Tool]>) -> Self {
        Self(Some(Behind { door, tools, known: Mutex::default() }))
    }

    /// Runs something as a call of the tool of this name.
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
            Some(behind) => {
                let (tool, arguments) = (behind.tool(tool), Some(Json::value(arguments)));
                behind.door.run(tool, arguments, request, run).await
            }
        }
    }

    /// Whether a call of this tool would pass.
    pub(crate) fn allows(&self, tool: &'static str, arguments: &Value) -> bool {
        self.0.as_ref().is_none_or(|behind| {
            behind.door.allows(behind.tool(tool), Some(Json::value(arguments)))
        })
    }
}

impl Behind {
    fn tool(&self, name: &'static str) -> Arc<Judged> {
        let rules = self.door.active_chain().rules;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.rules != rules {
            *known = Known { rules, tools: HashMap::new() };
        }
        let Known { rules, tools } = &mut *known;
        Arc::clone(tools.entry(name).or_insert_with(|| Arc::new(self.judged(name, rules))))
    }

    fn judged(&self, name: &'static str, rules: &TierRules) -> Judged {
        let id = ToolId::new(NAME, name);
        let tool = self.tools.iter().find(|tool| tool.name() == name);
        let mut definition = match tool.map(|tool| serde_json::to_value(tool.published())) {
            Some(Ok(definition)) => definition,
            _ => json!({"name": name, "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": true}}),
        };
        // What is told here is a text, whatever the tool itself answers with.
        definition.as_object_mut().map(|definition| definition.remove("outputSchema"));
        Judged::listed(id, Json::value(&definition), rules)
    }
}
