//! Validate: arguments are checked against a schema before a call goes any further.
#![doc = include_str!("README.md")]

mod arguments;
mod config;
mod cost;
mod issues;
mod schema;
#[cfg(test)]
mod tests;

use std::path::Path;

use arguments::Unreadable;
pub use config::{ToolSchema, ValidateConfig};
use issues::Issue;
use schema::{Published, Schema};

use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    middleware::{Explained, Hooks, Middleware, Order},
    next::Next,
    outcome::Outcome,
    registry::Code,
    selector::{BadSelector, Selector},
};

/// The layer's name.
pub const NAME: &str = "validate";

/// The rule of published schemas, in refusals and explanations.
const INPUT_SCHEMA: &str = "inputSchema";

/// Refuses calls whose arguments do not fit.
#[derive(Debug)]
pub struct Validate {
    /// The operator's schemas, each with its name in refusals.
    own: Vec<(Selector, String, Schema)>,
    published: Option<Published>,
    strict: bool,
}

/// Why the settings of validate were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadValidate {
    /// A key of `validate.tools` selects no tools.
    #[error("`validate.tools`: {0}")]
    Selector(#[from] BadSelector),
    /// A schema cannot be used.
    #[error("the schema of `validate.tools.\"{tools}\"` is refused: {why}")]
    Schema {
        /// The selector.
        tools: String,
        /// The reason.
        why: String,
    },
    /// A selector has no schema, or two.
    #[error("`validate.tools.\"{0}\"` needs either `schema` or `schema_file`, and not both")]
    OneOf(String),
    /// `strict` speaks of published schemas, and those are not checked.
    #[error("`validate.strict` needs `validate.input_schema = true`: set it, or remove `strict`")]
    Strict,
    /// There is nothing to check.
    #[error(
        "`[validate]` checks nothing: set `input_schema = true` or `tools`, or remove the table"
    )]
    Nothing,
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
        for (tools, schema) in &config.tools {
            let selector = tools.parse()?;
            let rule = format!("validate.tools.\"{tools}\"");
            own.push((selector, rule, Schema::of_config(tools, schema, base)?));
        }
        let published = config.input_schema.then(Published::default);
        Ok(Self { own, published, strict: config.strict })
    }

    /// The one decision.
    fn decide(&self, call: &Call) -> Result<(), Failure> {
        let own = || self.own.iter().filter(|(selector, ..)| call.is_covered_by(selector));
        let published = self.published(call)?;
        if own().next().is_none() && published.is_none() {
            return Ok(());
        }
        let refuse = |issues: &[Issue], rule: &str| {
            Err(Failure::new(Code::InvalidArguments, issues::text(call.id().name(), issues))
                .by(NAME, rule))
        };
        let arguments = match arguments::read(call.arguments()) {
            Ok(arguments) => arguments,
            Err(Unreadable::Twice(name)) => return refuse(&[Issue::twice(&name)], "readable"),
            Err(Unreadable::Other) => return refuse(&[Issue::unreadable()], "readable"),
        };
        let own = own().map(|(_, rule, schema)| (rule.as_str(), schema));
        for (rule, schema) in own.chain(published.as_deref().map(|s| (INPUT_SCHEMA, s))) {
            match schema.issues(&arguments) {
                Some(issues) if issues.is_empty() => {}
                Some(issues) => return refuse(&issues, rule),
                None if self.strict => return Err(uncheckable(call, "they are too many")),
                None => {
                    let tool = call.id();
                    tracing::warn!(%tool, "arguments are not checked: it would take too long");
                }
            }
        }
        Ok(())
    }

    /// The schema that the tool published, if those are checked. With `strict` a tool must have one.
    fn published(&self, call: &Call) -> Result<Option<std::sync::Arc<Schema>>, Failure> {
        let Some(published) = &self.published else {
            return Ok(None);
        };
        match published.of(call.tool()) {
            None if self.strict && call.tool().definition().is_none() => {
                let message = format!("Unknown tool: '{}'", call.id().name());
                Err(Failure::new(Code::UnknownTool, message)
                    .suggest("Call tools/list for the tools that there are.")
                    .by(NAME, "not listed"))
            }
            None if self.strict => Err(uncheckable(call, "its input schema cannot be used")),
            schema => Ok(schema),
        }
    }
}

/// Strictly, what cannot be checked does not pass.
fn uncheckable(call: &Call, why: &str) -> Failure {
    let message = format!("The arguments of '{}' cannot be checked: {why}", call.id().name());
    Failure::new(Code::InvalidArguments, message)
        .suggest("Ask the operator to set validate.tools for it, or validate.strict = false.")
        .by(NAME, "strict")
}

impl Middleware for Validate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let mut parts = Vec::new();
        if self.published.is_some() {
            parts.push(if self.strict {
                "published schemas, strictly"
            } else {
                "published schemas"
            });
        }
        let own = match self.own.len() {
            0 => None,
            1 => Some("1 schema of the config".to_owned()),
            more => Some(format!("{more} schemas of the config")),
        };
        parts.extend(own.as_deref());
        format!("arguments fit {}", parts.join(" and "))
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "what is wrong is rendered for the caller"),
            Order::Inside(super::audit::NAME, "refusals are decisions, and recorded"),
            Order::Inside("log", "refusals are logged too"),
            Order::Inside("overrides", "arguments are checked as they reach the tool"),
            Order::Outside(super::retry::NAME, "arguments do not get better by trying again"),
        ]
    }

    fn needs_tools(&self) -> bool {
        self.published.is_some()
    }

    fn explain(&self, _: &Context, call: &Call) -> Option<Explained> {
        let own = self.own.iter().filter(|(selector, ..)| call.is_covered_by(selector));
        let mut rules: Vec<&str> = own.map(|(_, rule, _)| rule.as_str()).collect();
        if self.published.is_some() {
            rules.push(INPUT_SCHEMA);
        }
        if rules.is_empty() {
            return None;
        }
        Some(Explained::of(&self.decide(call), &rules.join(", ")))
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.decide(&call) {
            Ok(()) => next.call(cx, call).await,
            Err(denial) => denial.into(),
        }
    }
}
