//! Recordings: from its first input by a tool on, a pane is recorded as an asciicast file.
//!
//! A control client of its own receives the pane's output. A file begins with the current screen, and has a marker for
//! each call (tool name and call id, not the arguments).

mod cast;
mod config;
mod pane;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

pub use config::RecordConfig;
use pane::{RecordMessage, Recording};
use serde_json::Value;
use tokio::{
    sync::{
        Mutex,
        mpsc::{Sender, channel},
    },
    task::JoinHandle,
    time::timeout,
};
use toolgate::{Code, Executed, Failure};

use crate::engine::Server;

/// The tools that write into panes.
const WRITERS: [&str; 7] = [
    "clear_pane",
    "paste_buffer",
    "paste_text",
    "respawn_pane",
    "run_command",
    "send_keys",
    "send_keys_batch",
];

/// Records panes.
#[derive(Debug)]
pub struct Recorder {
    config: RecordConfig,
    mask: bool,
    panes: Mutex<HashMap<(PathBuf, String), RecordingSlot>>,
}

#[derive(Debug)]
enum RecordingSlot {
    Running(RecordingTask),
    /// The recording failed, and a warning was logged.
    Failed,
}

#[derive(Debug)]
struct RecordingTask {
    notes: Sender<RecordMessage>,
    /// Returns whether the recording ended without an error.
    task: JoinHandle<bool>,
}

impl Recorder {
    /// A recorder; `None` if no folder is set.
    #[must_use]
    pub fn new(config: &RecordConfig, mask: bool) -> Option<Self> {
        config.folder.as_ref()?;
        Some(Self { config: config.clone(), mask, panes: Mutex::default() })
    }

    /// Whether calls of this tool write into panes.
    #[must_use]
    pub fn covers(tool: &str) -> bool {
        WRITERS.contains(&tool)
    }

    /// Starts to record a pane if needed, and adds a marker for a call.
    pub(crate) async fn called(
        &self,
        server: &Arc<Server>,
        pane: &str,
        call: String,
    ) -> Result<(), Failure> {
        let Some(notes) = self.notes(server, pane).await else { return self.unrecorded() };
        // If the recording writes slowly, the call waits here. A recording that has just ended is started again by the
        // next call.
        notes.send(RecordMessage::Call(call)).await.or_else(|_| self.unrecorded())
    }

    /// The channel to the recording of a pane, which is started if needed.
    async fn notes(&self, server: &Arc<Server>, pane: &str) -> Option<Sender<RecordMessage>> {
        let mut panes = self.panes.lock().await;
        let key = (server.socket().path(), pane.to_owned());
        let mut failed = false;
        match panes.remove(&key) {
            None => {}
            Some(RecordingSlot::Failed) => failed = true,
            Some(RecordingSlot::Running(running)) if !running.task.is_finished() => {
                let notes = running.notes.clone();
                panes.insert(key, RecordingSlot::Running(running));
                return Some(notes);
            }
            Some(RecordingSlot::Running(running)) => {
                failed = !running.task.await.unwrap_or(false);
            }
        }
        // A failed recording is only retried if calls depend on it.
        if !failed || self.config.required {
            match self.begin(server, pane).await {
                Ok(running) => {
                    let notes = running.notes.clone();
                    panes.insert(key, RecordingSlot::Running(running));
                    return Some(notes);
                }
                // The tool itself refuses the call.
                Err(pane::RecordError::Gone) => return None,
                Err(error) if !failed => tell(pane, &error),
                Err(_) => {}
            }
        }
        panes.insert(key, RecordingSlot::Failed);
        None
    }

    async fn begin(
        &self,
        server: &Arc<Server>,
        pane: &str,
    ) -> Result<RecordingTask, pane::RecordError> {
        let recording = Recording::begin(Arc::clone(server), pane, &self.config, self.mask).await?;
        let (notes, said) = channel(64);
        let pane = pane.to_owned();
        let task = tokio::spawn(async move {
            match recording.run(said).await {
                Ok(()) => true,
                Err(error) => {
                    tell(&pane, &error);
                    false
                }
            }
        });
        Ok(RecordingTask { notes, task })
    }

    fn unrecorded(&self) -> Result<(), Failure> {
        if !self.config.required {
            return Ok(());
        }
        let message = "The pane cannot be recorded, and recording is required: nothing was done";
        let failure = Failure::new(Code::Internal, message).with_executed(Executed::No);
        Err(failure.suggest("Ask the operator to look at `record.folder`."))
    }

    /// Ends all recordings after they have written what they received.
    pub async fn close(&self) {
        let panes = std::mem::take(&mut *self.panes.lock().await);
        let running = panes.into_values().filter_map(|slot| match slot {
            RecordingSlot::Running(running) => Some(running),
            RecordingSlot::Failed => None,
        });
        let running: Vec<RecordingTask> = running.collect();
        for RecordingTask { notes, .. } in &running {
            let _ = notes.try_send(RecordMessage::End);
        }
        for RecordingTask { task, .. } in running {
            let _ = timeout(Duration::from_secs(1), task).await;
        }
    }
}

/// Logs the error that ended a recording.
fn tell(pane: &str, error: &pane::RecordError) {
    tracing::warn!("pane {pane} is no longer recorded: {error}");
}

/// The targets in a call's arguments: one, or those of a batch.
pub(crate) fn targets(tool: &str, arguments: &serde_json::Map<String, Value>) -> Vec<Value> {
    if tool != "send_keys_batch" {
        return vec![Value::Object(arguments.clone())];
    }
    let operations = arguments.get("operations").and_then(Value::as_array);
    let operations = operations.into_iter().flatten().cloned();
    operations
        .map(|mut operation| {
            if let (Some(operation), Some(socket)) =
                (operation.as_object_mut(), arguments.get("socket_name"))
            {
                operation.insert("socket_name".to_owned(), socket.clone());
            }
            operation
        })
        .collect()
}
