//! A layer from an async function or closure.

use std::{fmt, future::Future};

use crate::{
    call::Call,
    context::Context,
    layer::Next,
    middleware::{Hooks, Middleware},
    outcome::Outcome,
};

/// A layer from an async function or closure that handles each call. It may return an [`Outcome`], or with `?` a
/// [`Handled`](crate::Handled). It costs the same as a [`Middleware`] of your own.
///
/// ```
/// use std::time::Duration;
/// use toolgate::{Chain, Code, Failure, from_fn};
///
/// let timeout = from_fn("my-timeout", async |cx, call, next| {
///     let answer = tokio::time::timeout(Duration::from_secs(30), next.call(cx, call)).await;
///     answer.map_err(|_| Failure::new(Code::TimedOut, "the tool took longer than 30 s"))
/// });
/// let chain = Chain::builder().layer(timeout).build()?;
/// assert_eq!(chain.to_string(), " client\n  1  my-timeout\n tool");
/// # Ok::<(), toolgate::BadChain>(())
/// ```
///
/// A closure that captures a value does not compile: hand the value to [`from_fn_with`].
pub fn from_fn<F, R>(name: &'static str, handle: F) -> FromFn<F>
where
    F: AsyncFn(&mut Context, Call, Next<'_>) -> R + for<'a> CallFn<'a>,
    R: Into<Outcome>,
{
    FromFn(name, handle)
}

/// A layer from an async function or closure that handles each call, with a state that all calls share.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use toolgate::{Failure, from_fn_with};
///
/// let budget = from_fn_with("budget", AtomicU32::new(100), async |left, cx, call, next| {
///     if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
///         return Err(Failure::refused("this server has used up its calls"));
///     }
///     Ok(next.call(cx, call).await)
/// });
/// # let _ = budget;
/// ```
pub fn from_fn_with<S, F, R>(name: &'static str, state: S, handle: F) -> FromFnWith<S, F>
where
    S: Send + Sync + 'static,
    F: AsyncFn(&S, &mut Context, Call, Next<'_>) -> R + for<'a> CallFnWith<'a, S>,
    R: Into<Outcome>,
{
    FromFnWith(name, state, handle)
}

/// The layer of [`from_fn`].
pub struct FromFn<F>(&'static str, F);

/// The layer of [`from_fn_with`].
pub struct FromFnWith<S, F>(&'static str, S, F);

/// An async function that handles calls. The future of such a function can be sent to another thread; `AsyncFn` alone
/// cannot say that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot handle calls",
    note = "it has to be an `async fn` or an `async |cx, call, next|` closure that captures nothing and holds nothing \
            over an `.await` that is not `Send`; hand shared values to `from_fn_with`"
)]
pub trait CallFn<'a>:
    Fn(&'a mut Context, Call, Next<'a>) -> <Self as CallFn<'a>>::Future + Send + Sync + 'static
{
    /// The future of a call.
    type Future: Future<Output = <Self as CallFn<'a>>::Output> + Send + 'a;
    /// What the function returns.
    type Output: Into<Outcome>;
}

impl<'a, F, Fut> CallFn<'a> for F
where
    F: Fn(&'a mut Context, Call, Next<'a>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<Outcome>> + Send + 'a,
{
    type Future = Fut;
    type Output = Fut::Output;
}

/// An async function that handles calls with a shared state, see [`CallFn`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot handle calls with a state",
    note = "it has to be an `async fn` or an `async |state, cx, call, next|` closure that captures nothing and holds \
            nothing over an `.await` that is not `Send`"
)]
pub trait CallFnWith<'a, S: 'static>:
    Fn(&'a S, &'a mut Context, Call, Next<'a>) -> <Self as CallFnWith<'a, S>>::Future
    + Send
    + Sync
    + 'static
{
    /// The future of a call.
    type Future: Future<Output = <Self as CallFnWith<'a, S>>::Output> + Send + 'a;
    /// What the function returns.
    type Output: Into<Outcome>;
}

impl<'a, S, F, Fut> CallFnWith<'a, S> for F
where
    S: 'static,
    F: Fn(&'a S, &'a mut Context, Call, Next<'a>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<Outcome>> + Send + 'a,
{
    type Future = Fut;
    type Output = Fut::Output;
}

impl<F: for<'a> CallFn<'a>> Middleware for FromFn<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        (self.1)(cx, call, next).await.into()
    }
}

impl<S, F> Middleware for FromFnWith<S, F>
where
    S: Send + Sync + 'static,
    F: for<'a> CallFnWith<'a, S>,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        (self.2)(&self.1, cx, call, next).await.into()
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromFn").field(&self.0).finish()
    }
}

impl<S, F> fmt::Debug for FromFnWith<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FromFnWith").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests;
