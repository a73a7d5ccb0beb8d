//! A layer that only looks.

use std::sync::{Arc, Mutex};

use toolgate::{
    Answer, Call, Chain, Context, Failure, Listing, Middleware, Next, Outcome, Request, ToolList,
    middleware::{
        response_limit::{ResponseLimit, ResponseLimitConfig},
        retry::{Retry, RetryConfig},
        timeout::Timeout,
    },
};

/// Writes down what passes, and passes it on.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Vec<String>>>);

impl Watch {
    fn saw(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// What passed, each once.
    pub(crate) fn seen(&self) -> Vec<String> {
        let mut seen = self.0.lock().unwrap().clone();
        seen.sort();
        seen.dedup();
        seen
    }
}

impl Middleware for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn decides(&self) -> bool {
        false
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        self.saw("tools/call");
        next.call(cx, call).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        self.saw("tools/list");
        next.list(cx, listing).await
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        self.saw(&*request.method);
        next.request(cx, request).await
    }
}

/// A chain that looks at everything, decides on tools, and changes nothing.
pub(crate) fn looking() -> (Chain, Watch) {
    let watch = Watch::default();
    let chain = Chain::builder()
        .layer(ResponseLimit::new(ResponseLimitConfig::default()))
        .layer(watch.clone())
        .layer(Retry::new(RetryConfig::default()))
        .layer(Timeout::new(std::time::Duration::from_mins(1)))
        .build();
    (chain.unwrap(), watch)
}
