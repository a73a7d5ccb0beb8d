//! The batch tools: several calls in one. Each goes through the whole chain, as if the client had sent it.

use std::time::Instant;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate::{Failure, Tier};

use crate::{
    call::{GovernedTools, ToolContext},
    tool::{Model, SharedModel, ShortModel, Tool},
};

/// The maximum size of a result, with its text and its structured content, in bytes.
const MAX_ANSWER_BYTES: usize = 1_000_000;
/// The content of a row that was left out.
const OMITTED_CONTENT: &str = "[... batch truncated nested content ...]";

const READONLY: &str = "call_readonly_tools_batch";
const MUTATING: &str = "call_mutating_tools_batch";
const DESTRUCTIVE: &str = "call_destructive_tools_batch";

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly(READONLY, "Call Readonly Tools Batch", readonly).about(
            "Use to look at several things in one call: readonly tools, in order.\n\
             Each row of the result is what the tool would have answered.",
        ),
        Tool::mutating(MUTATING, "Call Mutating Tools Batch", mutating)
            .about(
                "Use for several steps in order, of readonly and mutating tools. Those that wait cannot be part of it.",
            )
            .loses()
            .open_world(),
        Tool::destructive(DESTRUCTIVE, "Call Destructive Tools Batch", destructive)
            .about("Use only if a step destroys something; else a narrower batch. Guards hold for each step.")
            .open_world(),
    ]
}

/// Whether a batch continues after a call that fails.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnError {
    #[default]
    Stop,
    Continue,
}

#[derive(Deserialize, JsonSchema)]
struct CallBatch {
    /// In this order.
    #[schemars(length(min = 1, max = 1000))]
    operations: Vec<BatchedCall>,
    /// What to do after one that fails.
    #[serde(default)]
    on_error: OnError,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BatchedCall {
    tool: String,
    #[serde(default)]
    arguments: JsonObject,
}

#[derive(Serialize, JsonSchema)]
struct BatchResult {
    results: Vec<BatchRow>,
    succeeded: usize,
    failed: usize,
    stopped_at: Option<usize>,
    response_truncated: bool,
    response_truncated_bytes: usize,
}

#[derive(Default, Serialize, JsonSchema)]
struct BatchRow {
    index: usize,
    tool: String,
    success: bool,
    error: Option<String>,
    content: Vec<JsonObject>,
    structured_content: Option<JsonObject>,
    meta: Option<JsonObject>,
    elapsed_seconds: f64,
}

async fn readonly(cx: ToolContext, args: CallBatch) -> Result<Model<BatchResult>, Failure> {
    call_all(cx, args, Tier::Readonly).await.map(Model)
}

async fn mutating(cx: ToolContext, args: CallBatch) -> Result<ShortModel<BatchResult>, Failure> {
    call_all(cx, args, Tier::Mutating).await.map(ShortModel)
}

async fn destructive(cx: ToolContext, args: CallBatch) -> Result<ShortModel<BatchResult>, Failure> {
    call_all(cx, args, Tier::Destructive).await.map(ShortModel)
}

impl SharedModel for BatchResult {
    const FULL_SCHEMA_TOOL: &str = "call_readonly_tools_batch";
}

async fn call_all(cx: ToolContext, args: CallBatch, most: Tier) -> Result<BatchResult, Failure> {
    let chain =
        cx.governed().ok_or_else(|| Failure::internal("batches need the chain around them"))?;
    let (mut rows, mut stopped_at) = (BatchRows::default(), None);
    for (index, operation) in args.operations.into_iter().enumerate() {
        let started = Instant::now();
        let name = operation.tool.clone();
        let mut row = match allowed(&*chain, &name, most) {
            Ok(()) => call(&cx, &*chain, operation).await,
            Err(error) => BatchRow { error: Some(error), ..BatchRow::default() },
        };
        row.index = index;
        row.tool = name;
        row.success = row.error.is_none();
        row.elapsed_seconds = started.elapsed().as_secs_f64();
        let success = row.success;
        rows.push(row);
        if !success && args.on_error == OnError::Stop {
            stopped_at = Some(index);
            break;
        }
    }
    let BatchRows { all: rows, dropped, left_off, .. } = rows;
    let succeeded = rows.iter().filter(|row| row.success).count();
    Ok(BatchResult {
        succeeded,
        failed: rows.len() - succeeded,
        results: rows,
        stopped_at,
        response_truncated: left_off > 0,
        response_truncated_bytes: dropped,
    })
}

/// Whether a batch of this tier may contain a tool. The chain decides whether the tool may be called at all.
fn allowed(chain: &dyn GovernedTools, name: &str, most: Tier) -> Result<(), String> {
    // An operator may have renamed tools: the tool that the chain would call is checked.
    let Some(tool) = chain.find(name) else {
        return Err(format!("Unknown tool: '{name}'"));
    };
    if [READONLY, MUTATING, DESTRUCTIVE].contains(&tool.name) {
        return Err("Batch tools cannot call batch tools recursively.".to_owned());
    }
    if tool.is_self_bounded {
        return Err(format!(
            "Tool '{name}' enforces its own wait ceiling and cannot be batched; batching would multiply that \
             ceiling by the operation count. Call it directly."
        ));
    }
    let tier = tool.tier;
    if tier > most {
        let message = format!("Tool '{name}' has tier '{tier}', which exceeds batch tier {most}.");
        return Err(message);
    }
    Ok(())
}

/// Calls one tool through the chain. The request's extensions identify it as a nested call.
async fn call(cx: &ToolContext, chain: &dyn GovernedTools, operation: BatchedCall) -> BatchRow {
    let params = CallToolRequestParams::new(operation.tool).with_arguments(operation.arguments);
    let mut request = cx.request.clone();
    // The progress token belongs to the batch.
    request.meta.remove("progressToken");
    match chain.call(params, request).await {
        Ok(CallToolResponse::Complete(result)) => answered(&result),
        Ok(_) => {
            let error = "The tool asks for input before it runs, which a batch cannot give. Call it directly.";
            BatchRow { error: Some(error.to_owned()), ..BatchRow::default() }
        }
        Err(error) => BatchRow { error: Some(error.message.into_owned()), ..BatchRow::default() },
    }
}

fn answered(result: &CallToolResult) -> BatchRow {
    let object = |value: Value| match value {
        Value::Object(object) => Some(object),
        _ => None,
    };
    let texts = || {
        let texts = result.content.iter().filter_map(|block| block.as_text());
        texts.map(|text| text.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    let error = (result.is_error == Some(true)).then(|| match texts() {
        none if none.is_empty() => "Tool call returned an error result.".to_owned(),
        texts => texts,
    });
    BatchRow {
        error,
        content: result.content.iter().filter_map(|block| object(json!(block))).collect(),
        structured_content: result.structured_content.clone().and_then(object),
        meta: result.meta.as_ref().and_then(|meta| object(json!(meta))),
        ..BatchRow::default()
    }
}

/// The rows of a result, within the size limit. The content of the oldest rows is removed while the batch runs, so that
/// a thousand large results are never in memory at once.
#[derive(Default)]
struct BatchRows {
    all: Vec<BatchRow>,
    bytes: usize,
    left_off: usize,
    dropped: usize,
}

impl BatchRows {
    fn push(&mut self, row: BatchRow) {
        self.bytes += size(&row);
        self.all.push(row);
        while self.bytes > MAX_ANSWER_BYTES {
            let Some(oldest) = self.all.get_mut(self.left_off) else {
                break;
            };
            let before = size(oldest);
            let mark = json!({ "type": "text", "text": OMITTED_CONTENT });
            oldest.content = mark.as_object().cloned().into_iter().collect();
            oldest.structured_content = None;
            let saved = before.saturating_sub(size(oldest));
            self.bytes = self.bytes.saturating_sub(saved);
            self.dropped += saved;
            self.left_off += 1;
        }
    }
}

/// The bytes of a row in the result: as structured content, and as JSON inside a string.
fn size(row: &BatchRow) -> usize {
    let once = serde_json::to_string(row).unwrap_or_default();
    once.len() + serde_json::to_string(&once).unwrap_or_default().len()
}
