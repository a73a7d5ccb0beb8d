//! Requests that one server answers: found by what they name, and passed on.

use std::sync::Arc;

use toolgate::{Code, Failure, Request, RpcError};
use toolgate_wire::Json;

use super::{
    Gateway,
    call::lift,
    conversation::Conversation,
    dispatch::{Incoming, unknown},
    lists::said,
    said::Said,
    tasks,
};
use crate::outbound::server::Server;

/// `prompts/get`
pub(super) async fn prompt(gateway: &Gateway, incoming: &Incoming) -> Said {
    let Some(name) = incoming.text("name") else {
        return Said::refused(
            Some(incoming.id()),
            -32602,
            "`name` of prompts/get must be a string",
        );
    };
    let snapshot = incoming.namespace.knowing(|snapshot| snapshot.prompt(&name).is_some()).await;
    let Some(owned) = snapshot.prompt(&name) else {
        if snapshot.servers_with("prompts").next().is_none() {
            return unknown(incoming);
        }
        return Said::refused(Some(incoming.id()), -32602, format!("Unknown prompt: `{name}`"));
    };
    let member = (*owned.own != *name).then(|| ("name", Json::string(&owned.own)));
    through(gateway, incoming, &owned.server, Some(&owned.own), member).await
}

/// `resources/read`
pub(super) async fn read(gateway: &Gateway, incoming: &Incoming) -> Said {
    let Some(uri) = incoming.text("uri") else {
        return Said::refused(
            Some(incoming.id()),
            -32602,
            "`uri` of resources/read must be a string",
        );
    };
    let snapshot = incoming.namespace.knowing(|snapshot| snapshot.resource(&uri).is_some()).await;
    if let Some(server) = snapshot.resource(&uri) {
        return through(gateway, incoming, server, Some(&uri), None).await;
    }
    // Tools hand out resources that no list has. Only a server that has such addresses is asked, and only if no other
    // one has: nobody may answer in another's place.
    if snapshot.servers_with("resources").next().is_none() {
        return unknown(incoming);
    }
    if let Some(server) = snapshot.likely_owner(&uri) {
        return through(gateway, incoming, &server, Some(&uri), None).await;
    }
    let code = if incoming.caller.is_modern() { -32602 } else { -32002 };
    let data = Json::value(&serde_json::json!({"uri": uri}));
    let message = format!("Unknown resource: `{uri}`");
    Said::error(Some(incoming.id()), &RpcError { code, message, data: Some(data) })
}

/// `completion/complete`
pub(super) async fn complete(gateway: &Gateway, incoming: &Incoming) -> Said {
    let snapshot = incoming.namespace.settled().await;
    if snapshot.servers_with("completions").next().is_none() {
        return unknown(incoming);
    }
    let reference = incoming.message.member("ref");
    let text = |member: &str| Some(reference.as_ref()?.get(member)?.text()?.into_owned());
    if let Some(name) = text("name") {
        let Some(owned) = snapshot.prompt(&name) else {
            return Said::refused(Some(incoming.id()), -32602, format!("Unknown prompt: `{name}`"));
        };
        let own = reference.as_ref().and_then(Json::object).filter(|_| *owned.own != *name);
        let member = own.map(|mut own| {
            own.set("name", Json::string(&owned.own));
            ("ref", own.finish())
        });
        return through(gateway, incoming, &owned.server, None, member).await;
    }
    match text("uri").and_then(|uri| snapshot.template(&uri).cloned()) {
        Some(server) => through(gateway, incoming, &server, None, None).await,
        None => Said::refused(Some(incoming.id()), -32602, "`ref` names nothing that is known"),
    }
}

/// `tasks/…`: whichever server has the task.
pub(super) async fn task(gateway: &Gateway, incoming: &Incoming) -> Said {
    let Some(id) = incoming.text("taskId") else {
        // A list would have everybody's.
        let is_shared = incoming.namespace.has_principals();
        return if is_shared { unknown(incoming) } else { anything(gateway, incoming).await };
    };
    let Some((server, own)) = tasks::inward(gateway, incoming, &id) else {
        return Said::refused(Some(incoming.id()), -32602, format!("Unknown task: `{id}`"));
    };
    let member = (own != id).then(|| ("taskId", Json::string(&own)));
    through(gateway, incoming, &server, Some(&own), member).await
}

/// What we know nothing of: the only server may.
pub(super) async fn anything(gateway: &Gateway, incoming: &Incoming) -> Said {
    let snapshot = incoming.namespace.knowing(|snapshot| snapshot.only_server().is_some()).await;
    match snapshot.only_server() {
        Some(server) => through(gateway, incoming, server, None, None).await,
        None => unknown(incoming),
    }
}

/// Passes a request on to a server, through the chain.
async fn through(
    gateway: &Gateway,
    incoming: &Incoming,
    server: &Arc<Server>,
    name: Option<&str>,
    member: Option<(&'static str, Json)>,
) -> Said {
    let namespace = &incoming.namespace;
    let charter = namespace.charter();
    let _entered = match incoming.caller.member.enter(charter.settings.limits.in_flight) {
        Ok(entered) => entered,
        Err(full) => return Said::full(incoming.id(), &full),
    };
    let snapshot = namespace.snapshot();
    let cx = incoming.context(&charter);
    // No layer narrows these, but control data is for us: no server sees it.
    let (mut cx, mut changes) = lift(namespace, &snapshot, cx, &incoming.message);
    changes.members.extend(member);
    let end = Conversation {
        chain: &charter.stack.chain,
        parking: &gateway.parking,
        caller: &incoming.caller,
        side: &incoming.side,
        server,
        message: &incoming.message,
        name,
        mirrors: &[],
        changes,
        is_one_of_several: incoming.namespace.servers.len() > 1,
    };
    let method = incoming.message.method();
    if let Some(own) = name.filter(|_| method.starts_with("tasks/")) {
        let task = charter.stack.chain.tasks().of(&cx, &server.name, own);
        cx.bag_mut().put(task);
    }
    let request =
        Request { method: incoming.message.method().into(), params: incoming.message.params() };
    let answering = charter.stack.chain.request(&mut cx, request, &end);
    let limit = charter.settings.limits.timeout.get();
    let answered = match limit {
        Some(limit) => tokio::time::timeout(limit, answering).await.ok(),
        None => Some(answering.await),
    };
    let Some(mut answer) = answered else {
        let text = format!("The server `{}` took too long to answer", server.name);
        return Said::failed(Some(incoming.id()), &Failure::new(Code::TimedOut, text));
    };
    if namespace.tells_tasks_apart()
        && let Ok(result) = &answer.body
        && let Some(renamed) = tasks::renamed(gateway, incoming, server, result)
    {
        answer.set_result(renamed);
    }
    said(incoming, answer)
}
