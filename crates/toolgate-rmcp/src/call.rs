//! `tools/call` through the chain.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode},
    service::RequestContext,
};
use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, InputRound, Listing, Outcome, Reply,
    Request, RpcError, ToolId, ToolList, ToolResult,
    admission::{CallRequest, Edits, Resolution},
};
use toolgate_wire::{Json, mcp::method};

use crate::{
    Governed,
    connection::{Active, remove_control},
    kept::{Kept, same},
    raise::Raised,
    trace,
    unwind::{Panicked, caught},
    wire::{Wire, broken, off_path, to_error, to_rpc},
    within::Within,
};

/// What rmcp's tool router writes when arguments do not fit: a result, not an error, though the tool
/// never ran.
const MISFIT: &str = "failed to deserialize parameters:";

impl<H: ServerHandler> Governed<H> {
    pub(crate) async fn govern_call(
        &self,
        mut params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let active = self.connection.active();
        let entered = self.connection.enter(&active, &context);
        let cx = self.admit(&active, &mut context);
        params.meta.as_mut().map(remove_control);
        let arguments = params.arguments.as_ref().map(Json::serialize).transpose();
        let arguments = arguments.map_err(|_| broken("the arguments have no JSON text"))?;
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
        let kept = Kept::new();
        let end =
            CallEnd { governed: self, active: &active, params, context, tool, arguments, kept };
        match caught(admitted.run(&active.chain.chain, &end)).await {
            Ok(outcome) => end.reply(outcome),
            Err(Panicked) => Err(broken("a layer of the chain panicked")),
        }
    }
}

/// Where a call ends: the handler.
struct CallEnd<'a, H> {
    governed: &'a Governed<H>,
    active: &'a Active,
    params: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    tool: ToolId,
    arguments: Option<Json>,
    kept: Kept<CallToolResponse>,
}

impl<H: ServerHandler> CallEnd<'_, H> {
    /// The params as they came in, unless a layer changed the tool or its arguments; whatever else
    /// they hold (input responses, request state, `_meta`) stays.
    fn params(&self, cx: &Context, call: &Call) -> Result<CallToolRequestParams, Failure> {
        let mut params = self.params.clone();
        if let Some(round) = cx.forwarded_input() {
            let state = round.state.as_ref().and_then(Json::text);
            params.request_state = state.map(std::borrow::Cow::into_owned);
            params.input_responses = round.responses.as_ref().and_then(|r| r.decode().ok());
        }
        let untouched = match (call.arguments(), &self.arguments) {
            (Some(now), Some(then)) => same(now, then),
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
        let mut context = self.context.clone();
        context.ct = cx.cancel().child_token();
        trace::pass_on(cx, &mut context.meta);
        if let Some(meta) = &mut params.meta {
            trace::pass_on(cx, meta);
        }
        // A layer that gives the call up drops this future: whatever the tool set going hears of it.
        let guard = context.ct.clone().drop_guard();
        let raised = Raised::default();
        context.extensions.insert(raised.clone());
        Within::mark(cx, &mut context);
        // For tools that keep records of their own.
        context.extensions.insert(cx.call_id());
        let answer = caught(async { self.governed.handler.call_tool(params, context).await }).await;
        guard.disarm();
        let Ok(answer) = answer else {
            let name = call.id().name();
            return Failure::internal(format!("Tool '{name}' panicked")).into();
        };
        match (raised.take(), &answer) {
            (Some(failure), Err(_)) => {
                let outcome = Outcome::failed(failure);
                if cx.cancel().is_cancelled() { given_up(&outcome) } else { outcome }
            }
            _ => self.outcome(cx, call, answer).await,
        }
    }

    async fn outcome(
        &self,
        cx: &Context,
        call: &Call,
        answer: Result<CallToolResponse, ErrorData>,
    ) -> Outcome {
        let (outcome, text) = match &answer {
            Ok(response) => match response.write() {
                Ok(text) => (answered(response, text.clone()), Some(text)),
                Err(_) => (Failure::internal("the result has no JSON text").into(), None),
            },
            Err(error) => {
                let rpc = to_rpc(error);
                let text = rpc.data.clone();
                (self.refused(call, rpc).await.into(), text)
            }
        };
        self.kept.keep(text, answer);
        if cx.cancel().is_cancelled() { given_up(&outcome) } else { outcome }
    }

    /// The handler answered with an error. Where it has no tool of that name, that is why.
    async fn refused(&self, call: &Call, rpc: RpcError) -> Failure {
        let name = call.id().name();
        let suspect = [ErrorCode::INVALID_PARAMS, ErrorCode::METHOD_NOT_FOUND]
            .iter()
            .any(|code| i64::from(code.0) == rpc.code);
        if suspect && self.governed.is_unknown(self.active, name, &self.context).await {
            return Failure::new(Code::UnknownTool, rpc.message.clone())
                .suggest("Call tools/list for available tools.")
                .with_rpc(rpc);
        }
        Failure::rejected(rpc)
    }

    /// What rmcp sends to the client.
    fn reply(&self, outcome: Outcome) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = outcome.result() {
            let text = result.json();
            return self.kept.take_if(text).unwrap_or_else(|| {
                CallToolResponse::read(text)
                    .map_err(|_| broken("a layer made a result that is no result of a tool"))
            });
        }
        match outcome.into_reply() {
            Reply::Error(rpc) => {
                let kept = rpc.data.as_ref().and_then(|data| self.kept.take_if(data));
                kept.unwrap_or_else(|| Err(to_error(rpc)))
            }
            // rmcp drops the answer to a cancelled request, whatever it is; while it shuts down it
            // still sends those that it has.
            Reply::Nothing => self
                .kept
                .take()
                .unwrap_or_else(|| Err(ErrorData::internal_error("the call was cancelled", None))),
            Reply::Verbatim(_) | Reply::Result(_) => {
                Err(broken("a layer made an outcome without a result"))
            }
        }
    }
}

/// What the handler's result means to the chain.
fn answered(response: &CallToolResponse, text: Json) -> Outcome {
    let result = match response {
        CallToolResponse::Complete(result) => {
            if let Some(message) = misfit(result) {
                // With the result as its data, by which it is found again if no layer renders it.
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
fn misfit(result: &CallToolResult) -> Option<String> {
    let [only] = &*result.content else {
        return None;
    };
    let text = &only.as_text()?.text;
    (result.is_error == Some(true) && text.starts_with(MISFIT)).then(|| text.clone())
}

/// The client no longer waits. The result stays, because rmcp alone knows whether to send it.
fn given_up(outcome: &Outcome) -> Outcome {
    let failure = Failure::new(Code::Cancelled, "the client gave the call up")
        .with_executed(outcome.executed());
    let mut cancelled = Outcome::failed(failure);
    if let Some(result) = outcome.result() {
        cancelled.set_result(result.clone());
    }
    cancelled
}

impl<H: ServerHandler> Endpoint for CallEnd<'_, H> {
    fn call<'a>(&'a self, cx: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move { self.run(cx, &call).await })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Err(off_path(method::TOOLS_CALL, method::TOOLS_LIST)) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(
            async move { crate::wire::refused(&off_path(method::TOOLS_CALL, &request.method)) },
        )
    }
}
