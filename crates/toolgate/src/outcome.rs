//! Outcomes of calls: the one result type inside the chain.

use std::borrow::Cow;

use bytes::Bytes;
use toolgate_wire::{Json, Object, mcp::member};

use crate::{
    failure::{Executed, Failure, RpcError},
    readable::{self, Area},
    registry::{Class, Code, Delivery},
};

/// The result of a tool, as JSON text of which only the needed members are parsed.
///
/// ```
/// use toolgate::{ToolResult, serde_json::json};
///
/// let result = ToolResult::text("42 rows");
/// let content = json!([{"type": "text", "text": "42 rows"}]);
/// assert_eq!(result.json().to_value().unwrap()["content"], content);
/// ```
#[derive(Clone, Debug)]
pub struct ToolResult {
    json: Json,
    is_error: bool,
    input_required: bool,
    is_task: bool,
}

impl ToolResult {
    /// A result object as it arrived. Parses only `isError` and `resultType`.
    #[must_use]
    pub fn new(json: Json) -> Self {
        let is_error = json.get(member::IS_ERROR).and_then(|json| json.bool()) == Some(true);
        let result_type = json.get(member::RESULT_TYPE);
        Self::known(json, is_error, result_type.as_ref())
    }

    /// A result of which `isError` and `resultType` are known already.
    #[must_use]
    pub fn known(json: Json, is_error: bool, result_type: Option<&Json>) -> Self {
        let input_required = result_type.is_some_and(|json| json.as_str() == "\"input_required\"");
        let is_task = result_type.is_some_and(|json| json.as_str() == "\"task\"");
        Self { json, is_error, input_required, is_task }
    }

    /// A result with one text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let value = serde_json::json!({"content": [{"type": "text", "text": text}]});
        Self::known(Json::value(&value), false, None)
    }

    /// This result with other JSON that has the same `isError` and `resultType`.
    #[must_use]
    pub fn with_json(&self, json: Json) -> Self {
        Self { json, ..*self }
    }

    /// The result object.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// A result with structured content, and the same JSON as text for clients that read only texts.
    ///
    /// ```
    /// use toolgate::ToolResult;
    ///
    /// let result = ToolResult::structured(serde_json::json!({"rows": 3}));
    /// assert_eq!(result.json().get("structuredContent").unwrap().as_str(), r#"{"rows":3}"#);
    /// ```
    #[must_use]
    pub fn structured(content: impl Into<Json>) -> Self {
        let content = content.into();
        let mut block = Object::new();
        block.set("type", "text");
        block.set("text", content.as_str());
        let mut result = Object::new();
        result.set("content", Json::list(&[block.finish()]));
        result.set("structuredContent", content);
        Self::known(result.finish(), false, None)
    }

    /// Whether the call continues as a task (`resultType` is `task`).
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.is_task
    }

    /// `isError`
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error
    }
}

/// How a layer ends that uses `?`: see [`Middleware::try_call`](crate::Middleware::try_call) and
/// [`from_fn`](crate::from_fn()).
pub type Handled = Result<Outcome, Failure>;

/// The outcome of a call, with the response that the client receives.
///
/// ```
/// use toolgate::{Class, Executed, Failure, Outcome, ToolResult};
///
/// let answered = Outcome::from(ToolResult::text("done"));
/// assert_eq!((answered.class(), answered.executed()), (Class::Ok, Executed::Yes));
/// let refused = Outcome::from(Failure::refused("not today"));
/// assert_eq!((refused.class(), refused.executed()), (Class::Denied, Executed::No));
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    class: Class,
    result: Option<ToolResult>,
    failure: Option<Failure>,
    origin: Option<Bytes>,
    /// The response is toolgate's own: the tool did not run.
    is_ours: bool,
}

/// The response to the client.
#[derive(Debug)]
pub enum Reply {
    /// The server's line, because no layer changed the outcome.
    Verbatim(Bytes),
    /// A result object.
    Result(Json),
    /// A JSON-RPC error.
    Error(RpcError),
    /// Nothing: the client cancelled the call.
    Nothing,
}

impl Outcome {
    /// The tool answered. `isError` and `resultType` of the result decide the class.
    #[must_use]
    pub fn answered(result: ToolResult) -> Self {
        let class = match (result.is_error, result.input_required) {
            (true, _) => Class::ToolError,
            (_, true) => Class::InputRequired,
            _ => Class::Ok,
        };
        Self { class, result: Some(result), failure: None, origin: None, is_ours: false }
    }

    /// The call failed.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        let class = failure.code().entry().class;
        Self { class, result: None, failure: Some(failure), origin: None, is_ours: false }
    }

    /// The tool did not run: `result` shows what would run, and the failure says why it did not.
    #[must_use]
    pub fn shown(failure: Failure, result: ToolResult) -> Self {
        Self { result: Some(result), ..Self::failed(failure) }
    }

    /// The tool did not run yet: a layer asks the client for input with this result.
    #[must_use]
    pub fn asked(result: ToolResult) -> Self {
        Self { is_ours: true, ..Self::answered(result) }
    }

    /// Sets the server's line, which is forwarded unless a layer changes the outcome.
    #[must_use]
    pub fn with_origin(mut self, line: Bytes) -> Self {
        self.origin = Some(line);
        self
    }

    /// The class of the outcome.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// The failure. It stays after a layer rendered it as a result.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The code of the failure.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.failure.as_ref().map(Failure::code)
    }

    /// The result that the client receives, if it receives one.
    #[must_use]
    pub fn result(&self) -> Option<&ToolResult> {
        self.result.as_ref()
    }

    /// Replaces the result that the client receives. The class and the failure stay.
    pub fn set_result(&mut self, result: ToolResult) {
        self.result = Some(result);
        self.origin = None;
    }

    /// Sets a member of the result's `_meta`. An outcome without a result, such as a failure that no layer has rendered
    /// yet, stays as it is.
    ///
    /// ```
    /// use toolgate::{Call, Chain, Context, Outcome, transform_response};
    ///
    /// let chain = Chain::builder()
    ///     .layer(transform_response("stamp", |outcome: Outcome, _: &Call, _: &mut Context| {
    ///         outcome.insert_meta("example.com/processedBy", "stamp")
    ///     }))
    ///     .build();
    /// # assert!(chain.is_ok());
    /// ```
    #[must_use]
    pub fn insert_meta(mut self, key: &str, value: impl Into<Json>) -> Self {
        let set = |result: &ToolResult| {
            let mut object = result.json.object()?;
            let mut meta = object.get(member::META).and_then(|meta| meta.object());
            let meta = meta.get_or_insert_default();
            meta.set(key, value);
            object.set(member::META, std::mem::take(meta));
            Some(result.with_json(object.finish()))
        };
        if let Some(result) = self.result.as_ref().and_then(set) {
            self.set_result(result);
        }
        self
    }

    /// Replaces every text that the client's user or model reads: in the content, in the structured content, and in the
    /// message of a failure. Keys, ids, types and binary data stay. An outcome in which `map` changes nothing is
    /// forwarded as the bytes that arrived.
    ///
    /// ```
    /// use toolgate::{Outcome, ToolResult};
    ///
    /// let outcome = Outcome::answered(ToolResult::text("api_key=1234"));
    /// let outcome = outcome.map_texts(|text| text.replace("1234", "***").into());
    /// assert!(outcome.result().unwrap().json().as_str().contains("api_key=***"));
    /// ```
    #[must_use]
    pub fn map_texts(self, mut map: impl for<'t> FnMut(&'t str) -> Cow<'t, str>) -> Self {
        self.replace_texts(&mut |text| {
            let new = map(text);
            (new != text).then(|| new.into_owned())
        })
    }

    /// Replaces each readable text for which `replacement` returns another one.
    pub(crate) fn replace_texts(
        mut self,
        replacement: &mut dyn FnMut(&str) -> Option<String>,
    ) -> Self {
        let result = self.result.as_ref();
        let result = result.and_then(|result| {
            let json = readable::replace(&result.json, Area::Top, &mut *replacement)?;
            Some(result.with_json(json))
        });
        if let Some(failure) = self.failure.as_ref().and_then(|f| f.replace_texts(replacement)) {
            self.set_failure(failure);
        }
        if let Some(result) = result {
            self.set_result(result);
        }
        self
    }

    /// Replaces the failure by one with the same code. A rendered result stays.
    pub(crate) fn set_failure(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.origin = None;
    }

    /// Whether the tool ran.
    #[must_use]
    pub fn executed(&self) -> Executed {
        match (&self.failure, self.class) {
            (Some(failure), _) => failure.executed(),
            (None, Class::Preview) => Executed::No,
            (None, _) if self.is_ours => Executed::No,
            (None, _) => Executed::Yes,
        }
    }

    /// The response to the client.
    #[must_use]
    pub fn into_reply(self) -> Reply {
        let silent = |f: &Failure| f.code().entry().delivery == Delivery::Silence;
        match (self.origin, self.result, self.failure) {
            // A cancelled call gets no response, even if the server sent one.
            (_, None, Some(failure)) if silent(&failure) => Reply::Nothing,
            (Some(line), ..) => Reply::Verbatim(line),
            (None, Some(result), _) => Reply::Result(result.json),
            (None, None, Some(failure)) => Reply::Error(failure.to_rpc()),
            (None, None, None) => Reply::Error(
                Failure::internal("a layer made an outcome without an answer").to_rpc(),
            ),
        }
    }
}

/// `?` in a layer: the failure is the outcome.
impl From<Handled> for Outcome {
    fn from(handled: Handled) -> Self {
        handled.unwrap_or_else(Self::failed)
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::failed(failure)
    }
}

impl From<ToolResult> for Outcome {
    fn from(result: ToolResult) -> Self {
        Self::answered(result)
    }
}
