//! Runs results of tasks through the layers that look at results.

use std::sync::Arc;

use toolgate_wire::{
    Json, Kind,
    mcp::{code, method},
};

use super::Chain;
use crate::{
    call::{Answer, Call},
    context::Context,
    failure::{Failure, RpcError},
    identity::ToolId,
    outcome::{Outcome, Reply, ToolResult},
    task::TaskOf,
    tool::{TierRules, Tool},
};

/// The response to a request about a task, after the layers have changed the result in it.
pub(super) async fn finish(
    chain: &Chain,
    cx: &mut Context,
    (method, params): (&str, Option<Json>),
    mut answer: Answer,
) -> Answer {
    let task = cx.extensions().get::<TaskOf>();
    let (server, tool) = task.map_or(("", None), |task| (&*task.server, task.tool.clone()));
    let tool = tool.unwrap_or_else(|| {
        Arc::new(Tool::unlisted(ToolId::new(server, "(task)"), &TierRules::default()))
    });
    // The record names the task.
    let call = Call::new(tool, params);
    if method == method::TASKS_RESULT {
        let whole = match (&answer.body, answer.origin.clone()) {
            (Ok(result), Some(line)) => answered(result).with_origin(line),
            (Ok(result), None) => answered(result),
            (Err(error), _) => {
                if let Some(error) = error_of(chain, cx, &call, error).await {
                    answer.set_error(error);
                }
                return answer;
            }
        };
        match chain.result(cx, &call, whole).await.into_reply() {
            Reply::Verbatim(_) | Reply::Nothing => {}
            Reply::Result(json) => answer.set_result(json),
            Reply::Error(rpc) => answer.set_error(rpc.to_json()),
        }
        return answer;
    }
    let Ok(body) = &answer.body else { return answer };
    let mut members = match body.object() {
        Some(members) if members.contains("result") || members.contains("error") => members,
        _ => return answer,
    };
    let mut is_changed = false;
    if let Some(result) = members.get("result") {
        match chain.result(cx, &call, answered(&result)).await.into_reply() {
            Reply::Result(json) if json == result => {}
            Reply::Result(json) => {
                members.set("result", json);
                is_changed = true;
            }
            Reply::Error(rpc) => {
                members.remove("result");
                members.set("status", Json::string("failed"));
                members.set("error", rpc.to_json());
                is_changed = true;
            }
            Reply::Verbatim(_) | Reply::Nothing => {}
        }
    } else if let Some(error) = members.get("error")
        && let Some(error) = error_of(chain, cx, &call, &error).await
    {
        members.set("error", error);
        is_changed = true;
    }
    if is_changed {
        answer.set_result(members.finish());
    }
    answer
}

fn answered(result: &Json) -> Outcome {
    if result.kind() == Kind::Object {
        return Outcome::answered(ToolResult::new(result.clone()));
    }
    let text = "The result of the task is no object";
    Outcome::failed(Failure::new(crate::registry::Code::ServerProtocol, text))
}

/// The error of a task, if the layers changed it.
async fn error_of(chain: &Chain, cx: &mut Context, call: &Call, error: &Json) -> Option<Json> {
    let text = |json: Json| json.text().map(std::borrow::Cow::into_owned);
    let before = RpcError {
        code: error.get("code").and_then(|code| code.i64()).unwrap_or(code::INTERNAL_ERROR),
        message: error.get("message").and_then(text).unwrap_or_default(),
        data: error.get("data"),
    };
    let failure = Failure::rejected(before.clone());
    let outcome = chain.result(cx, call, Outcome::failed(failure)).await;
    let after = outcome.failure()?.to_rpc();
    let is_same = after.message == before.message && after.data == before.data;
    (!is_same).then(|| after.to_json())
}
