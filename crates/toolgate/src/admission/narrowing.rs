//! The restrictions of recent calls, which their nested calls inherit.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::{
    context::{CallId, Context},
    control::Control,
    identity::{Principal, ToolId},
};

/// The control data of recent restricted calls, by principal and call id. One per namespace.
#[derive(Debug, Default)]
pub struct Narrowing(Mutex<HashMap<Principal, Calls>>);

/// The restricted calls of one principal.
#[derive(Debug, Default)]
struct Calls {
    by_id: HashMap<String, Control>,
    order: VecDeque<String>,
    bytes: usize,
}

/// Largest number of remembered calls per principal. A call whose parent is forgotten has only the restrictions of its
/// own `_meta`.
const MAX_CALLS: usize = 10_000;
/// Largest memory of the remembered calls per principal, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

impl Narrowing {
    /// Restricts a request by its control data and by that of its parent call, and remembers both for nested calls.
    /// `meant` resolves names that clients see to tools.
    pub fn apply(
        &self,
        cx: Context,
        mut control: Control,
        meant: impl Fn(&str) -> Option<ToolId>,
    ) -> Context {
        control.translate(meant);
        let mut principals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = principals.get(cx.principal());
        let parent = control.parent.as_deref().and_then(|id| calls?.by_id.get(id));
        if let Some(parent) = parent {
            control.inherit(parent);
        }
        if control.narrows() {
            // Without the members that keep the bytes of the message in memory.
            let kept = Control { confirm: None, parent: None, ..control.clone() };
            principals.entry(cx.principal().clone()).or_default().remember(cx.call_id(), kept);
        }
        drop(principals);
        cx.with_control(control)
    }
}

impl Calls {
    fn remember(&mut self, call: CallId, control: Control) {
        let call = call.to_string();
        self.bytes += cost(&call, &control);
        self.order.push_back(call.clone());
        self.by_id.insert(call, control);
        while self.order.len() > MAX_CALLS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(control) = self.by_id.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(cost(&oldest, &control));
            }
        }
    }
}

fn cost(call: &str, control: &Control) -> usize {
    2 * call.len() + control.bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolgate_wire::Json;

    use super::*;
    use crate::context::Session;

    fn context(principal: &str) -> Context {
        Context::new(Arc::new(Session {
            id: "s".into(),
            namespace: "n".into(),
            principal: Principal::Key(principal.into()),
        }))
    }

    fn control(meta: &serde_json::Value) -> Control {
        Control::extract(&Json::value(meta)).unwrap().0
    }

    #[test]
    fn memory_is_bounded_and_one_principal_does_not_push_another_out() {
        let narrowing = Narrowing::default();
        let apply = |principal: &str, control| {
            narrowing.apply(context(principal), control, |name| Some(ToolId::new("s", name)))
        };
        let first = apply("a", control(&serde_json::json!({"policyId": "p"})));
        let many: Vec<String> = (0..1000).map(|n| format!("{n:0200}")).collect();
        let large = control(&serde_json::json!({"allowedTools": many}));
        for _ in 0..100 {
            apply("b", large.clone());
        }
        for _ in 0..2 * MAX_CALLS {
            apply("b", control(&serde_json::json!({"policyId": "q"})));
        }
        {
            let principals = narrowing.0.lock().unwrap();
            let calls = &principals[context("b").principal()];
            assert!(calls.bytes <= MAX_BYTES && calls.order.len() <= MAX_CALLS);
            assert_eq!(calls.order.len(), calls.by_id.len());
        }
        let parent = serde_json::json!({"parent_call_uuid": first.call_id().to_string()});
        let child = apply("a", control(&parent));
        assert_eq!(child.control().policies, ["p".into()]);
        let foreign = apply("b", control(&parent));
        assert!(foreign.control().policies.is_empty(), "the parent is another principal's");
    }
}
