//! Metric labels: created once per tool, and bounded in number whatever clients send.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use opentelemetry::{KeyValue, StringValue};
use toolgate_wire::mcp::method;

use super::ending::MeasuredEnd;
use crate::{call::Call, identity::ToolId, middleware::audit::cut, tool::Tool, trace::Transport};

/// The label for all names that no server lists.
pub(super) const OTHER: &str = "_other";

/// Largest number of tools with labels of their own. Further tools of a server share one.
pub(super) const MAX_TOOLS: usize = 1000;

/// The methods that have labels of their own.
const METHODS: [&str; 23] = [
    method::COMPLETION_COMPLETE,
    method::ELICITATION_CREATE,
    method::INITIALIZE,
    method::LOGGING_SET_LEVEL,
    method::PING,
    method::PROMPTS_GET,
    method::PROMPTS_LIST,
    method::RESOURCES_LIST,
    method::RESOURCES_READ,
    method::RESOURCES_SUBSCRIBE,
    method::RESOURCES_TEMPLATES_LIST,
    method::RESOURCES_UNSUBSCRIBE,
    method::ROOTS_LIST,
    method::SAMPLING_CREATE_MESSAGE,
    method::SERVER_DISCOVER,
    method::SUBSCRIPTIONS_LISTEN,
    method::TASKS_CANCEL,
    method::TASKS_GET,
    method::TASKS_LIST,
    method::TASKS_RESULT,
    method::TASKS_UPDATE,
    method::TOOLS_CALL,
    method::TOOLS_LIST,
];

/// The name of a method in labels.
pub(super) fn method(name: &str) -> &'static str {
    METHODS.into_iter().find(|known| *known == name).unwrap_or(OTHER)
}

/// Sets the category label.
fn category(call: &Call) -> &str {
    call.tool().category()
}

/// Whether the tool is idempotent.
fn is_idempotent(tool: &Tool) -> bool {
    tool.tier() == Some(crate::tier::Tier::Readonly) || tool.hints().idempotent == Some(true)
}

/// The labels of one tool that do not depend on the outcome.
#[derive(Debug)]
pub(super) struct ToolLabels {
    pub(super) span_name: String,
    name: StringValue,
    category: StringValue,
    idempotent: bool,
    /// Labels of successful calls, per transport.
    good: [OnceLock<MeasurementLabels>; 3],
}

/// The labels for one call's measurements.
#[derive(Clone, Debug)]
pub(super) struct MeasurementLabels {
    /// Of `mcp.tool.*`.
    pub(super) tool: Vec<KeyValue>,
    /// Of `mcp.server.operation.duration`.
    pub(super) operation: Vec<KeyValue>,
}

impl ToolLabels {
    fn new(name: &str, category: &str, idempotent: bool) -> Self {
        let name: Arc<str> = cut(name).into();
        Self {
            span_name: format!("tools/call {name}"),
            name: name.into(),
            category: Arc::<str>::from(cut(category)).into(),
            idempotent,
            good: Default::default(),
        }
    }

    /// The attributes that every span of a call of this tool has.
    pub(super) fn add_to_span(&self, attributes: &mut Vec<KeyValue>) {
        attributes.extend([
            KeyValue::new("mcp.method.name", method::TOOLS_CALL),
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", self.name.clone()),
            KeyValue::new("mcp.tool.name", self.name.clone()),
            KeyValue::new("mcp.tool.category", self.category.clone()),
            KeyValue::new("mcp.tool.idempotent", self.idempotent),
        ]);
    }

    /// The labels for a call with this end. Those of successful calls are cached.
    pub(super) fn measured(
        &self,
        transport: Option<Transport>,
        ending: MeasuredEnd,
    ) -> Cow<'_, MeasurementLabels> {
        let good = match transport {
            _ if ending != MeasuredEnd::OK => None,
            None => self.good.first(),
            Some(Transport::Stdio) => self.good.get(1),
            Some(Transport::Http) => self.good.get(2),
        };
        match good {
            Some(good) => Cow::Borrowed(good.get_or_init(|| self.make(transport, ending))),
            None => Cow::Owned(self.make(transport, ending)),
        }
    }

    fn make(&self, transport: Option<Transport>, ending: MeasuredEnd) -> MeasurementLabels {
        let mut tool = vec![
            KeyValue::new("mcp.tool.name", self.name.clone()),
            KeyValue::new("mcp.tool.category", self.category.clone()),
            KeyValue::new("mcp.tool.idempotent", self.idempotent),
            KeyValue::new("status", ending.status()),
            KeyValue::new("outcome", ending.class.name()),
        ];
        if let Some(transport) = transport {
            tool.push(KeyValue::new("mcp.transport", transport.name()));
        }
        if let Some(code) = ending.code {
            tool.push(KeyValue::new("code", code.name()));
        }
        let mut operation = operation(method::TOOLS_CALL, transport, ending);
        operation.push(KeyValue::new("gen_ai.tool.name", self.name.clone()));
        MeasurementLabels { tool, operation }
    }
}

/// The labels of `mcp.server.operation.duration`.
pub(super) fn operation(
    method: &'static str,
    transport: Option<Transport>,
    ending: MeasuredEnd,
) -> Vec<KeyValue> {
    let mut labels = Vec::with_capacity(4);
    labels.push(KeyValue::new("mcp.method.name", method));
    labels.extend(network(transport));
    labels.extend(ending.error_type().map(|name| KeyValue::new("error.type", name)));
    labels
}

/// `network.transport`
pub(super) fn network(transport: Option<Transport>) -> Option<KeyValue> {
    let name = match transport? {
        Transport::Stdio => "pipe",
        Transport::Http => "tcp",
    };
    Some(KeyValue::new("network.transport", name))
}

/// The cached labels of called tools.
#[derive(Debug, Default)]
pub(super) struct AllLabels(RwLock<HashMap<ToolId, Arc<ToolLabels>>>);

impl AllLabels {
    /// The labels for this call. A tool that no server lists shares those of `_other`.
    pub(super) fn of(&self, call: &Call) -> Arc<ToolLabels> {
        let category = category(call);
        if call.tool().definition().is_none() {
            return self.shared(call, category);
        }
        let idempotent = is_idempotent(call.tool());
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(call.id()).cloned();
        let is_current = |labels: &Arc<ToolLabels>| {
            labels.idempotent == idempotent && labels.category.as_str() == category
        };
        if let Some(labels) = known.clone().filter(is_current) {
            return labels;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() && all.len() >= MAX_TOOLS {
            drop(all);
            return self.shared(call, category);
        }
        let labels = Arc::new(ToolLabels::new(call.id().name(), category, idempotent));
        all.insert(call.id().clone(), Arc::clone(&labels));
        labels
    }

    /// One for all further tools of a server, so their number is bounded by that of the servers.
    fn shared(&self, call: &Call, category: &str) -> Arc<ToolLabels> {
        let id = ToolId::new(call.id().server(), OTHER);
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Arc::clone(known);
        }
        let labels = Arc::new(ToolLabels::new(OTHER, category, false));
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id).or_insert(labels))
    }
}
