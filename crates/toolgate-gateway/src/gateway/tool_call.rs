//! `tools/call`: finds the tool by its name on the wire and runs the chain.

use std::sync::Arc;

use toolgate::{
    CallId, Chain, Context, Failure, Outcome, Tool, ToolId,
    admission::{self, AdmittedCall, CallRequest, Edits, Resolution},
    settings::Settings,
};
use toolgate_wire::{
    Id, Json, Limits, Message, Object,
    mcp::{code, member, method},
    request,
};

use super::{
    Gateway, incoming_request::IncomingRequest, live_tools::LiveTools, namespace::NamespaceChain,
    response::JsonRpcResponse, tasks, upstream_call::UpstreamCall,
};
use crate::{
    active_chain::ActiveChain,
    catalog::{
        header_params::HeaderParam,
        snapshot::{Snapshot, ToolEntry},
    },
    config::Prefix,
    upstream::server::Server,
};

/// Resolves the names of tools on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameResolver<'a> {
    /// By the snapshot of the namespace.
    Listed(&'a Snapshot),
    /// By the tools that an exclusive server has listed so far.
    Live(&'a NamespaceChain, &'a LiveTools),
}

impl NameResolver<'_> {
    /// The tool with this name.
    fn id(&self, name: &str) -> Option<ToolId> {
        match self {
            Self::Listed(snapshot) => Some(snapshot.tool(name)?.tool.id().clone()),
            Self::Live(chain, live) => {
                let own = chain.own_name(live, name)?;
                Some(ToolId::new(Arc::clone(&live.server().name), own))
            }
        }
    }

    /// A placeholder for records of a call of an unknown name.
    fn placeholder(&self, name: &str, settings: &Settings) -> Arc<Tool> {
        let server = match self {
            Self::Listed(snapshot) => snapshot.only_server(),
            Self::Live(_, live) => Some(live.server()),
        };
        let id = ToolId::new(server.map_or("", |server| &*server.name), name);
        Arc::new(Tool::unlisted(id, &settings.tier_rules()))
    }
}

/// Calls a tool.
pub(super) async fn call(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let request = match CallRequest::read(&incoming.message) {
        Ok(request) => request,
        Err(failure) => return JsonRpcResponse::failed(Some(incoming.id()), &failure),
    };
    match outcome(gateway, incoming, request, None).await {
        Ok(outcome) => JsonRpcResponse::outcome(incoming.id(), outcome, incoming.caller.era()),
        Err(refused) => refused,
    }
}

impl Gateway {
    /// Calls a tool as part of a call, with the client and the restrictions of that call. The request that the server gets is
    /// the gateway's own.
    pub(super) async fn call_nested(
        &self,
        parent: &IncomingRequest,
        cx: &Context,
        name: &str,
        arguments: Option<Json>,
    ) -> Outcome {
        let id = Id::string(&format!("toolgate-{}", CallId::next()));
        let mut params = Object::new();
        params.set("name", name);
        if let Some(arguments) = arguments {
            params.set(member::ARGUMENTS, arguments);
        }
        // The client follows the progress of its own call.
        if let Some(mut meta) = cx.meta().and_then(Json::object) {
            meta.remove(member::PROGRESS_TOKEN);
            params.set(member::META, meta);
        }
        let line = request(&id, method::TOOLS_CALL, Some(&params.finish()));
        let Ok(message) = Message::parse(line, &Limits::default()) else {
            return Failure::internal("a nested call is no valid message").into();
        };
        let nested = cx.nested().with_request_id(Some(id.clone()));
        let incoming = IncomingRequest {
            namespace: Arc::clone(&parent.namespace),
            caller: parent.caller.clone(),
            id,
            message,
            side: parent.side.clone(),
            cancel: nested.cancel().clone(),
            headers: None,
        };
        let request = match CallRequest::read(&incoming.message) {
            Ok(request) => request,
            Err(failure) => return failure.into(),
        };
        match outcome(self, &incoming, request, Some(Box::new(nested))).await {
            Ok(outcome) => outcome,
            Err(_) => Failure::internal("a nested call was refused before it was admitted").into(),
        }
    }
}

/// The outcome of a call. `nested` is the context of a call that is part of another one, which holds the place in flight.
async fn outcome(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    request: CallRequest,
    nested: Option<Box<Context>>,
) -> Result<Outcome, JsonRpcResponse> {
    let namespace = &incoming.namespace;
    let current = namespace.current_chain();
    let (snapshot, unlisted, live_tool);
    let (names, target) = match &current.live {
        None => {
            let is_known = |snapshot: &Snapshot| snapshot.tool(&request.name).is_some();
            snapshot = namespace.snapshot_with(is_known).await;
            unlisted = unlisted_tool(incoming, &current, &snapshot, &request.name);
            let entry = snapshot.tool(&request.name).or(unlisted.as_ref());
            (NameResolver::Listed(&snapshot), entry.map(CallTarget::from))
        }
        Some(live) => {
            let cancel = &incoming.cancel;
            live_tool = current.live_tool(namespace, live, &request.name, cancel).await;
            let server = live.server();
            let target =
                live_tool.as_ref().map(|tool| CallTarget { tool, server, header_params: &[] });
            (NameResolver::Live(&current, live), target)
        }
    };
    let is_nested = nested.is_some();
    let (cx, edits) = match nested {
        Some(cx) => (*cx, Edits::default()),
        None => narrow(incoming, &current, names),
    };
    let meant = match &target {
        Some(target) => Resolution::Tool(Arc::clone(target.tool)),
        None => Resolution::NoTool(names.placeholder(&request.name, &current.settings)),
    };
    // Boxed: each of the futures below would hold a copy of it.
    let mut admitted = Box::new(request.admit(cx, edits, meant));
    let entered = if is_nested {
        None
    } else {
        Some(incoming.caller.principal.admit(current.settings.limits.in_flight))
    };
    if let Some(Err(full)) = &entered {
        admitted.refuse(full.failure());
    }
    match target.filter(|_| !admitted.is_refused()) {
        None => Ok(admitted.run_refused(&current.stack.chain).await),
        Some(target) => match check_header_params(incoming, &target, admitted.call.arguments()) {
            Some(refused) => Err(refused),
            None => Ok(run(gateway, incoming, &current.stack.chain, &target, admitted).await),
        },
    }
}

/// The tool to call, and its server.
struct CallTarget<'a> {
    tool: &'a Arc<Tool>,
    server: &'a Arc<Server>,
    header_params: &'a [HeaderParam],
}

impl<'a> From<&'a ToolEntry> for CallTarget<'a> {
    fn from(entry: &'a ToolEntry) -> Self {
        Self { tool: &entry.tool, server: &entry.server, header_params: &entry.header_params }
    }
}

/// A tool that its server does not list, if the namespace has only this server, the server has no list of tools, and no
/// setting selects tools by name.
fn unlisted_tool(
    incoming: &IncomingRequest,
    current: &NamespaceChain,
    snapshot: &Snapshot,
    name: &str,
) -> Option<ToolEntry> {
    let server = snapshot.only_server()?;
    let manifest = snapshot.offered.first()?.manifest.as_ref()?;
    let has_list = manifest.tools.error.is_none() || !manifest.tools.entries.is_empty();
    let has_prefix = incoming.namespace.style.prefix == Prefix::Always;
    if has_list || has_prefix || current.refuses_unlisted {
        return None;
    }
    let id = ToolId::new(Arc::clone(&server.name), name);
    let tool = Arc::new(Tool::unlisted(id, &current.settings.tier_rules()));
    Some(ToolEntry { tool, server: Arc::clone(server), header_params: Arc::default() })
}

async fn run(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    chain: &Chain,
    target: &CallTarget<'_>,
    mut admitted: Box<AdmittedCall>,
) -> Outcome {
    let edits = std::mem::take(&mut admitted.edits);
    let end = UpstreamCall {
        name: Some(target.tool.id().name()),
        header_params: target.header_params,
        edits,
        ..UpstreamCall::new(gateway, incoming, chain, target.server)
    };
    let outcome = admitted.run(chain, &end).await;
    tasks::with_client_id(gateway, incoming, target.server, outcome)
}

/// The context of a request with its control data applied, and the edits that remove control data from the request.
pub(super) fn narrow(
    incoming: &IncomingRequest,
    current: &ActiveChain,
    names: NameResolver<'_>,
) -> (Context, Edits) {
    let meta = incoming.message.member(member::META);
    let narrowing = &incoming.namespace.narrowing;
    let meant = |name: &str| names.id(name);
    admission::narrow(incoming.context(current), narrowing, meta.as_ref(), meant)
}

/// The error for a request of 2026-07-28 whose headers contradict the arguments that they repeat.
fn check_header_params(
    incoming: &IncomingRequest,
    target: &CallTarget<'_>,
    arguments: Option<&Json>,
) -> Option<JsonRpcResponse> {
    let headers = incoming.headers.as_ref()?;
    let wrong =
        target.header_params.iter().find_map(|param| param.check(headers, arguments).err())?;
    Some(JsonRpcResponse::refused(Some(incoming.id()), code::HEADER_MISMATCH, wrong))
}
