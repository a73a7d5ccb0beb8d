//! Control data: what a request says in `_meta` to narrow what it may do. It never widens anything.

use std::sync::Arc;

use toolgate_wire::Json;

use crate::{identity::ToolId, selector::Selector};

const PARENT: &str = "parent_call_uuid";
const POLICY: &str = "policyId";
const ALLOWED: &str = "allowedTools";
const CONFIRM: &str = "toolgate/confirm";
const DRY_RUN: &str = "toolgate/dry_run";

/// What was lifted off one request's `_meta`, with what it inherits from the call that it is part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The call that this one is part of.
    pub parent: Option<Arc<str>>,
    /// Policies that must allow the call, besides those that the operator bound to it.
    pub policies: Vec<Arc<str>>,
    /// Lists of tools; a tool must be on each of them.
    pub allowed: Vec<Arc<AllowedTools>>,
    /// A confirmation of this very call.
    pub confirm: Option<Json>,
    /// The caller only wants to see what would be called.
    pub dry_run: bool,
}

impl Control {
    /// The members of `_meta` that are lifted off at the door. They never reach a tool.
    pub const KEYS: [&str; 5] = [PARENT, POLICY, ALLOWED, CONFIRM, DRY_RUN];

    /// Takes the control data out of `_meta`, and gives it with what is left of `_meta`, `None` if nothing
    /// is. Gives `None` if there is no control data.
    ///
    /// Data of the wrong type narrows to nothing: an allow list that is no list allows no tool, a policy
    /// that is no text is one that nobody knows, and whatever stands under dry run but `false` is one.
    #[must_use]
    pub fn lift(meta: &Json) -> Option<(Self, Option<Json>)> {
        let mut rest = meta.object()?;
        let parent = rest.remove(PARENT);
        let policy = rest.remove(POLICY);
        let allowed = rest.remove(ALLOWED);
        let confirm = rest.remove(CONFIRM);
        let dry_run = rest.remove(DRY_RUN);
        if !rest.is_changed() {
            return None;
        }
        let text = |json: Json| Arc::from(json.text().unwrap_or_default().as_ref());
        let control = Self {
            parent: parent.map(text),
            policies: policy.map(text).into_iter().collect(),
            allowed: allowed.map(|json| Arc::new(AllowedTools::read(&json))).into_iter().collect(),
            confirm,
            dry_run: dry_run.is_some_and(|json| json.bool() != Some(false)),
        };
        Some((control, if rest.is_empty() { None } else { Some(rest.finish()) }))
    }

    /// Turns names that a client sees into the tools that they mean, once, at the door; a name that means no tool any
    /// more allows none, and one that several servers have allows only the one that the client sees under it.
    pub fn translate(&mut self, meant: impl Fn(&str) -> Option<ToolId>) {
        for list in &mut self.allowed {
            let tools = list.names.iter().filter_map(|name| meant(name));
            let tools = list.tools.iter().cloned().chain(tools).collect();
            let selectors = list.selectors.clone();
            *list = Arc::new(AllowedTools { selectors, names: Vec::new(), tools });
        }
    }

    /// Whether it narrows anything.
    #[must_use]
    pub fn narrows(&self) -> bool {
        !self.policies.is_empty() || !self.allowed.is_empty() || self.dry_run
    }

    /// Adds what the call that this one is part of was narrowed to.
    pub fn inherit(&mut self, parent: &Self) {
        self.policies.extend(parent.policies.iter().cloned());
        self.allowed.extend(parent.allowed.iter().cloned());
        self.dry_run |= parent.dry_run;
    }
}

/// `_meta.allowedTools`: selectors (`server/tool`), or names of tools on any server; globs in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTools {
    selectors: Vec<Selector>,
    /// Names without a server and without wildcards: what a client sees.
    names: Vec<String>,
    /// The tools that such names turned out to mean.
    tools: Vec<ToolId>,
}

impl AllowedTools {
    fn read(json: &Json) -> Self {
        let mut allowed = Self { selectors: Vec::new(), names: Vec::new(), tools: Vec::new() };
        for entry in json.array().unwrap_or_default() {
            let Some(text) = entry.text() else { continue };
            if !text.contains(['/', '*', '?']) {
                allowed.names.push(text.into_owned());
            } else if let Ok(selector) = text.parse().or_else(|_| format!("*/{text}").parse()) {
                allowed.selectors.push(selector);
            }
        }
        allowed
    }

    /// Whether the list has this tool.
    #[must_use]
    pub fn covers(&self, tool: &ToolId) -> bool {
        self.tools.contains(tool)
            || self.names.iter().any(|name| name == tool.name())
            || self.selectors.iter().any(|selector| selector.covers(tool))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn lift(text: &'static str) -> Option<(Control, Option<Json>)> {
        Control::lift(&Json::parse(text, &Limits::default()).unwrap())
    }

    #[test]
    fn control_data_is_lifted_and_the_rest_stays_as_it_was() {
        assert_eq!(lift(r#"{"progressToken": 1}"#), None);
        let (control, rest) = lift(
            r#"{"a": 1e5, "policyId":"p","allowedTools":["x","s/y*"],"parent_call_uuid":"u"}"#,
        )
        .unwrap();
        assert_eq!(rest.unwrap().as_str(), r#"{"a": 1e5}"#);
        assert_eq!(control.parent.as_deref(), Some("u"));
        assert_eq!(control.policies, [Arc::from("p")]);
        let covers =
            |server: &str, name: &str| control.allowed[0].covers(&ToolId::new(server, name));
        assert!(covers("any", "x") && covers("s", "yes") && !covers("t", "yes"));
        assert_eq!(lift(r#"{"policyId":"p"}"#).unwrap().1, None);
    }

    #[test]
    fn names_that_clients_see_mean_the_tools_behind_them() {
        let (mut control, _) = lift(r#"{"allowedTools":["seen","gone","s/z"]}"#).unwrap();
        control.translate(|name| (name == "seen").then(|| ToolId::new("s", "own")));
        let covers =
            |server: &str, name: &str| control.allowed[0].covers(&ToolId::new(server, name));
        assert!(covers("s", "own") && covers("s", "z"));
        assert!(!covers("s", "seen") && !covers("s", "gone"));
        assert!(!covers("other", "own"), "the name of another server's tool");
    }

    #[test]
    fn data_of_the_wrong_type_narrows_to_nothing() {
        for text in
            [r#"{"allowedTools":"x"}"#, r#"{"allowedTools":null}"#, r#"{"allowedTools":[1]}"#]
        {
            let (control, _) = lift(text).unwrap();
            assert!(!control.allowed[0].covers(&ToolId::new("s", "x")), "{text}");
        }
        assert_eq!(lift(r#"{"policyId":7}"#).unwrap().0.policies, [Arc::from("")]);
    }

    #[test]
    fn a_dry_run_is_whatever_is_not_clearly_none() {
        let is_dry = |text| lift(text).unwrap().0.dry_run;
        assert!(is_dry(r#"{"toolgate/dry_run":true}"#) && is_dry(r#"{"toolgate/dry_run":"no"}"#));
        assert!(!is_dry(r#"{"toolgate/dry_run":false}"#));
        let (control, rest) = lift(r#"{"toolgate/confirm":"t","x":1}"#).unwrap();
        assert_eq!(control.confirm.unwrap().as_str(), r#""t""#);
        assert_eq!(rest.unwrap().as_str(), r#"{"x":1}"#);
    }

    #[test]
    fn a_nested_call_is_narrowed_by_both() {
        let (mut child, _) = lift(r#"{"allowedTools":["*"]}"#).unwrap();
        let (parent, _) = lift(r#"{"allowedTools":["x"],"policyId":"p"}"#).unwrap();
        child.inherit(&parent);
        let tool = ToolId::new("s", "y");
        assert!(!child.allowed.iter().all(|list| list.covers(&tool)));
        assert_eq!(child.policies.len(), 1);
    }
}
