//! Looks up the handler's tools, and lists them when that is needed.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{self, PaginatedRequestParams},
    service::RequestContext,
};
use toolgate::{Tool, ToolId};
use toolgate_wire::Json;

use crate::{Governed, connection::ChainState, known_tools::KnownTool};

/// The maximum number of pages of a list: a handler may return cursors without end.
const MAX_PAGES: usize = 1000;

impl<H: ServerHandler> Governed<H> {
    /// The tool with this name, with the facts that the chain needs.
    ///
    /// rmcp reports a change of the handler's tools only to the client. So `get_tool`, if the handler has one, is
    /// compared with its previous result at each call, which costs no more than a lookup.
    pub(crate) async fn tool(
        &self,
        active: &ChainState,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Arc<Tool> {
        let current = self.handler.get_tool(name);
        if let Some(tool) = active.known_tools.recall(name, current.as_ref()) {
            return tool;
        }
        if active.chain.chain.needs_tools() {
            let known = || active.known_tools.recall(name, current.as_ref()).is_some();
            self.load(active, context, known).await;
            if let Some(tool) = active.known_tools.settle(name, current.as_ref()) {
                return tool;
            }
        }
        match current {
            Some(published) => self.learn(active, &published),
            None => self.unlisted(active, name),
        }
    }

    /// A tool of which only the name is known.
    pub(crate) fn unlisted(&self, active: &ChainState, name: &str) -> Arc<Tool> {
        Arc::new(Tool::unlisted(self.id(name), &active.chain.rules))
    }

    /// Whether the handler's current list lacks this tool.
    pub(crate) async fn is_unknown(
        &self,
        active: &ChainState,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        self.handler.get_tool(name).is_none()
            && self.load(active, context, || false).await
            && !active.known_tools.known().contains_key(name)
    }

    /// Remembers a tool that was just listed.
    pub(crate) fn learn(&self, active: &ChainState, published: &model::Tool) -> Arc<Tool> {
        let tool = self.tool_of(active, published);
        let mut known = active.known_tools.known_mut();
        let entry = known.entry(published.name.to_string());
        let entry = entry.or_insert_with(|| KnownTool::new(published.clone(), Arc::clone(&tool)));
        if !Arc::ptr_eq(&entry.tool, &tool) {
            *entry = KnownTool::new(published.clone(), Arc::clone(&tool));
        }
        tool
    }

    /// A listed tool as the chain sees it; the same value as before if its definition did not change.
    pub(crate) fn tool_of(&self, active: &ChainState, published: &model::Tool) -> Arc<Tool> {
        if let Some(known) = active.known_tools.known().get(&*published.name)
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

    /// Lists the handler's tools; whether that worked. If it did not, the known tools stay: layers that need to know a
    /// tool deny a call of an unknown one.
    ///
    /// One task lists at a time. A task that waited need not list again if the list was requested after the task came,
    /// or if the list has what the task needs (`enough`).
    async fn load(
        &self,
        active: &ChainState,
        context: &RequestContext<RoleServer>,
        enough: impl Fn() -> bool + Send,
    ) -> bool {
        let asked = active.known_tools.loads();
        let _turn = active.known_tools.loading.lock().await;
        if active.known_tools.loads().finished > asked.started || enough() {
            return true;
        }
        let number = {
            let mut loads = active.known_tools.loads_mut();
            loads.started += 1;
            loads.started
        };
        match self.every_page(context).await {
            Ok(tools) => {
                if let Some(names) = &active.chain.names {
                    let listed = tools.iter().map(|published| self.id(&published.name));
                    for collision in names.learn(&listed.collect::<Vec<_>>()) {
                        tracing::error!("{collision}");
                    }
                }
                let known = tools.into_iter().map(|published| {
                    let tool = self.tool_of(active, &published);
                    (published.name.to_string(), KnownTool::new(published, tool))
                });
                let known = known.collect();
                *active.known_tools.known_mut() = known;
                active.known_tools.loads_mut().finished = number;
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
        for _ in 0..MAX_PAGES {
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
