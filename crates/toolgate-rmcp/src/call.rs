//! `tools/call` through the chain.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode},
    service::RequestContext,
};
use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, InputRound, Listing, Outcome, Peer,
    Reply, Request, RpcError, ToolId, ToolList, ToolResult,
    admission::{CallRequest, Edits, Resolution},
};
use toolgate_wire::{
    Json,
    mcp::{member, method},
};

use crate::{
    Governed,
    connection::{ChainState, remove_control},
    handler_slot::{HandlerSlot, QueuedCall},
    nested_call::NestedCall,
    original_answer::{OriginalAnswer, is_same_text},
    panics::{PanicError, catch_panic},
    peer::RequestPeer,
    trace_context,
    wire::{JsonResult, layer_error, to_error, to_rpc, wrong_request},
};

/// The prefix of the message with which rmcp's tool router reports arguments that do not fit. It reports a result
/// instead of an error, although the tool did not run.
const ARGUMENT_MISMATCH: &str = "failed to deserialize parameters:";

impl<H: ServerHandler> Governed<H> {
    pub(crate) async fn govern_call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (outcome, end) = self.run_call(params, context).await?;
        end.reply(outcome)
    }

    /// Runs a call through the chain. The end of the chain has the handler's original answer.
    async fn run_call(
        &self,
        mut params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<(Outcome, CallEndpoint<'_, H>), ErrorData> {
        let active = self.connection.active();
        let entered = self.connection.enter(&active, &context);
        let cx = self.admit(&active, &mut context);
        params.meta.as_mut().map(remove_control);
        let arguments = params.arguments.as_ref().map(Json::serialize).transpose();
        let arguments = arguments.map_err(|_| layer_error("the arguments have no JSON text"))?;
        let request = CallRequest {
            name: params.name.to_string(),
            arguments: arguments.clone(),
            round: InputRound {
                state: params.request_state.as_deref().map(Json::string),
                responses: params.input_responses.as_ref().and_then(|r| Json::serialize(r).ok()),
            },
            wants_task: false,
        };
        let meant = match active.chain.own_name(&self.connection.server, &params.name) {
            Some(own) => Resolution::Tool(self.tool(&active, &own, &context).await),
            None => Resolution::NoTool(self.unlisted(&active, &params.name)),
        };
        let mut admitted = request.admit(cx, Edits::default(), meant);
        if let Err(full) = &entered {
            admitted.refuse(full.clone());
        }
        if admitted.edits.has_own_round() {
            params.request_state = None;
            params.input_responses = None;
        }
        let tool = admitted.call.id().clone();
        if *tool.name() != *params.name {
            params.name = tool.name().to_owned().into();
        }
        let end = CallEndpoint {
            governed: self,
            active: Arc::clone(&active),
            params,
            peer: RequestPeer(context),
            tool,
            arguments,
            original: OriginalAnswer::new(),
        };
        match catch_panic(admitted.run(&active.chain.chain, &end)).await {
            Ok(outcome) => Ok((outcome, end)),
            Err(PanicError) => Err(layer_error("a layer of the chain panicked")),
        }
    }
}

/// The end of the chain for a call: the handler.
struct CallEndpoint<'a, H> {
    governed: &'a Governed<H>,
    active: Arc<ChainState>,
    params: CallToolRequestParams,
    peer: RequestPeer,
    tool: ToolId,
    arguments: Option<Json>,
    original: OriginalAnswer<CallToolResponse>,
}

impl<H: ServerHandler> CallEndpoint<'_, H> {
    /// The params as they arrived, unless a layer changed the tool or its arguments. Other members (input responses,
    /// request state, `_meta`) stay.
    fn params(&self, cx: &Context, call: &Call) -> Result<CallToolRequestParams, Failure> {
        let mut params = self.params.clone();
        if let Some(round) = cx.forwarded_input() {
            let state = round.state.as_ref().and_then(Json::text);
            params.request_state = state.map(std::borrow::Cow::into_owned);
            params.input_responses = round.responses.as_ref().and_then(|r| r.decode().ok());
        }
        let untouched = match (call.arguments(), &self.arguments) {
            (Some(now), Some(then)) => is_same_text(now, then),
            (None, None) => true,
            _ => false,
        };
        if *call.id() != self.tool {
            params.name = call.id().name().to_owned().into();
        }
        if !untouched {
            let object = call.arguments().map(Json::decode).transpose();
            params.arguments = object
                .map_err(|_| Failure::internal("a layer set arguments that are not an object"))?;
        }
        Ok(params)
    }

    async fn run(&self, cx: &Context, call: &Call) -> Outcome {
        let mut params = match self.params(cx, call) {
            Ok(params) => params,
            Err(failure) => return failure.into(),
        };
        let mut context = self.peer.0.clone();
        context.ct = cx.cancel().child_token();
        trace_context::pass_on(cx, &mut context.meta);
        if let Some(meta) = &mut params.meta {
            trace_context::pass_on(cx, meta);
        }
        // If a layer drops this future, the guard cancels the token, and with it the work that the tool has started.
        let guard = context.ct.clone().drop_guard();
        let slot = HandlerSlot::default();
        context.extensions.insert(slot.clone());
        NestedCall::mark(cx, &mut context);
        // For tools that keep records of their own.
        context.extensions.insert(cx.call_id());
        let handler = async { self.governed.handler.call_tool(params, context).await };
        let nested = |queued: QueuedCall| -> Boxed<'_, ()> {
            Box::pin(async move {
                let outcome = self.run_nested(cx, &queued.tool, queued.arguments).await;
                let _ = queued.answer.send(outcome);
            })
        };
        let answer = slot.drive(catch_panic(handler), nested).await;
        guard.disarm();
        let Ok(answer) = answer else {
            let name = call.id().name();
            return Failure::internal(format!("Tool '{name}' panicked")).into();
        };
        match (slot.take(), &answer) {
            (Some(failure), Err(_)) => {
                let outcome = Outcome::failed(failure);
                if cx.cancel().is_cancelled() { cancelled_outcome(&outcome) } else { outcome }
            }
            _ => self.outcome(cx, call, answer).await,
        }
    }

    /// Runs another tool through the whole chain, as part of this call.
    async fn run_nested(&self, cx: &Context, tool: &str, arguments: Option<Json>) -> Outcome {
        let Ok(arguments) = arguments.map(|arguments| arguments.decode()).transpose() else {
            let text = format!("`{tool}`: the arguments are not an object");
            return Failure::new(Code::InvalidArguments, text).into();
        };
        let mut context = self.peer.0.clone();
        context.ct = cx.cancel().child_token();
        // The client follows the progress of its own call.
        context.meta.remove(member::PROGRESS_TOKEN);
        NestedCall::mark(cx, &mut context);
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments;
        match self.governed.run_call(params, context).await {
            Ok((outcome, _)) => outcome,
            Err(error) => Failure::rejected(to_rpc(&error)).into(),
        }
    }

    async fn outcome(
        &self,
        cx: &Context,
        call: &Call,
        answer: Result<CallToolResponse, ErrorData>,
    ) -> Outcome {
        let (outcome, text) = match &answer {
            Ok(response) => match response.to_json() {
                Ok(text) => (answered(response, text.clone()), Some(text)),
                Err(_) => (Failure::internal("the result has no JSON text").into(), None),
            },
            Err(error) => {
                let rpc = to_rpc(error);
                let text = rpc.data.clone();
                (self.refused(call, rpc).await.into(), text)
            }
        };
        self.original.keep(text, answer);
        if cx.cancel().is_cancelled() { cancelled_outcome(&outcome) } else { outcome }
    }

    /// The failure for an error of the handler. If the handler has no tool with this name, that is the reason.
    async fn refused(&self, call: &Call, rpc: RpcError) -> Failure {
        let name = call.id().name();
        let suspect = [ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND]
            .iter()
            .any(|code| i64::from(code.0) == rpc.code);
        if suspect && self.governed.is_unknown(&self.active, name, &self.peer.0).await {
            return Failure::new(Code::UnknownTool, rpc.message.clone())
                .suggest("Call tools/list for available tools.")
                .with_rpc(rpc);
        }
        Failure::rejected(rpc)
    }

    /// The response that rmcp sends to the client.
    fn reply(&self, outcome: Outcome) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = outcome.result() {
            let text = result.json();
            return self.original.take_if(text).unwrap_or_else(|| {
                CallToolResponse::from_json(text)
                    .map_err(|_| layer_error("a layer made a result that is no result of a tool"))
            });
        }
        match outcome.into_reply() {
            Reply::Error(rpc) => {
                let original = rpc.data.as_ref().and_then(|data| self.original.take_if(data));
                original.unwrap_or_else(|| Err(to_error(rpc)))
            }
            // rmcp discards the response to a cancelled request. While it shuts down, it still sends the responses that
            // it has.
            Reply::Nothing => self
                .original
                .take()
                .unwrap_or_else(|| Err(ErrorData::internal_error("the call was cancelled", None))),
            Reply::Verbatim(_) | Reply::Result(_) => {
                Err(layer_error("a layer made an outcome without a result"))
            }
        }
    }
}

/// The outcome of a handler's result.
fn answered(response: &CallToolResponse, text: Json) -> Outcome {
    let result = match response {
        CallToolResponse::Complete(result) => {
            if let Some(message) = argument_mismatch(result) {
                // The result is the error's data, by which it is found again if no layer renders the failure.
                let data = Some(text);
                let code = ErrorCode::INVALID_PARAMS.0.into();
                return Failure::rejected(RpcError { code, message, data }).into();
            }
            ToolResult::known(text, result.is_error == Some(true), None)
        }
        CallToolResponse::InputRequired(_) => {
            ToolResult::known(text, false, Some(&Json::string("input_required")))
        }
        _ => ToolResult::known(text, false, None),
    };
    Outcome::answered(result)
}

/// The message of rmcp's router, if the arguments did not fit.
fn argument_mismatch(result: &CallToolResult) -> Option<String> {
    let [only] = &*result.content else {
        return None;
    };
    let text = &only.as_text()?.text;
    (result.is_error == Some(true) && text.starts_with(ARGUMENT_MISMATCH)).then(|| text.clone())
}

/// The outcome is `Cancelled` and keeps the handler's result, because only rmcp knows whether it will still send it.
fn cancelled_outcome(outcome: &Outcome) -> Outcome {
    let failure = Failure::new(Code::Cancelled, "the client cancelled the call")
        .with_executed(outcome.executed());
    let mut cancelled = Outcome::failed(failure);
    if let Some(result) = outcome.result() {
        cancelled.set_result(result.clone());
    }
    cancelled
}

impl<H: ServerHandler> Endpoint for CallEndpoint<'_, H> {
    fn call<'a>(&'a self, cx: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move { self.run(cx, &call).await })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Err(wrong_request(method::TOOLS_CALL, method::TOOLS_LIST)) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(async move {
            crate::wire::error_answer(&wrong_request(method::TOOLS_CALL, &request.method))
        })
    }

    fn peer(&self) -> Option<&dyn Peer> {
        Some(&self.peer)
    }

    fn nested<'a>(
        &'a self,
        cx: &'a Context,
        tool: &'a str,
        arguments: Option<Json>,
    ) -> Boxed<'a, Outcome> {
        Box::pin(self.run_nested(cx, tool, arguments))
    }
}
