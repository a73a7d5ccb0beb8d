//! `UpstreamCall` as the end of the chain: translates the server's response into an outcome for the layers.

use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, Listing, Outcome, Peer, Request,
    ToolList, ToolResult,
};
use toolgate_wire::{
    Json, Kind, Message, Shape,
    mcp::{Era, member, method},
};

use super::{UpstreamCall, UpstreamReply};
use crate::{gateway::era_bridge, rpc_error, upstream::failures::protocol_violation};

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
            let rpc = rpc_error::of_response(answer);
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
            let rpc = rpc_error::of_response(answer);
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
                Err(failure) => failure.into(),
            }
        })
    }

    fn peer(&self) -> Option<&dyn Peer> {
        Some(self)
    }

    fn nested<'b>(
        &'b self,
        cx: &'b Context,
        tool: &'b str,
        arguments: Option<Json>,
    ) -> Boxed<'b, Outcome> {
        Box::pin(self.gateway.call_nested(self.incoming, cx, tool, arguments))
    }
}
