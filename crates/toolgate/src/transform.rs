//! Middleware from a function that changes a request, a response or a listing.
//!
//! The function is a closure or an async closure; write the types of its parameters. See
//! [`from_fn`](crate::from_fn()) for a function that runs the rest of the chain itself.

use std::{fmt, future::Future, marker::PhantomData};

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Hooks, Middleware},
    outcome::Outcome,
};

/// The function of a transformation is a closure.
#[derive(Debug)]
pub enum IsSync {}

/// The function of a transformation is an async closure.
#[derive(Debug)]
pub enum IsAsync {}

/// A layer that changes or refuses each call.
///
/// ```
/// use toolgate::{Call, Chain, Context, transform_request};
///
/// let chain = Chain::builder()
///     .layer(transform_request("units", |mut call: Call, _: &mut Context| {
///         call.insert_arg("unit", "celsius")?;
///         Ok(call)
///     }))
///     .layer(transform_request("user", async |mut call: Call, cx: &mut Context| {
///         call.insert_arg("user", cx.principal().to_string())?;
///         Ok(call)
///     }))
///     .build();
/// # assert!(chain.is_ok());
/// ```
pub fn transform_request<M, F: RequestFn<M>>(
    name: &'static str,
    transform: F,
) -> TransformRequest<F, M> {
    TransformRequest(name, transform, PhantomData)
}

/// A layer that changes each outcome. It sees the call and the context too.
///
/// ```
/// use toolgate::{Call, Chain, Context, Outcome, transform_response};
///
/// let chain = Chain::builder()
///     .layer(transform_response("clean", |outcome: Outcome, _: &Call, _: &mut Context| {
///         outcome.map_texts(|text| text.replace("api_key", "***").into())
///     }))
///     .build();
/// # assert!(chain.is_ok());
/// ```
pub fn transform_response<M, F: ResponseFn<M>>(
    name: &'static str,
    transform: F,
) -> TransformResponse<F, M> {
    TransformResponse(name, transform, PhantomData)
}

/// A layer that changes each page of a listing.
///
/// A tool that it hides can still be called: [`gate`](crate::gate()) denies tools.
///
/// ```
/// use toolgate::{Chain, Context, Listing, ToolList, transform_list};
///
/// let chain = Chain::builder()
///     .layer(transform_list("shorter", |mut list: ToolList, _: &Listing, _: &mut Context| {
///         list.retain(|tool| !tool.id().name().starts_with("debug_"));
///         Ok(list)
///     }))
///     .build();
/// # assert!(chain.is_ok());
/// ```
pub fn transform_list<M, F: ListFn<M>>(name: &'static str, transform: F) -> TransformList<F, M> {
    TransformList(name, transform, PhantomData)
}

/// Declares the trait of a transforming function: implemented for closures, and for async closures whose futures can be
/// sent to other threads.
macro_rules! functions {
    ($($(#[$doc:meta])* $trait:ident, $async_trait:ident, $layer:ident, $maker:literal:
        ($($arg:ident: $type:ty),*) -> $out:ty, $borrowed:tt;)*) => {$(
        $(#[$doc])*
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is no function for this layer",
            note = $maker
        )]
        pub trait $trait<M>: Send + Sync + 'static {
            /// Runs the function.
            fn run(&self, $($arg: $type),*) -> impl Future<Output = $out> + Send;
        }

        impl<F> $trait<IsSync> for F
        where
            F: Fn($($type),*) -> $out + Send + Sync + 'static,
        {
            async fn run(&self, $($arg: $type),*) -> $out {
                self($($arg),*)
            }
        }

        functions!(@async $async_trait $out, $borrowed);

        impl<F: for<'a> $async_trait<'a>> $trait<IsAsync> for F {
            async fn run(&self, $($arg: $type),*) -> $out {
                self($($arg),*).await
            }
        }

        #[doc = concat!("The layer of [`", $maker, "`].")]
        pub struct $layer<F, M>(&'static str, F, PhantomData<fn() -> M>);

        impl<F, M> fmt::Debug for $layer<F, M> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($layer)).field(&self.0).finish()
            }
        }
    )*};
    (@async $trait:ident $out:ty, ($($type:ty),*)) => {
        /// The async closures among these functions.
        pub trait $trait<'a>:
            Fn($($type),*) -> <Self as $trait<'a>>::Future + Send + Sync + 'static
        {
            /// The future of a call.
            type Future: Future<Output = $out> + Send + 'a;
        }

        impl<'a, F, Fut> $trait<'a> for F
        where
            F: Fn($($type),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = $out> + Send + 'a,
        {
            type Future = Fut;
        }
    };
}

functions! {
    /// A function for [`transform_request`].
    RequestFn, AsyncRequestFn, TransformRequest, "transform_request":
        (call: Call, cx: &mut Context) -> Result<Call, Failure>,
        (Call, &'a mut Context);
    /// A function for [`transform_response`].
    ResponseFn, AsyncResponseFn, TransformResponse, "transform_response":
        (outcome: Outcome, call: &Call, cx: &mut Context) -> Outcome,
        (Outcome, &'a Call, &'a mut Context);
    /// A function for [`transform_list`].
    ListFn, AsyncListFn, TransformList, "transform_list":
        (list: ToolList, listing: &Listing, cx: &mut Context) -> Result<ToolList, Failure>,
        (ToolList, &'a Listing, &'a mut Context);
}

impl<M: 'static, F: RequestFn<M>> Middleware for TransformRequest<F, M> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.1.run(call, cx).await {
            Ok(call) => next.call(cx, call).await,
            Err(failure) => failure.or_by(self.0).into(),
        }
    }
}

impl<M: 'static, F: ResponseFn<M>> Middleware for TransformResponse<F, M> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn decides(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let outcome = next.call(cx, call.clone()).await;
        self.1.run(outcome, &call, cx).await
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        self.1.run(outcome, call, cx).await
    }
}

impl<M: 'static, F: ListFn<M>> Middleware for TransformList<F, M> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn decides(&self) -> bool {
        false
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
        self.1.run(list, &listing, cx).await
    }
}

#[cfg(test)]
mod tests;
