//! Results that arrive apart from their call: which tool a task is of, and its result on the way to the client.
//!
//! A result of `tasks/result`, or one that `tasks/get` inlines, is a tool result. The layers that look at results
//! look at it too, with the settings of its tool. Where the tool is not known, the strictest settings hold.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use toolgate_wire::{Json, Kind};

use crate::{
    call::{Answer, Call},
    chain::Chain,
    context::Context,
    failure::{Failure, RpcError},
    identity::ToolId,
    outcome::{Outcome, Reply, ToolResult},
    tool::{TierRules, Tool},
};

/// So many tasks are remembered; then the oldest is forgotten, and its result gets the strictest settings.
const MOST: usize = 10_000;
/// Longer ids are not remembered.
const LONGEST_ID: usize = 1024;

/// Which tool a task is of. Put into the bag of a `tasks/…` request by the door.
#[derive(Clone, Debug)]
pub struct TaskOf {
    server: Arc<str>,
    tool: Option<Arc<Tool>>,
}

/// The tools of tasks, by principal, server and the server's own id of the task. Clones share it.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// `None`: two tools had a task of this id, so nobody can tell.
    tools: HashMap<Arc<str>, Option<Arc<Tool>>>,
    order: VecDeque<Arc<str>>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tasks")
    }
}

fn key(cx: &Context, server: &str, id: &str) -> Arc<str> {
    let principal = cx.principal().to_string();
    format!("{} {principal} {} {server} {id}", principal.len(), server.len()).into()
}

impl Tasks {
    /// Remembers the task that a call has begun, if it has begun one. `asked`: the call asked for a task.
    pub fn note(&self, cx: &Context, tool: &Arc<Tool>, asked: bool, outcome: &Outcome) {
        let Some(result) = outcome.result().filter(|result| asked || result.is_task()) else {
            return;
        };
        let of = |json: &Json| Some(json.get("taskId")?.text()?.into_owned());
        let id = result.json().get("task").as_ref().and_then(of).or_else(|| of(result.json()));
        let Some(id) = id.filter(|id| id.len() <= LONGEST_ID) else { return };
        let key = key(cx, tool.id().server(), &id);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = known.tools.get_mut(&key) {
            if before.as_ref().is_some_and(|before| before.id() != tool.id()) {
                *before = None;
            }
            return;
        }
        if known.order.len() >= MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.tools.remove(&oldest);
        }
        known.order.push_back(Arc::clone(&key));
        known.tools.insert(key, Some(Arc::clone(tool)));
    }

    /// The tool that a task is of, by the server's own id of the task.
    #[must_use]
    pub fn of(&self, cx: &Context, server: &str, id: &str) -> TaskOf {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = known.tools.get(&key(cx, server, id)).cloned().flatten();
        TaskOf { server: server.into(), tool }
    }
}

/// Whether the result at hand is that of a task whose tool is not known: the strictest settings hold.
pub(crate) fn is_unknown(cx: &Context) -> bool {
    cx.bag().get::<TaskOf>().is_none_or(|task| task.tool.is_none())
}

/// Whether answers to this method carry results of tasks.
pub(crate) fn carries_results(method: &str) -> bool {
    matches!(method, "tasks/result" | "tasks/get")
}

/// The answer to a request about a task, after the layers have looked at the result in it.
pub(crate) async fn finish(
    chain: &Chain,
    cx: &mut Context,
    (method, params): (&str, Option<Json>),
    mut answer: Answer,
) -> Answer {
    let task = cx.bag().get::<TaskOf>();
    let (server, tool) = task.map_or(("", None), |task| (&*task.server, task.tool.clone()));
    let tool = tool.unwrap_or_else(|| {
        Arc::new(Tool::unlisted(ToolId::new(server, "(task)"), &TierRules::default()))
    });
    // The record names the task.
    let call = Call::new(tool, params);
    if method == "tasks/result" {
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

/// The error of a task after the layers have seen it, if they changed it.
async fn error_of(chain: &Chain, cx: &mut Context, call: &Call, error: &Json) -> Option<Json> {
    let text = |json: Json| json.text().map(std::borrow::Cow::into_owned);
    let before = RpcError {
        code: error.get("code").and_then(|code| code.i64()).unwrap_or(-32603),
        message: error.get("message").and_then(text).unwrap_or_default(),
        data: error.get("data"),
    };
    let failure = Failure::rejected(before.clone());
    let outcome = chain.result(cx, call, Outcome::failed(failure)).await;
    let after = outcome.failure()?.to_rpc();
    let is_same = after.message == before.message && after.data == before.data;
    (!is_same).then(|| after.to_json())
}
