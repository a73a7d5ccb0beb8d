//! Starts recordings of the panes that a call is about to write into.

use rmcp::model::JsonObject;
use serde_json::Value;
use toolgate::{CallId, Failure};

use crate::{
    call::ToolContext,
    record::{self, Recorder},
    target::{self, PaneTarget},
};

impl ToolContext {
    /// Starts a recording of each pane that the call will write into, if recordings are set up.
    pub(crate) async fn record(&self, tool: &str, arguments: &JsonObject) -> Result<(), Failure> {
        let Some(recorder) = self.shared.recorder.as_ref().filter(|_| Recorder::covers(tool))
        else {
            return Ok(());
        };
        let id = self.request.extensions.get::<CallId>().map(|id| format!(" {id}"));
        for target in record::targets(tool, arguments) {
            let text = |name: &str| target.get(name).and_then(Value::as_str);
            let server = self.server(text("socket_name"))?;
            let named = PaneTarget {
                pane_id: text("pane_id"),
                window_id: text("window_id"),
                session_id: text("session_id"),
                session_name: text("session_name"),
            };
            // If the pane does not exist, the tool itself refuses the call.
            if let Ok(pane) = target::pane(&server, named).await {
                let call = format!("{tool}{}", id.as_deref().unwrap_or_default());
                recorder.called(&server, &pane, call).await?;
            }
        }
        Ok(())
    }
}
