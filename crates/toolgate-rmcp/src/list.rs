//! `tools/list` through the chain, and `get_tool`, which must agree with it.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{self, CacheScope, ListToolsResult, PaginatedRequestParams},
    service::RequestContext,
};
use toolgate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, Tool, ToolList,
};
use toolgate_wire::{Json, Object, mcp::method};

use crate::{
    Governed,
    connection::{ChainState, remove_control},
    trace_context,
    wire::{error_answer, layer_error, to_error, to_rpc, wrong_request},
};

impl<H: ServerHandler> Governed<H> {
    pub(crate) async fn govern_list(
        &self,
        mut params: Option<PaginatedRequestParams>,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        params.as_mut().and_then(|params| params.meta.as_mut()).map(remove_control);
        let active = self.connection.active();
        let entered = self.connection.enter(&active, &context);
        let _place = entered.map_err(|failure| to_error(failure.to_rpc()))?;
        let chain = &active.chain.chain;
        if !chain.sees_listings() {
            remove_control(&mut context.meta);
            return self.handler.list_tools(params, context).await;
        }
        let mut cx = self.admit(&active, &mut context);
        let cursor = params.as_ref().and_then(|params| params.cursor.clone());
        let end = ListEndpoint {
            governed: self,
            active: &active,
            params,
            context,
            page: Mutex::new(None),
        };
        match chain.list(&mut cx, Listing { cursor }, &end).await {
            Ok(list) => end.result(&list),
            Err(failure) => Err(to_error(failure.to_rpc())),
        }
    }

    /// A tool of the handler as the chain shows it; `None` if the chain hides it.
    ///
    /// Nothing can be awaited here, so the listing of this one tool is polled once. The layers of toolgate decide
    /// without waiting. If another layer waits, this is `None`: rmcp then knows no schema of the tool.
    pub(crate) fn shown(&self, published: model::Tool) -> Option<model::Tool> {
        let active = self.connection.active();
        let chain = &active.chain.chain;
        if !chain.sees_listings() {
            return Some(published);
        }
        let tool = self.tool_of(&active, &published);
        let mut cx = self.anonymous_context();
        let end = OnePage(Arc::clone(&tool));
        let listing = pin!(chain.list(&mut cx, Listing::default(), &end));
        let mut task = std::task::Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(list)) = listing.poll(&mut task) else {
            return None;
        };
        let shown = list.tools().iter().find(|shown| shown.id() == tool.id())?;
        if Arc::ptr_eq(shown, &tool) { Some(published) } else { shown.definition()?.decode().ok() }
    }
}

/// One page of the handler, with its tools as the chain sees them.
struct Page {
    result: ListToolsResult,
    tools: Vec<Arc<Tool>>,
}

/// The end of the chain for a listing: the handler.
struct ListEndpoint<'a, H> {
    governed: &'a Governed<H>,
    active: &'a ChainState,
    params: Option<PaginatedRequestParams>,
    context: RequestContext<RoleServer>,
    page: Mutex<Option<Page>>,
}

impl<H: ServerHandler> ListEndpoint<'_, H> {
    async fn fetch(&self, cx: &Context, listing: Listing) -> Result<ToolList, Failure> {
        let mut params = self.params.clone();
        let asked = params.as_ref().and_then(|params| params.cursor.as_ref());
        if asked != listing.cursor.as_ref() {
            params = Some(params.unwrap_or_default().with_cursor(listing.cursor));
        }
        let mut context = self.context.clone();
        trace_context::pass_on(cx, &mut context.meta);
        let result = self.governed.handler.list_tools(params, context).await;
        let result = result.map_err(|error| Failure::rejected(to_rpc(&error)))?;
        let learnt =
            result.tools.iter().map(|published| self.governed.learn(self.active, published));
        let tools: Vec<Arc<Tool>> = learnt.collect();
        let list = ToolList::from_wire(tools.clone(), Object::new(), None);
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(Page { result, tools });
        Ok(list)
    }

    /// The handler's page with the tools that the layers left. These keep their own definitions, and the page its
    /// cursor.
    fn result(&self, list: &ToolList) -> Result<ListToolsResult, ErrorData> {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Page { mut result, tools } =
            page.unwrap_or_else(|| Page { result: ListToolsResult::default(), tools: Vec::new() });
        let mut published: Vec<(Arc<Tool>, Option<model::Tool>)> = tools
            .into_iter()
            .zip(std::mem::take(&mut result.tools).into_iter().map(Some))
            .collect();
        for shown in list.tools() {
            let own =
                published.iter_mut().find(|(tool, own)| Arc::ptr_eq(tool, shown) && own.is_some());
            let tool = match own.and_then(|(_, own)| own.take()) {
                Some(own) => own,
                None => made(shown)?,
            };
            result.tools.push(tool);
        }
        if published.iter().any(|(_, own)| own.is_some()) {
            // What is hidden may depend on the principal: no shared cache may keep the list.
            result.cache_scope = result.cache_scope.map(|_| CacheScope::Private);
        }
        Ok(result)
    }
}

/// A tool that a layer added or changed.
fn made(tool: &Tool) -> Result<model::Tool, ErrorData> {
    let read = tool.definition().map(Json::decode).and_then(Result::ok);
    read.ok_or_else(|| layer_error("a layer listed something that is no definition of a tool"))
}

impl<H: ServerHandler> Endpoint for ListEndpoint<'_, H> {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { wrong_request(method::TOOLS_LIST, method::TOOLS_CALL).into() })
    }

    fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
    ) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(self.fetch(cx, listing))
    }

    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(async move { error_answer(&wrong_request(method::TOOLS_LIST, &request.method)) })
    }
}

/// A list of one tool.
struct OnePage(Arc<Tool>);

impl Endpoint for OnePage {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { wrong_request(method::TOOLS_LIST, method::TOOLS_CALL).into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        let list = ToolList::from_wire(vec![Arc::clone(&self.0)], Object::new(), None);
        Box::pin(async move { Ok(list) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(async move { error_answer(&wrong_request(method::TOOLS_LIST, &request.method)) })
    }
}
