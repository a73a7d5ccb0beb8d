//! Asking a server for everything that it lists, all pages of it.

use std::collections::HashSet;

use toolgate::{Code, Failure};
use toolgate_wire::{Json, Object, Shape};

use super::{
    connection::{Connection, Era, rpc_error},
    events::Kind,
    flight::{NotStarted, unavailable},
};
use crate::catalog::manifest::{Listed, Manifest};

/// A server that lists more pages than this goes round in circles.
const MOST_PAGES: usize = 1000;
/// A server that lists more than this is not believed.
const MOST_ENTRIES: usize = 100_000;

/// Everything that the server lists.
pub(crate) async fn everything(connection: &Connection, server: &str) -> Result<Manifest, Failure> {
    let offer = connection.offer.clone();
    let (has_prompts, has_resources) = (offer.has("prompts"), offer.has("resources"));
    let (tools, prompts, (resources, templates)) = tokio::join!(
        list_if(offer.has("tools"), connection, server, "tools/list", "tools"),
        list_if(has_prompts, connection, server, "prompts/list", "prompts"),
        async {
            tokio::join!(
                list_if(has_resources, connection, server, "resources/list", "resources"),
                list_if(
                    has_resources,
                    connection,
                    server,
                    "resources/templates/list",
                    "resourceTemplates"
                ),
            )
        },
    );
    Ok(Manifest {
        offer,
        tools: tools?,
        prompts: optional(prompts, server, "prompts"),
        resources: optional(resources, server, "resources"),
        templates: optional(templates, server, "resource templates"),
    })
}

/// The manifest with some of its lists asked for again.
pub(crate) async fn again(
    connection: &Connection,
    server: &str,
    old: &Manifest,
    kind: Kind,
) -> Result<Manifest, Failure> {
    let mut new = old.clone();
    match kind {
        Kind::Tools => new.tools = list(connection, server, "tools/list", "tools").await?,
        Kind::Prompts => {
            new.prompts = list(connection, server, "prompts/list", "prompts").await?;
        }
        Kind::Resources => {
            new.resources = list(connection, server, "resources/list", "resources").await?;
            let templates =
                list(connection, server, "resources/templates/list", "resourceTemplates").await;
            new.templates = optional(templates, server, "resource templates");
        }
    }
    Ok(new)
}

/// What a server fails to list beside its tools is not there.
fn optional(listed: Result<Listed, Failure>, server: &str, what: &str) -> Listed {
    listed.unwrap_or_else(|failure| {
        tracing::warn!("the {what} of `{server}` cannot be listed: {failure}");
        Listed::default()
    })
}

async fn list_if(
    has: bool,
    connection: &Connection,
    server: &str,
    method: &str,
    member: &str,
) -> Result<Listed, Failure> {
    if has { list(connection, server, method, member).await } else { Ok(Listed::default()) }
}

async fn list(
    connection: &Connection,
    server: &str,
    method: &str,
    member: &str,
) -> Result<Listed, Failure> {
    let protocol = |text: String| Failure::new(Code::ServerProtocol, text);
    let mut entries: Vec<Json> = Vec::new();
    let (mut ttl_ms, mut is_public) = (None::<u64>, true);
    let mut seen = HashSet::new();
    let mut cursor: Option<Json> = None;
    for _ in 0..MOST_PAGES {
        let mut params = Object::new();
        if let Some(cursor) = &cursor {
            params.set("cursor", cursor.clone());
        }
        let page = connection.ask(method, params).await.map_err(|not| match not {
            NotStarted::Failed(failure) => failure,
            NotStarted::Closed(why) => unavailable(server, &why),
            NotStarted::SessionLost => unavailable(server, "it has forgotten the session"),
        })?;
        if page.shape() == Shape::Error {
            let error = rpc_error(&page);
            // It says that it has such a list, and has not: there is nothing in it.
            if error.code == -32601 && entries.is_empty() {
                return Ok(Listed::default());
            }
            return Err(Failure::rejected(error));
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
            return Ok(Listed {
                entries: entries.into(),
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
