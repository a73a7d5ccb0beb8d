//! What is known of the handler's tools: learnt from its own list, never asked twice without need.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{self, PaginatedRequestParams},
    service::RequestContext,
};
use toolgate::{Tool, ToolId};
use toolgate_wire::Json;

use crate::{Governed, connection::Active, known_tools::Known};

/// More pages than any list has; a handler that hands out one cursor for ever ends here.
const MOST_PAGES: usize = 1000;

impl<H: ServerHandler> Governed<H> {
    /// The tool of this name, with as much as the chain needs to know of it.
    ///
    /// rmcp tells nobody but the client when a handler's tools change. So `get_tool`, where the
    /// handler has one, is compared with what it said before: it costs no more than a look-up.
    pub(crate) async fn tool(
        &self,
        active: &Active,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Arc<Tool> {
        let said = self.handler.get_tool(name);
        if let Some(tool) = active.facts.recall(name, said.as_ref()) {
            return tool;
        }
        if active.chain.chain.needs_tools() {
            let known = || active.facts.recall(name, said.as_ref()).is_some();
            self.load(active, context, known).await;
            if let Some(tool) = active.facts.settle(name, said.as_ref()) {
                return tool;
            }
        }
        match said {
            Some(published) => self.learn(active, &published),
            None => self.unlisted(active, name),
        }
    }

    /// A tool of which only the name is known.
    pub(crate) fn unlisted(&self, active: &Active, name: &str) -> Arc<Tool> {
        Arc::new(Tool::unlisted(self.id(name), &active.chain.rules))
    }

    /// Whether the handler has no such tool, by its own list as it is now.
    pub(crate) async fn is_unknown(
        &self,
        active: &Active,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        self.handler.get_tool(name).is_none()
            && self.load(active, context, || false).await
            && !active.facts.known().contains_key(name)
    }

    /// Remembers a tool as it was just published.
    pub(crate) fn learn(&self, active: &Active, published: &model::Tool) -> Arc<Tool> {
        let tool = self.tool_of(active, published);
        let mut known = active.facts.known_mut();
        let entry = known.entry(published.name.to_string());
        let entry = entry.or_insert_with(|| Known::new(published.clone(), Arc::clone(&tool)));
        if !Arc::ptr_eq(&entry.tool, &tool) {
            *entry = Known::new(published.clone(), Arc::clone(&tool));
        }
        tool
    }

    /// A published tool as the chain sees it; the very same as before if nothing of it changed.
    pub(crate) fn tool_of(&self, active: &Active, published: &model::Tool) -> Arc<Tool> {
        if let Some(known) = active.facts.known().get(&*published.name)
            && known.published == *published
        {
            return Arc::clone(&known.tool);
        }
        let id = self.id(&published.name);
        Arc::new(match Json::serialize(published) {
            Ok(definition) => Tool::listed(id, definition, &active.chain.rules),
            Err(_) => Tool::unlisted(id, &active.chain.rules),
        })
    }

    fn id(&self, name: &str) -> ToolId {
        ToolId::new(Arc::clone(&self.connection.server), name)
    }

    /// Asks the handler for all of its tools, and says whether it told. If it does not, what was
    /// known stays: a tool that nobody knows is then denied by whoever needs to know it.
    ///
    /// One asks at a time. Whoever waited need not ask again if the list was asked for after they
    /// came, or if it has what they are looking for (`enough`).
    async fn load(
        &self,
        active: &Active,
        context: &RequestContext<RoleServer>,
        enough: impl Fn() -> bool + Send,
    ) -> bool {
        let asked = active.facts.loads();
        let _turn = active.facts.loading.lock().await;
        if active.facts.loads().finished > asked.started || enough() {
            return true;
        }
        let number = {
            let mut loads = active.facts.loads_mut();
            loads.started += 1;
            loads.started
        };
        match self.every_page(context).await {
            Ok(tools) => {
                let known = tools.into_iter().map(|published| {
                    let tool = self.tool_of(active, &published);
                    (published.name.to_string(), Known::new(published, tool))
                });
                let known = known.collect();
                *active.facts.known_mut() = known;
                active.facts.loads_mut().finished = number;
                true
            }
            Err(error) => {
                tracing::warn!(server = %self.connection.server, %error, "the handler does not list its tools");
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
