//! The findings of `toolgate check` in one namespace.

use std::{path::Path, sync::Arc};

use toolgate::{
    Call, Context, Middleware as _, Selection, Selector, Tool, ToolId,
    middleware::validate::{Validate, ValidateConfig},
    settings::Settings,
};
use toolgate_gateway::gateway::{InspectedNamespace, ServerStatus};

/// The findings, one sentence each.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// For information.
    pub(super) notes: Vec<String>,
    /// What the operator should look at.
    pub(super) problems: Vec<String>,
}

impl Findings {
    pub(super) fn new(namespace: &InspectedNamespace, servers: &[ServerStatus]) -> Self {
        let mut found = Self::default();
        if !namespace.was_asked() {
            return found;
        }
        found.notes.extend(asked_about(namespace));
        found.notes.extend(namespace.renamed.iter().cloned());
        found.problems.extend(namespace.collisions.iter().cloned());
        found.problems.extend(unusable_schemas(namespace));
        found.problems.extend(without_tier(namespace));
        found.problems.extend(covering_nothing(namespace, servers));
        found
    }
}

/// The tools whose calls a person has to confirm.
fn asked_about(namespace: &InspectedNamespace) -> Option<String> {
    let cx = Context::new(Arc::new(namespace.session().clone()));
    let asks = |tool: &&Arc<Tool>| {
        let verdicts = namespace.chain().explain(&cx, &Call::new(Arc::clone(tool), None));
        verdicts.into_iter().any(|(_, verdict)| verdict.is_some_and(|verdict| verdict.asks))
    };
    let tools = namespace.tools.iter().map(|tool| &tool.tool).filter(asks);
    let tools: Vec<String> = tools.map(|tool| format!("`{}`", tool.id())).collect();
    (!tools.is_empty()).then(|| format!("a person has to confirm calls of {}", tools.join(", ")))
}

/// Tools whose published schema is unusable, by the verdict of the `validate` layer.
fn unusable_schemas(namespace: &InspectedNamespace) -> Vec<String> {
    let strict = ValidateConfig::with(|config| {
        config.input_schema = true;
        config.strict = true;
    });
    let Ok(validate) = Validate::new(&strict, Path::new("")) else { return Vec::new() };
    let cx = Context::new(Arc::new(namespace.session().clone()));
    let unusable = namespace.tools.iter().filter(|tool| {
        let verdict = validate.explain(&cx, &Call::new(Arc::clone(&tool.tool), None));
        verdict.is_some_and(|verdict| !verdict.allowed && verdict.rule == "strict")
    });
    let tell =
        |id: &ToolId| format!("the input schema of `{id}` cannot be used to check arguments");
    unusable.map(|tool| tell(tool.tool.id())).collect()
}

fn without_tier(namespace: &InspectedNamespace) -> Vec<String> {
    if namespace.settings().safety.is_none() {
        return Vec::new();
    }
    let name = namespace.name();
    let without =
        namespace.tools.iter().map(|tool| &tool.tool).filter(|tool| tool.tier().is_none());
    without
        .map(|tool| {
            let id = tool.id();
            format!("`{id}` has no tier, so no client can call it: [namespaces.{name}.tools.\"{id}\"] tier = …")
        })
        .collect()
}

/// Selectors that match no tool of the namespace. Shared tables may select tools of other namespaces, and globs may
/// select tools that appear later: of those, only exact names count, if their server is in this namespace.
fn covering_nothing(namespace: &InspectedNamespace, servers: &[ServerStatus]) -> Vec<String> {
    // The tools of a server that failed are unknown.
    let has_failed = |name: &str| servers.iter().any(|s| s.name == name && s.state != "ready");
    let covers = |selector: &Selector| {
        namespace.tools.iter().any(|tool| selector.covers(tool.tool.id()))
            || namespace.servers().any(|server| has_failed(server) && may_mean(selector, server))
    };
    let mut found = Vec::new();
    let of = match namespace.servers().collect::<Vec<_>>().as_slice() {
        [_] => "this server".to_owned(),
        _ => format!("the namespace `{}`", namespace.name()),
    };
    for (selector, _) in &namespace.settings().tools {
        if !covers(selector) {
            found.push(format!("the settings of `{selector}` match no tool of {of}"));
        }
    }
    for (key, selector) in shared(namespace.settings()) {
        let Some(id) = selector.exact() else { continue };
        let is_here = namespace.servers().any(|server| server == id.server());
        if is_here && !covers(selector) {
            found.push(format!(
                "`{key}` names `{selector}`, which the server `{}` does not list",
                id.server()
            ));
        }
    }
    found.dedup();
    found
}

/// Whether a selector may match tools of this server.
fn may_mean(selector: &Selector, server: &str) -> bool {
    let text = selector.to_string();
    let half = text.split_once('/').map_or("", |(server, _)| server);
    half == server || half.contains(['*', '?'])
}

/// The selectors of the tables that namespaces may share, with their keys.
fn shared<'a>(settings: &'a Settings) -> Vec<(String, &'a Selector)> {
    let mut all = Vec::new();
    let mut add = |key: &str, selectors: Vec<&'a Selector>| {
        all.extend(selectors.into_iter().map(|selector| (key.to_owned(), selector)));
    };
    let bound = settings.policy.iter().chain(settings.principals.iter().map(|(_, name)| name));
    for (name, policy) in bound.filter_map(|name| settings.policies.get_key_value(name)) {
        add(&format!("policies.{name}.allow"), policy.allow.iter().collect());
        add(&format!("policies.{name}.deny"), policy.deny.iter().collect());
    }
    if let Some(confirm) = &settings.confirm {
        add("confirm.when", confirm.when.iter().filter_map(glob).collect());
    }
    for rule in settings.preconditions.iter().flatten() {
        add("preconditions.when", rule.when.iter().filter_map(glob).collect());
    }
    if let Some(flags) = &settings.flags {
        add("flags.disabled", flags.disabled.iter().collect());
    }
    for rule in &settings.limits.rate {
        add("limits.rate", rule.tools.0.iter().collect());
    }
    for rule in &settings.limits.quota {
        add("limits.quota", rule.tools.0.iter().collect());
    }
    all
}

fn glob(selection: &Selection) -> Option<&Selector> {
    match selection {
        Selection::Glob(selector) => Some(selector),
        Selection::Facts(facts) => facts.tools.as_ref(),
    }
}
