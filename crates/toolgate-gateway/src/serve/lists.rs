//! Lists: answered from what is known, page by page. No server is asked.

use std::sync::Arc;

use toolgate::{
    Answer, Boxed, Call, Context, Endpoint, Failure, Listing, Outcome, Request, ToolList,
};
use toolgate_wire::{Json, Object};

use super::{
    Gateway,
    call::{lift, read_error},
    dispatch::{Incoming, unknown},
    said::Said,
};
use crate::{
    catalog::{
        cursor::Kind as ListKind,
        lists::{Hints, definition_for},
        snapshot::Snapshot,
    },
    outbound::connection::Era,
};

/// Lists the tools that this client may see.
pub(super) async fn tools(gateway: &Gateway, incoming: &Incoming) -> Said {
    let namespace = &incoming.namespace;
    let charter = namespace.charter();
    let snapshot = namespace.settled().await;
    let cx = incoming.context(&charter);
    let (mut cx, _) = lift(namespace, &snapshot, cx, &incoming.message);
    let era = incoming.caller.era();
    let end = Catalog { snapshot: &snapshot, era };
    let listed = charter.stack.chain.list(&mut cx, Listing::default(), &end).await;
    let list = match listed {
        Ok(list) => list,
        Err(failure) => return Said::failed(Some(incoming.id()), &failure),
    };
    let is_narrowed = cx.control().narrows();
    let is_whole = list.tools().len() <= namespace.style.page_size;
    if is_whole
        && !is_narrowed
        && list.origin().is_some()
        && incoming.message.member("cursor").is_none()
    {
        return Said::result(incoming.id(), snapshot.finished(era).0.clone());
    }
    let definitions = list.tools().iter().filter_map(|tool| tool.definition());
    let definitions: Vec<Json> = definitions.map(|tool| definition_for(tool, era)).collect();
    page(gateway, incoming, &snapshot, ListKind::Tools, ("tools", is_narrowed), &definitions)
}

/// Lists prompts, resources or templates.
pub(super) async fn others(gateway: &Gateway, incoming: &Incoming) -> Said {
    let snapshot = incoming.namespace.settled().await;
    let lists = &snapshot.lists;
    let (kind, member, entries, capability) = match incoming.message.method() {
        "prompts/list" => (ListKind::Prompts, "prompts", &lists.prompts, "prompts"),
        "resources/list" => (ListKind::Resources, "resources", &lists.resources, "resources"),
        _ => (ListKind::Templates, "resourceTemplates", &lists.templates, "resources"),
    };
    if snapshot.servers_with(capability).next().is_none() {
        return unknown(incoming);
    }
    page(gateway, incoming, &snapshot, kind, (member, false), entries)
}

fn page(
    gateway: &Gateway,
    incoming: &Incoming,
    snapshot: &Snapshot,
    kind: ListKind,
    (member, is_narrowed): (&str, bool),
    entries: &[Json],
) -> Said {
    let size = incoming.namespace.style.page_size;
    // The same page of another namespace is the page of another list.
    let principal = format!("{}\0{}", incoming.namespace.name, incoming.caller.session.principal);
    let generation = snapshot.generation;
    let offset = match incoming.message.member("cursor") {
        None => 0,
        Some(cursor) => {
            let text = cursor.text().unwrap_or_default();
            match gateway.cursors.open(&text, kind, generation, &principal) {
                Ok(offset) => offset as usize,
                Err(error) => return Said::refused(Some(incoming.id()), -32602, error.to_string()),
            }
        }
    };
    let end = offset.saturating_add(size).min(entries.len());
    let list = Json::list(entries.get(offset..end).unwrap_or_default());
    let next = (end < entries.len()).then(|| {
        let offset = u32::try_from(end).unwrap_or(u32::MAX);
        gateway.cursors.seal(kind, generation, offset, &principal)
    });
    let era = incoming.caller.era();
    // What a request narrowed for itself is for nobody else.
    let hints = snapshot.lists.hints;
    let hints = Hints { is_public: hints.is_public && !is_narrowed, ..hints };
    let page = hints.page(member, list, era, next.as_deref());
    Said::result(incoming.id(), page.0)
}

/// The end of the chain for a listing: what is known.
struct Catalog<'a> {
    snapshot: &'a Arc<Snapshot>,
    era: Era,
}

impl Endpoint for Catalog<'_> {
    fn call<'b>(&'b self, _: &'b mut Context, _: Call) -> Boxed<'b, Outcome> {
        let failure = Failure::internal("a listing is no call");
        Box::pin(std::future::ready(Outcome::failed(failure)))
    }

    fn list<'b>(&'b self, _: &'b mut Context, _: Listing) -> Boxed<'b, Result<ToolList, Failure>> {
        // The finished page stands for the list as long as no layer changes it.
        let origin = self.snapshot.finished(self.era).0.clone().into_bytes();
        let list = ToolList::from_wire(self.snapshot.tools.clone(), Object::new(), Some(origin));
        Box::pin(std::future::ready(Ok(list)))
    }

    fn request<'b>(&'b self, _: &'b mut Context, _: Request) -> Boxed<'b, Answer> {
        let body = Err(Failure::internal("a listing is no request").to_rpc().to_json());
        Box::pin(std::future::ready(Answer { body, origin: None }))
    }
}

/// What a chain answered to a request that is neither a call nor a listing.
pub(super) fn said(incoming: &Incoming, answer: Answer) -> Said {
    if incoming.cancel.is_cancelled() {
        return Said::nothing();
    }
    match (answer.origin, answer.body) {
        (Some(line), body) => Said::verbatim(line, body.err().map(|error| read_error(&error).code)),
        (None, Ok(result)) => Said::result(incoming.id(), result),
        (None, Err(error)) => Said::error_object(incoming.id(), &error, read_error(&error).code),
    }
}
