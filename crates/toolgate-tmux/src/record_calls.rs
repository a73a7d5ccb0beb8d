//! Which panes a call is recorded in: those that it is about to write into.

use rmcp::model::JsonObject;
use serde_json::Value;
use toolgate::{CallId, Failure};

use crate::{
    call::ToolContext,
    record::{self, Recorder},
    target::{self, PaneTarget},
};

impl ToolContext {
    /// Begins to record the panes that a call is about to write into, if they are to be.
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
            // One that is not there the tool refuses in its own words.
            if let Ok(pane) = target::pane(&server, named).await {
                let call = format!("{tool}{}", id.as_deref().unwrap_or_default());
                recorder.called(&server, &pane, call).await?;
            }
        }
        Ok(())
    }
}
