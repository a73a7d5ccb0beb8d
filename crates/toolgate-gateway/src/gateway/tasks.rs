//! Tasks: a call that goes on by itself. Which server has one is part of its name where there are several.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::sync::Arc;
use toolgate::{Outcome, ToolResult};
use toolgate_wire::{Json, Object, mcp::member};

use super::{Gateway, dispatch::IncomingRequest};
use crate::{ids::hex, upstream::server::Server};

/// What our names of tasks begin with.
const MARK: &str = "tgt1.";

/// The result of a call with the name of its task as clients know it.
pub(super) fn outward(
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

/// A result with the name of its task as clients know it; `None` if it has none.
pub(super) fn renamed(
    gateway: &Gateway,
    incoming: &IncomingRequest,
    server: &Server,
    result: &Json,
) -> Option<Json> {
    // Nearly all results have none: one look at the text tells.
    memchr::memmem::find(result.as_bytes(), b"\"taskId\"")?;
    let mut object = result.object()?;
    if let Some(task) = with_name(gateway, incoming, server, &object) {
        return Some(task);
    }
    // Sessions of 2025-11-25 read it one level further in.
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

/// A task is that of whoever it was made for.
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

/// The server that has a task, and its own name for it.
pub(super) fn inward(
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
