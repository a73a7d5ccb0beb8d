//! Admission: how a client's request becomes a call in its context, or a refusal. Every transport uses it.
//!
//! A transport determines the caller and the tool of a name. Admission decides everything else before the chain runs:
//! it removes control data from `_meta` and restricts the request by it ([`narrow`]), it keeps the state of toolgate's
//! own input rounds from the server ([`take_input`]), and it refuses a call so that every layer still sees the refusal
//! ([`AdmittedCall::refuse`]). [`Edits`] are the changes to the params that are sent to the server.

mod edits;
mod narrowing;
pub mod refusal;

use std::{borrow::Cow, sync::Arc};

use toolgate_wire::{Json, Message, mcp::member};

pub use self::{
    edits::{Edits, put_input},
    narrowing::Narrowing,
};
use crate::{
    call::{Answer, Call, Listing, Request, ToolList},
    chain::Chain,
    client_input::InputRound,
    context::Context,
    control::Control,
    failure::{Executed, Failure},
    identity::ToolId,
    layer::Endpoint,
    middleware::{Boxed, audit::intent::RefusedAtAdmission},
    outcome::Outcome,
    registry::Code,
    tool::Tool,
};

/// The members of a `tools/call` that admission reads.
#[derive(Clone, Debug, Default)]
pub struct CallRequest {
    /// `params.name`, the name that the client sees.
    pub name: String,
    /// `params.arguments`
    pub arguments: Option<Json>,
    /// `params.requestState` and `params.inputResponses`
    pub round: InputRound,
    /// Whether the client asks for a task (`params.task`).
    pub wants_task: bool,
}

impl CallRequest {
    /// Reads the params of a `tools/call`.
    pub fn read(message: &Message) -> Result<Self, Failure> {
        let name = message.member("name");
        let name = name.as_ref().and_then(Json::text).map(Cow::into_owned);
        let unnamed = || {
            let message = "params.name of tools/call must be a string";
            Failure::new(Code::InvalidRequest, message)
                .suggest("Give the name of a tool as tools/list shows it.")
        };
        Ok(Self {
            name: name.ok_or_else(unnamed)?,
            arguments: message.member(member::ARGUMENTS),
            round: InputRound {
                state: message.member(member::REQUEST_STATE),
                responses: message.member(member::INPUT_RESPONSES),
            },
            wants_task: message.member("task").is_some(),
        })
    }

    /// Admits the call, with the context and the edits of [`narrow`].
    #[must_use]
    pub fn admit(self, cx: Context, mut edits: Edits, meant: Resolution) -> AdmittedCall {
        let cx = take_input(cx, self.round, &mut edits);
        let (tool, refusal) = match meant {
            Resolution::Tool(tool) => (tool, None),
            Resolution::NoTool(stand_in) => (stand_in, Some(unknown_tool(&self.name))),
        };
        let is_renamed = tool.id().name() != self.name;
        if is_renamed {
            edits.set("name", Json::string(tool.id().name()));
        }
        let mut call = Call::new(tool, self.arguments);
        if is_renamed {
            call = call.with_wire_name(self.name);
        }
        AdmittedCall { cx, call, edits, refusal, wants_task: self.wants_task }
    }
}

/// The resolution of a tool's name.
///
/// An unknown name and the original name of a renamed tool are both `NoTool`, because clients must not be able to
/// distinguish them.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// A tool that its server lists, or one that the server may have without listing it.
    Tool(Arc<Tool>),
    /// No tool. The value represents the name in records.
    NoTool(Arc<Tool>),
}

/// A call that is ready for the chain.
#[derive(Debug)]
pub struct AdmittedCall {
    /// The context with the call's restrictions.
    pub cx: Context,
    /// The call.
    pub call: Call,
    /// The changes to the params that are sent to the server.
    pub edits: Edits,
    refusal: Option<Failure>,
    wants_task: bool,
}

impl AdmittedCall {
    /// Refuses the call. The chain still runs, so that the refusal is rendered and recorded.
    pub fn refuse(&mut self, failure: Failure) {
        self.refusal = Some(failure);
    }

    /// Whether the call is refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Runs the chain. A refused call never reaches `end`.
    pub async fn run(self, chain: &Chain, end: &dyn Endpoint) -> Outcome {
        let Self { mut cx, call, refusal, wants_task, .. } = self;
        let tool = Arc::clone(call.tool());
        let outcome = match refusal {
            None => chain.call(&mut cx, call, end).await,
            Some(failure) => {
                cx.extensions_mut().insert(RefusedAtAdmission);
                chain
                    .call(&mut cx, call, &RefusingEndpoint(failure.with_executed(Executed::No)))
                    .await
            }
        };
        chain.tasks().note(&cx, &tool, wants_task, &outcome);
        outcome
    }

    /// Runs the chain for a call that is refused.
    pub async fn run_refused(self, chain: &Chain) -> Outcome {
        let nowhere = RefusingEndpoint(Failure::internal("a call that was admitted has no tool"));
        self.run(chain, &nowhere).await
    }
}

/// Removes control data from a request's `_meta` and restricts the request by it. `meant` resolves a name that clients
/// see to a tool.
pub fn narrow(
    cx: Context,
    narrowing: &Narrowing,
    meta: Option<&Json>,
    meant: impl Fn(&str) -> Option<ToolId>,
) -> (Context, Edits) {
    match meta.and_then(Control::extract) {
        None => (cx.with_meta(meta.cloned()), Edits::default()),
        Some((control, rest)) => {
            let cx = narrowing.apply(cx, control, meant).with_meta(rest.clone());
            (cx, Edits::of_meta(rest))
        }
    }
}

/// Adds the client's input to the context. Input for a question of toolgate is not sent to the server.
pub fn take_input(mut cx: Context, round: InputRound, edits: &mut Edits) -> Context {
    cx = cx.with_returned_input(&round);
    if round.is_ours() {
        edits.take_input();
        cx = cx.with_gateway_input(round);
    }
    cx
}

/// The failure for a name without a tool.
#[must_use]
pub fn unknown_tool(name: &str) -> Failure {
    Failure::new(Code::UnknownTool, format!("Unknown tool: '{name}'"))
        .suggest("Call tools/list for available tools.")
}

/// The failure at the limit of requests in flight.
#[must_use]
pub fn too_many_in_flight(most: usize) -> Failure {
    let message = format!("{most} requests are in flight, and no more are allowed");
    Failure::new(Code::Overloaded, message)
        .suggest("Wait for calls in flight to end, then call again.")
        .with_executed(Executed::No)
}

/// The result with `resultType: complete`, which 2026-07-28 requires. Layers write results without it for legacy
/// clients.
#[must_use]
pub fn complete(result: Json) -> Json {
    match result.object() {
        Some(mut object) if !object.contains("resultType") => {
            object.set(member::RESULT_TYPE, Json::string("complete"));
            object.finish()
        }
        _ => result,
    }
}

/// The endpoint for a request that was refused before the chain runs.
#[derive(Debug)]
pub struct RefusingEndpoint(pub Failure);

impl Endpoint for RefusingEndpoint {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(std::future::ready(Outcome::failed(self.0.clone())))
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        let body = Err(self.0.to_rpc().to_json());
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}

#[cfg(test)]
mod tests;
