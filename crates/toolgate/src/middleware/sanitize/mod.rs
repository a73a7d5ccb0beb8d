//! Sanitize: replaces secrets and other patterns in results, notifications and requests of servers, before any other
//! layer reads them.
#![doc = include_str!("README.md")]

mod config;
mod detectors;
mod rules;
#[cfg(test)]
mod tests;

pub use config::{PatternConfig, SanitizeConfig};
pub use rules::BadSanitize;
use rules::Rules;
use toolgate_wire::{Json, mcp::method};

use crate::{
    call::{Answer, Call, Request},
    context::Context,
    failure::RpcError,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, NotificationDecision, Order},
    outcome::Outcome,
    readable::{self, Area},
    selector::Selector,
};

/// The layer's name.
pub const NAME: &str = "sanitize";

/// The declaration of the layer.
#[derive(Debug)]
pub struct SanitizeSpec;

impl LayerSpec for SanitizeSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "cleans the result of the tool before any other layer reads or records it"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<SanitizeConfig>().map(|_| "`[sanitize]`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let layer = inputs.get::<SanitizeConfig>().map(Sanitize::new).transpose()?;
        Ok(BuiltLayer::if_some(layer, "there is no `[sanitize]`"))
    }
}

/// The text with secrets of well-known kinds replaced, for programs that show text to people.
#[must_use]
pub fn without_secrets(text: &str) -> std::borrow::Cow<'_, str> {
    static RULES: std::sync::OnceLock<Option<Rules>> = std::sync::OnceLock::new();
    let rules = RULES.get_or_init(|| {
        Rules::new(&SanitizeConfig { secrets: true, defaults: true, ..Default::default() }).ok()
    });
    match rules {
        Some(rules) => rules.clean(text).map_or(text.into(), Into::into),
        // If the detectors do not compile, no secret is found, so the whole text is replaced.
        None => "[REDACTED]".into(),
    }
}

/// Cleans results of tools, of tasks and of other requests, and the notifications and requests that servers send to
/// clients.
#[derive(Debug)]
pub struct Sanitize {
    rules: Rules,
    tools: Vec<Selector>,
}

impl Sanitize {
    /// Creates the layer. Refuses patterns that do not compile, that match the empty text or whose replacement names
    /// groups that the pattern does not have, and settings that clean nothing.
    pub fn new(config: &SanitizeConfig) -> Result<Self, BadSanitize> {
        Ok(Self { rules: Rules::new(config)?, tools: config.tools.clone() })
    }

    fn covers(&self, call: &Call) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|selector| call.is_covered_by(selector))
    }

    fn json(&self, json: &Json, area: Area) -> Option<Json> {
        readable::replace(json, area, |text| self.rules.clean(text))
    }

    /// The cleaned outcome. If nothing is replaced, the result keeps the bytes of the message that carried it.
    fn outcome(&self, outcome: Outcome) -> Outcome {
        outcome.replace_texts(&mut |text| self.rules.clean(text))
    }

    /// The cleaned error object of a request that is not a call. `None` if nothing is replaced.
    fn error(&self, error: &Json) -> Option<Json> {
        let rpc = RpcError {
            code: error.get("code").and_then(|code| code.i64()).unwrap_or_default(),
            message: error.get("message")?.text()?.into_owned(),
            data: error.get("data"),
        };
        let cleaned = rpc.replace_texts(&mut |text| self.rules.clean(text))?;
        let mut object = error.object()?;
        object.set("message", Json::string(&cleaned.message));
        if let Some(data) = cleaned.data {
            object.set("data", data);
        }
        Some(object.finish())
    }
}

impl Middleware for Sanitize {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let (patterns, secrets) = self.rules.extent();
        let mut parts = Vec::new();
        if patterns > 0 {
            parts.push(format!("{patterns} pattern{}", if patterns == 1 { "" } else { "s" }));
        }
        if secrets {
            parts.push("well-known secrets".to_owned());
        }
        let mut text = format!("replaces {}", parts.join(" and "));
        if !self.tools.is_empty() {
            let tools: Vec<String> = self.tools.iter().map(ToString::to_string).collect();
            text.push_str(" in answers of ");
            text.push_str(&tools.join(", "));
        }
        text
    }

    fn hooks(&self) -> Hooks {
        Hooks { list: false, notification: false, ..Hooks::ALL }
    }

    fn order(&self) -> &'static [Order] {
        const SEEN: &str = "nothing may see an answer before it is clean";
        &[
            Order::Inside(super::response_limit::NAME, "a secret that was cut matches no pattern"),
            Order::Inside(super::error_results::NAME, SEEN),
            Order::Inside(super::log::NAME, SEEN),
            Order::Inside(super::audit::NAME, SEEN),
            Order::Inside(super::retry::NAME, SEEN),
        ]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if !self.covers(&call) {
            return next.call(cx, call).await;
        }
        self.outcome(next.call(cx, call).await)
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        let area = area_of(&request.method);
        let mut answer = next.request(cx, request).await;
        match &answer.body {
            Ok(result) => {
                if let Some(result) = self.json(result, area) {
                    answer.set_result(result);
                }
            }
            Err(error) => {
                if let Some(error) = self.error(error) {
                    answer.set_error(error);
                }
            }
        }
        answer
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        if crate::task::is_unknown(cx) || self.covers(call) {
            return self.outcome(outcome);
        }
        outcome
    }

    fn notice(&self, _: &str, params: &Json) -> NotificationDecision {
        self.json(params, Area::Params)
            .map_or(NotificationDecision::AsItCame, NotificationDecision::Changed)
    }
}

/// Which part of a response to this method is cleaned. The request is not a call.
fn area_of(method: &str) -> Area {
    match method {
        // `Sanitize::result` cleans the results of tasks, with the settings of their tools.
        method::TASKS_RESULT => Area::Opaque,
        method if method.starts_with("tasks/") => Area::Task,
        // These answers list names that clients send back.
        method::INITIALIZE
        | method::SERVER_DISCOVER
        | method::PROMPTS_LIST
        | method::RESOURCES_LIST
        | method::RESOURCES_TEMPLATES_LIST => Area::Opaque,
        _ => Area::Top,
    }
}
