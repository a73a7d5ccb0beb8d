//! Scopes: tools that the caller's scopes do not reach are hidden from listings and refused when called.
#![doc = include_str!("README.md")]

mod config;
mod grant;
#[cfg(test)]
mod tests;

pub use config::{
    BadScope, BadScopeVariable, Granted, Scope, ScopesConfig, VARIABLE, from_variable,
};
use grant::{GrantSource, Sources};

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{
        Boxed, Explained, Hooks, Middleware, Order,
        preconditions::{Precondition, Verdict},
    },
    outcome::Outcome,
    registry::Code,
    tier::Tier,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "scopes";

/// Lets pass what the caller's scopes reach.
#[derive(Clone, Debug)]
pub struct Scopes {
    config: ScopesConfig,
}

/// What a tool requires.
enum Required<'a> {
    /// All of these, because the operator says so.
    All(Vec<&'a str>),
    /// One of these, because of what the tool is.
    One([String; 3]),
}

impl Required<'_> {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::All(names) => names.clone(),
            Self::One(names) => names.iter().map(String::as_str).collect(),
        }
    }

    fn words(&self) -> String {
        let names = self.names();
        let list = names.join(", ");
        match self {
            Self::All(_) if names.is_empty() => "no scope".to_owned(),
            Self::All(_) if names.len() == 1 => format!("the scope {list}"),
            Self::All(_) => format!("all of the scopes {list}"),
            Self::One(_) => format!("one of the scopes {list}"),
        }
    }
}

/// What a tool does, in one word. One whose tier nobody knows may do anything.
fn verb(tool: &Tool) -> &'static str {
    match tool.tier() {
        Some(Tier::Readonly) => "read",
        Some(Tier::Mutating) => "write",
        Some(Tier::Destructive) | None => "destructive",
    }
}

impl Scopes {
    /// With these settings.
    #[must_use]
    pub fn new(config: ScopesConfig) -> Self {
        Self { config }
    }

    /// What the operator says that a tool requires: the entry that names it exactly, else all that cover it.
    fn explicit(&self, tool: &Tool) -> Option<Vec<&str>> {
        let rules = self.config.required.iter();
        let covering: Vec<_> = rules.filter(|(selector, _)| selector.covers(tool.id())).collect();
        let exact = covering.iter().find(|(selector, _)| selector.is_exact());
        let deciding = exact.map_or(covering.as_slice(), std::slice::from_ref);
        if deciding.is_empty() {
            return None;
        }
        let mut names: Vec<&str> = Vec::new();
        for scope in deciding.iter().flat_map(|(_, scopes)| scopes) {
            if !names.contains(&scope.as_str()) {
                names.push(scope.as_str());
            }
        }
        Some(names)
    }

    /// The one decision, for listings and calls alike. Gives the rule by which the tool passes.
    fn decide(&self, cx: &Context, tool: &Tool) -> Result<String, Failure> {
        let granted = Sources::of(&self.config.granted, cx);
        let required = match self.explicit(tool) {
            Some(names) => Required::All(names),
            None if granted.is_empty() => return Ok("no scopes are set".to_owned()),
            None => {
                let (category, verb) = (tool.category(), verb(tool));
                let both = format!("{category}:{verb}");
                Required::One([category.to_owned(), verb.to_owned(), both])
            }
        };
        let suffices = match &required {
            Required::All(names) => names.iter().all(|name| granted.grant(name)),
            Required::One(names) => names.iter().any(|name| granted.grant(name)),
        };
        if suffices {
            return Ok(format!("requires {}", required.words()));
        }
        // Nobody says anything about it, and its server does not know it either.
        if matches!(required, Required::One(_))
            && tool.definition().is_none()
            && tool.tier().is_none()
        {
            let message = format!("Unknown tool: '{}'", tool.id().name());
            return Err(Failure::new(Code::UnknownTool, message)
                .suggest("Call tools/list for available tools.")
                .by(NAME, "not listed"));
        }
        Err(refusal(cx, tool, &required, &granted))
    }
}

fn refusal(cx: &Context, tool: &Tool, required: &Required<'_>, granted: &Sources<'_>) -> Failure {
    let common = granted.common();
    let told = if common.is_empty() { "none".to_owned() } else { common.join(", ") };
    let words = required.words();
    let message = format!("Tool '{}' requires {words}; granted: {told}.", tool.id().name());
    Failure::new(Code::ScopeRejected, message)
        .suggest(suggestion(cx, required, granted))
        .by(NAME, format!("requires {words}"))
        .with_fact("required", required.names())
        .with_fact("granted", common)
}

/// Whom to ask, and which of the operator's settings lacks the scope. Scopes are no business of the caller's.
fn suggestion(cx: &Context, required: &Required<'_>, granted: &Sources<'_>) -> String {
    let mut lacking: Vec<GrantSource> = Vec::new();
    for name in required.names() {
        let more = granted.lacking(name).filter(|by| !lacking.contains(by)).collect::<Vec<_>>();
        lacking.extend(more);
    }
    if lacking.is_empty() {
        lacking.push(GrantSource::Namespace);
    }
    let namespace = &cx.session().namespace;
    let keys = lacking.iter().map(|by| match by {
        GrantSource::Namespace => format!("`scopes` of [namespaces.{namespace}]"),
        GrantSource::Principals => {
            format!("`grants` of [namespaces.{namespace}] for {}", cx.principal())
        }
        GrantSource::Variable => format!("what toolgate is started with in {VARIABLE}"),
    });
    let keys = keys.collect::<Vec<_>>().join(", and ");
    format!("Ask the operator whether you may have it: granted by {keys}.")
}

/// The same decision as a precondition, for a chain that wants it there: `CategoryEnabled` of the seed.
impl Precondition for Scopes {
    fn id(&self) -> &str {
        NAME
    }

    fn check<'a>(&'a self, cx: &'a Context, call: &'a Call) -> Boxed<'a, Verdict> {
        let verdict = match self.decide(cx, call.tool()) {
            Ok(_) => Verdict::Allow,
            Err(denial) => Verdict::Deny(denial),
        };
        Box::pin(std::future::ready(verdict))
    }

    fn foresee(&self, cx: &Context, call: &Call) -> Option<Verdict> {
        Some(match self.decide(cx, call.tool()) {
            Ok(_) => Verdict::Allow,
            Err(denial) => Verdict::Deny(denial),
        })
    }

    fn asks(&self) -> bool {
        false
    }

    fn needs_tools(&self) -> bool {
        Middleware::needs_tools(self)
    }
}

impl Middleware for Scopes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let list = |scopes: &[Scope]| match scopes {
            [] => "none".to_owned(),
            some => some.iter().map(Scope::as_str).collect::<Vec<_>>().join(", "),
        };
        let granted = &self.config.granted;
        let mut parts = Vec::new();
        if let Some(scopes) = &granted.namespace {
            parts.push(format!("granted {}", list(scopes)));
        }
        for (pattern, scopes) in granted.principals.iter().flatten() {
            parts.push(format!("{pattern}: {}", list(scopes)));
        }
        if granted.principals.as_ref().is_some_and(Vec::is_empty) {
            parts.push("nobody is granted any".to_owned());
        }
        if let Some(scopes) = &granted.variable {
            parts.push(format!("{VARIABLE}: {}", list(scopes)));
        }
        if !granted.is_given() {
            parts.push("none granted".to_owned());
        }
        match self.config.required.len() {
            0 => {}
            1 => parts.push("1 rule for single tools".to_owned()),
            more => parts.push(format!("{more} rules for single tools")),
        }
        parts.join("; ")
    }

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "denials are rendered too"),
            Order::Inside(super::log::NAME, "denials are recorded too"),
            Order::Inside(super::trail::NAME, "denials are recorded too"),
            Order::Outside("rate-limit", "only what is permitted uses up what is rationed"),
            Order::Outside(super::retry::NAME, "a denied call must never be tried again"),
            Order::Outside(super::timeout::NAME, "what is denied needs no time"),
        ]
    }

    /// Where scopes are granted, a tool without rules is judged by its tier, which its annotations may give.
    fn needs_tools(&self) -> bool {
        self.config.granted.is_given()
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        Some(match self.decide(cx, call.tool()) {
            Ok(rule) => Explained::of(&Ok(()), &rule),
            Err(denial) => Explained::of(&Err(denial), ""),
        })
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.decide(cx, call.tool()) {
            Ok(_) => next.call(cx, call).await,
            Err(denial) => denial.into(),
        }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        list.retain(|tool| self.decide(cx, tool).is_ok());
        Ok(list)
    }
}
