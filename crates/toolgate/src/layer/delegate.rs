//! Layers made of other layers: `Arc<M>`, `Option<M>`, and boxed objects.

use std::{future::Future, sync::Arc};

use toolgate_wire::Json;

use super::{DynMiddleware, Explanation, Hooks, Middleware, Next, NotificationDecision, Order};
use crate::{
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    outcome::Outcome,
};

/// An `Arc` of a layer is a layer.
impl<M: Middleware> Middleware for Arc<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn hooks(&self) -> Hooks {
        (**self).hooks()
    }

    fn order(&self) -> &'static [Order] {
        (**self).order()
    }

    fn decides(&self) -> bool {
        (**self).decides()
    }

    fn needs_tools(&self) -> bool {
        (**self).needs_tools()
    }

    fn asks(&self) -> bool {
        (**self).asks()
    }

    fn checks_rounds(&self) -> bool {
        (**self).checks_rounds()
    }

    fn follows_traces(&self) -> bool {
        (**self).follows_traces()
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        (**self).explain(cx, call)
    }

    fn call(
        &self,
        cx: &mut Context,
        call: Call,
        next: Next<'_>,
    ) -> impl Future<Output = Outcome> + Send {
        (**self).call(cx, call, next)
    }

    fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> impl Future<Output = Result<ToolList, Failure>> + Send {
        (**self).list(cx, listing, next)
    }

    fn request(
        &self,
        cx: &mut Context,
        request: Request,
        next: Next<'_>,
    ) -> impl Future<Output = Answer> + Send {
        (**self).request(cx, request, next)
    }

    fn result(
        &self,
        cx: &mut Context,
        call: &Call,
        outcome: Outcome,
    ) -> impl Future<Output = Outcome> + Send {
        (**self).result(cx, call, outcome)
    }

    fn notice(&self, method: &str, params: &Json) -> NotificationDecision {
        (**self).notice(method, params)
    }

    fn notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        (**self).notification(cx, method, params);
    }

    fn into_object(self) -> Arc<dyn DynMiddleware> {
        self
    }
}

macro_rules! objects {
    ($($(#[$doc:meta])* $type:ty, $into:expr;)*) => {$(
        $(#[$doc])*
        impl Middleware for $type {
            fn name(&self) -> &'static str {
                (**self).as_info().name
            }

            fn kind(&self) -> &'static str {
                (**self).as_info().kind
            }

            fn describe(&self) -> String {
                (**self).as_info().describe
            }

            fn hooks(&self) -> Hooks {
                (**self).as_info().hooks
            }

            fn order(&self) -> &'static [Order] {
                (**self).as_info().order
            }

            fn decides(&self) -> bool {
                (**self).as_info().decides
            }

            fn needs_tools(&self) -> bool {
                (**self).as_info().needs_tools
            }

            fn asks(&self) -> bool {
                (**self).as_info().asks
            }

            fn checks_rounds(&self) -> bool {
                (**self).as_info().checks_rounds
            }

            fn follows_traces(&self) -> bool {
                (**self).as_info().follows_traces
            }

            fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
                (**self).explain_call(cx, call)
            }

            async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
                (**self).handle_call(cx, call, next).await
            }

            async fn list(
                &self,
                cx: &mut Context,
                listing: Listing,
                next: Next<'_>,
            ) -> Result<ToolList, Failure> {
                (**self).handle_list(cx, listing, next).await
            }

            async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
                (**self).handle_request(cx, request, next).await
            }

            async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
                (**self).handle_result(cx, call, outcome).await
            }

            fn notice(&self, method: &str, params: &Json) -> NotificationDecision {
                (**self).see_notice(method, params)
            }

            fn notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
                (**self).see_notification(cx, method, params);
            }

            fn into_object(self) -> Arc<dyn DynMiddleware> {
                $into(self)
            }
        }
    )*};
}
objects! {
    /// A boxed layer is a layer.
    Box<dyn DynMiddleware>, Arc::from;
    /// A shared layer is a layer.
    Arc<dyn DynMiddleware>, std::convert::identity;
}

/// A layer that may be missing: the chain leaves `None` out.
///
/// ```
/// use std::time::Duration;
/// use toolgate::{Chain, middleware::timeout::Timeout};
///
/// let limit: Option<Duration> = None;
/// let chain = Chain::builder().layer(limit.map(Timeout::new)).build()?;
/// assert!(chain.layers().is_empty());
/// # Ok::<(), toolgate::BadChain>(())
/// ```
impl<M: Middleware> Middleware for Option<M> {
    fn name(&self) -> &'static str {
        self.as_ref().map_or("none", M::name)
    }

    fn kind(&self) -> &'static str {
        self.as_ref().map_or("none", M::kind)
    }

    fn describe(&self) -> String {
        self.as_ref().map_or_else(String::new, M::describe)
    }

    fn hooks(&self) -> Hooks {
        self.as_ref().map_or(Hooks::NONE, M::hooks)
    }

    fn order(&self) -> &'static [Order] {
        self.as_ref().map_or(&[], M::order)
    }

    fn decides(&self) -> bool {
        self.as_ref().is_some_and(M::decides)
    }

    fn needs_tools(&self) -> bool {
        self.as_ref().is_some_and(M::needs_tools)
    }

    fn asks(&self) -> bool {
        self.as_ref().is_some_and(M::asks)
    }

    fn checks_rounds(&self) -> bool {
        self.as_ref().is_some_and(M::checks_rounds)
    }

    fn follows_traces(&self) -> bool {
        self.as_ref().is_some_and(M::follows_traces)
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        self.as_ref()?.explain(cx, call)
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self {
            Some(layer) => layer.call(cx, call, next).await,
            None => next.call(cx, call).await,
        }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        match self {
            Some(layer) => layer.list(cx, listing, next).await,
            None => next.list(cx, listing).await,
        }
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        match self {
            Some(layer) => layer.request(cx, request, next).await,
            None => next.request(cx, request).await,
        }
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        match self {
            Some(layer) => layer.result(cx, call, outcome).await,
            None => outcome,
        }
    }

    fn notice(&self, method: &str, params: &Json) -> NotificationDecision {
        self.as_ref().map_or(NotificationDecision::AsItCame, |layer| layer.notice(method, params))
    }

    fn notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        if let Some(layer) = self {
            layer.notification(cx, method, params);
        }
    }

    fn into_object(self) -> Arc<dyn DynMiddleware> {
        match self {
            Some(layer) => layer.into_object(),
            None => Arc::new(self),
        }
    }
}
