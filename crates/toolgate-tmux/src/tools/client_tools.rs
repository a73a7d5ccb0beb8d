//! Tools for attached clients and key bindings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, Row, TmuxError},
    tool::Tool,
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("list_clients", "List tmux Clients", list_clients)
            .about("Use to see who is attached to which session, and how large their terminals are. Clients of this server are left out."),
        Tool::readonly("list_keys", "List tmux Keys", list_keys)
            .about("Use to see which key does what in tmux, of all key tables or of one, as prefix or root."),
    ]
}

/// An attached client.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ClientInfo {
    client_name: String,
    client_tty: Option<String>,
    client_pid: Option<String>,
    client_session: Option<String>,
    session_id: Option<String>,
    client_width: Option<String>,
    client_height: Option<String>,
    client_termname: Option<String>,
    client_readonly: bool,
    client_control_mode: bool,
    client_created: Option<String>,
    client_activity: Option<String>,
}

impl ClientInfo {
    const FIELDS: &[&str] = &[
        "client_name",
        "client_tty",
        "client_pid",
        "client_session",
        "session_id",
        "client_width",
        "client_height",
        "client_termname",
        "client_readonly",
        "client_control_mode",
        "client_created",
        "client_activity",
    ];
}

impl From<&Row> for ClientInfo {
    fn from(row: &Row) -> Self {
        Self {
            client_name: row.text("client_name"),
            client_tty: row.maybe("client_tty"),
            client_pid: row.maybe("client_pid"),
            client_session: row.maybe("client_session"),
            session_id: row.maybe("session_id"),
            client_width: row.maybe("client_width"),
            client_height: row.maybe("client_height"),
            client_termname: row.maybe("client_termname"),
            client_readonly: row.is_set("client_readonly"),
            client_control_mode: row.is_set("client_control_mode"),
            client_created: row.maybe("client_created"),
            client_activity: row.maybe("client_activity"),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct ListClients {
    socket_name: Option<String>,
}

async fn list_clients(cx: ToolContext, args: ListClients) -> Result<Vec<ClientInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let rows = match server.list(ListTarget::Clients, ClientInfo::FIELDS).await {
        Err(TmuxError::NoServer) => return Ok(Vec::new()),
        rows => rows?,
    };
    let ours = server.own_clients().await;
    let is_ours = |row: &&Row| {
        let pid = row.get("client_pid").and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid: u32| ours.contains(&pid))
    };
    Ok(rows.iter().filter(|row| !is_ours(row)).map(ClientInfo::from).collect())
}

/// A key binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct KeyInfo {
    table: String,
    key: String,
    command: String,
    repeat: bool,
}

#[derive(Deserialize, JsonSchema)]
struct ListKeys {
    /// Only of this key table.
    #[schemars(regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
    table: Option<String>,
    socket_name: Option<String>,
}

async fn list_keys(cx: ToolContext, args: ListKeys) -> Result<Vec<KeyInfo>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    // Without this check, tmux would start a server only to list its keys.
    if !server.is_listening().await {
        return Err(TmuxError::NoServer.into());
    }
    let list = Command::new("list-keys");
    let list = args.table.into_iter().fold(list, |command, table| command.option("-T", table));
    let all = "Call list_keys without table for all of them.";
    let printed = server.ask(Batch::read([list])).await;
    let printed = printed.map_err(|error| error.hinted(&["doesn't exist"], all))?;
    Ok(cx.shown(&printed).lines().filter_map(key).collect())
}

/// Reads `bind-key [-r] -T TABLE KEY COMMAND…`, in columns.
fn key(line: &str) -> Option<KeyInfo> {
    let rest = line.strip_prefix("bind-key")?.trim_start();
    let (repeat, rest) = match rest.strip_prefix("-r") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, rest),
    };
    let (table, rest) = rest.strip_prefix("-T")?.trim_start().split_once(' ')?;
    let (key, command) = rest.trim_start().split_once(' ')?;
    let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    // tmux writes a backslash before characters that its parser would interpret.
    let bare = if bare.len() > 1 { bare.strip_prefix('\\').unwrap_or(bare) } else { bare };
    Some(KeyInfo {
        table: table.to_owned(),
        key: bare.to_owned(),
        command: command.trim_start().to_owned(),
        repeat,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key() {
        let key_of =
            |line: &str| key(line).map(|key| (key.table, key.key, key.command, key.repeat));
        let told = |table: &str, key: &str, command: &str, repeat| {
            Some((table.to_owned(), key.to_owned(), command.to_owned(), repeat))
        };
        let line = r#"bind-key    -T prefix \"      split-window"#;
        assert_eq!(key_of(line), told("prefix", "\"", "split-window", false));
        let line = "bind-key -r -T prefix Up    select-pane  -U";
        assert_eq!(key_of(line), told("prefix", "Up", "select-pane  -U", true));
        let line = r"bind-key -T root \\ display-message \\";
        assert_eq!(key_of(line), told("root", "\\", r"display-message \\", false));
        assert_eq!(key_of("nothing"), None);
    }
}
