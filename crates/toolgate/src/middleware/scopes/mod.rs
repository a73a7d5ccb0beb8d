//! Scopes: hides and refuses tools whose required scopes the caller does not have.
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
    authorize::{Authorize, Denial, ToolAccess},
    call::Call,
    context::Context,
    failure::Failure,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{
        Boxed, Order,
        preconditions::{Precondition, Verdict},
    },
    registry::Code,
    tier::Tier,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "scopes";

/// The declaration of the layer.
#[derive(Debug)]
pub struct ScopesSpec;

impl LayerSpec for ScopesSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "the layers inside of it do no work for a denied call"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<ScopesConfig>().map(|_| "`scopes`, `grants` or `MCP_SCOPES`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let config = inputs.get::<ScopesConfig>().cloned();
        let missing = "no scopes are granted, and no tool requires any";
        Ok(BuiltLayer::if_some(config.map(Scopes::new), missing))
    }
}

/// Allows tools whose required scopes are granted to the caller.
#[derive(Clone, Debug)]
pub struct Scopes {
    config: ScopesConfig,
}

/// The scopes that a tool requires.
enum Required<'a> {
    /// All of these, set by the operator for this tool.
    All(Vec<&'a str>),
    /// One of these, derived from the category and the tier of the tool.
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

/// The verb of a scope that stands for the tier of the tool. A tool of unknown tier counts as destructive.
fn verb(tool: &Tool) -> &'static str {
    match tool.tier() {
        Some(Tier::Readonly) => "read",
        Some(Tier::Mutating) => "write",
        Some(Tier::Destructive) | None => "destructive",
    }
}

impl Scopes {
    /// Creates the layer with these settings.
    #[must_use]
    pub fn new(config: ScopesConfig) -> Self {
        Self { config }
    }

    /// The scopes that the settings of the tool require: of the selector that names the tool exactly, else of all
    /// selectors that cover it.
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

    /// The scopes that the tool requires. `None` if its settings require none and no scopes are granted at all: then
    /// every caller may use it.
    fn required(&self, granted: &Sources<'_>, tool: &Tool) -> Option<Required<'_>> {
        if let Some(names) = self.explicit(tool) {
            return Some(Required::All(names));
        }
        if granted.is_empty() {
            return None;
        }
        let (category, verb) = (tool.category(), verb(tool));
        let both = format!("{category}:{verb}");
        Some(Required::One([category.to_owned(), verb.to_owned(), both]))
    }

    /// Decides whether the caller has the scopes that the tool requires.
    fn check(&self, cx: &Context, tool: &Tool) -> Result<(), Failure> {
        let granted = Sources::of(&self.config.granted, cx);
        let Some(required) = self.required(&granted, tool) else { return Ok(()) };
        let suffices = match &required {
            Required::All(names) => names.iter().all(|name| granted.grant(name)),
            Required::One(names) => names.iter().any(|name| granted.grant(name)),
        };
        if suffices {
            return Ok(());
        }
        // Neither the settings nor the server know this tool.
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

impl Scopes {
    fn verdict(&self, cx: &Context, call: &Call) -> Verdict {
        self.check(cx, call.tool()).map_or_else(Verdict::Deny, |()| Verdict::Allow)
    }
}

fn refusal(cx: &Context, tool: &Tool, required: &Required<'_>, granted: &Sources<'_>) -> Failure {
    let common = granted.common();
    let common_scopes = if common.is_empty() { "none".to_owned() } else { common.join(", ") };
    let words = required.words();
    let message =
        format!("Tool '{}' requires {words}; granted: {common_scopes}.", tool.id().name());
    Failure::new(Code::ScopeRejected, message)
        .suggest(suggestion(cx, required, granted))
        .by(NAME, format!("requires {words}"))
        .with_fact("required", required.names())
        .with_fact("granted", common)
}

/// The suggestion of a refusal: it names the setting with which the operator can grant the missing scope, because the
/// caller cannot grant itself scopes.
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

/// The same decision as a precondition, for `[[preconditions]]` that require it: `CategoryEnabled` of mcp-core.
impl Precondition for Scopes {
    fn id(&self) -> &str {
        NAME
    }

    fn check<'a>(&'a self, cx: &'a Context, call: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(std::future::ready(self.verdict(cx, call)))
    }

    fn foresee(&self, cx: &Context, call: &Call) -> Option<Verdict> {
        Some(self.verdict(cx, call))
    }

    fn asks(&self) -> bool {
        false
    }

    fn needs_tools(&self) -> bool {
        Authorize::needs_tools(self)
    }
}

impl Authorize for Scopes {
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
            parts.push("no principal is granted a scope".to_owned());
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

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "denials are rendered too"),
            Order::Inside(super::log::NAME, "denials are recorded too"),
            Order::Inside(super::trail::NAME, "denials are recorded too"),
            Order::Outside(
                super::rate_limit::NAME,
                "only permitted calls count against a rate limit",
            ),
            Order::Outside(super::retry::NAME, "a denied call must never be tried again"),
            Order::Outside(super::timeout::NAME, "a denied call needs no timeout"),
        ]
    }

    /// If scopes are granted, the decision about a tool without settings depends on its tier, which may come from
    /// annotations in the listing.
    fn needs_tools(&self) -> bool {
        self.config.granted.is_given()
    }

    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        Ok(self.check(cx, access.tool())?)
    }

    fn allowed_by(&self, cx: &Context, access: &ToolAccess<'_>) -> String {
        let granted = Sources::of(&self.config.granted, cx);
        match self.required(&granted, access.tool()) {
            Some(required) => format!("requires {}", required.words()),
            None => "no scopes are set".to_owned(),
        }
    }
}
