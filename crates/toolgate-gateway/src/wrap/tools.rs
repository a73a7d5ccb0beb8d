//! The server's tools as we know them: learnt from listings, never asked for on a call's way twice.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use toolgate::{TierRules, Tool, ToolId};
use toolgate_wire::{Json, Message};

/// So many tools are kept at most, so that a client cannot grow the table by inventing names.
const MOST: usize = 100_000;

/// A call of an unknown name asks the server for its tools at most this often.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The tools of one server.
#[derive(Debug)]
pub(crate) struct Tools {
    server: Arc<str>,
    rules: TierRules,
    /// How long a whole listing holds.
    ttl: Option<Duration>,
    known: RwLock<Known>,
    /// Held while the server is asked, so that it is asked once.
    pub(crate) asking: tokio::sync::Mutex<()>,
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

impl Tools {
    pub(crate) fn new(server: Arc<str>, rules: TierRules, ttl: Option<Duration>) -> Self {
        Self { server, rules, ttl, known: RwLock::default(), asking: tokio::sync::Mutex::default() }
    }

    /// The same tools, with the tiers that other rules give them.
    pub(crate) fn judged_by(&self, rules: TierRules, ttl: Option<Duration>) -> Self {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let again = |tool: &Arc<Tool>| match tool.definition() {
            Some(definition) => Tool::listed(tool.id().clone(), definition.clone(), &rules),
            None => Tool::unlisted(tool.id().clone(), &rules),
        };
        let tools = known.tools.iter().map(|(name, tool)| (name.clone(), Arc::new(again(tool))));
        let known = Known { tools: tools.collect(), ..Known { tools: HashMap::new(), ..*known } };
        Self {
            server: Arc::clone(&self.server),
            known: RwLock::new(known),
            asking: tokio::sync::Mutex::default(),
            rules,
            ttl,
        }
    }

    /// The tool of this name, if a listing had it.
    pub(crate) fn listed(&self, name: &str) -> Option<Arc<Tool>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.tools.get(name).cloned()
    }

    /// The id of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// All tools that listings had.
    pub(crate) fn all(&self) -> Vec<Arc<Tool>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.tools.values().cloned().collect()
    }

    /// A tool of which only the name is known.
    pub(crate) fn unlisted(&self, name: &str) -> Arc<Tool> {
        let id = ToolId::new(Arc::clone(&self.server), name);
        Arc::new(Tool::unlisted(id, &self.rules))
    }

    /// Whether the server has to be asked before this name (or, without one, a listing) can be judged: its
    /// tools are not known, or it may have a new one.
    pub(crate) fn must_ask(&self, name: Option<&str>) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let recently = known.asked.is_some_and(|at| at.elapsed() < ASK_AGAIN);
        let is_new = name.is_some_and(|name| !known.tools.contains_key(name));
        let is_stale = self.ttl.is_some_and(|ttl| known.asked.is_none_or(|at| at.elapsed() > ttl));
        !known.complete || is_stale || (is_new && !recently)
    }

    /// The server says that its tools changed.
    pub(crate) fn outdated(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).complete = false;
    }

    /// Replaces everything by what the server just listed.
    pub(crate) fn replace(&self, pages: &[Vec<Arc<Tool>>]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.tools.clear();
        for tool in pages.iter().flatten().take(MOST) {
            known.tools.insert(tool.id().name().into(), Arc::clone(tool));
        }
        known.complete = true;
        known.asked = Some(Instant::now());
    }

    /// The same, by definitions that are here already.
    pub(crate) fn list(&self, definitions: &[serde_json::Value]) {
        let tools = definitions.iter().filter_map(|entry| self.tool(&Json::value(entry)));
        self.replace(&[tools.collect()]);
    }

    /// Notes that the server was asked in vain.
    pub(crate) fn asked_in_vain(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).asked = Some(Instant::now());
    }

    /// Reads one page of tools that passes by, and remembers it. `None` if the answer has no tools.
    ///
    /// An entry that is not a tool (no object, no name) is left out: nobody could call it.
    pub(crate) fn learn(&self, answer: &Message) -> Option<Page> {
        let entries = answer.member("tools")?.array()?;
        let tools: Vec<Arc<Tool>> = entries.iter().filter_map(|entry| self.tool(entry)).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut has_new = false;
        if known.tools.len() + tools.len() <= MOST {
            for tool in &tools {
                let old = known.tools.insert(tool.id().name().into(), Arc::clone(tool));
                has_new |= old.is_none();
            }
        }
        Some(Page { is_whole: tools.len() == entries.len(), tools, has_new })
    }

    fn tool(&self, definition: &Json) -> Option<Arc<Tool>> {
        let name = definition.get("name")?;
        let id = ToolId::new(Arc::clone(&self.server), name.text()?.as_ref());
        // A copy of its own: a slice would keep the whole page in memory.
        let definition = Json::list([definition]).array()?.pop()?;
        Some(Arc::new(Tool::listed(id, definition, &self.rules)))
    }
}
