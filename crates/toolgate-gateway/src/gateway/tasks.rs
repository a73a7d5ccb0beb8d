//! Task ids. If a namespace has several servers or principals, the id that a client sees contains the server, the server's
//! own id, and a seal that binds the id to its principal.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::sync::Arc;
use toolgate::{Outcome, ToolResult};
use toolgate_wire::{Json, Object, mcp::member};

use super::{Gateway, incoming_request::IncomingRequest};
use crate::{ids::hex, upstream::server::Server};

/// The prefix of task ids that the gateway made.
const MARK: &str = "tgt1.";

/// The outcome of a call with the task id that clients see.
pub(super) fn with_client_id(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Arc<Server>,
    mut outcome: Outcome,
) -> Outcome {
    if !incoming.namespace.tells_tasks_apart() {
        return outcome;
    }
    let renamed =
        outcome.result().and_then(|result| renamed(gateway, incoming, server, result.json()));
    if let Some(json) = renamed {
        outcome.set_result(ToolResult::new(json));
    }
    outcome
}

/// The result with the task id that clients see; `None` if it has no task.
pub(super) fn renamed(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Server,
    result: &Json,
) -> Option<Json> {
    // Nearly all results have none, so search the text before parsing it.
    memchr::memmem::find(result.as_bytes(), b"\"taskId\"")?;
    let mut object = result.object()?;
    if let Some(task) = with_name(gateway, incoming, server, &object) {
        return Some(task);
    }
    // In 2025-11-25 the id is inside `task`.
    let task = with_name(gateway, incoming, server, &object.get("task")?.object()?)?;
    object.set("task", task);
    Some(object.finish())
}

fn with_name(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Server,
    task: &Object,
) -> Option<Json> {
    let own = task.get(member::TASK_ID)?;
    let name = name(gateway, incoming, &server.name, &own.text()?);
    let mut task = task.clone();
    task.set(member::TASK_ID, Json::string(&name));
    Some(task.finish())
}

fn name(gateway: &Gateway, incoming: &IncomingRequest, server: &str, own: &str) -> String {
    let seal = seal(gateway, incoming, server, own);
    format!("{MARK}{}.{seal}.{server}.{own}", server.len())
}

/// The seal that binds a task id to its principal, namespace and server.
fn seal(gateway: &Gateway, incoming: &IncomingRequest, server: &str, own: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&gateway.key) else { return String::new() };
    let principal = incoming.caller.session.principal.to_string();
    for part in [principal.as_str(), &incoming.namespace.name, server, own] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    let bytes = mac.finalize().into_bytes();
    hex(bytes.get(..8).unwrap_or_default())
}

/// The server of a task, and the server's own id of it. `None` if the id is unknown or belongs to another principal.
pub(super) fn server_of(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    name: &str,
) -> Option<(Arc<Server>, String)> {
    let servers = &incoming.namespace.servers;
    if let [only] = &**servers
        && !incoming.namespace.tells_tasks_apart()
    {
        return Some((Arc::clone(only), name.to_owned()));
    }
    let (length, rest) = name.strip_prefix(MARK)?.split_once('.')?;
    let (given, rest) = rest.split_once('.')?;
    let (server, own) = rest.split_at_checked(length.parse().ok()?)?;
    let own = own.strip_prefix('.')?;
    let server = servers.iter().find(|known| *known.name == *server)?;
    let expected = seal(gateway, incoming, &server.name, own);
    let is_same = subtle::ConstantTimeEq::ct_eq(given.as_bytes(), expected.as_bytes());
    (bool::from(is_same) && !expected.is_empty()).then(|| (Arc::clone(server), own.to_owned()))
}
