//! Asking the server for its tools on our own account, page by page.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use toolgate::{Code, Failure, Tool, ToolId};
use toolgate_wire::{Json, Message, Object, Shape, era, request};

use super::{governance::Governance, hub::Hub, tools::Tools, upstream::exchange};

/// A server that lists more pages than this goes round in circles.
const MOST_PAGES: usize = 1000;

/// How long one page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Learns all tools of the server, once for everybody who waits for it: to judge the tool of this name,
/// or a listing.
///
/// If that fails, what was known before stays; a tool that is not known then is denied, not allowed.
pub(crate) async fn learn_all(
    hub: &Hub,
    governance: &Governance,
    name: Option<&str>,
    cancel: &CancellationToken,
) {
    let tools = &governance.tools;
    let _asking = tools.asking.lock().await;
    if !tools.must_ask(name) {
        return;
    }
    let pages = tokio::select! {
        pages = all_pages(hub, tools) => pages,
        () = cancel.cancelled() => return,
    };
    match pages {
        Ok(pages) => {
            tools.replace(&pages);
            meet(hub, governance).await;
        }
        Err(failure) => {
            tools.asked_in_vain();
            tracing::warn!(server = %hub.server, "cannot list the server's tools: {failure}");
        }
    }
}

/// Learns all tools of the server, or says why not.
pub(crate) async fn all_tools(hub: &Hub, governance: &Governance) -> Result<(), Failure> {
    governance.tools.replace(&all_pages(hub, &governance.tools).await?);
    meet(hub, governance).await;
    Ok(())
}

/// Settles what depends on which tools there are: names on the wire, and which tools are new.
async fn meet(hub: &Hub, governance: &Governance) {
    governance.settle_names();
    if governance.quarantines()
        && let Some(acquaintances) = hub.acquaintances()
    {
        let listed: Vec<ToolId> =
            governance.tools.all().iter().map(|tool| tool.id().clone()).collect();
        let (namespace, known) = (&hub.session.namespace, &governance.stack.parts().known);
        let servers = std::slice::from_ref(&hub.server);
        if !acquaintances.meet(namespace, servers, &hub.server, &listed, known).await {
            // Until then all of them are kept away.
            governance.tools.outdated();
        }
    }
}

async fn all_pages(hub: &Hub, tools: &Tools) -> Result<Vec<Vec<Arc<Tool>>>, Failure> {
    let mut pages = Vec::new();
    let mut cursor: Option<Json> = None;
    for _ in 0..MOST_PAGES {
        let page = page(hub, cursor.as_ref()).await?;
        let Some(learnt) = tools.learn(&page) else {
            return Err(Failure::new(
                Code::ServerProtocol,
                "the answer to tools/list has no tools",
            ));
        };
        pages.push(learnt.tools);
        // Only a missing cursor is the end: an empty one is a cursor.
        cursor = page.member("nextCursor").filter(|json| json.text().is_some());
        if cursor.is_none() {
            return Ok(pages);
        }
    }
    Err(Failure::new(Code::ServerProtocol, format!("tools/list has more than {MOST_PAGES} pages")))
}

async fn page(hub: &Hub, cursor: Option<&Json>) -> Result<Message, Failure> {
    let mut params = Object::new();
    if let Some(cursor) = cursor {
        params.set("cursor", cursor.clone());
    }
    // From 2026-07-28 on each request says for itself who asks and how.
    if let Some(version) = hub.client_facts().modern.clone() {
        let ourselves =
            serde_json::json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")});
        let mut meta = Object::new();
        meta.set(era::META_PROTOCOL_VERSION, Json::string(&version));
        meta.set(era::META_CLIENT_INFO, Json::value(&ourselves));
        meta.set(era::META_CLIENT_CAPABILITIES, Json::empty_object());
        params.set("_meta", meta.finish());
    }
    let id = hub.own_id();
    let line = request(&id, "tools/list", Some(&params.finish()));
    let never = CancellationToken::new();
    let answer = tokio::time::timeout(PATIENCE, exchange(hub, &never, id, line, false)).await;
    let answer = answer.map_err(|_| Failure::new(Code::TimedOut, "tools/list took too long"))??;
    if answer.shape() == Shape::Error {
        return Err(Failure::new(Code::ServerRejected, "the server refused tools/list"));
    }
    Ok(answer)
}
