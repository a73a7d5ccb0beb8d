//! The content of resources.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate::{Executed, Failure};

use super::{
    tail::TailPositions,
    uri::{Resource, ResourceAddress},
};
use crate::{
    call::ToolContext,
    engine::{Command, ListTarget, Server, TmuxError},
    info::{PaneInfo, SessionInfo, WindowInfo},
    target::{self, WindowTarget, is_id},
};

/// The maximum size of a resource in bytes.
pub(super) const MAX_RESOURCE_BYTES: usize = 1_000_000;

#[derive(Serialize)]
struct SessionDetail {
    #[serde(flatten)]
    session: SessionInfo,
    windows: Vec<WindowInfo>,
}

#[derive(Serialize)]
struct WindowDetail {
    #[serde(flatten)]
    window: WindowInfo,
    panes: Vec<PaneInfo>,
}

/// Reads a resource. Reading new output moves the position in `tails`.
pub(super) async fn read(
    cx: &ToolContext,
    address: &ResourceAddress,
    tails: &TailPositions,
) -> Result<String, Failure> {
    let server = cx.server(address.socket_name.as_deref())?;
    match &address.resource {
        Resource::Sessions => {
            let rows = server.list(ListTarget::Sessions, SessionInfo::FIELDS).await;
            let rows = if rows == Err(TmuxError::NoServer) { Vec::new() } else { rows? };
            json(cx, &rows.iter().map(SessionInfo::from).collect::<Vec<_>>())
        }
        Resource::Session(name) => {
            let session = target::session(&server, None, Some(name), SessionInfo::FIELDS).await?;
            let windows = windows(&server, &session.text("session_id")).await?;
            json(cx, &SessionDetail { session: SessionInfo::from(&session), windows })
        }
        Resource::Windows(name) => {
            let session = target::session(&server, None, Some(name), target::SESSION).await?;
            json(cx, &windows(&server, &session.text("session_id")).await?)
        }
        Resource::Window(name, index) => {
            let wanted = WindowTarget {
                session_name: Some(name),
                window_index: Some(index),
                ..WindowTarget::default()
            };
            let window = target::window(&server, wanted, WindowInfo::FIELDS).await?;
            let id = window.text("window_id");
            let panes = PaneInfo::list(cx, &server, ListTarget::Panes(Some(&id))).await?;
            json(cx, &WindowDetail { window: WindowInfo::from(&window), panes })
        }
        Resource::Pane(id) => json(cx, &PaneInfo::of(cx, &server, checked(id)?).await?),
        Resource::Content(id) => {
            let capture = Command::new("capture-pane").flag("-p").target(checked(id)?);
            Ok(bounded(&cx.captured(&server, capture, false).await?))
        }
        Resource::Tail(id) => {
            Ok(bounded(&tails.read(&server, checked(id)?, cx.options().mask).await?))
        }
    }
}

async fn windows(server: &Server, session: &str) -> Result<Vec<WindowInfo>, Failure> {
    let rows = server.each(ListTarget::Windows(Some(session)), WindowInfo::FIELDS).await?;
    Ok(rows.iter().map(WindowInfo::from).collect())
}

/// Refuses text that is no pane id, since it becomes part of a tmux filter.
pub(super) fn checked(id: &str) -> Result<&str, Failure> {
    if is_id(id, '%') { Ok(id) } else { Err(crate::engine::not_found::pane(id)) }
}

fn json(cx: &ToolContext, what: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(what);
    let text = text.map_err(|_| Failure::internal("what tmux said has no JSON text"))?;
    if text.len() > MAX_RESOURCE_BYTES {
        let message = format!("the resource has more than {MAX_RESOURCE_BYTES} bytes");
        return Err(Failure::tool("ResourceTooLarge", message)
            .suggest("Read one session or one pane instead.")
            .with_executed(Executed::Yes));
    }
    Ok(cx.shown(&text).into_owned())
}

/// The end of a text, in whole lines if possible. A first line reports how much is missing.
fn bounded(text: &str) -> String {
    if text.len() <= MAX_RESOURCE_BYTES {
        return text.to_owned();
    }
    let mut start = text.len() - MAX_RESOURCE_BYTES;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let (dropped, kept) = text.split_at(start);
    let (rest, kept) = kept.split_once('\n').unwrap_or(("", kept));
    format!("[... truncated {} bytes ...]\n{kept}", dropped.len() + rest.len())
}

/// The tools that a resource stands for, with their arguments. Records name the first one.
pub(super) fn stands_for(address: &ResourceAddress) -> (&'static [&'static str], Value) {
    let (tools, mut arguments): (&'static [&'static str], Value) = match &address.resource {
        Resource::Sessions => (&["list_sessions"], json!({})),
        Resource::Session(name) => {
            (&["get_session_info", "list_windows"], json!({"session_name": name}))
        }
        Resource::Windows(name) => (&["list_windows"], json!({"session_name": name})),
        Resource::Window(name, index) => (
            &["get_window_info", "list_panes"],
            json!({"session_name": name, "window_index": index}),
        ),
        Resource::Pane(id) => (&["get_pane_info"], json!({"pane_id": id})),
        Resource::Content(id) => (&["capture_pane"], json!({"pane_id": id})),
        Resource::Tail(id) => (&["capture_since"], json!({"pane_id": id})),
    };
    if let (Some(name), Some(arguments)) = (&address.socket_name, arguments.as_object_mut()) {
        arguments.insert("socket_name".to_owned(), name.as_str().into());
    }
    (tools, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_in_whole_lines() {
        let long = format!("{}\n{}é\nlast", "a".repeat(MAX_RESOURCE_BYTES), "b".repeat(10));
        let short = bounded(&long);
        let (first, rest) = short.split_once('\n').unwrap();
        assert_eq!(rest, format!("{}é\nlast", "b".repeat(10)));
        assert_eq!(first, format!("[... truncated {MAX_RESOURCE_BYTES} bytes ...]"));
        assert!(bounded(&"é".repeat(MAX_RESOURCE_BYTES)).len() <= MAX_RESOURCE_BYTES + 50);
        assert_eq!(bounded("x"), "x");
    }
}
