//! What the gateway's lists say of headers: a modern call repeats some of its arguments there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use toolgate_wire::Message;

use super::headers::Headers;
use crate::catalog::mirrors::{self, Mirror};

/// The tools with such arguments, as the client has listed them.
#[derive(Debug, Default)]
pub(super) struct Learnt(Mutex<HashMap<String, Vec<Mirror>>>);

impl Learnt {
    fn tools(&self) -> MutexGuard<'_, HashMap<String, Vec<Mirror>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the answer to `tools/list`.
    pub(super) fn read(&self, answer: &Message) {
        let listed = answer.member("tools").and_then(|tools| tools.array()).unwrap_or_default();
        let mut tools = self.tools();
        for tool in listed {
            let Some(name) = tool.get("name").and_then(|name| Some(name.text()?.into_owned()))
            else {
                continue;
            };
            match mirrors::of(&tool) {
                Ok(mirrored) if !mirrored.is_empty() => drop(tools.insert(name, mirrored)),
                _ => drop(tools.remove(&name)),
            }
        }
    }

    /// Adds the headers of a call to those that it has.
    pub(super) fn add(&self, call: &Message, headers: &mut Headers) {
        let tools = self.tools();
        if tools.is_empty() || call.method() != "tools/call" {
            return;
        }
        let name = call.member("name");
        let name = name.as_ref().and_then(toolgate_wire::Json::text);
        let Some(mirrored) = name.and_then(|name| tools.get(name.as_ref())) else { return };
        let arguments = call.member("arguments");
        headers.extend(mirrored.iter().filter_map(|mirror| mirror.header(arguments.as_ref())));
    }
}
