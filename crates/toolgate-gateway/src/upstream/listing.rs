//! Requests the lists of a server, all pages of them.

use std::collections::HashSet;

use toolgate::{Code, Failure};
use toolgate_wire::{Json, Message, Object, Shape, mcp::Era};

use super::{
    connection::Connection, events::ListKind, failures::unavailable, request::StartFailure,
};
use crate::{
    rpc_error,
    upstream::manifest::{ListName, ServerList, ServerManifest, error_text},
};

/// The most pages of one list. A server that sends more is taken to repeat them without end.
const MAX_PAGES: usize = 1000;
/// The most entries of one list.
const MAX_ENTRIES: usize = 100_000;

/// Requests all lists. A list that the server fails to give keeps its previous entries, with the error.
///
/// Requests tools even if the server does not declare the capability: clients do so, too.
pub(crate) async fn list_all(
    connection: &Connection,
    server: &str,
    old: Option<&ServerManifest>,
) -> Result<ServerManifest, Failure> {
    let server_info = connection.server_info.clone();
    let old_list = |of| old.map(|old| old.list(of));
    let ask_for = async |of: ListName| {
        if of != ListName::Tools && !server_info.has(of.capability()) {
            return Ok(ServerList::default());
        }
        list(connection, server, of, old_list(of)).await
    };
    let (tools, prompts, (resources, templates)) =
        tokio::join!(ask_for(ListName::Tools), ask_for(ListName::Prompts), async {
            tokio::join!(ask_for(ListName::Resources), ask_for(ListName::Templates))
        },);
    let optional = |of, listed| optional(listed, old_list(of));
    Ok(ServerManifest {
        tools: if server_info.has("tools") { tools? } else { optional(ListName::Tools, tools) },
        prompts: optional(ListName::Prompts, prompts),
        resources: optional(ListName::Resources, resources),
        templates: optional(ListName::Templates, templates),
        server_info,
    })
}

/// Requests the lists of one kind again. Gives the manifest with them.
pub(crate) async fn list_again(
    connection: &Connection,
    server: &str,
    old: &ServerManifest,
    kind: ListKind,
) -> Result<ServerManifest, Failure> {
    let mut new = old.clone();
    match kind {
        ListKind::Tools => {
            new.tools = list(connection, server, ListName::Tools, Some(&old.tools)).await?;
        }
        ListKind::Prompts => {
            new.prompts = list(connection, server, ListName::Prompts, Some(&old.prompts)).await?;
        }
        ListKind::Resources => {
            new.resources =
                list(connection, server, ListName::Resources, Some(&old.resources)).await?;
            let templates =
                list(connection, server, ListName::Templates, Some(&old.templates)).await;
            new.templates = optional(templates, Some(&old.templates));
        }
    }
    Ok(new)
}

/// A list without which the server can still be called.
fn optional(listed: Result<ServerList, Failure>, old: Option<&ServerList>) -> ServerList {
    listed.unwrap_or_else(|failure| ServerList::failed(failure.to_rpc().to_json(), old))
}

/// Requests one page, and repeats the request once if its connection was lost: listing changes nothing.
async fn page(
    connection: &Connection,
    server: &str,
    method: &str,
    cursor: Option<&Json>,
) -> Result<Message, Failure> {
    let mut is_second = false;
    loop {
        let mut params = Object::new();
        if let Some(cursor) = cursor {
            params.set("cursor", cursor.clone());
        }
        match connection.ask(method, params).await {
            Ok(page) => return Ok(page),
            Err(StartFailure::Failed(failure))
                if !is_second
                    && !connection.is_closed()
                    && failure.code() == Code::ServerCrashed =>
            {
                is_second = true;
            }
            Err(StartFailure::Failed(failure)) => return Err(failure),
            Err(StartFailure::Closed(why)) => return Err(unavailable(server, &why)),
            Err(StartFailure::SessionLost) => {
                return Err(unavailable(server, "it has forgotten the session"));
            }
        }
    }
}

/// Requests only the tools. An error response is a failure, unless the server does not know the method.
pub(crate) async fn tools(connection: &Connection, server: &str) -> Result<ServerList, Failure> {
    let listed = list(connection, server, ListName::Tools, None).await?;
    match listed.error.as_ref().filter(|_| !listed.is_unsupported()) {
        Some(error) => Err(Failure::new(Code::ServerRejected, error_text(error))),
        None => Ok(listed),
    }
}

/// Requests all pages of one list. An error response becomes part of the list.
async fn list(
    connection: &Connection,
    server: &str,
    of: ListName,
    old: Option<&ServerList>,
) -> Result<ServerList, Failure> {
    let (method, member) = of.method();
    let protocol = |text: String| Failure::new(Code::ServerProtocol, text);
    let mut entries: Vec<Json> = Vec::new();
    let (mut ttl_ms, mut is_public) = (None::<u64>, true);
    let mut seen = HashSet::new();
    let mut cursor: Option<Json> = None;
    for _ in 0..MAX_PAGES {
        let page = page(connection, server, method, cursor.as_ref()).await?;
        if page.shape() == Shape::Error {
            let error = page
                .error()
                .map_or_else(|| rpc_error::of_response(&page).to_json(), |json| json.owned());
            return Ok(ServerList::failed(error, old));
        }
        let more = page.member(member).and_then(|json| json.array());
        let more = more.ok_or_else(|| {
            protocol(format!("The server `{server}` answered {method} without `{member}`"))
        })?;
        // Copies: a slice would keep the whole page in memory.
        entries.extend(more.iter().map(Json::owned));
        if entries.len() > MAX_ENTRIES {
            let text = format!("The server `{server}` lists more than {MAX_ENTRIES} {member}");
            return Err(protocol(text));
        }
        let ttl = page.member("ttlMs").and_then(|json| json.u64()).unwrap_or_default();
        ttl_ms = Some(ttl_ms.map_or(ttl, |least| least.min(ttl)));
        is_public &= page.member("cacheScope").is_some_and(|json| json.as_str() == "\"public\"");
        // A missing cursor ends the list; an empty one does not.
        cursor = page.member("nextCursor").filter(|json| json.text().is_some());
        let Some(next) = &cursor else {
            return Ok(ServerList {
                entries: entries.into(),
                error: None,
                ttl_ms: ttl_ms.unwrap_or_default(),
                is_public: is_public && connection.era() == Era::Modern,
            });
        };
        if !seen.insert(next.as_bytes().to_vec()) {
            let text = format!("The server `{server}` lists {member} in a circle");
            return Err(protocol(text));
        }
    }
    Err(protocol(format!("The server `{server}` lists {member} on more than {MAX_PAGES} pages")))
}
