//! Response limit: shortens an oversized result so that it stays valid, and keeps its tail or its head.
#![doc = include_str!("README.md")]

mod config;
mod cut;
mod promise;
mod shrink;
mod structured;
#[cfg(test)]
mod tests;

pub(crate) use config::SMALLEST;
pub use config::{Keep, ResponseLimitConfig, ToolLimit};
use shrink::{Blocks, CONTENT, CONTENTS, CannotShrink, MESSAGES, has_too_many_values, shrink};
use toolgate_wire::{
    Json,
    mcp::{code, member, method},
};

use crate::{
    call::{Answer, Call, Request},
    context::Context,
    failure::{Failure, RpcError},
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, NotificationDecision, Order},
    outcome::{Outcome, ToolResult},
    printable,
    registry::Code,
};

/// The layer's name.
pub const NAME: &str = "response-limit";

/// The declaration of the layer.
#[derive(Debug)]
pub struct ResponseLimitSpec;

impl LayerSpec for ResponseLimitSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "limits the size of every result, including error results"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs
            .get::<ResponseLimitConfig>()?
            .limits_single_tools()
            .then_some("`response_bytes` of a tool")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let config = inputs.get::<ResponseLimitConfig>().cloned();
        Ok(BuiltLayer::if_some(config.map(ResponseLimit::new), "`limits.response_bytes` is off"))
    }
}

/// The default limit of one result, in bytes.
pub const DEFAULT_BYTES: usize = 1_000_000;

/// Shortens oversized results, errors and notifications of servers, and withholds their oversized requests.
#[derive(Clone, Debug)]
pub struct ResponseLimit {
    config: ResponseLimitConfig,
}

impl ResponseLimit {
    /// Creates the layer. Limits below 1000 bytes are raised to 1000, because a shorter result has no room for the note
    /// that it was shortened.
    #[must_use]
    pub fn new(mut config: ResponseLimitConfig) -> Self {
        config.bytes = config.bytes.max(SMALLEST);
        for limit in &mut config.tools {
            limit.bytes = limit.bytes.map(|bytes| bytes.max(SMALLEST));
        }
        Self { config }
    }

    /// The limit and the end to keep for this call. A selector that names the tool exactly wins over patterns; of
    /// patterns, the first that covers the tool wins.
    fn of(&self, call: &Call) -> (usize, Keep) {
        let tools = &self.config.tools;
        let covering = || tools.iter().filter(|limit| call.is_covered_by(&limit.tools));
        let limit = covering().find(|limit| limit.tools.is_exact()).or_else(|| covering().next());
        let bytes = limit.and_then(|limit| limit.bytes).unwrap_or(self.config.bytes);
        let keep = limit.and_then(|limit| limit.keep).unwrap_or(self.config.keep);
        (bytes, keep)
    }

    /// The lowest limit of all, for results whose tool is unknown.
    fn strictest(&self) -> (usize, Keep) {
        let tools = self.config.tools.iter().filter_map(|limit| limit.bytes);
        (tools.fold(self.config.bytes, usize::min), self.config.keep)
    }

    /// The shortened response to a request that is not a call. `None` if the response must not be shortened here.
    fn shortened(&self, result: &Json, method: &str) -> Option<Result<Json, CannotShrink>> {
        let (limit, keep) = (self.config.bytes, self.config.keep);
        let blocks: &Blocks = match method {
            method::RESOURCES_READ => &CONTENTS,
            method::PROMPTS_GET => &MESSAGES,
            // `ResponseLimit::result` shortens the results of tasks, with the settings of their tools.
            method::TASKS_RESULT => return None,
            method::TASKS_GET if result.get("result").is_some() => return None,
            // Clients read lists page by page.
            method if method.ends_with("/list") => return None,
            method::INITIALIZE | method::SERVER_DISCOVER => return None,
            _ => return Some(plain(result, limit, keep)),
        };
        Some(shrink(result, blocks, limit, keep, true))
    }
}

impl Middleware for ResponseLimit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let keep = match self.config.keep {
            Keep::Tail => "tail",
            Keep::Head => "head",
        };
        let rules = self.config.tools.len();
        match (self.config.bytes, rules) {
            (usize::MAX, _) => format!("single tools only, {rules} rules, keeps the {keep}"),
            (bytes, 0) => format!("at most {bytes} bytes a result, keeps the {keep}"),
            (bytes, _) => format!(
                "at most {bytes} bytes a result, keeps the {keep}; {rules} rules for single tools"
            ),
        }
    }

    fn hooks(&self) -> Hooks {
        Hooks { list: false, notification: false, ..Hooks::ALL }
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Outside(super::error_results::NAME, "error results are bounded too")]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let extent = self.of(&call);
        let tool = std::sync::Arc::clone(call.tool());
        bounded(next.call(cx, call).await, extent, &tool)
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        let extent = if crate::task::is_unknown(cx) { self.strictest() } else { self.of(call) };
        bounded(outcome, extent, call.tool())
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        let method = std::sync::Arc::clone(&request.method);
        let mut answer = next.request(cx, request).await;
        let limit = self.config.bytes;
        match &answer.body {
            Ok(result) if result.len() > limit => match self.shortened(result, &method) {
                Some(Ok(json)) => answer.set_result(json),
                Some(Err(CannotShrink)) => {
                    answer.set_error(refusal(result.len(), limit, STRUCTURE).to_rpc().to_json());
                }
                None => {}
            },
            Err(error) if error.len() > limit => answer.set_error(short_error(error, limit)),
            _ => {}
        }
        answer
    }

    fn notice(&self, method: &str, params: &Json) -> NotificationDecision {
        let (size, limit) = (params.len(), self.config.bytes);
        if size <= limit {
            return NotificationDecision::AsItCame;
        }
        // A shortened request may ask the user for something else, so a request passes unchanged or is withheld.
        let is_notification = method.starts_with("notifications/");
        match plain(params, limit, self.config.keep) {
            Ok(json) if is_notification => NotificationDecision::Changed(json),
            _ => NotificationDecision::Withheld(format!(
                "`{method}` of {size} bytes is over the limit of {limit} bytes"
            )),
        }
    }
}

/// The outcome with a result and an error that are not longer than the limit.
fn bounded(
    mut outcome: Outcome,
    (limit, keep): (usize, Keep),
    tool: &crate::tool::Tool,
) -> Outcome {
    let rpc = outcome.failure().and_then(Failure::rpc);
    if let Some(rpc) = rpc.filter(|rpc| size_of(rpc) > limit)
        && let Some(failure) = outcome.failure()
    {
        let failure = failure.clone().with_rpc(short_rpc(rpc, limit));
        outcome.set_failure(failure);
    }
    let Some(result) = outcome.result() else {
        return outcome;
    };
    if result.json().len() <= limit {
        return outcome;
    }
    let (size, is_error) = (result.json().len(), result.is_error());
    // Structured content may be dropped if the definition of the tool is known and has no output schema.
    let schema = tool.definition().map(|json| json.get(member::OUTPUT_SCHEMA));
    let optional = matches!(schema, Some(None));
    // A client that checks the schema would discard the whole result, or fail.
    let fits = |json: &Json| match &schema {
        Some(Some(schema)) if !is_error => promise::is_kept(schema, result.json(), json),
        _ => true,
    };
    match shrink(result.json(), &CONTENT, limit, keep, optional) {
        Ok(json) if !fits(&json) => too_large(outcome, size, limit, "the tool's output schema"),
        Ok(json) => {
            let result_type = json.get(member::RESULT_TYPE);
            outcome.set_result(ToolResult::known(json, is_error, result_type.as_ref()));
            outcome
        }
        Err(CannotShrink) => too_large(outcome, size, limit, STRUCTURE),
    }
}

/// Shortens a JSON value of any shape to the limit.
fn plain(json: &Json, limit: usize, keep: Keep) -> Result<Json, CannotShrink> {
    if has_too_many_values(json.as_bytes()) {
        return Err(CannotShrink);
    }
    structured::shrink(json, limit, keep).map(|(json, _)| json)
}

fn size_of(rpc: &RpcError) -> usize {
    rpc.message.len() + rpc.data.as_ref().map_or(0, Json::len)
}

/// The error with the start of its message, and without its data.
fn short_rpc(rpc: &RpcError, limit: usize) -> RpcError {
    let most = printable::floor_char_boundary(&rpc.message, limit / 2);
    let start = rpc.message.get(..most).unwrap_or_default();
    let missing = size_of(rpc) - start.len();
    let message = format!("{start}... [{missing} more bytes]");
    RpcError { code: rpc.code, message, data: None }
}

fn short_error(error: &Json, limit: usize) -> Json {
    let text = |json: Json| json.text().map(std::borrow::Cow::into_owned);
    let rpc = RpcError {
        code: error.get("code").and_then(|code| code.i64()).unwrap_or(code::INTERNAL_ERROR),
        message: error.get("message").and_then(text).unwrap_or_default(),
        data: error.get("data"),
    };
    short_rpc(&rpc, limit).to_json()
}

/// Completes the sentence "cannot be shortened without breaking …".
const STRUCTURE: &str = "its structure";

fn refusal(size: usize, limit: usize, broken: &str) -> Failure {
    let message = format!(
        "The result of {size} bytes is over the limit of {limit} bytes and cannot be shortened \
         without breaking {broken}"
    );
    Failure::new(Code::ResponseTooLarge, message)
        .suggest("Ask for less at once. Only the operator can raise limits.response_bytes.")
        .by(NAME, format!("limits.response_bytes = {limit}"))
}

/// The outcome with a refusal as its result. A call that failed keeps its own failure.
fn too_large(outcome: Outcome, size: usize, limit: usize, broken: &str) -> Outcome {
    let failure = refusal(size, limit, broken).with_executed(outcome.executed());
    let result = super::error_results::rendered(&failure);
    let mut refused = match outcome.failure() {
        Some(_) => outcome,
        None => Outcome::failed(failure),
    };
    refused.set_result(result);
    refused
}
