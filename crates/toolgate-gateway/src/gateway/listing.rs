//! Answers list requests page by page from the snapshot, without asking servers.

use std::sync::Arc;

use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, Listing, Outcome, Request, ToolList,
};
use toolgate_wire::{
    Json, Object, Shape,
    mcp::{Era, code, member, method},
};

use super::{
    Gateway,
    incoming_request::{IncomingRequest, unknown},
    live_tools::LiveTools,
    namespace::NamespaceChain,
    proxied,
    response::JsonRpcResponse,
    tool_call::{NameResolver, narrow},
    upstream_call::{UpstreamCall, UpstreamReply},
};
use crate::{
    catalog::{
        lists::{CacheHints, MissingServer, definition_for},
        snapshot::{PageContent, Snapshot},
    },
    rpc_error,
    upstream::{manifest::ListName, server::ServerState},
};

/// `tools/list`: the tools that this client may see.
pub(super) async fn tools(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let namespace = &incoming.namespace;
    let current = namespace.current_chain();
    let snapshot = namespace.settled().await;
    gateway.refresh_private(&namespace.servers);
    let missing = snapshot.missing(ListName::Tools);
    if let Some(refused) = nothing_listed(incoming, &snapshot, ListName::Tools, &missing) {
        return refused;
    }
    let (mut cx, _) = narrow(incoming, &current, NameResolver::Listed(&snapshot));
    let era = incoming.caller.era();
    let end = Catalog { snapshot: &snapshot, era };
    let listed = current.stack.chain.list(&mut cx, Listing::default(), &end).await;
    let list = match listed {
        Ok(list) => list,
        Err(failure) => return JsonRpcResponse::failed(Some(incoming.id()), &failure),
    };
    let is_narrowed = cx.control().narrows();
    let is_whole = list.tools().len() <= namespace.style.page_size;
    if is_whole
        && !is_narrowed
        && missing.is_empty()
        && list.origin().is_some()
        && incoming.message.member(member::CURSOR).is_none()
    {
        return JsonRpcResponse::result(incoming.id(), snapshot.finished(era).0.clone());
    }
    let definitions = list.tools().iter().filter_map(|tool| tool.definition());
    let definitions: Vec<Json> = definitions.map(|tool| definition_for(tool, era)).collect();
    let list = FilteredList {
        list: ListName::Tools,
        is_narrowed,
        entries: &definitions,
        missing: &missing,
    };
    page(gateway, incoming, &snapshot, list)
}

/// `tools/list` of an exclusive server: the server's own page, without the tools that this client may not see.
pub(super) async fn live(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let namespace = &incoming.namespace;
    let current = namespace.current_chain();
    let Some(live) = &current.live else { return unknown(incoming) };
    let (mut cx, edits) = narrow(incoming, &current, NameResolver::Live(&current, live));
    if current.needs_all_tools() && live.must_ask(None) {
        namespace.refresh_live(&current, live, None, cx.cancel()).await;
    }
    let chain = &current.stack.chain;
    let upstream =
        UpstreamCall { edits, ..UpstreamCall::new(gateway, incoming, chain, live.server()) };
    let end = LivePage { upstream, chain: &current, live };
    let cursor = incoming.text("cursor");
    match chain.list(&mut cx, Listing { cursor }, &end).await {
        Ok(list) => match list.origin().cloned() {
            Some(origin) => JsonRpcResponse::verbatim(origin, None),
            None => JsonRpcResponse::result(incoming.id(), list.into_result()),
        },
        Err(failure) => {
            let outcome = Outcome::failed(failure);
            JsonRpcResponse::outcome(incoming.id(), outcome, incoming.caller.era())
        }
    }
}

/// The end of the chain for a listing of an exclusive server: requests the page from the server.
struct LivePage<'a> {
    upstream: UpstreamCall<'a>,
    chain: &'a NamespaceChain,
    live: &'a LiveTools,
}

impl LivePage<'_> {
    async fn page(&self, cx: &Context) -> Result<ToolList, Failure> {
        let UpstreamReply::Answer { answer, is_verbatim, .. } =
            self.upstream.send(cx, None).await?
        else {
            return Err(Failure::internal("a listing asks for nothing"));
        };
        if answer.shape() == Shape::Error {
            let failure = Failure::rejected(rpc_error::of_response(&answer));
            return Err(failure);
        }
        let (Some(page), Some(result)) = (self.live.read_page(&answer), answer.body()) else {
            let server = &self.live.server().name;
            let message = format!("The server `{server}` answered tools/list without tools");
            return Err(Failure::new(Code::ServerProtocol, message));
        };
        if page.has_new && self.chain.needs_all_tools() {
            // The new tool may have the name that an override gave to another tool.
            self.chain.settle_names(self.live);
        }
        let origin = is_verbatim.then(|| answer.line().clone());
        let mut list = ToolList::from_wire(page.tools, result, origin);
        if !page.is_whole {
            list.set_tools(list.tools().to_vec());
        }
        Ok(list)
    }
}

impl Endpoint for LivePage<'_> {
    fn call<'b>(&'b self, _: &'b mut Context, _: Call) -> Boxed<'b, Outcome> {
        let failure = Failure::internal("a listing is no call");
        Box::pin(std::future::ready(Outcome::failed(failure)))
    }

    fn list<'b>(&'b self, cx: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(self.page(cx))
    }

    fn request<'b>(&'b self, _: &'b mut Context, _: Request) -> Boxed<'b, Answer> {
        let body = Err(Failure::internal("a listing is no request").to_rpc().to_json());
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}

/// `prompts/list`, `resources/list` and `resources/templates/list`.
pub(super) async fn others(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let snapshot = incoming.namespace.settled().await;
    let lists = &snapshot.lists;
    let (list, entries) = match incoming.message.method() {
        method::PROMPTS_LIST => (ListName::Prompts, &lists.prompts),
        method::RESOURCES_LIST => (ListName::Resources, &lists.resources),
        _ => (ListName::Templates, &lists.templates),
    };
    if snapshot.servers_with(list.capability()).next().is_none() {
        // A server may have a list without declaring it, so the only server answers itself.
        return Box::pin(proxied::to_only_server(gateway, incoming)).await;
    }
    let mut missing = snapshot.missing(list);
    if let Some(refused) = nothing_listed(incoming, &snapshot, list, &missing) {
        return refused;
    }
    // A server that has not answered yet may have no such list, so only failures count as missing.
    missing.retain(|missing| missing.error.is_some());
    let list = FilteredList { list, is_narrowed: false, entries, missing: &missing };
    page(gateway, incoming, &snapshot, list)
}

/// The error for a list that no server could give, because an empty list would claim that there are no entries. The error
/// of the only server passes unchanged.
fn nothing_listed(
    incoming: &IncomingRequest,
    snapshot: &Snapshot,
    list: ListName,
    missing: &[MissingServer],
) -> Option<JsonRpcResponse> {
    if let Some(only) = snapshot.only_server() {
        let manifest = snapshot.offered.first().and_then(|offered| offered.manifest.as_ref());
        let listed = manifest.map(|manifest| manifest.list(list));
        let error = listed.filter(|list| list.entries.is_empty()).and_then(|l| l.error.as_ref());
        if let Some(error) = error {
            return Some(JsonRpcResponse::error_object(
                incoming.id(),
                error,
                rpc_error::of_object(error).code,
            ));
        }
        if let (None, ServerState::Failed(why, _)) = (manifest, only.state()) {
            let failure = Failure::new(Code::ServerUnavailable, &*why);
            return Some(JsonRpcResponse::failed(Some(incoming.id()), &failure));
        }
        return None;
    }
    if missing.is_empty() || missing.len() < snapshot.offered.len() {
        return None;
    }
    let reason =
        |missing: &MissingServer| Some(format!("`{}`: {}", missing.server.name, missing.why()?));
    let reasons: Vec<String> = missing.iter().map(reason).collect::<Option<_>>()?;
    let text = format!("No server could list its {}. {}", list.name(), reasons.join("; "));
    Some(JsonRpcResponse::failed(Some(incoming.id()), &Failure::new(Code::ServerUnavailable, text)))
}

/// A list as one client may see it.
struct FilteredList<'a> {
    list: ListName,
    /// Whether the request's control data narrowed the list.
    is_narrowed: bool,
    entries: &'a [Json],
    /// The servers whose entries are missing.
    missing: &'a [MissingServer],
}

/// The response with the page that the request asks for.
fn page(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    snapshot: &Snapshot,
    FilteredList { list: of, is_narrowed, entries, missing }: FilteredList<'_>,
) -> JsonRpcResponse {
    let size = incoming.namespace.style.page_size;
    // A cursor is valid only in its own namespace.
    let principal = format!("{}\0{}", incoming.namespace.name, incoming.caller.session.principal);
    let generation = snapshot.generation;
    let offset = match incoming.message.member(member::CURSOR) {
        None => 0,
        Some(cursor) => {
            let text = cursor.text().unwrap_or_default();
            match gateway.cursors.open(&text, of, generation, &principal) {
                Ok(offset) => offset as usize,
                Err(error) => {
                    return JsonRpcResponse::refused(
                        Some(incoming.id()),
                        code::INVALID_PARAMS,
                        error.to_string(),
                    );
                }
            }
        }
    };
    let end = offset.saturating_add(size).min(entries.len());
    let page = Json::list(entries.get(offset..end).unwrap_or_default());
    let next = (end < entries.len()).then(|| {
        let offset = u32::try_from(end).unwrap_or(u32::MAX);
        gateway.cursors.seal(of, generation, offset, &principal)
    });
    let era = incoming.caller.era();
    // A list narrowed by the request's control data must not be cached for others.
    let hints = snapshot.lists.hints;
    let hints = CacheHints { is_public: hints.is_public && !is_narrowed, ..hints };
    let (_, member) = of.method();
    let content = PageContent { member, entries: page, next: next.as_deref(), missing };
    JsonRpcResponse::result(incoming.id(), hints.page(era, content).0)
}

/// The end of the chain for a listing: the tools of the snapshot.
struct Catalog<'a> {
    snapshot: &'a Arc<Snapshot>,
    era: Era,
}

impl Endpoint for Catalog<'_> {
    fn call<'b>(&'b self, _: &'b mut Context, _: Call) -> Boxed<'b, Outcome> {
        let failure = Failure::internal("a listing is no call");
        Box::pin(std::future::ready(Outcome::failed(failure)))
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        // The finished page is valid as long as no layer changes the list.
        let origin = self.snapshot.finished(self.era).0.clone().into_bytes();
        let list = ToolList::from_wire(self.snapshot.tools.clone(), Object::new(), Some(origin));
        Box::pin(std::future::ready(Ok(list)))
    }

    fn request<'b>(&'b self, _: &'b mut Context, _: Request) -> Boxed<'b, Answer> {
        let body = Err(Failure::internal("a listing is no request").to_rpc().to_json());
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}
