//! Tasks: the tool of each task, so that its settings apply to the task's result.
//!
//! The result of `tasks/result`, or one that `tasks/get` contains, is a tool result, so it passes the layers that
//! look at results. If the task's tool is unknown, the strictest settings apply.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use toolgate_wire::{
    Json,
    mcp::{member, method},
};

use crate::{context::Context, outcome::Outcome, tool::Tool};

/// Largest number of remembered tasks. Beyond it the oldest is forgotten, and its result gets the strictest settings.
const MAX_TASKS: usize = 10_000;
/// Largest length of a remembered task id, in bytes.
const MAX_ID: usize = 1024;

/// The tool of a task. The transport adds it to the extensions of a `tasks/…` request.
#[derive(Clone, Debug)]
pub struct TaskOf {
    pub(crate) server: Arc<str>,
    pub(crate) tool: Option<Arc<Tool>>,
}

/// The tools of tasks, by principal, server and the server's task id. Clones share the table.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Mutex<TaskTable>>);

#[derive(Default)]
struct TaskTable {
    /// `None` if two tools had a task with this id.
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
    /// Remembers the task that a call started, if it started one. `asked`: the client asked for a task.
    pub fn note(&self, cx: &Context, tool: &Arc<Tool>, asked: bool, outcome: &Outcome) {
        let Some(result) = outcome.result().filter(|result| asked || result.is_task()) else {
            return;
        };
        let of = |json: &Json| Some(json.get(member::TASK_ID)?.text()?.into_owned());
        let id = result.json().get("task").as_ref().and_then(of).or_else(|| of(result.json()));
        let Some(id) = id.filter(|id| id.len() <= MAX_ID) else { return };
        let key = key(cx, tool.id().server(), &id);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = known.tools.get_mut(&key) {
            if before.as_ref().is_some_and(|before| before.id() != tool.id()) {
                *before = None;
            }
            return;
        }
        if known.order.len() >= MAX_TASKS
            && let Some(oldest) = known.order.pop_front()
        {
            known.tools.remove(&oldest);
        }
        known.order.push_back(Arc::clone(&key));
        known.tools.insert(key, Some(Arc::clone(tool)));
    }

    /// The tool of a task, by the server's task id.
    #[must_use]
    pub fn of(&self, cx: &Context, server: &str, id: &str) -> TaskOf {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tool = known.tools.get(&key(cx, server, id)).cloned().flatten();
        TaskOf { server: server.into(), tool }
    }
}

/// Whether this is the result of a task with an unknown tool, to which the strictest settings apply.
pub(crate) fn is_unknown(cx: &Context) -> bool {
    cx.extensions().get::<TaskOf>().is_none_or(|task| task.tool.is_none())
}

/// Whether responses to this method contain results of tasks.
pub(crate) fn carries_results(method: &str) -> bool {
    matches!(method, method::TASKS_RESULT | method::TASKS_GET)
}
