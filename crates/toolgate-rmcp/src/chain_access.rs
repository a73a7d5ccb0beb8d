//! Runs work that is not a call through the chain, as a call of the tool that does the same.

use std::{fmt, future::Future, sync::Arc};

use rmcp::{RoleServer, service::RequestContext};
use toolgate::{
    Answer, Boxed, Call, Code, Context, Endpoint, Failure, Listing, Outcome, Request, Tool,
    ToolList, ToolResult,
};
use toolgate_wire::{Json, mcp::method};

use crate::{
    connection::{ActiveChain, Connection},
    wire::{error_answer, wrong_request},
};

/// Runs work as calls of the tools that it stands for, so that every layer decides on it, limits, cleans and records it
/// like those calls. Reading a resource is an example.
#[derive(Clone)]
pub struct ChainAccess {
    connection: Connection,
}

impl ChainAccess {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Runs `run` as a call of `tool`, and returns its text after all layers.
    pub async fn run<F, Fut>(
        &self,
        tool: Arc<Tool>,
        arguments: Option<Json>,
        request: &RequestContext<RoleServer>,
        run: F,
    ) -> Result<String, Failure>
    where
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<String, Failure>> + Send,
    {
        let (active, session) = (self.connection.active(), Arc::clone(&self.connection.session));
        let mut cx = self.connection.admit(&active, session, &mut request.clone());
        let end = TextEndpoint { run };
        text(&active.chain.chain.call(&mut cx, Call::new(tool, arguments), &end).await)
    }

    /// The chain and the settings for new requests.
    #[must_use]
    pub fn active_chain(&self) -> ActiveChain {
        self.connection.active().chain.clone()
    }

    /// Whether a call would be allowed, as far as that is known before it is made. Nothing is recorded.
    #[must_use]
    pub fn allows(&self, tool: Arc<Tool>, arguments: Option<Json>) -> bool {
        let cx = Context::new(Arc::clone(&self.connection.session));
        self.connection.active().chain.chain.allows(&cx, &Call::new(tool, arguments))
    }
}

impl fmt::Debug for ChainAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainAccess")
            .field("chain", &self.connection.active().chain.chain)
            .finish_non_exhaustive()
    }
}

/// The text of an outcome. Layers may have shortened or cleaned it.
fn text(outcome: &Outcome) -> Result<String, Failure> {
    if let Some(failure) = outcome.failure() {
        return Err(failure.clone());
    }
    let result = outcome.result().and_then(|result| Some((result, result.json().to_value().ok()?)));
    let Some((result, json)) = result else {
        return Err(Failure::internal("a layer made an outcome without an answer"));
    };
    match json.pointer("/content/0/text").and_then(|text| text.as_str()) {
        Some(text) if result.is_error() => Err(Failure::tool("ToolError", text)),
        Some(text) => Ok(text.to_owned()),
        // A layer asks the client for input, which is only possible in a call.
        None => Err(Failure::new(Code::Refused, "this needs an answer that only a call can get")
            .suggest("Call the tool instead.")),
    }
}

/// The end of the chain: `run`.
struct TextEndpoint<F> {
    run: F,
}

impl<F, Fut> Endpoint for TextEndpoint<F>
where
    F: Fn() -> Fut + Send + Sync,
    Fut: Future<Output = Result<String, Failure>> + Send,
{
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async {
            match (self.run)().await {
                Ok(text) => ToolResult::text(&text).into(),
                Err(failure) => failure.into(),
            }
        })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Err(wrong_request(method::TOOLS_CALL, method::TOOLS_LIST)) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(async move { error_answer(&wrong_request(method::TOOLS_CALL, &request.method)) })
    }
}
