//! What calls of late were narrowed to: calls that are part of them are narrowed too.

use std::collections::{HashMap, VecDeque};

use toolgate::{CallId, Control};

/// What calls of late were narrowed to, by their ids: calls that are part of them are narrowed too.
#[derive(Debug, Default)]
pub(crate) struct Narrowed {
    calls: HashMap<String, Control>,
    order: VecDeque<String>,
}

/// So many narrowed calls are remembered. One whose parent is forgotten is narrowed by its own `_meta`
/// only, as any call is.
const REMEMBERED: usize = 10_000;

impl Narrowed {
    pub(crate) fn of(&self, call: &str) -> Option<Control> {
        self.calls.get(call).cloned()
    }

    pub(crate) fn remember(&mut self, call: CallId, control: Control) {
        let call = call.to_string();
        self.order.push_back(call.clone());
        self.calls.insert(call, control);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }
}
