//! What resources say.

use serde::Serialize;
use serde_json::{Value, json};
use toolgate::{Executed, Failure};

use super::{
    tail::Tails,
    uri::{Address, What},
};
use crate::{
    call::Cx,
    engine::{Command, Kind, Server, TmuxError},
    info::{PaneInfo, SessionInfo, WindowInfo},
    target::{self, WindowTarget, is_id},
};

/// The most bytes of one resource.
pub(super) const LARGEST: usize = 1_000_000;

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

/// Reads a resource. What is new in a pane is new once, for whoever has `tails`.
pub(super) async fn read(cx: &Cx, address: &Address, tails: &Tails) -> Result<String, Failure> {
    let server = cx.server(address.socket_name.as_deref())?;
    match &address.what {
        What::Sessions => {
            let rows = server.list(Kind::Sessions, SessionInfo::FIELDS).await;
            let rows = if rows == Err(TmuxError::NoServer) { Vec::new() } else { rows? };
            json(cx, &rows.iter().map(SessionInfo::from).collect::<Vec<_>>())
        }
        What::Session(name) => {
            let session = target::session(&server, None, Some(name), SessionInfo::FIELDS).await?;
            let windows = windows(&server, &session.text("session_id")).await?;
            json(cx, &SessionDetail { session: SessionInfo::from(&session), windows })
        }
        What::Windows(name) => {
            let session = target::session(&server, None, Some(name), target::SESSION).await?;
            json(cx, &windows(&server, &session.text("session_id")).await?)
        }
        What::Window(name, index) => {
            let wanted = WindowTarget {
                session_name: Some(name),
                window_index: Some(index),
                ..WindowTarget::default()
            };
            let window = target::window(&server, wanted, WindowInfo::FIELDS).await?;
            let id = window.text("window_id");
            let panes = PaneInfo::list(cx, &server, Kind::Panes(Some(&id))).await?;
            json(cx, &WindowDetail { window: WindowInfo::from(&window), panes })
        }
        What::Pane(id) => json(cx, &PaneInfo::of(cx, &server, checked(id)?).await?),
        What::Content(id) => {
            let capture = Command::new("capture-pane").flag("-p").target(checked(id)?);
            Ok(bounded(&cx.captured(&server, capture, false).await?))
        }
        What::Tail(id) => Ok(bounded(&tails.read(&server, checked(id)?, cx.options().mask).await?)),
    }
}

async fn windows(server: &Server, session: &str) -> Result<Vec<WindowInfo>, Failure> {
    let rows = server.each(Kind::Windows(Some(session)), WindowInfo::FIELDS).await?;
    Ok(rows.iter().map(WindowInfo::from).collect())
}

/// The id goes into a filter of tmux: it has to be one.
pub(super) fn checked(id: &str) -> Result<&str, Failure> {
    if is_id(id, '%') { Ok(id) } else { Err(crate::engine::not_found::pane(id)) }
}

fn json(cx: &Cx, what: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(what);
    let text = text.map_err(|_| Failure::internal("what tmux said has no JSON text"))?;
    if text.len() > LARGEST {
        let message = format!("the resource has more than {LARGEST} bytes");
        return Err(Failure::tool("ResourceTooLarge", message)
            .suggest("Read one session or one pane instead.")
            .with_executed(Executed::Yes));
    }
    Ok(cx.shown(&text).into_owned())
}

/// The end of a text, in whole lines where there are some, with a first line that tells what is missing.
fn bounded(text: &str) -> String {
    if text.len() <= LARGEST {
        return text.to_owned();
    }
    let mut start = text.len() - LARGEST;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let (dropped, kept) = text.split_at(start);
    let (rest, kept) = kept.split_once('\n').unwrap_or(("", kept));
    format!("[... truncated {} bytes ...]\n{kept}", dropped.len() + rest.len())
}

/// The tools that a resource stands for, the first of them in the records, and their arguments.
pub(super) fn stands_for(address: &Address) -> (&'static [&'static str], Value) {
    let (tools, mut arguments): (&'static [&'static str], Value) = match &address.what {
        What::Sessions => (&["list_sessions"], json!({})),
        What::Session(name) => {
            (&["get_session_info", "list_windows"], json!({"session_name": name}))
        }
        What::Windows(name) => (&["list_windows"], json!({"session_name": name})),
        What::Window(name, index) => (
            &["get_window_info", "list_panes"],
            json!({"session_name": name, "window_index": index}),
        ),
        What::Pane(id) => (&["get_pane_info"], json!({"pane_id": id})),
        What::Content(id) => (&["capture_pane"], json!({"pane_id": id})),
        What::Tail(id) => (&["capture_since"], json!({"pane_id": id})),
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
        let long = format!("{}\n{}é\nlast", "a".repeat(LARGEST), "b".repeat(10));
        let short = bounded(&long);
        let (first, rest) = short.split_once('\n').unwrap();
        assert_eq!(rest, format!("{}é\nlast", "b".repeat(10)));
        assert_eq!(first, format!("[... truncated {LARGEST} bytes ...]"));
        assert!(bounded(&"é".repeat(LARGEST)).len() <= LARGEST + 50);
        assert_eq!(bounded("x"), "x");
    }
}
