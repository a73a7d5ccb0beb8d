//! What is known of the handler's tools: learnt from its own list, never asked twice without need.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{self, PaginatedRequestParams},
    service::RequestContext,
};
use tokio::sync::Mutex;
use toolgate::{Tool, ToolId};
use toolgate_wire::Json;

use crate::Governed;

/// More pages than any list has; a handler that hands out one cursor for ever ends here.
const MOST_PAGES: usize = 1000;

/// The tools that the handler published, by name.
#[derive(Default)]
pub(crate) struct Facts {
    known: RwLock<HashMap<String, Known>>,
    /// Held while the list is asked for, never while a tool runs.
    loading: Mutex<()>,
    loads: RwLock<Loads>,
}

struct Known {
    /// As the list has it.
    published: model::Tool,
    /// As `get_tool` has it, where that is something else.
    said: Option<model::Tool>,
    tool: Arc<Tool>,
}

impl Known {
    fn new(published: model::Tool, tool: Arc<Tool>) -> Self {
        Self { published, said: None, tool }
    }

    /// Whether `get_tool` still says what it said: the same as the list, or what it said instead.
    /// One that says nothing tells nothing.
    fn is_fresh(&self, said: Option<&model::Tool>) -> bool {
        said.is_none_or(|said| *self.said.as_ref().unwrap_or(&self.published) == *said)
    }
}

/// The numbers of the last load that started and of the last that ended well.
#[derive(Default, Clone, Copy)]
struct Loads {
    started: u64,
    finished: u64,
}

impl Facts {
    fn known(&self) -> RwLockReadGuard<'_, HashMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, HashMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn loads(&self) -> Loads {
        *self.loads.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn loads_mut(&self) -> RwLockWriteGuard<'_, Loads> {
        self.loads.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool, unless `get_tool` says that it is another by now.
    fn recall(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let known = self.known();
        let found = known.get(name)?;
        found.is_fresh(said).then(|| Arc::clone(&found.tool))
    }

    /// The tool, just listed: if `get_tool` says something else of it, that is how it is.
    fn settle(&self, name: &str, said: Option<&model::Tool>) -> Option<Arc<Tool>> {
        let mut known = self.known_mut();
        let found = known.get_mut(name)?;
        if !found.is_fresh(said) {
            found.said = said.cloned();
        }
        Some(Arc::clone(&found.tool))
    }
}

impl<H: ServerHandler> Governed<H> {
    /// The tool of this name, with as much as the chain needs to know of it.
    ///
    /// rmcp tells nobody but the client when a handler's tools change. So `get_tool`, where the
    /// handler has one, is compared with what it said before: it costs no more than a look-up.
    pub(crate) async fn tool(&self, name: &str, context: &RequestContext<RoleServer>) -> Arc<Tool> {
        let said = self.handler.get_tool(name);
        if let Some(tool) = self.facts.recall(name, said.as_ref()) {
            return tool;
        }
        if self.chain.needs_tools() {
            let known = || self.facts.recall(name, said.as_ref()).is_some();
            self.load(context, known).await;
            if let Some(tool) = self.facts.settle(name, said.as_ref()) {
                return tool;
            }
        }
        match said {
            Some(published) => self.learn(&published),
            None => self.unlisted(name),
        }
    }

    /// A tool of which only the name is known.
    pub(crate) fn unlisted(&self, name: &str) -> Arc<Tool> {
        Arc::new(Tool::unlisted(self.id(name), &self.rules))
    }

    /// Whether the handler has no such tool, by its own list as it is now.
    pub(crate) async fn is_unknown(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        self.handler.get_tool(name).is_none()
            && self.load(context, || false).await
            && !self.facts.known().contains_key(name)
    }

    /// Remembers a tool as it was just published.
    pub(crate) fn learn(&self, published: &model::Tool) -> Arc<Tool> {
        let tool = self.tool_of(published);
        let mut known = self.facts.known_mut();
        let entry = known.entry(published.name.to_string());
        let entry = entry.or_insert_with(|| Known::new(published.clone(), Arc::clone(&tool)));
        if !Arc::ptr_eq(&entry.tool, &tool) {
            *entry = Known::new(published.clone(), Arc::clone(&tool));
        }
        tool
    }

    /// A published tool as the chain sees it; the very same as before if nothing of it changed.
    pub(crate) fn tool_of(&self, published: &model::Tool) -> Arc<Tool> {
        if let Some(known) = self.facts.known().get(&*published.name)
            && known.published == *published
        {
            return Arc::clone(&known.tool);
        }
        let id = self.id(&published.name);
        Arc::new(match Json::serialize(published) {
            Ok(definition) => Tool::listed(id, definition, &self.rules),
            Err(_) => Tool::unlisted(id, &self.rules),
        })
    }

    fn id(&self, name: &str) -> ToolId {
        ToolId::new(Arc::clone(&self.server), name)
    }

    /// Asks the handler for all of its tools, and says whether it told. If it does not, what was
    /// known stays: a tool that nobody knows is then denied by whoever needs to know it.
    ///
    /// One asks at a time. Whoever waited need not ask again if the list was asked for after they
    /// came, or if it has what they are looking for (`enough`).
    async fn load(
        &self,
        context: &RequestContext<RoleServer>,
        enough: impl Fn() -> bool + Send,
    ) -> bool {
        let asked = self.facts.loads();
        let _turn = self.facts.loading.lock().await;
        if self.facts.loads().finished > asked.started || enough() {
            return true;
        }
        let number = {
            let mut loads = self.facts.loads_mut();
            loads.started += 1;
            loads.started
        };
        match self.every_page(context).await {
            Ok(tools) => {
                let known = tools.into_iter().map(|published| {
                    let tool = self.tool_of(&published);
                    (published.name.to_string(), Known::new(published, tool))
                });
                let known = known.collect();
                *self.facts.known_mut() = known;
                self.facts.loads_mut().finished = number;
                true
            }
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "the handler does not list its tools");
                false
            }
        }
    }

    async fn every_page(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Vec<model::Tool>, ErrorData> {
        let mut tools = Vec::new();
        let mut params = None;
        for _ in 0..MOST_PAGES {
            let page = self.handler.list_tools(params, context.clone()).await?;
            tools.extend(page.tools);
            let Some(cursor) = page.next_cursor else {
                break;
            };
            params = Some(PaginatedRequestParams::default().with_cursor(Some(cursor)));
        }
        Ok(tools)
    }
}
