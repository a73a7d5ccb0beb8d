//! Middleware from a function that changes a request, a response or a listing.
//!
//! Implement [`Middleware`](crate::Middleware) for an asynchronous function.

use std::fmt;

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Hooks, Middleware},
    outcome::Outcome,
};

/// The layer of [`transform_request`].
pub struct TransformRequest<F>(&'static str, F);

/// A layer that changes or refuses each call.
///
/// ```
/// use toolgate::{Chain, transform_request};
/// use toolgate_wire::Json;
///
/// let chain = Chain::builder()
///     .layer(transform_request("units", |mut call, _cx| {
///         let mut arguments = call.arguments().and_then(Json::object).unwrap_or_default();
///         arguments.set("unit", Json::string("celsius"));
///         call.set_arguments(arguments.finish());
///         Ok(call)
///     }))
///     .build();
/// # assert!(chain.is_ok());
/// ```
pub fn transform_request<F>(name: &'static str, transform: F) -> TransformRequest<F>
where
    F: Fn(Call, &mut Context) -> Result<Call, Failure> + Send + Sync + 'static,
{
    TransformRequest(name, transform)
}

impl<F> Middleware for TransformRequest<F>
where
    F: Fn(Call, &mut Context) -> Result<Call, Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match (self.1)(call, cx) {
            Ok(call) => next.call(cx, call).await,
            Err(failure) => failure.into(),
        }
    }
}

/// The layer of [`transform_response`].
pub struct TransformResponse<F>(&'static str, F);

/// A layer that changes each outcome. It sees the call and the context too.
pub fn transform_response<F>(name: &'static str, transform: F) -> TransformResponse<F>
where
    F: Fn(Outcome, &Call, &mut Context) -> Outcome + Send + Sync + 'static,
{
    TransformResponse(name, transform)
}

impl<F> Middleware for TransformResponse<F>
where
    F: Fn(Outcome, &Call, &mut Context) -> Outcome + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let outcome = next.call(cx, call.clone()).await;
        (self.1)(outcome, &call, cx)
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        (self.1)(outcome, call, cx)
    }
}

/// The layer of [`transform_list`].
pub struct TransformList<F>(&'static str, F);

/// A layer that changes each page of a listing.
///
/// A tool that it hides can still be called. A layer that denies tools does both, such as `safety`.
pub fn transform_list<F>(name: &'static str, transform: F) -> TransformList<F>
where
    F: Fn(ToolList, &Listing, &mut Context) -> Result<ToolList, Failure> + Send + Sync + 'static,
{
    TransformList(name, transform)
}

impl<F> Middleware for TransformList<F>
where
    F: Fn(ToolList, &Listing, &mut Context) -> Result<ToolList, Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks { call: false, ..Hooks::TOOLS }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let list = next.list(cx, listing.clone()).await?;
        (self.1)(list, &listing, cx)
    }
}

macro_rules! debug_by_name {
    ($($type:ident)*) => {$(
        impl<F> fmt::Debug for $type<F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&self.0).finish()
            }
        }
    )*};
}
debug_by_name!(TransformRequest TransformResponse TransformList);

#[cfg(test)]
mod tests;
