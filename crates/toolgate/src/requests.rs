//! Layers for single kinds of requests other than calls: prompts, resources, completion, the handshake; and for
//! notifications.

use std::{collections::BTreeMap, fmt, future::Future, marker::PhantomData};

use serde::{Deserialize, de::DeserializeOwned};
use toolgate_wire::{Json, mcp::method};

use crate::{
    call::{Answer, Request},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Hooks, Middleware},
    registry::Code,
};

/// The params of a method.
pub trait Params: DeserializeOwned + Send + 'static {
    /// The methods that have these params.
    const METHODS: &'static [&'static str];
}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident [$($method:expr),*] { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Params for $name {
            const METHODS: &'static [&'static str] = &[$($method),*];
        }
    )*};
}
params! {
    /// The params of `initialize` (legacy).
    Initialize [method::INITIALIZE] {
        /// The version that the client asks for.
        protocol_version: String,
        /// The client's name and version.
        client_info: Implementation,
        /// What the client can do.
        #[serde(default)]
        capabilities: serde_json::Value,
    }
    /// The params of `prompts/get`.
    GetPrompt [method::PROMPTS_GET] {
        /// The name of the prompt.
        name: String,
        /// Its arguments.
        #[serde(default)]
        arguments: BTreeMap<String, String>,
    }
    /// The params of `resources/read`.
    ReadResource [method::RESOURCES_READ] {
        /// The URI of the resource.
        uri: String,
    }
    /// The params of `resources/subscribe` and `resources/unsubscribe` (legacy).
    Subscribe [method::RESOURCES_SUBSCRIBE, method::RESOURCES_UNSUBSCRIBE] {
        /// The URI of the resource.
        uri: String,
    }
    /// The params of `prompts/list`.
    ListPrompts [method::PROMPTS_LIST] {
        /// The page.
        #[serde(default)]
        cursor: Option<String>,
    }
    /// The params of `resources/list` and `resources/templates/list`.
    ListResources [method::RESOURCES_LIST, method::RESOURCES_TEMPLATES_LIST] {
        /// The page.
        #[serde(default)]
        cursor: Option<String>,
    }
    /// The params of `completion/complete`.
    Complete [method::COMPLETION_COMPLETE] {
        /// What is completed: a prompt or a resource template.
        #[serde(rename = "ref")]
        reference: CompletionReference,
        /// The argument that is completed.
        argument: CompletionArgument,
    }
}

/// The name and the version of a program.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Implementation {
    /// The name.
    pub name: String,
    /// The version.
    #[serde(default)]
    pub version: String,
}

/// What a completion belongs to.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The name of the prompt.
        name: String,
    },
    /// A variable of a resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template.
        uri: String,
    },
}

/// The argument that is completed.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Its name.
    pub name: String,
    /// What the user has typed.
    pub value: String,
}

impl Request {
    /// The params as a type of yours. Missing params count as an empty object.
    ///
    /// ```
    /// use toolgate::{ReadResource, Request};
    ///
    /// let params = serde_json::json!({"uri": "file:///etc/passwd"});
    /// let request = Request { method: "resources/read".into(), params: Some(params.into()) };
    /// let read: ReadResource = request.params_as()?;
    /// assert_eq!(read.uri, "file:///etc/passwd");
    /// # Ok::<(), toolgate::Failure>(())
    /// ```
    pub fn params_as<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let params = self.params.clone().unwrap_or_else(Json::empty_object);
        params.decode().map_err(|_| {
            let text = format!("The params of `{}` do not fit", self.method);
            Failure::new(Code::InvalidRequest, text)
        })
    }
}

/// A layer that handles the requests of one kind, with their params as a type: [`Initialize`], [`GetPrompt`],
/// [`ReadResource`], [`Subscribe`], [`ListPrompts`], [`ListResources`], [`Complete`], or [`Params`] of your own. It may
/// return an [`Answer`], or with `?` a `Result`. Params that do not fit are refused.
///
/// The gateway forwards the params of the client: a layer refuses or answers a request, or changes the answer.
///
/// ```
/// use toolgate::{Answer, Chain, Failure, ReadResource, on_request};
///
/// let no_secrets = on_request("no-secrets", async |read: ReadResource, cx, request, next| {
///     if read.uri.contains(".env") {
///         return Err(Failure::refused("files with secrets are not read"));
///     }
///     Ok(next.request(cx, request).await)
/// });
/// let chain = Chain::builder().layer(no_secrets).build()?;
/// assert!(chain.sees_request("resources/read") && !chain.sees_listings());
/// # Ok::<(), toolgate::BadChain>(())
/// ```
pub fn on_request<P, F, R>(name: &'static str, handle: F) -> OnRequest<P, F>
where
    P: Params,
    F: AsyncFn(P, &mut Context, Request, Next<'_>) -> R + for<'a> AnswerFn<'a, P>,
    R: Into<Answer>,
{
    OnRequest(name, handle, PhantomData)
}

/// The layer of [`on_request`].
pub struct OnRequest<P, F>(&'static str, F, PhantomData<fn() -> P>);

/// An async function that answers requests, see [`CallFn`](crate::CallFn).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer requests",
    note = "it has to be an `async fn` or an `async |params: Type, cx, request, next|` closure that captures nothing"
)]
pub trait AnswerFn<'a, P>:
    Fn(P, &'a mut Context, Request, Next<'a>) -> <Self as AnswerFn<'a, P>>::Future
    + Send
    + Sync
    + 'static
{
    /// The future of a request.
    type Future: Future<Output = <Self as AnswerFn<'a, P>>::Output> + Send + 'a;
    /// What the function returns.
    type Output: Into<Answer>;
}

impl<'a, P, F, Fut> AnswerFn<'a, P> for F
where
    F: Fn(P, &'a mut Context, Request, Next<'a>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: Into<Answer>> + Send + 'a,
{
    type Future = Fut;
    type Output = Fut::Output;
}

impl<P: Params, F: for<'a> AnswerFn<'a, P>> Middleware for OnRequest<P, F> {
    fn name(&self) -> &'static str {
        self.0
    }

    fn decides(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks::REQUESTS
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        if !P::METHODS.contains(&&*request.method) {
            return next.request(cx, request).await;
        }
        match request.params_as() {
            Ok(params) => (self.1)(params, cx, request, next).await.into(),
            Err(failure) => failure.into(),
        }
    }
}

impl<P, F> fmt::Debug for OnRequest<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRequest").field(&self.0).finish()
    }
}

/// A layer that sees the notifications of the client. It cannot change or stop one.
///
/// ```
/// use toolgate::{Chain, on_notification};
///
/// let layer = on_notification("watch", |cx, method, _params| println!("{}: {method}", cx.principal()));
/// let chain = Chain::builder().layer(layer).build()?;
/// assert!(chain.sees_notifications());
/// # Ok::<(), toolgate::BadChain>(())
/// ```
pub fn on_notification<F>(name: &'static str, see: F) -> OnNotification<F>
where
    F: Fn(&Context, &str, Option<&Json>) + Send + Sync + 'static,
{
    OnNotification(name, see)
}

/// The layer of [`on_notification`].
pub struct OnNotification<F>(&'static str, F);

impl<F> Middleware for OnNotification<F>
where
    F: Fn(&Context, &str, Option<&Json>) + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn decides(&self) -> bool {
        false
    }

    fn hooks(&self) -> Hooks {
        Hooks { notification: true, ..Hooks::NONE }
    }

    fn notification(&self, cx: &Context, method: &str, params: Option<&Json>) {
        (self.1)(cx, method, params);
    }
}

impl<F> fmt::Debug for OnNotification<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnNotification").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::{self, answering, context, json};

    async fn ask(layer: impl Middleware, method: &str, params: &str) -> Result<String, Json> {
        let chain = testing::chain(layer);
        let request = Request { method: method.into(), params: Some(json(params.to_owned())) };
        let answer = chain.request(&mut context(), request, &answering(json("{}"))).await;
        answer.body.map(|json| json.as_str().to_owned())
    }

    fn secrets() -> impl Middleware {
        on_request("secrets", async |read: ReadResource, cx, request, next| {
            if read.uri.contains(".env") {
                return Err(Failure::refused("secret").with_rpc_code(-7));
            }
            Ok(next.request(cx, request).await)
        })
    }

    #[tokio::test]
    async fn a_typed_layer_sees_its_methods_only_and_refuses_what_does_not_fit() {
        assert!(ask(secrets(), "resources/read", r#"{"uri":"a.txt"}"#).await.is_ok());
        let refused = ask(secrets(), "resources/read", r#"{"uri":"a/.env"}"#).await.unwrap_err();
        assert_eq!(refused.get("code").unwrap().as_str(), "-7");
        let misfit = ask(secrets(), "resources/read", r#"{"url":"a/.env"}"#).await.unwrap_err();
        assert_eq!(misfit.get("code").unwrap().as_str(), "-32600");
        assert!(ask(secrets(), "prompts/get", r#"{"uri":"a/.env"}"#).await.is_ok());
    }

    #[tokio::test]
    async fn prompts_completions_and_handshakes_have_types() {
        let complete = on_request("c", async |complete: Complete, _cx, _request, _next| {
            let CompletionReference::Prompt { name } = complete.reference else {
                return Failure::refused("no prompt").into();
            };
            Answer::from(Json::from(vec![name, complete.argument.name, complete.argument.value]))
        });
        let params =
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}"#;
        let answer = ask(complete, "completion/complete", params).await;
        assert_eq!(answer.unwrap(), r#"["p","a","v"]"#);
        let prompt = on_request("p", async |prompt: GetPrompt, _cx, _request, _next| {
            Answer::from(Json::from(prompt.arguments.get("who").cloned()))
        });
        let answer =
            ask(prompt, "prompts/get", r#"{"name":"greet","arguments":{"who":"me"}}"#).await;
        assert_eq!(answer.unwrap(), "\"me\"");
        let client = on_request("i", async |asked: Initialize, _cx, _request, _next| {
            Answer::from(Json::from(asked.client_info.name))
        });
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
        assert_eq!(ask(client, "initialize", params).await.unwrap(), "\"x\"");
    }

    #[test]
    fn notifications_are_seen() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let layer = on_notification("watch", move |cx, method, _| {
            log.lock().unwrap().push(format!("{} {method}", cx.principal()));
        });
        let chain = testing::chain(layer);
        assert!(!chain.sees_request("ping") && !chain.sees_notices());
        chain.notified(&context(), "notifications/initialized", None);
        assert_eq!(*seen.lock().unwrap(), ["local:me notifications/initialized"]);
    }
}
