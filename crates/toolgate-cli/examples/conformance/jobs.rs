//! Tools that go on as tasks, for clients that declare the extension; the others wait for them.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{CallToolResponse, CallToolResult, CreateTaskResult, JsonObject},
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::Value;

use crate::{
    catalog,
    questions::{self, Answers, Script},
};

/// What a task does.
pub(crate) enum Job {
    /// Takes this long.
    Compute(Duration, String),
    /// Ends with a failure of the tool.
    Fail,
    /// Ends with an error of the server.
    Break,
    /// Asks, through the task.
    Ask(Script),
    /// Says what it was given.
    Say(String),
}

/// What the tool of this name does as a task.
pub(crate) fn job(tool: &str, arguments: &JsonObject) -> Option<Job> {
    Some(match tool {
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_u64).unwrap_or_default();
            let label = arguments.get("label").and_then(Value::as_str).unwrap_or("nothing");
            Job::Compute(Duration::from_secs(seconds), format!("Computed {label}"))
        }
        "failing_job" => Job::Fail,
        "protocol_error_job" => Job::Break,
        "confirm_delete" | "multi_input" => Job::Ask(questions::script(tool, arguments)?),
        _ => return None,
    })
}

impl Job {
    /// Starts it as a task.
    pub(crate) fn spawn(self, tasks: &TaskManager) -> CallToolResponse {
        let options = TaskOptions::new().with_poll_interval_ms(200);
        let task = tasks.spawn(options, |context| Box::pin(self.run(context)));
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    /// Does it while the client waits.
    pub(crate) async fn wait(self) -> Result<CallToolResult, ErrorData> {
        match self {
            Self::Compute(time, text) => {
                tokio::time::sleep(time).await;
                Ok(catalog::text(text))
            }
            Self::Fail => Ok(catalog::failure("This job always fails")),
            Self::Break => Err(ErrorData::internal_error("the job broke", None)),
            Self::Say(text) => Ok(catalog::text(text)),
            Self::Ask(_) => Err(ErrorData::internal_error("only a task can ask like this", None)),
        }
    }

    async fn run(self, context: TaskContext) -> Result<CallToolResult, TaskExit> {
        let Self::Ask(script) = self else {
            // A cancelled task ends as cancelled, whatever it was about to say.
            return tokio::select! {
                result = self.wait() => result.map_err(TaskExit::Error),
                () = context.cancelled() => Err(TaskExit::Cancelled),
            };
        };
        let questions: Vec<_> = script.rounds.iter().flatten().collect();
        let ask = questions.into_iter().map(|(key, question)| {
            let context = context.clone();
            async move {
                let answer = context.request_input(*key, questions::request(question)?).await?;
                Ok::<_, TaskExit>(((*key).to_owned(), answer))
            }
        });
        let answers: Answers = futures_util::future::try_join_all(ask).await?.into_iter().collect();
        Ok(catalog::text((script.text)(&answers)))
    }
}
