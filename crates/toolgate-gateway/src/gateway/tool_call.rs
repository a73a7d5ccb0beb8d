//! `tools/call`: finds the tool by its name on the wire and runs the chain.

use std::{borrow::Cow, sync::Arc};

use toolgate::{
    Answer, Boxed, Call, Chain, Code, Context, Endpoint, Failure, Listing, Outcome, Request,
    RpcError, Tool, ToolId, ToolList, ToolResult,
    admission::{self, Admitted, CallRequest, Edits, Resolution},
    settings::Settings,
};
use toolgate_wire::{
    Json, Kind, Message, Shape,
    mcp::{Era, code, member, method},
};

use super::{
    Gateway,
    dispatch::IncomingRequest,
    era_bridge,
    live_tools::LiveTools,
    namespace::NamespaceChain,
    response::JsonRpcResponse,
    tasks,
    upstream_call::{UpstreamCall, UpstreamReply},
};
use crate::{
    active_chain::ActiveChain,
    catalog::{
        header_params::HeaderParam,
        snapshot::{Snapshot, ToolEntry},
    },
    config::Prefix,
    response::rpc_error,
    upstream::{failures::protocol_violation, server::Server},
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
    let (cx, edits) = narrow(incoming, &current, names);
    let meant = match &target {
        Some(target) => Resolution::Tool(Arc::clone(target.tool)),
        None => Resolution::NoTool(names.placeholder(&request.name, &current.settings)),
    };
    let mut admitted = request.admit(cx, edits, meant);
    let entered = incoming.caller.member.admit(current.settings.limits.in_flight);
    if let Err(full) = &entered {
        admitted.refuse(full.failure());
    }
    let outcome = match target.filter(|_| !admitted.is_refused()) {
        None => admitted.run_refused(&current.stack.chain).await,
        Some(target) => {
            if let Some(refused) = check_header_params(incoming, &target, admitted.call.arguments())
            {
                return refused;
            }
            run(gateway, incoming, &current.stack.chain, &target, admitted).await
        }
    };
    JsonRpcResponse::outcome(incoming.id(), outcome, incoming.caller.is_modern())
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
    mut admitted: Admitted,
) -> Outcome {
    let edits = std::mem::take(&mut admitted.edits);
    let name = Some(target.tool.id().name());
    let end = UpstreamCall {
        header_params: target.header_params,
        ..UpstreamCall::new(gateway, incoming, chain, target.server, name, edits)
    };
    let outcome = admitted.run(chain, &end).await;
    tasks::outward(gateway, incoming, target.server, outcome)
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
    let data = Some(Json::value(&serde_json::json!({"ran": false})));
    let refusal = RpcError { code: code::HEADER_MISMATCH, message: wrong, data };
    Some(JsonRpcResponse::error(Some(incoming.id()), &refusal))
}

impl UpstreamCall<'_> {
    fn to(&self) -> Era {
        self.caller.era()
    }

    /// Whether the client answers a request for input. It then gets the server's errors unchanged, because they concern
    /// the `requestState`.
    fn resumes_input(&self) -> bool {
        ["requestState", "inputResponses"].iter().any(|key| self.message.member(key).is_some())
    }

    fn outcome(&self, answer: &Message, from: Era, is_verbatim: bool) -> Outcome {
        if answer.shape() == Shape::Error {
            let rpc = rpc_error(answer);
            let failure = if self.resumes_input() {
                Failure::new(Code::InvalidRequest, rpc.message.clone()).with_rpc(rpc)
            } else {
                Failure::rejected(rpc)
            };
            // Keep the error object with its unknown members; only the id changes.
            let line = match self.message.id() {
                Some(id) if !is_verbatim => answer.with_id(id),
                _ => answer.line().clone(),
            };
            return Outcome::failed(failure).with_origin(line);
        }
        let Some(json) = answer.result().filter(|json| json.kind() == Kind::Object) else {
            return protocol_violation(
                &self.server.name,
                "answered the call with something that is no object",
            )
            .into();
        };
        let result_type = answer.member(member::RESULT_TYPE);
        let needs_type = self.to() == Era::Modern && result_type.is_none();
        if (from != self.to() || needs_type) && !self.server.is_exclusive() {
            let translated =
                era_bridge::translate_result(&json, method::TOOLS_CALL, from, self.to());
            if let Some(translated) = translated {
                return Outcome::answered(ToolResult::new(translated));
            }
        }
        let is_error = answer.member(member::IS_ERROR).and_then(|json| json.bool()) == Some(true);
        let outcome = Outcome::answered(ToolResult::known(json, is_error, result_type.as_ref()));
        if is_verbatim { outcome.with_origin(answer.line().clone()) } else { outcome }
    }

    fn answer(&self, answer: &Message, from: Era, is_verbatim: bool) -> Answer {
        let method = self.message.method();
        if answer.shape() == Shape::Error {
            let rpc = rpc_error(answer);
            let code = rpc.code;
            // Between peers of one era the code is the same as on a direct connection.
            let rpc = if self.server.is_exclusive() || from == self.to() {
                rpc
            } else {
                era_bridge::translate_error(rpc, method, self.to(), self.name)
            };
            return match answer.error().filter(|_| rpc.code == code) {
                // Unchanged: keep the error object with its unknown members.
                Some(error) => {
                    let origin = is_verbatim.then(|| answer.line().clone());
                    Answer { body: Err(error), origin }
                }
                None => Answer { body: Err(rpc.to_json()), origin: None },
            };
        }
        let json = answer.result().unwrap_or_else(Json::null);
        match era_bridge::translate_result(&json, method, from, self.to()) {
            Some(translated) => Answer { body: Ok(translated), origin: None },
            None => Answer { body: Ok(json), origin: is_verbatim.then(|| answer.line().clone()) },
        }
    }
}

impl Endpoint for UpstreamCall<'_> {
    fn call<'b>(&'b self, cx: &'b mut Context, call: Call) -> Boxed<'b, Outcome> {
        Box::pin(async move {
            let changed = if call.is_changed() { call.arguments() } else { None };
            match self.send(cx, changed).await {
                Ok(UpstreamReply::Answer { answer, from, is_verbatim }) => {
                    self.outcome(&answer, from, is_verbatim)
                }
                Ok(UpstreamReply::Asked(result)) => Outcome::answered(ToolResult::new(result)),
                Err(failure) => failure.into(),
            }
        })
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(Failure::internal("a call is no listing"))))
    }

    fn request<'b>(&'b self, cx: &'b mut Context, _: Request) -> Boxed<'b, Answer> {
        Box::pin(async move {
            match self.send(cx, None).await {
                Ok(UpstreamReply::Answer { answer, from, is_verbatim }) => {
                    self.answer(&answer, from, is_verbatim)
                }
                Ok(UpstreamReply::Asked(result)) => Answer { body: Ok(result), origin: None },
                Err(failure) => Answer { body: Err(failure.to_rpc().to_json()), origin: None },
            }
        })
    }
}

/// Parses an error object.
pub(super) fn read_error(error: &Json) -> RpcError {
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text).map(Cow::into_owned);
    RpcError {
        code: error.get("code").and_then(|json| json.i64()).unwrap_or(code::INTERNAL_ERROR),
        message: message.unwrap_or_default(),
        data: error.get("data"),
    }
}
