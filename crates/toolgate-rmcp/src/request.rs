//! All other requests through the chain, if a layer looks at requests.

use std::{marker::PhantomData, sync::Arc};

use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde::{Serialize, de::DeserializeOwned};
use toolgate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, ToolList,
};
use toolgate_wire::{
    Json, Kind,
    mcp::{member, method},
};

use crate::{
    Governed,
    connection::remove_control,
    original_answer::{OriginalAnswer, is_same_text},
    trace_context,
    wire::{JsonResult, error_answer, layer_error, to_error, wrong_request},
};

impl<H> Governed<H> {
    /// Runs a request: directly if no layer looks at it, otherwise through the chain. Layers do not see `_meta`, which
    /// rmcp keeps apart from the params.
    pub(crate) async fn request<P, R, F, Fut>(
        &self,
        method: &str,
        params: P,
        mut context: RequestContext<RoleServer>,
        run: F,
    ) -> Result<R, ErrorData>
    where
        P: Serialize + DeserializeOwned + Clone + Send + Sync,
        R: JsonResult + Send,
        F: Fn(P, RequestContext<RoleServer>) -> Fut + Send + Sync,
        Fut: Future<Output = Result<R, ErrorData>> + Send,
    {
        let active = self.connection.active();
        let chain = &active.chain.chain;
        // A client that checks whether the server is alive gets its response whatever the number of requests in flight.
        let is_bounded = !matches!(method, method::PING | method::INITIALIZE);
        let entered = is_bounded.then(|| self.connection.enter(&active, &context)).transpose();
        let _place = entered.map_err(|failure| to_error(failure.to_rpc()))?;
        if !chain.sees_request(method) {
            remove_control(&mut context.meta);
            return run(params, context).await;
        }
        let text =
            Json::serialize(&params).map_err(|_| layer_error("the params have no JSON text"))?;
        // A method without params has none in the message either.
        let text = Some(text).filter(|text| text.kind() != Kind::Null);
        let mut cx = self.admit(&active, &mut context);
        let task = text.as_ref().and_then(|params| params.get(member::TASK_ID));
        if let Some(id) = task.as_ref().and_then(Json::text) {
            let task = chain.tasks().of(&cx, &self.connection.server, &id);
            cx.extensions_mut().insert(task);
        }
        let request = Request { method: method.into(), params: text.clone() };
        let method = Arc::clone(&request.method);
        let end = RequestEndpoint {
            method,
            text,
            params,
            context,
            run,
            original: OriginalAnswer::new(),
            future: PhantomData,
        };
        end.reply(&chain.request(&mut cx, request, &end).await)
    }
}

/// The end of the chain for a request: one method of the handler.
struct RequestEndpoint<P, R, F, Fut> {
    method: Arc<str>,
    text: Option<Json>,
    params: P,
    context: RequestContext<RoleServer>,
    run: F,
    original: OriginalAnswer<R>,
    /// The type of `run`'s future, which lives as long as this.
    future: PhantomData<fn() -> Fut>,
}

impl<P, R, F, Fut> RequestEndpoint<P, R, F, Fut>
where
    P: DeserializeOwned + Clone,
    R: JsonResult,
    F: Fn(P, RequestContext<RoleServer>) -> Fut,
    Fut: Future<Output = Result<R, ErrorData>>,
{
    /// The params as they arrived, unless a layer changed them.
    fn params(&self, params: Option<&Json>) -> Option<P> {
        match (params, &self.text) {
            (None, None) => Some(self.params.clone()),
            (Some(now), Some(then)) if is_same_text(now, then) => Some(self.params.clone()),
            (Some(now), _) => now.decode().ok(),
            (None, Some(_)) => Json::null().decode().ok(),
        }
    }

    async fn run(&self, cx: &Context, request: Request) -> Answer {
        if request.method != self.method {
            return error_answer(&wrong_request(&self.method, &request.method));
        }
        let Some(params) = self.params(request.params.as_ref()) else {
            return error_answer(&Failure::internal(format!(
                "a layer set params that `{}` does not take",
                self.method
            )));
        };
        let mut context = self.context.clone();
        trace_context::pass_on(cx, &mut context.meta);
        let answer = (self.run)(params, context).await;
        let body = match &answer {
            Ok(result) => result.to_json().map(Ok),
            Err(error) => Json::serialize(error).map(Err),
        };
        let Ok(body) = body else {
            return error_answer(&Failure::internal("the result has no JSON text"));
        };
        let (Ok(text) | Err(text)) = &body;
        self.original.keep(Some(text.clone()), answer);
        Answer { body, origin: None }
    }

    fn reply(&self, answer: &Answer) -> Result<R, ErrorData> {
        let (Ok(text) | Err(text)) = &answer.body;
        if let Some(original) = self.original.take_if(text) {
            return original;
        }
        let what = || layer_error("a layer made an answer that the method does not have");
        match &answer.body {
            Ok(result) => R::from_json(result).map_err(|_| what()),
            Err(error) => Err(error.decode().unwrap_or_else(|_| what())),
        }
    }
}

impl<P, R, F, Fut> Endpoint for RequestEndpoint<P, R, F, Fut>
where
    P: DeserializeOwned + Clone + Send + Sync,
    R: JsonResult + Send,
    F: Fn(P, RequestContext<RoleServer>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R, ErrorData>> + Send,
{
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { wrong_request(&self.method, method::TOOLS_CALL).into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Err(wrong_request(&self.method, method::TOOLS_LIST)) })
    }

    fn request<'a>(&'a self, cx: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(self.run(cx, request))
    }
}
