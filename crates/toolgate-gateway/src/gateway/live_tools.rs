//! The tools of an exclusive server, read from the `tools/list` responses that pass through. The gateway lists the tools
//! itself only if a layer needs facts about a tool that no listing has shown yet.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use toolgate::{TierRules, Tool, ToolId, settings::Settings};
use toolgate_wire::{Json, Message};

use crate::upstream::{listing, server::Server};

/// The number of tools to keep, so that a server cannot grow the table without limit.
const MAX_TOOLS: usize = 100_000;

/// How often calls of unknown names may make the gateway list the server's tools.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The tools of one server.
#[derive(Debug)]
pub(crate) struct LiveTools {
    server: Arc<Server>,
    rules: TierRules,
    /// How long a complete listing stays valid.
    ttl: Option<Duration>,
    known: RwLock<ToolTable>,
    /// Held while the gateway lists the tools, so that concurrent calls share one listing.
    asking: tokio::sync::Mutex<()>,
}

/// One page of a listing.
#[derive(Debug)]
pub(crate) struct ToolPage {
    pub(crate) tools: Vec<Arc<Tool>>,
    /// Whether every entry was a tool.
    pub(crate) is_whole: bool,
    /// Whether some tool is not in the table yet.
    pub(crate) has_new: bool,
}

#[derive(Debug, Default)]
struct ToolTable {
    tools: HashMap<Box<str>, Arc<Tool>>,
    complete: bool,
    asked: Option<Instant>,
}

impl LiveTools {
    pub(crate) fn new(server: Arc<Server>, settings: &Settings) -> Self {
        Self {
            server,
            rules: settings.tier_rules(),
            ttl: settings.cache_ttl.get(),
            known: RwLock::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// The same tools with the tiers that these settings give them.
    pub(crate) fn with_settings(&self, settings: &Settings) -> Self {
        let next = Self::new(Arc::clone(&self.server), settings);
        {
            let known = self.known.read();
            let mut judged = next.known.write();
            (judged.complete, judged.asked) = (known.complete, known.asked);
            judged.tools.extend(known.tools.iter().map(|(name, tool)| {
                let id = tool.id().clone();
                let tool = match tool.definition() {
                    Some(definition) => Tool::listed(id, definition.clone(), &next.rules),
                    None => Tool::unlisted(id, &next.rules),
                };
                (name.clone(), Arc::new(tool))
            }));
        }
        next
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The tool of this name, if a listing had it.
    pub(crate) fn listed(&self, name: &str) -> Option<Arc<Tool>> {
        let known = self.known.read();
        known.tools.get(name).cloned()
    }

    /// The tool for a name that no listing has.
    pub(crate) fn unlisted(&self, name: &str) -> Arc<Tool> {
        let id = ToolId::new(Arc::clone(&self.server.name), name);
        Arc::new(Tool::unlisted(id, &self.rules))
    }

    /// The ids of all tools that listings had.
    pub(crate) fn ids(&self) -> Vec<ToolId> {
        let known = self.known.read();
        known.tools.values().map(|tool| tool.id().clone()).collect()
    }

    /// Whether the gateway must list the tools before layers can decide about this name (or, without a name, about a
    /// listing): the table is incomplete, or the server may have a new tool.
    pub(crate) fn must_ask(&self, name: Option<&str>) -> bool {
        let known = self.known.read();
        let recently = known.asked.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL);
        let is_new = name.is_some_and(|name| !known.tools.contains_key(name));
        let is_stale = self.ttl.is_some_and(|ttl| known.asked.is_none_or(|at| at.elapsed() > ttl));
        !known.complete || is_stale || (is_new && !recently)
    }

    /// Marks the table as outdated: the server says that its tools changed, or has been restarted.
    pub(crate) fn mark_outdated(&self) {
        self.known.write().complete = false;
    }

    /// Lists all tools of the server, once for all callers that wait, so that layers can decide about this name or a
    /// listing. `true` if the table was replaced.
    ///
    /// If listing fails, the table stays as it was. Layers deny a tool that it does not have.
    pub(crate) async fn refresh(&self, name: Option<&str>, cancel: &CancellationToken) -> bool {
        let _asking = self.asking.lock().await;
        if !self.must_ask(name) {
            return false;
        }
        let listed = async {
            let connection = self.server.connection(None).await?;
            Box::pin(listing::tools(&connection, &self.server.name)).await
        };
        let listed = tokio::select! {
            listed = listed => listed,
            () = cancel.cancelled() => return false,
        };
        let mut known = self.known.write();
        known.asked = Some(Instant::now());
        match listed {
            Ok(listed) => {
                let tools = listed.entries.iter().filter_map(|entry| self.tool(entry));
                known.tools =
                    tools.take(MAX_TOOLS).map(|tool| (tool.id().name().into(), tool)).collect();
                known.complete = true;
                true
            }
            Err(failure) => {
                tracing::warn!(server = %self.server.name, "cannot list the server's tools: {failure}");
                false
            }
        }
    }

    /// Reads one page of tools from a response that passes through, and adds it to the table. `None` if the response has
    /// no tools.
    ///
    /// Skips entries that are not tools (not an object, or without a name): no client could call them.
    pub(crate) fn read_page(&self, response: &Message) -> Option<ToolPage> {
        let entries = response.member("tools")?.array()?;
        let tools: Vec<Arc<Tool>> = entries.iter().filter_map(|entry| self.tool(entry)).collect();
        let mut known = self.known.write();
        let mut has_new = false;
        if known.tools.len() + tools.len() <= MAX_TOOLS {
            for tool in &tools {
                let old = known.tools.insert(tool.id().name().into(), Arc::clone(tool));
                has_new |= old.is_none();
            }
        }
        Some(ToolPage { is_whole: tools.len() == entries.len(), tools, has_new })
    }

    fn tool(&self, definition: &Json) -> Option<Arc<Tool>> {
        let name = definition.get("name")?;
        let id = ToolId::new(Arc::clone(&self.server.name), name.text()?.as_ref());
        // Copy the entry: a slice would keep the whole page in memory.
        Some(Arc::new(Tool::listed(id, definition.owned(), &self.rules)))
    }
}
