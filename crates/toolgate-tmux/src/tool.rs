//! Defines a tool: its name, tier, schemas and function, as one row of a table.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, MetaObject, Tool as Published, ToolAnnotations,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use toolgate::{Code, Executed, Failure, Tier};

use crate::{
    call::ToolContext,
    result_size,
    schema::{input, object, output},
};

type ToolFuture = Pin<Box<dyn Future<Output = Result<CallToolResult, Failure>> + Send>>;
type RunTool = Box<dyn Fn(ToolContext, JsonObject) -> ToolFuture + Send + Sync>;

/// A tool: its name and hints, its schemas and the function that runs it.
pub struct Tool {
    name: &'static str,
    tier: Tier,
    hints: ToolAnnotations,
    title: &'static str,
    description: &'static str,
    always_loaded: bool,
    self_bounded: bool,
    input: fn() -> JsonObject,
    output: fn() -> JsonObject,
    run: RunTool,
}

impl Tool {
    /// A tool that only reads.
    pub fn readonly<A, R, F, Fut>(name: &'static str, title: &'static str, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Reply,
        F: Fn(ToolContext, A) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        Self::new(name, title, Tier::Readonly, run).idempotent()
    }

    /// A tool that changes something that can be changed back.
    pub fn mutating<A, R, F, Fut>(name: &'static str, title: &'static str, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Reply,
        F: Fn(ToolContext, A) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        Self::new(name, title, Tier::Mutating, run)
    }

    /// A tool that may destroy something.
    pub fn destructive<A, R, F, Fut>(name: &'static str, title: &'static str, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Reply,
        F: Fn(ToolContext, A) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        Self::new(name, title, Tier::Destructive, run).loses()
    }

    fn new<A, R, F, Fut>(name: &'static str, title: &'static str, tier: Tier, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: Reply,
        F: Fn(ToolContext, A) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Failure>> + Send + 'static,
    {
        let run: RunTool = Box::new(move |cx, arguments| {
            Box::pin(async move { Ok(run(cx, read::<A>(arguments)?).await?.into_result()) })
        });
        let hints = ToolAnnotations::new()
            .read_only(tier == Tier::Readonly)
            .destructive(false)
            .idempotent(false)
            .open_world(false);
        Self {
            name,
            tier,
            hints,
            title,
            description: "",
            always_loaded: false,
            self_bounded: false,
            input: input::<A>,
            output: R::schema,
            run,
        }
    }

    /// The description for models. The first line says when to use the tool.
    #[must_use]
    pub fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Sets the hint that a second call with the same arguments changes nothing.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.hints.idempotent_hint = Some(true);
        self
    }

    /// Sets the hint that the tool may reach whatever a shell can reach.
    #[must_use]
    pub fn open_world(mut self) -> Self {
        self.hints.open_world_hint = Some(true);
        self
    }

    /// Sets the hint that the tool deletes something, in any tier.
    #[must_use]
    pub fn loses(mut self) -> Self {
        self.hints.destructive_hint = Some(true);
        self
    }

    /// Asks clients that load tools on demand to always load this one.
    #[must_use]
    pub fn always_loaded(mut self) -> Self {
        self.always_loaded = true;
        self
    }

    /// Marks a tool that waits and limits its own time. Batches and retries would multiply that time, so they refuse
    /// it.
    #[must_use]
    pub fn self_bounded(mut self) -> Self {
        self.self_bounded = true;
        self
    }

    /// Whether the tool waits and limits its own time.
    #[must_use]
    pub fn is_self_bounded(&self) -> bool {
        self.self_bounded
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The tool's tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    pub(crate) fn run(&self, cx: ToolContext, arguments: JsonObject) -> ToolFuture {
        (self.run)(cx, arguments)
    }

    pub(crate) fn published(&self) -> Published {
        let mut tool = Published::new(self.name, self.description, Arc::new((self.input)()));
        tool.title = Some(self.title.to_owned());
        tool.output_schema = Some(Arc::new((self.output)()));
        tool.annotations = Some(self.hints.clone());
        let mut meta = MetaObject::default();
        let bounded = self.self_bounded.then_some("self-bounded");
        let tags: Vec<&str> = [self.tier.name()].into_iter().chain(bounded).collect();
        meta.insert("fastmcp".to_owned(), json!({ "tags": tags }));
        if self.always_loaded {
            meta.insert("anthropic/alwaysLoad".to_owned(), true.into());
        }
        tool.meta = Some(meta);
        tool
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

/// Reads the arguments. The chain has checked them against the schema; if it has not, the error does not repeat them.
fn read<A: DeserializeOwned>(arguments: JsonObject) -> Result<A, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|_| {
        Failure::new(Code::InvalidArguments, "the arguments do not fit the tool's schema")
            .with_executed(Executed::No)
    })
}

/// The result of a tool: a text, a list, or one [`Model`].
pub trait Reply: Send {
    /// The schema of `structuredContent`.
    fn schema() -> JsonObject;
    /// The result of the call.
    fn into_result(self) -> CallToolResult;
}

impl Reply for String {
    fn schema() -> JsonObject {
        wrapped(&json!({ "type": "string" }))
    }

    fn into_result(self) -> CallToolResult {
        result(self.clone(), json!({ "result": self }), true)
    }
}

impl<T: Serialize + JsonSchema + Send> Reply for Vec<T> {
    fn schema() -> JsonObject {
        wrapped(&json!({ "type": "array", "items": output::<T>() }))
    }

    fn into_result(self) -> CallToolResult {
        result(result_size::list_text(&self), json!({ "result": self }), true)
    }
}

/// One object, returned as it is.
#[derive(Clone, Debug)]
pub struct Model<T>(pub T);

impl<T: Serialize + JsonSchema + Send> Reply for Model<T> {
    fn schema() -> JsonObject {
        output::<T>()
    }

    fn into_result(self) -> CallToolResult {
        let model = json!(self.0);
        result(model.to_string(), model, false)
    }
}

/// Like [`Model`], but the schema has only the id and the name of the tool that has the full schema. The full schema in
/// each tool would double the size of the list that models read.
#[derive(Clone, Debug)]
pub struct ShortModel<T>(pub T);

/// A model that several tools return.
pub trait SharedModel {
    /// The name of the tool whose schema has all fields.
    const FULL_SCHEMA_TOOL: &'static str;
}

impl<T: Serialize + SharedModel + Send> Reply for ShortModel<T> {
    fn schema() -> JsonObject {
        object(json!({
            "type": "object",
            "description": format!("As {}.", T::FULL_SCHEMA_TOOL),
        }))
    }

    fn into_result(self) -> CallToolResult {
        let model = json!(self.0);
        result(model.to_string(), model, false)
    }
}

/// A list of shared models: like a `Vec`, with the short schema.
#[derive(Clone, Debug)]
pub struct ShortList<T>(pub Vec<T>);

impl<T: Serialize + SharedModel + Send> Reply for ShortList<T> {
    fn schema() -> JsonObject {
        wrapped(&json!({ "type": "array", "items": ShortModel::<T>::schema() }))
    }

    fn into_result(self) -> CallToolResult {
        result(result_size::list_text(&self.0), json!({ "result": self.0 }), true)
    }
}

fn result(text: String, structured: Value, wrapped: bool) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    if wrapped {
        let mut meta = MetaObject::default();
        meta.insert("fastmcp".to_owned(), json!({ "wrap_result": true }));
        result.meta = Some(meta);
    }
    result
}

fn wrapped(inner: &Value) -> JsonObject {
    let schema = json!({
        "type": "object",
        "properties": { "result": inner },
        "x-fastmcp-wrap-result": true,
    });
    object(schema)
}

/// The failure for arguments that the schema allows but the tool does not.
pub(crate) fn invalid_arguments(message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidArguments, message).with_executed(Executed::No)
}
