//! The tools of an exclusive server, read from the listings that pass by. The gateway asks the server itself only where
//! something decides on facts about tools that it does not know yet.

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

/// The gateway keeps so many tools, so that a server cannot grow the table without end.
const MAX_TOOLS: usize = 100_000;

/// A call of an unknown name makes the gateway ask the server for its tools at most this often.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The tools of one server.
#[derive(Debug)]
pub(crate) struct LiveTools {
    server: Arc<Server>,
    rules: TierRules,
    /// How long a whole listing holds.
    ttl: Option<Duration>,
    known: RwLock<Known>,
    /// Held while the gateway asks the server, so that it asks once.
    asking: tokio::sync::Mutex<()>,
}

/// One page of a listing.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) tools: Vec<Arc<Tool>>,
    /// Whether every entry was a tool.
    pub(crate) is_whole: bool,
    /// Whether some tool was not known before.
    pub(crate) has_new: bool,
}

#[derive(Debug, Default)]
struct Known {
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

    /// The same tools, with the tiers that other settings give them.
    pub(crate) fn judged_by(&self, settings: &Settings) -> Self {
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

    /// A tool of which only the name is known.
    pub(crate) fn unlisted(&self, name: &str) -> Arc<Tool> {
        let id = ToolId::new(Arc::clone(&self.server.name), name);
        Arc::new(Tool::unlisted(id, &self.rules))
    }

    /// The ids of all tools that listings had.
    pub(crate) fn ids(&self) -> Vec<ToolId> {
        let known = self.known.read();
        known.tools.values().map(|tool| tool.id().clone()).collect()
    }

    /// Whether the gateway has to ask the server before this name (or, without one, a listing) can be judged: its tools
    /// are not known, or it may have a new one.
    pub(crate) fn must_ask(&self, name: Option<&str>) -> bool {
        let known = self.known.read();
        let recently = known.asked.is_some_and(|at| at.elapsed() < ASK_AGAIN);
        let is_new = name.is_some_and(|name| !known.tools.contains_key(name));
        let is_stale = self.ttl.is_some_and(|ttl| known.asked.is_none_or(|at| at.elapsed() > ttl));
        !known.complete || is_stale || (is_new && !recently)
    }

    /// The server says that its tools changed, or has been started again.
    pub(crate) fn outdated(&self) {
        self.known.write().complete = false;
    }

    /// Asks the server for all tools, once for everybody who waits for it: to judge the tool of this name, or a listing.
    /// `true`: they were read anew.
    ///
    /// If that fails, what was known before stays; a tool that is not known then is denied, not allowed.
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

    /// Reads one page of tools that passes by, and remembers it. `None` if the response has no tools.
    ///
    /// An entry that is not a tool (no object, no name) is left out: nobody could call it.
    pub(crate) fn learn(&self, response: &Message) -> Option<Page> {
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
        Some(Page { is_whole: tools.len() == entries.len(), tools, has_new })
    }

    fn tool(&self, definition: &Json) -> Option<Arc<Tool>> {
        let name = definition.get("name")?;
        let id = ToolId::new(Arc::clone(&self.server.name), name.text()?.as_ref());
        // A copy of its own: a slice would keep the whole page in memory.
        Some(Arc::new(Tool::listed(id, definition.owned(), &self.rules)))
    }
}
