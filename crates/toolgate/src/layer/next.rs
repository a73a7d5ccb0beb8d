//! The rest of the chain, a value that is consumed when it runs.

use std::{fmt, sync::Arc};

use toolgate_wire::Json;

use crate::{
    boxed::Boxed,
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    layer::DynMiddleware,
    outcome::Outcome,
    peer::Peer,
};

/// The end of the chain: the tool, or the connection to the server that has it.
pub trait Endpoint: Send + Sync {
    /// Runs the tool.
    fn call<'a>(&'a self, cx: &'a mut Context, call: Call) -> Boxed<'a, Outcome>;

    /// Lists the tools of one page.
    fn list<'a>(
        &'a self,
        cx: &'a mut Context,
        listing: Listing,
    ) -> Boxed<'a, Result<ToolList, Failure>>;

    /// Answers any other request.
    fn request<'a>(&'a self, cx: &'a mut Context, request: Request) -> Boxed<'a, Answer>;

    /// The client of this request, where the transport can send it messages before the response.
    fn peer(&self) -> Option<&dyn Peer> {
        None
    }

    /// Calls another tool through the whole chain, as part of the call with this context. The default refuses.
    fn nested<'a>(
        &'a self,
        _cx: &'a Context,
        tool: &'a str,
        _: Option<Json>,
    ) -> Boxed<'a, Outcome> {
        let text = format!("`{tool}` cannot be called here: nothing runs calls within a request");
        Box::pin(std::future::ready(Failure::internal(text).into()))
    }
}

/// How deep calls may be nested in each other.
const MAX_DEPTH: u8 = 16;

/// The rest of the chain. Running it consumes it, so running it twice does not compile:
///
/// ```compile_fail,E0382
/// use toolgate::{Call, Context, Next, Outcome};
///
/// async fn twice(cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
///     next.call(cx, call.clone()).await;
///     next.call(cx, call).await
/// }
/// ```
#[must_use = "a call that is neither passed on nor answered is lost"]
pub struct Next<'a> {
    pub(crate) layers: &'a [Arc<dyn DynMiddleware>],
    pub(crate) end: &'a dyn Endpoint,
}

impl<'a> Next<'a> {
    /// Passes the call on.
    pub fn call<'b>(self, cx: &'b mut Context, call: Call) -> Boxed<'b, Outcome>
    where
        'a: 'b,
    {
        match self.layers.split_first() {
            Some((first, layers)) => {
                (**first).handle_call(cx, call, Next { layers, end: self.end })
            }
            None => self.end.call(cx, call),
        }
    }

    /// Passes the listing on.
    pub fn list<'b>(
        self,
        cx: &'b mut Context,
        listing: Listing,
    ) -> Boxed<'b, Result<ToolList, Failure>>
    where
        'a: 'b,
    {
        match self.layers.split_first() {
            Some((first, layers)) => {
                (**first).handle_list(cx, listing, Next { layers, end: self.end })
            }
            None => self.end.list(cx, listing),
        }
    }

    /// Passes the request on.
    pub fn request<'b>(self, cx: &'b mut Context, request: Request) -> Boxed<'b, Answer>
    where
        'a: 'b,
    {
        match self.layers.split_first() {
            Some((first, layers)) => {
                (**first).handle_request(cx, request, Next { layers, end: self.end })
            }
            None => self.end.request(cx, request),
        }
    }

    /// The client of this request, for progress, log messages and questions, where the transport has one.
    ///
    /// ```
    /// use toolgate::from_fn;
    ///
    /// let layer = from_fn("progress", async |cx, call, next| {
    ///     if let Some(peer) = next.peer() {
    ///         peer.progress(0.0, None, Some("waiting for the tool")).await;
    ///     }
    ///     next.call(cx, call).await
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn peer(&self) -> Option<&'a dyn Peer> {
        self.end.peer()
    }

    /// Calls another tool, by the name that the client sees, as part of this call. The nested call passes the whole chain.
    /// It has an id of its own and this call as its parent; it inherits the restrictions of this call, its claims and its
    /// `_meta`; and it is cancelled together with this call. A layer that nests calls in every call, also in its own, ends
    /// at a depth of 16.
    ///
    /// ```
    /// use toolgate::from_fn;
    ///
    /// let layer = from_fn("check-first", async |cx, call, next| {
    ///     if call.id().name() == "deploy" {
    ///         let checked = next.nested(cx, "check", None).await;
    ///         if checked.failure().is_some() {
    ///             return checked;
    ///         }
    ///     }
    ///     next.call(cx, call).await
    /// });
    /// # let _ = layer;
    /// ```
    pub fn nested<'b>(
        &'b self,
        cx: &'b Context,
        tool: &'b str,
        arguments: Option<Json>,
    ) -> Boxed<'b, Outcome> {
        if cx.depth() >= MAX_DEPTH {
            let text = format!("`{tool}` is not called: calls are nested {MAX_DEPTH} deep");
            return Box::pin(std::future::ready(Failure::internal(text).into()));
        }
        self.end.nested(cx, tool, arguments)
    }

    /// Returns a [`Replay`], which can run the rest of the chain several times, if running the call twice has the same
    /// effect as running it once: the call of a readonly tool. Otherwise returns this `Next`.
    pub fn replayable(self, call: &Call) -> Result<Replay<'a>, Self> {
        if call.is_replayable() {
            Ok(Replay { layers: self.layers, end: self.end })
        } else {
            Err(self)
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} layers)", self.layers.len())
    }
}

/// The rest of the chain for a call that may run more than once. Made by [`Next::replayable`].
pub struct Replay<'a> {
    layers: &'a [Arc<dyn DynMiddleware>],
    end: &'a dyn Endpoint,
}

impl Replay<'_> {
    /// Runs the rest of the chain once more.
    pub fn attempt<'b>(&'b self, cx: &'b mut Context, call: Call) -> Boxed<'b, Outcome> {
        Next { layers: self.layers, end: self.end }.call(cx, call)
    }
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replay({} layers)", self.layers.len())
    }
}
