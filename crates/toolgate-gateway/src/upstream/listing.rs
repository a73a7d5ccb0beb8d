//! Asking a server for everything that it lists, all pages of it.

use std::collections::HashSet;

use toolgate::{Code, Failure};
use toolgate_wire::{Json, Message, Object, Shape, mcp::Era};

use super::{
    connection::Connection,
    events::ListKind,
    in_flight::{StartFailure, unavailable},
};
use crate::{
    rpc_error,
    upstream::manifest::{ListName, ServerList, ServerManifest, error_text},
};

/// A server that lists more pages than this goes round in circles.
const MOST_PAGES: usize = 1000;
/// A server that lists more than this is not believed.
const MOST_ENTRIES: usize = 100_000;

/// Everything that the server lists. A list that it fails to give is marked so, and has what was in it before.
///
/// Tools are asked for also where they are not announced: clients ask, too.
pub(crate) async fn everything(
    connection: &Connection,
    server: &str,
    old: Option<&ServerManifest>,
) -> Result<ServerManifest, Failure> {
    let offer = connection.offer.clone();
    let old_list = |of| old.map(|old| old.list(of));
    let ask_for = async |of: ListName| {
        if of != ListName::Tools && !offer.has(of.capability()) {
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
        tools: if offer.has("tools") { tools? } else { optional(ListName::Tools, tools) },
        prompts: optional(ListName::Prompts, prompts),
        resources: optional(ListName::Resources, resources),
        templates: optional(ListName::Templates, templates),
        offer,
    })
}

/// The manifest with some of its lists asked for again.
pub(crate) async fn again(
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

/// A server can be called also where a list beside its tools cannot be had.
fn optional(listed: Result<ServerList, Failure>, old: Option<&ServerList>) -> ServerList {
    listed.unwrap_or_else(|failure| ServerList::failed(failure.to_rpc().to_json(), old))
}

/// One page. A request that got no answer is made once more: asking changes nothing.
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

/// The tools of a server that is asked for nothing else. An error is a failure, unless it has no such list.
pub(crate) async fn tools(connection: &Connection, server: &str) -> Result<ServerList, Failure> {
    let listed = list(connection, server, ListName::Tools, None).await?;
    match listed.error.as_ref().filter(|_| !listed.is_unsupported()) {
        Some(error) => Err(Failure::new(Code::ServerRejected, error_text(error))),
        None => Ok(listed),
    }
}

/// All pages of one list. An error of the server is part of what it returns.
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
    for _ in 0..MOST_PAGES {
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
        // Copies of their own: a slice would keep the whole page in memory.
        entries.extend(more.iter().map(Json::owned));
        if entries.len() > MOST_ENTRIES {
            let text = format!("The server `{server}` lists more than {MOST_ENTRIES} {member}");
            return Err(protocol(text));
        }
        let ttl = page.member("ttlMs").and_then(|json| json.u64()).unwrap_or_default();
        ttl_ms = Some(ttl_ms.map_or(ttl, |least| least.min(ttl)));
        is_public &= page.member("cacheScope").is_some_and(|json| json.as_str() == "\"public\"");
        // Only a missing cursor is the end: an empty one is a cursor.
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
    Err(protocol(format!("The server `{server}` lists {member} on more than {MOST_PAGES} pages")))
}
