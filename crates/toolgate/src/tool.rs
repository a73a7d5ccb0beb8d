//! A tool as middleware sees it: identity, definition, tier and category.

use std::{fmt, sync::Arc};

use toolgate_wire::{Json, mcp::member};

use crate::{
    identity::ToolId,
    selector::Selector,
    tier::{Tier, ToolHints},
};

/// One tool. Built from a listing, shared by all calls.
///
/// ```
/// use toolgate::{Json, Tier, TierRules, Tool, ToolId};
///
/// let definition = serde_json::json!({"name": "read", "annotations": {"readOnlyHint": true}});
/// let tool = Tool::listed(ToolId::new("files", "read"), definition.into(), &TierRules::default());
/// assert_eq!(tool.tier(), Some(Tier::Readonly));
/// ```
#[derive(Clone)]
pub struct Tool {
    id: ToolId,
    definition: Option<Json>,
    hints: ToolHints,
    tier: Option<Tier>,
    category: Option<Arc<str>>,
}

impl Tool {
    /// A tool without a definition.
    #[must_use]
    pub fn unlisted(id: ToolId, rules: &TierRules) -> Self {
        let tier = rules.tier(&id, ToolHints::default());
        let category = rules.category(&id);
        Self { id, definition: None, hints: ToolHints::default(), tier, category }
    }

    /// A tool with its server's definition.
    #[must_use]
    pub fn listed(id: ToolId, definition: Json, rules: &TierRules) -> Self {
        let hints = hints(&definition);
        let tier = rules.tier(&id, hints);
        let category = rules.category(&id);
        Self { id, definition: Some(definition), hints, tier, category }
    }

    /// The same tool with the definition that clients see. Identity, tier and hints stay, whatever that definition
    /// says.
    #[must_use]
    pub fn published(&self, definition: Json) -> Self {
        Self { definition: Some(definition), ..self.clone() }
    }

    /// The identity of the tool.
    #[must_use]
    pub fn id(&self) -> &ToolId {
        &self.id
    }

    /// The server's definition, or `None` if the server never listed the tool.
    #[must_use]
    pub fn definition(&self) -> Option<&Json> {
        self.definition.as_ref()
    }

    /// The hints of the tool's annotations.
    #[must_use]
    pub fn hints(&self) -> ToolHints {
        self.hints
    }

    /// The tier: from the settings, otherwise from the tool's annotations, otherwise unknown.
    #[must_use]
    pub fn tier(&self) -> Option<Tier> {
        self.tier
    }

    /// The category: from the settings, otherwise the server's id. Servers cannot choose the category of a tool.
    #[must_use]
    pub fn category(&self) -> &str {
        self.category.as_deref().unwrap_or_else(|| self.id.server())
    }

    /// The names of the arguments, if the tool's schema allows no others (`additionalProperties: false`).
    #[must_use]
    pub fn closed_argument_names(&self) -> Option<Vec<String>> {
        let schema = self.definition.as_ref()?.get(member::INPUT_SCHEMA)?;
        if schema.get("additionalProperties").and_then(|json| json.bool()) != Some(false) {
            return None;
        }
        let properties = schema.get("properties").and_then(|json| json.object());
        Some(properties.map_or_else(Vec::new, |object| {
            object.iter().map(|(name, _)| name.into_owned()).collect()
        }))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("id", &self.id)
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

fn hints(definition: &Json) -> ToolHints {
    let Some(annotations) = definition.get("annotations") else {
        return ToolHints::default();
    };
    let hint = |name| annotations.get(name).and_then(|json| json.bool());
    ToolHints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// The operator's tiers, which take precedence over annotations, and categories.
///
/// ```
/// use toolgate::{Tier, TierRules, Tool, ToolId};
///
/// let rules = TierRules::new(vec![("files/*".parse()?, Tier::Destructive)], false);
/// assert_eq!(Tool::unlisted(ToolId::new("files", "read"), &rules).tier(), Some(Tier::Destructive));
/// # Ok::<(), toolgate::BadSelector>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRules {
    rules: Arc<[(Selector, Tier)]>,
    categories: Arc<[(Selector, Arc<str>)]>,
    trust_annotations: bool,
}

impl TierRules {
    /// Rules by selector. With `trust_annotations`, a tool's hints decide where no rule does.
    #[must_use]
    pub fn new(rules: Vec<(Selector, Tier)>, trust_annotations: bool) -> Self {
        Self { rules: rules.into(), categories: Arc::default(), trust_annotations }
    }

    /// Sets the categories of tools, by selector.
    #[must_use]
    pub fn with_categories(mut self, categories: Vec<(Selector, Arc<str>)>) -> Self {
        self.categories = categories.into();
        self
    }

    /// A rule that names the tool exactly takes precedence, then the first matching glob.
    fn category(&self, id: &ToolId) -> Option<Arc<str>> {
        let covering = || self.categories.iter().filter(|(selector, _)| selector.covers(id));
        let exact = covering().find(|(selector, _)| selector.is_exact());
        exact.or_else(|| covering().next()).map(|(_, category)| Arc::clone(category))
    }

    /// A rule that names the tool exactly takes precedence, then the worst tier of all matching globs.
    fn tier(&self, id: &ToolId, hints: ToolHints) -> Option<Tier> {
        let covering = || self.rules.iter().filter(|(selector, _)| selector.covers(id));
        let exact = covering().find(|(selector, _)| selector.is_exact());
        let ruled = exact.map(|(_, tier)| *tier).or_else(|| covering().map(|(_, t)| *t).max());
        ruled.or_else(|| if self.trust_annotations { hints.tier() } else { None })
    }
}

impl Default for TierRules {
    fn default() -> Self {
        Self::new(Vec::new(), true)
    }
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn tool(definition: &'static str, rules: &TierRules) -> Tool {
        let json = Json::parse(definition, &Limits::default()).unwrap();
        Tool::listed(ToolId::new("main", "t"), json, rules)
    }

    #[test]
    fn rules_come_before_annotations_and_exact_before_globs() {
        let annotated = r#"{"name":"t","annotations":{"readOnlyHint":true}}"#;
        let rule = |selector: &str, tier| (selector.parse().unwrap(), tier);
        assert_eq!(tool(annotated, &TierRules::default()).tier(), Some(Tier::Readonly));
        let globs = vec![rule("main/*", Tier::Readonly), rule("*/t", Tier::Destructive)];
        assert_eq!(
            tool(annotated, &TierRules::new(globs.clone(), true)).tier(),
            Some(Tier::Destructive)
        );
        let exact = [globs, vec![rule("main/t", Tier::Mutating)]].concat();
        assert_eq!(tool(annotated, &TierRules::new(exact, true)).tier(), Some(Tier::Mutating));
        assert_eq!(tool(annotated, &TierRules::new(vec![], false)).tier(), None);
    }

    #[test]
    fn hints_of_the_wrong_type_say_nothing() {
        let odd = r#"{"name":"t","annotations":{"readOnlyHint":"yes"}}"#;
        assert_eq!(tool(odd, &TierRules::default()).tier(), None);
        let none = r#"{"name":"t","annotations":[]}"#;
        assert_eq!(tool(none, &TierRules::default()).tier(), None);
    }

    #[test]
    fn only_a_closed_schema_names_its_arguments() {
        let closed = r#"{"name":"t","inputSchema":{"properties":{"a":{},"b":{}},"additionalProperties":false}}"#;
        let rules = TierRules::default();
        assert_eq!(
            tool(closed, &rules).closed_argument_names(),
            Some(vec!["a".into(), "b".into()])
        );
        let open = r#"{"name":"t","inputSchema":{"properties":{"a":{}}}}"#;
        assert_eq!(tool(open, &rules).closed_argument_names(), None);
    }
}
