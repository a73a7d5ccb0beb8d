//! The layer itself: checks arguments before a call and results after it.

#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use super::{
    BadValidate, INPUT_SCHEMA, NAME, OutputMode, Unknown, ValidateConfig,
    arguments::{self, Unreadable},
    findings::{Findings, refusal, too_many, uncheckable, without},
    issues::{self, Issue, MAX_ISSUES},
    names::PropertyNames,
    output::Results,
    schema::{DefinitionSchema, Schema, SchemaCache},
};
use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Explanation, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
    selector::Selector,
};

/// The rule of arguments that a published schema does not name.
const UNKNOWN: &str = "validate.unknown";
/// A call with more unknown arguments than these is refused, also where they would be removed.
const MAX_UNKNOWN: usize = 1000;

/// Refuses calls whose arguments do not fit, and results that do not.
#[derive(Debug)]
pub struct Validate {
    own: Vec<ToolRule>,
    /// The schemas that tools publish, if the settings use them.
    published: Option<SchemaCache>,
    /// Whether arguments must fit the published input schema.
    fits_published: bool,
    strict: bool,
    unknown: Unknown,
    results: Option<Results>,
}

/// An entry of `validate.tools`, with its name in refusals.
#[derive(Debug)]
struct ToolRule {
    selector: Selector,
    rule: String,
    schema: Option<Schema>,
    unknown: Option<Unknown>,
}

impl Validate {
    /// With these settings; `base` is the folder that relative paths of schema files start from.
    /// Compiles every schema of the config, and refuses what does not compile.
    pub fn new(config: &ValidateConfig, base: &Path) -> Result<Self, BadValidate> {
        if !config.is_on() {
            return Err(BadValidate::Nothing);
        }
        if config.strict && !config.input_schema {
            return Err(BadValidate::Strict);
        }
        let mut own = Vec::with_capacity(config.tools.len());
        for (tools, entry) in &config.tools {
            own.push(ToolRule {
                selector: tools.parse()?,
                rule: format!("validate.tools.\"{tools}\""),
                schema: Schema::of_config(tools, entry, base)?,
                unknown: entry.unknown,
            });
        }
        let asks_names = config.asks_names();
        let published = config.input_schema || asks_names;
        let results = match config.output {
            OutputMode::Off => None,
            mode => Some(Results::new(mode, config.strict)),
        };
        Ok(Self {
            own,
            published: published.then(|| SchemaCache::new(INPUT_SCHEMA, asks_names)),
            fits_published: config.input_schema,
            strict: config.strict,
            unknown: config.unknown,
            results,
        })
    }

    fn covering(&self, call: &Call) -> impl Iterator<Item = &ToolRule> {
        self.own.iter().filter(|own| call.is_covered_by(&own.selector))
    }

    /// The schemas that the arguments must fit, each with its rule.
    fn schemas<'a>(
        &'a self,
        call: &Call,
        compiled: Option<&'a DefinitionSchema>,
    ) -> impl Iterator<Item = (&'a str, &'a Schema)> {
        let own = self.covering(call);
        let own = own.filter_map(|own| Some((own.rule.as_str(), own.schema.as_ref()?)));
        let published = compiled.filter(|_| self.fits_published);
        let published = published.and_then(|compiled| compiled.schema.as_ref());
        own.chain(published.map(|schema| (INPUT_SCHEMA, schema)))
    }

    /// What happens to arguments that the tool does not know, by which rule, and the names that it does.
    /// `None` where they pass.
    fn unknown<'a>(
        &'a self,
        call: &Call,
        compiled: Option<&'a DefinitionSchema>,
    ) -> Option<(Unknown, &'a str, &'a PropertyNames)> {
        let names = compiled?.names.as_ref()?;
        let candidates = || self.covering(call).filter_map(|own| Some((own, own.unknown?)));
        let exact = candidates().find(|(own, _)| own.selector.is_exact());
        let (unknown, rule) =
            match exact.or_else(|| candidates().max_by_key(|(_, unknown)| *unknown)) {
                Some((own, unknown)) => (unknown, own.rule.as_str()),
                // A schema that welcomes other names means it, unless the operator speaks of this very tool.
                None if names.is_open() => return None,
                None => (self.unknown, UNKNOWN),
            };
        (unknown != Unknown::Pass).then_some((unknown, rule, names))
    }

    /// The one decision. Gives the names of the arguments that have to go, if some have.
    fn judge(&self, call: &Call) -> Result<Vec<String>, Failure> {
        let compiled = self.compiled(call)?;
        let compiled = compiled.as_deref();
        let unknown = self.unknown(call, compiled);
        if unknown.is_none() && self.schemas(call, compiled).next().is_none() {
            return Ok(Vec::new());
        }
        let mut arguments = match arguments::read(call.arguments()) {
            Ok(arguments) => arguments,
            Err(Unreadable::DuplicateKey(name)) => {
                return Err(refusal(call, &[Issue::twice("", &name)], "readable"));
            }
            Err(Unreadable::Other) => {
                return Err(refusal(call, &[Issue::unreadable("")], "readable"));
            }
        };
        // Whatever a schema leaves open: the protocol has arguments by name only.
        if !arguments.value.is_object() {
            return Err(refusal(call, &[Issue::no_object()], "readable"));
        }
        let mut found = Findings::default();
        let mut removed = Vec::new();
        if let Some((unknown, rule, names)) = unknown {
            let unexpected = names.unexpected(&arguments.value);
            if unexpected.len() > MAX_UNKNOWN {
                return Err(too_many(call, rule));
            }
            if unknown == Unknown::Reject {
                let names = unexpected.iter().take(MAX_ISSUES + 1);
                found.add(names.map(|name| Issue::unexpected(name)).collect(), rule);
            } else {
                arguments.remove(&unexpected);
                removed = unexpected;
            }
        }
        for (rule, schema) in self.schemas(call, compiled) {
            match schema.issues(&arguments, "") {
                Some(issues) => found.add(issues, rule),
                // The caller decides how many values there are, so they never pass unchecked.
                None => return Err(too_many(call, rule)),
            }
        }
        if found.issues.is_empty() {
            return Ok(removed);
        }
        Err(refusal(call, &found.issues, &found.rules.join(", ")))
    }

    /// The published schema of the tool, if the settings use it. With `strict` a tool without a usable schema is
    /// refused.
    fn compiled(&self, call: &Call) -> Result<Option<Arc<DefinitionSchema>>, Failure> {
        let Some(published) = &self.published else {
            return Ok(None);
        };
        let compiled = published.of(call.tool());
        match &compiled {
            None if self.strict => {
                let message = format!("Unknown tool: '{}'", call.id().name());
                Err(Failure::new(Code::UnknownTool, message)
                    .suggest("Call tools/list for available tools.")
                    .by(NAME, "not listed"))
            }
            Some(compiled) if self.strict && compiled.schema.is_none() => {
                Err(uncheckable(call, "its input schema cannot be used"))
            }
            _ => Ok(compiled),
        }
    }
}

impl Middleware for Validate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.fits_published {
            parts.push(if self.strict {
                "published schemas, strictly"
            } else {
                "published schemas"
            });
        }
        let own = match self.own.iter().filter(|own| own.schema.is_some()).count() {
            0 => None,
            1 => Some("1 schema of the config".to_owned()),
            more => Some(format!("{more} schemas of the config")),
        };
        parts.extend(own.as_deref());
        let mut described = Vec::new();
        if !parts.is_empty() {
            described.push(format!("arguments fit {}", parts.join(" and ")));
        }
        match self.unknown {
            Unknown::Pass => {}
            Unknown::Strip => described.push("unknown ones are removed".to_owned()),
            Unknown::Reject => described.push("unknown ones are refused".to_owned()),
        }
        match self.own.iter().filter(|own| own.unknown.is_some()).count() {
            0 => {}
            1 => described.push("1 rule for unknown ones of single tools".to_owned()),
            more => described.push(format!("{more} rules for unknown ones of single tools")),
        }
        match self.results.as_ref().map(Results::is_enforced) {
            None => {}
            Some(true) => described.push("results fit published schemas".to_owned()),
            Some(false) => described.push("results that do not fit are logged".to_owned()),
        }
        described.join("; ")
    }

    fn hooks(&self) -> Hooks {
        if self.results.is_some() { Hooks::RESULTS } else { Hooks::CALL }
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(
                crate::middleware::error_results::NAME,
                "what is wrong is rendered for the caller",
            ),
            Order::Inside(crate::middleware::log::NAME, "refusals are logged too"),
            Order::Inside(
                crate::middleware::overrides::NAME,
                "arguments are checked as they reach the tool",
            ),
            Order::Outside(
                crate::middleware::retry::NAME,
                "arguments do not get better by trying again",
            ),
        ]
    }

    fn needs_tools(&self) -> bool {
        self.published.is_some() || self.results.is_some()
    }

    fn explain(&self, _: &Context, call: &Call) -> Option<Explanation> {
        let own = self.covering(call).filter(|own| own.schema.is_some());
        let mut rules: Vec<&str> = own.map(|own| own.rule.as_str()).collect();
        if self.fits_published {
            rules.push(INPUT_SCHEMA);
        }
        let compiled = self.published.as_ref().and_then(|published| published.of(call.tool()));
        let unknown = self.unknown(call, compiled.as_deref());
        rules.extend(unknown.map(|(_, rule, _)| rule).filter(|rule| !rules.contains(rule)));
        if rules.is_empty() {
            return None;
        }
        let decision = self.judge(call);
        let removed = decision.as_ref().map(|names| names.join(", ")).unwrap_or_default();
        let mut explained = Explanation::of(&decision.map(|_| ()), &rules.join(", "));
        if !removed.is_empty() {
            explained.why = format!("the call goes on without {}", issues::plain(&removed));
        }
        Some(explained)
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let call = match self.judge(&call) {
            Ok(removed) if removed.is_empty() => call,
            Ok(removed) => without(call, &removed),
            Err(denial) => return denial.into(),
        };
        let Some(results) = &self.results else {
            return next.call(cx, call).await;
        };
        let tool = Arc::clone(call.tool());
        results.check(&tool, next.call(cx, call).await)
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        match &self.results {
            Some(results) if crate::task::is_unknown(cx) => results.of_unknown(outcome),
            Some(results) => results.check(call.tool(), outcome),
            None => outcome,
        }
    }
}
