//! The requests that pass down the chain: a call, a listing, any other request.

use std::sync::Arc;

use toolgate_wire::{Json, Kind, Object};

use serde::{Serialize, de::DeserializeOwned};

use crate::{failure::Failure, identity::ToolId, selector::Selector, tier::Tier, tool::Tool};

mod arguments;

/// One `tools/call` on its way to its tool.
///
/// Arguments are unparsed JSON text; cloning a call copies no payload.
#[derive(Clone, Debug)]
pub struct Call {
    tool: Arc<Tool>,
    arguments: Option<Json>,
    wire_name: Option<Arc<str>>,
    changed: bool,
    /// The caller's arguments, once a layer has changed them.
    sent: Option<Json>,
}

impl Call {
    /// A call of `tool`.
    #[must_use]
    pub fn new(tool: Arc<Tool>, arguments: Option<Json>) -> Self {
        Self { tool, arguments, wire_name: None, changed: false, sent: None }
    }

    /// Sets the name that the client used, if that is not the server's own name.
    #[must_use]
    pub fn with_wire_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.wire_name = Some(name.into());
        self
    }

    /// The tool that is called.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The identity of the tool that is called.
    #[must_use]
    pub fn id(&self) -> &ToolId {
        self.tool.id()
    }

    /// The name that the client used, if the transport set it. For records only, never for a decision.
    #[must_use]
    pub fn wire_name(&self) -> Option<&Arc<str>> {
        self.wire_name.as_ref()
    }

    /// The arguments that the tool will receive.
    #[must_use]
    pub fn arguments(&self) -> Option<&Json> {
        self.arguments.as_ref()
    }

    /// Replaces the arguments. The call is then no longer forwarded as the bytes that arrived.
    pub fn set_arguments(&mut self, arguments: Json) {
        let before = self.arguments.replace(arguments);
        if !self.changed {
            self.sent = before;
        }
        self.changed = true;
    }

    /// The arguments as a type of yours. Missing arguments count as an empty object. Arguments that do not fit are a
    /// failure with the code `INVALID_ARGUMENTS`, whose message names the argument and never its value.
    ///
    /// ```
    /// use serde::Deserialize;
    /// use toolgate::from_fn;
    ///
    /// #[derive(Deserialize)]
    /// struct Read {
    ///     path: String,
    /// }
    ///
    /// let layer = from_fn("paths", async |cx, call, next| {
    ///     let read: Read = call.args()?;
    ///     if !read.path.starts_with("/allowed/") {
    ///         return Err(toolgate::Failure::refused("the path is not allowed"));
    ///     }
    ///     Ok(next.call(cx, call).await)
    /// });
    /// # let _ = layer;
    /// ```
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        arguments::read(self.arguments.as_ref())
    }

    /// Replaces the arguments by a value of a type of yours, which must serialize to an object.
    ///
    /// ```
    /// use toolgate::{Call, Context, transform_request};
    ///
    /// let layer = transform_request("fixed", |mut call: Call, _: &mut Context| {
    ///     call.set_args(&serde_json::json!({"unit": "celsius"}))?;
    ///     Ok(call)
    /// });
    /// # let _ = layer;
    /// ```
    pub fn set_args<T: Serialize + ?Sized>(&mut self, arguments: &T) -> Result<(), Failure> {
        let arguments = Json::serialize(arguments)?;
        if arguments.kind() != Kind::Object {
            return Err(Failure::internal("a layer set arguments that are not an object"));
        }
        self.set_arguments(arguments);
        Ok(())
    }

    /// Sets one argument. Fails if the arguments are not an object.
    ///
    /// ```
    /// use toolgate::{Call, Context, transform_request};
    ///
    /// let layer = transform_request("units", |mut call: Call, _: &mut Context| {
    ///     call.insert_arg("unit", "celsius")?;
    ///     Ok(call)
    /// });
    /// # let _ = layer;
    /// ```
    pub fn insert_arg(&mut self, name: &str, value: impl Into<Json>) -> Result<(), Failure> {
        let mut arguments = match &self.arguments {
            None => Object::new(),
            Some(arguments) => arguments.object().ok_or_else(arguments::no_object)?,
        };
        arguments.set(name, value);
        self.set_arguments(arguments.finish());
        Ok(())
    }

    /// Replaces the arguments after members for toolgate were removed. Records do not show the removed members.
    pub(crate) fn lift_arguments(&mut self, rest: Json) {
        self.sent = Some(rest.clone());
        self.arguments = Some(rest);
        self.changed = true;
    }

    /// The arguments as the caller sent them, without changes by layers. For records: values that the operator fills in
    /// are not the caller's and may be secret.
    #[must_use]
    pub fn sent_arguments(&self) -> Option<&Json> {
        if self.changed { self.sent.as_ref() } else { self.arguments.as_ref() }
    }

    /// Whether a layer changed the arguments.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether the call may be repeated: only calls of readonly tools may.
    #[must_use]
    pub fn is_replayable(&self) -> bool {
        self.tool.tier() == Some(Tier::Readonly)
    }

    /// Whether a selector covers the tool.
    #[must_use]
    pub fn is_covered_by(&self, selector: &Selector) -> bool {
        selector.covers(self.id())
    }
}

/// One `tools/list` request.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The cursor of the page, opaque to all but its issuer.
    pub cursor: Option<String>,
}

/// The response to a [`Listing`]: the tools of one page.
#[derive(Clone, Debug)]
pub struct ToolList {
    tools: Vec<Arc<Tool>>,
    result: Object,
    origin: Option<bytes::Bytes>,
    changed: bool,
}

impl ToolList {
    /// A page with these tools and no other members.
    #[must_use]
    pub fn new(tools: Vec<Arc<Tool>>) -> Self {
        Self { tools, result: Object::new(), origin: None, changed: true }
    }

    /// A page as the server sent it: its tools, the result object and the whole line.
    #[must_use]
    pub fn from_wire(tools: Vec<Arc<Tool>>, result: Object, origin: Option<bytes::Bytes>) -> Self {
        Self { tools, result, origin, changed: false }
    }

    /// The tools of the page.
    #[must_use]
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// Keeps the tools for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&Tool) -> bool) {
        let before = self.tools.len();
        self.tools.retain(|tool| keep(tool));
        self.changed |= self.tools.len() != before;
    }

    /// Replaces the tools.
    pub fn set_tools(&mut self, tools: Vec<Arc<Tool>>) {
        self.tools = tools;
        self.changed = true;
    }

    /// The server's line, if no layer changed the response.
    #[must_use]
    pub fn origin(&self) -> Option<&bytes::Bytes> {
        if self.changed { None } else { self.origin.as_ref() }
    }

    /// The result object: the server's bytes if no layer changed the tools, otherwise the same object with its `tools`
    /// replaced.
    #[must_use]
    pub fn into_result(mut self) -> Json {
        if self.changed {
            let tools = Json::list(self.tools.iter().filter_map(|tool| tool.definition()));
            self.result.set("tools", tools);
        }
        self.result.finish()
    }
}

/// Any request that is neither a call nor a listing.
#[derive(Clone, Debug)]
pub struct Request {
    /// The JSON-RPC method.
    pub method: Arc<str>,
    /// The params as they arrived.
    pub params: Option<Json>,
}

/// The response to a [`Request`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The result, or the error object, as JSON text.
    pub body: Result<Json, Json>,
    /// The server's line, if no layer changed the response.
    pub origin: Option<bytes::Bytes>,
}

impl Answer {
    /// Replaces the result. The response is then no longer forwarded as the bytes that arrived.
    pub fn set_result(&mut self, result: Json) {
        self.body = Ok(result);
        self.origin = None;
    }

    /// Replaces the response by an error object.
    pub fn set_error(&mut self, error: Json) {
        self.body = Err(error);
        self.origin = None;
    }
}

/// The answer to a request that is refused.
impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self { body: Err(failure.to_rpc().to_json()), origin: None }
    }
}

/// The answer with this result.
impl From<Json> for Answer {
    fn from(result: Json) -> Self {
        Self { body: Ok(result), origin: None }
    }
}

/// `?` in a layer: the failure is the answer.
impl From<Result<Self, Failure>> for Answer {
    fn from(handled: Result<Self, Failure>) -> Self {
        handled.unwrap_or_else(Self::from)
    }
}
