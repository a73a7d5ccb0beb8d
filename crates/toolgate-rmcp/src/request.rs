//! Every other request through the chain, where a layer looks at requests.

use std::{marker::PhantomData, sync::Arc};

use rmcp::{ErrorData, RoleServer, service::RequestContext};
use serde::{Serialize, de::DeserializeOwned};
use toolgate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, ToolList,
};
use toolgate_wire::{Json, Kind};

use crate::{
    Governed,
    kept::{Kept, same},
    trace,
    wire::{Wire, broken, to_error},
};

impl<H> Governed<H> {
    /// Runs a request: straight, if no layer looks at requests, else through the chain. `_meta` is
    /// not part of what layers see; rmcp carries it apart from the params.
    pub(crate) async fn request<P, R, F, Ran>(
        &self,
        method: &str,
        params: P,
        context: RequestContext<RoleServer>,
        run: F,
    ) -> Result<R, ErrorData>
    where
        P: Serialize + DeserializeOwned + Clone + Send + Sync,
        R: Wire + Send,
        F: Fn(P, RequestContext<RoleServer>) -> Ran + Send + Sync,
        Ran: Future<Output = Result<R, ErrorData>> + Send,
    {
        if !self.chain.sees_request(method) {
            return run(params, context).await;
        }
        let text = Json::serialize(&params).map_err(|_| broken("the params have no JSON text"))?;
        // A method without params has none on the wire either.
        let text = Some(text).filter(|text| text.kind() != Kind::Null);
        let mut cx = self.surroundings(&context);
        let task = text.as_ref().and_then(|params| params.get("taskId"));
        if let Some(id) = task.as_ref().and_then(Json::text) {
            let task = self.chain.tasks().of(&cx, &self.server, &id);
            cx.bag_mut().put(task);
        }
        let request = Request { method: method.into(), params: text.clone() };
        let method = Arc::clone(&request.method);
        let end =
            RequestEnd { method, text, params, context, run, kept: Kept::new(), ran: PhantomData };
        end.reply(&self.chain.request(&mut cx, request, &end).await)
    }
}

/// Where a request ends: one method of the handler.
struct RequestEnd<P, R, F, Ran> {
    method: Arc<str>,
    text: Option<Json>,
    params: P,
    context: RequestContext<RoleServer>,
    run: F,
    kept: Kept<R>,
    /// The future of `run`, which lives as long as this does.
    ran: PhantomData<fn() -> Ran>,
}

impl<P, R, F, Ran> RequestEnd<P, R, F, Ran>
where
    P: DeserializeOwned + Clone,
    R: Wire,
    F: Fn(P, RequestContext<RoleServer>) -> Ran,
    Ran: Future<Output = Result<R, ErrorData>>,
{
    /// The params as they came in, unless a layer changed them.
    fn params(&self, params: Option<&Json>) -> Option<P> {
        match (params, &self.text) {
            (None, None) => Some(self.params.clone()),
            (Some(now), Some(then)) if same(now, then) => Some(self.params.clone()),
            (Some(now), _) => now.decode().ok(),
            (None, Some(_)) => Json::null().decode().ok(),
        }
    }

    async fn run(&self, cx: &Context, request: Request) -> Answer {
        if request.method != self.method {
            return refused(&off_path(&self.method, &request.method));
        }
        let Some(params) = self.params(request.params.as_ref()) else {
            return refused(&Failure::internal(format!(
                "a layer set params that `{}` does not take",
                self.method
            )));
        };
        let mut context = self.context.clone();
        trace::pass_on(cx, &mut context.meta);
        let answer = (self.run)(params, context).await;
        let body = match &answer {
            Ok(result) => result.write().map(Ok),
            Err(error) => Json::serialize(error).map(Err),
        };
        let Ok(body) = body else {
            return refused(&Failure::internal("the result has no JSON text"));
        };
        let (Ok(text) | Err(text)) = &body;
        self.kept.keep(Some(text.clone()), answer);
        Answer { body, origin: None }
    }

    fn reply(&self, answer: &Answer) -> Result<R, ErrorData> {
        let (Ok(text) | Err(text)) = &answer.body;
        if let Some(kept) = self.kept.take_if(text) {
            return kept;
        }
        let what = || broken("a layer made an answer that the method does not have");
        match &answer.body {
            Ok(result) => R::read(result).map_err(|_| what()),
            Err(error) => Err(error.decode().unwrap_or_else(|_| what())),
        }
    }
}

/// A layer answers one thing with the rest of the chain for another.
pub(crate) fn off_path(path: &str, asked: &str) -> Failure {
    Failure::internal(format!("a layer asked for `{asked}` on the way of `{path}`"))
}

/// A failure as the answer to a request.
pub(crate) fn refused(failure: &Failure) -> Answer {
    let error = to_error(failure.to_rpc());
    let text = Json::serialize(&error).unwrap_or_else(|_| Json::empty_object());
    Answer { body: Err(text), origin: None }
}

impl<P, R, F, Ran> Endpoint for RequestEnd<P, R, F, Ran>
where
    P: DeserializeOwned + Clone + Send + Sync,
    R: Wire + Send,
    F: Fn(P, RequestContext<RoleServer>) -> Ran + Send + Sync,
    Ran: Future<Output = Result<R, ErrorData>> + Send,
{
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async { off_path(&self.method, "tools/call").into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Err(off_path(&self.method, "tools/list")) })
    }

    fn request<'a>(&'a self, cx: &'a mut Context, request: Request) -> Boxed<'a, Answer> {
        Box::pin(self.run(cx, request))
    }
}
