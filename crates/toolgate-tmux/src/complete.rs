//! Completion of names and ids from the sessions, windows and panes that exist.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};
use serde_json::json;
use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{ListTarget, TmuxError},
    governed_resources::GovernedResources,
    target,
};

/// The values that begin with what was typed so far. Empty if the caller may not call the tool that lists them.
pub(crate) async fn complete(
    cx: &ToolContext,
    governed: &GovernedResources,
    params: CompleteRequestParams,
) -> Result<CompleteResult, Failure> {
    let typed = params.argument.value.as_str();
    let mut values = match values(cx, governed, &params).await {
        Err(failure) if crate::resources::is_missing(&failure) => Vec::new(),
        values => values?,
    };
    values.retain(|value| value.starts_with(typed));
    let total = u32::try_from(values.len()).ok();
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    let info = CompletionInfo::with_pagination(values, total, has_more);
    Ok(CompleteResult::new(info.map_err(Failure::internal)?))
}

async fn values(
    cx: &ToolContext,
    governed: &GovernedResources,
    params: &CompleteRequestParams,
) -> Result<Vec<String>, Failure> {
    let given = |name: &str| params.context.as_ref().and_then(|context| context.get_argument(name));
    let given = |name: &str| given(name).map(String::as_str).filter(|text| !text.is_empty());
    // The argument is the name of a new session, which the user chooses.
    let makes_session =
        matches!(&params.r#ref, Reference::Prompt(prompt) if prompt.name == "build_dev_workspace");
    let (tool, field) = match params.argument.name.as_str() {
        "session_name" if !makes_session => ("list_sessions", "session_name"),
        "pane_id" => ("list_panes", "pane_id"),
        "window_index" => ("list_windows", "window_index"),
        "window_id" => ("list_windows", "window_id"),
        _ => return Ok(Vec::new()),
    };
    if !governed.allows(tool, &json!({})) {
        return Ok(Vec::new());
    }
    let server = cx.server(given("socket_name"))?;
    let session = match given("session_name").filter(|_| field != "session_name") {
        Some(name) => {
            let session = target::session(&server, None, Some(name), target::SESSION).await?;
            Some(session.text("session_id"))
        }
        None => None,
    };
    let (kind, fields): (_, &'static [&'static str]) = match field {
        "session_name" => (ListTarget::Sessions, target::SESSION),
        "pane_id" => (ListTarget::Panes(session.as_deref()), &["pane_id"]),
        _ => (ListTarget::Windows(session.as_deref()), &["window_id", "window_index"]),
    };
    let rows = match server.list(kind, fields).await {
        Err(TmuxError::NoServer) => Vec::new(),
        rows => rows?,
    };
    let mut values: Vec<String> = rows.iter().map(|row| row.text(field)).collect();
    // Ids and indexes are sorted by number: %2 before %10.
    values.sort_by_key(|value| {
        let digits = value.trim_start_matches(['%', '@']);
        (digits.parse::<u64>().unwrap_or(u64::MAX), value.clone())
    });
    values.dedup();
    Ok(values)
}
