//! Control data: members of a request's `_meta`. All but `toolgate/confirm` only restrict what the request may do.
//! `toolgate/confirm` is a caller's confirmation, which the layer `preconditions` may accept.

use std::{collections::HashSet, sync::Arc};

use toolgate_wire::Json;

use crate::{
    identity::ToolId,
    selector::{Selector, Steps},
};

const PARENT: &str = "parent_call_uuid";
const POLICY: &str = "policyId";
const ALLOWED: &str = "allowedTools";
const CONFIRM: &str = "toolgate/confirm";
const DRY_RUN: &str = "toolgate/dry_run";

/// Largest number of entries of `allowedTools`.
const MAX_ENTRIES: usize = 1000;
/// Largest length of an entry, a policy or a parent's id, in bytes.
const MAX_ENTRY: usize = 256;
/// Largest size of the whole list, in bytes of JSON.
const MAX_LIST_BYTES: usize = MAX_ENTRIES * (MAX_ENTRY + 8);
/// Largest size of a confirmation, in bytes.
const MAX_CONFIRM_BYTES: usize = 4096;
/// Largest number of policies, and of lists, of a call and its parents together.
const MAX_INHERITED: usize = 16;

/// The control data of a request, including that of its parent calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The id of the parent call.
    pub parent: Option<Arc<str>>,
    /// Policies that must allow the call, in addition to the operator's.
    pub policies: Vec<Arc<str>>,
    /// Lists of tools. A tool must be on all of them.
    pub allowed: Vec<Arc<AllowedTools>>,
    /// The confirmation of this call.
    pub confirm: Option<Json>,
    /// Whether the caller wants a preview only.
    pub dry_run: bool,
    /// The limit that the control data exceeds, if it does. Such a request is refused with this reason.
    pub fault: Option<Arc<str>>,
}

impl Control {
    /// The members of `_meta` that admission removes. They never reach a server.
    pub const KEYS: [&str; 5] = [PARENT, POLICY, ALLOWED, CONFIRM, DRY_RUN];

    /// Removes the control data from `_meta`. Returns it with the rest of `_meta`, or `None` for the rest if that is
    /// empty. Returns `None` if there is no control data.
    ///
    /// Invalid data denies: an `allowedTools` that is not a list allows no tool, a `policyId` that is not a string
    /// matches no policy, and any `dry_run` value except `false` means a dry run. Data beyond a limit allows no tool,
    /// and `fault` names the limit.
    #[must_use]
    pub fn extract(meta: &Json) -> Option<(Self, Option<Json>)> {
        let mut rest = meta.object()?;
        let parent = rest.remove(PARENT);
        let policy = rest.remove(POLICY);
        let allowed = rest.remove(ALLOWED);
        let confirm = rest.remove(CONFIRM);
        let dry_run = rest.remove(DRY_RUN);
        if !rest.is_changed() {
            return None;
        }
        let mut control = Self {
            dry_run: dry_run.is_some_and(|json| json.bool() != Some(false)),
            ..Self::default()
        };
        if let Some(json) = parent {
            control.parent = control.text(PARENT, &json);
        }
        if let Some(json) = policy {
            let text = control.text(POLICY, &json);
            control.policies.push(text.unwrap_or_default());
        }
        if let Some(json) = allowed {
            let list = AllowedTools::read(&json).unwrap_or_else(|fault| {
                control.exceeds(&fault);
                AllowedTools::default()
            });
            control.allowed.push(Arc::new(list));
        }
        control.confirm = confirm.filter(|json| {
            let fits = json.len() <= MAX_CONFIRM_BYTES;
            if !fits {
                control.exceeds(&format!("`{CONFIRM}` is longer than {MAX_CONFIRM_BYTES} bytes"));
            }
            fits
        });
        Some((control, if rest.is_empty() { None } else { Some(rest.finish()) }))
    }

    /// Control data that cannot be read: no tool is allowed.
    #[must_use]
    pub fn unreadable() -> Self {
        let mut control = Self::default();
        control.exceeds("the control data cannot be read");
        control
    }

    /// A text within the limit; `None` if it is too long.
    fn text(&mut self, key: &str, json: &Json) -> Option<Arc<str>> {
        let text = json.text().unwrap_or_default();
        if text.len() > MAX_ENTRY {
            self.exceeds(&format!("`{key}` is longer than {MAX_ENTRY} bytes"));
            return None;
        }
        Some(text.as_ref().into())
    }

    /// Allows no tool, for this reason.
    fn exceeds(&mut self, fault: &str) {
        self.allowed = vec![Arc::default()];
        self.fault = Some(format!("`_meta`: {fault}").into());
    }

    /// Resolves the names that a client sees to tools. A name of no tool allows none. A name that tools of several
    /// servers have allows only the one that the client sees under it.
    pub fn translate(&mut self, meant: impl Fn(&str) -> Option<ToolId>) {
        for list in &mut self.allowed {
            if !list.names.is_empty() {
                let tools = list.names.iter().filter_map(|name| meant(name));
                let tools = list.tools.iter().cloned().chain(tools).collect();
                let (selectors, bytes) = (list.selectors.clone(), list.bytes);
                *list = Arc::new(AllowedTools { selectors, names: HashSet::new(), tools, bytes });
            }
        }
    }

    /// Whether it restricts anything.
    #[must_use]
    pub fn narrows(&self) -> bool {
        !self.policies.is_empty() || !self.allowed.is_empty() || self.dry_run
    }

    /// Adds the restrictions of the parent call.
    pub fn inherit(&mut self, parent: &Self) {
        for policy in &parent.policies {
            if !self.policies.contains(policy) {
                self.policies.push(Arc::clone(policy));
            }
        }
        for list in &parent.allowed {
            if !self.allowed.iter().any(|own| Arc::ptr_eq(own, list)) {
                self.allowed.push(Arc::clone(list));
            }
        }
        self.dry_run |= parent.dry_run;
        self.fault = self.fault.take().or_else(|| parent.fault.clone());
        if self.policies.len() > MAX_INHERITED || self.allowed.len() > MAX_INHERITED {
            self.policies.truncate(MAX_INHERITED);
            self.exceeds(&format!(
                "the call and those that it is part of have more than {MAX_INHERITED} lists or policies"
            ));
        }
    }

    /// Approximate memory that the restrictions take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let policies: usize = self.policies.iter().map(|policy| policy.len() + 32).sum();
        let lists: usize = self.allowed.iter().map(|list| list.bytes + 128).sum();
        size_of::<Self>() + policies + lists
    }
}

/// `_meta.allowedTools`: selectors (`server/tool`), or names of tools on any server; globs in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedTools {
    /// Selectors with wildcards.
    selectors: Vec<Selector>,
    /// Names without server and wildcards, as clients see them.
    names: HashSet<String>,
    /// The tools that such names resolved to, and those named with their server.
    tools: HashSet<ToolId>,
    bytes: usize,
}

impl AllowedTools {
    fn read(json: &Json) -> Result<Self, String> {
        let mut allowed = Self::default();
        // Before parsing, which costs more memory than the text.
        if json.len() > MAX_LIST_BYTES {
            return Err(format!("`{ALLOWED}` is longer than {MAX_LIST_BYTES} bytes"));
        }
        let entries = json.array().unwrap_or_default();
        if entries.len() > MAX_ENTRIES {
            return Err(format!("`{ALLOWED}` has more than {MAX_ENTRIES} entries"));
        }
        for entry in entries {
            let Some(text) = entry.text() else { continue };
            if text.len() > MAX_ENTRY {
                return Err(format!("an entry of `{ALLOWED}` is longer than {MAX_ENTRY} bytes"));
            }
            allowed.bytes += text.len() + size_of::<Selector>() + 32;
            if !text.contains(['/', '*', '?']) {
                allowed.names.insert(text.into_owned());
            } else if let Ok(selector) =
                text.parse::<Selector>().or_else(|_| format!("*/{text}").parse())
            {
                match selector.exact() {
                    Some(tool) => drop(allowed.tools.insert(tool)),
                    None => allowed.selectors.push(selector),
                }
            }
        }
        Ok(allowed)
    }

    /// Whether the list contains this tool; `None` if matching takes more steps than are left.
    #[must_use]
    pub fn covers(&self, tool: &ToolId, steps: &mut Steps) -> Option<bool> {
        if self.tools.contains(tool) || self.names.contains(tool.name()) {
            return Some(true);
        }
        for selector in &self.selectors {
            if selector.covers_within(tool, steps)? {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn extract(text: &'static str) -> Option<(Control, Option<Json>)> {
        Control::extract(&Json::parse(text, &Limits::default()).unwrap())
    }

    fn covers(control: &Control, tool: &ToolId) -> bool {
        let mut steps = Steps::default();
        control.allowed.iter().all(|list| list.covers(tool, &mut steps) == Some(true))
    }

    #[test]
    fn control_data_is_lifted_and_the_rest_stays_as_it_was() {
        assert_eq!(extract(r#"{"progressToken": 1}"#), None);
        let (control, rest) = extract(
            r#"{"a": 1e5, "policyId":"p","allowedTools":["x","s/y*"],"parent_call_uuid":"u"}"#,
        )
        .unwrap();
        assert_eq!(rest.unwrap().as_str(), r#"{"a": 1e5}"#);
        assert_eq!(control.parent.as_deref(), Some("u"));
        assert_eq!(control.policies, [Arc::from("p")]);
        let covers = |server: &str, name: &str| covers(&control, &ToolId::new(server, name));
        assert!(covers("any", "x") && covers("s", "yes") && !covers("t", "yes"));
        assert_eq!(extract(r#"{"policyId":"p"}"#).unwrap().1, None);
    }

    #[test]
    fn names_that_clients_see_mean_the_tools_behind_them() {
        let (mut control, _) = extract(r#"{"allowedTools":["seen","gone","s/z"]}"#).unwrap();
        control.translate(|name| (name == "seen").then(|| ToolId::new("s", "own")));
        let covers = |server: &str, name: &str| covers(&control, &ToolId::new(server, name));
        assert!(covers("s", "own") && covers("s", "z"));
        assert!(!covers("s", "seen") && !covers("s", "gone"));
        assert!(!covers("other", "own"), "the name of another server's tool");
    }

    #[test]
    fn data_of_the_wrong_type_narrows_to_nothing() {
        for text in
            [r#"{"allowedTools":"x"}"#, r#"{"allowedTools":null}"#, r#"{"allowedTools":[1]}"#]
        {
            let (control, _) = extract(text).unwrap();
            assert!(!covers(&control, &ToolId::new("s", "x")), "{text}");
        }
        assert_eq!(extract(r#"{"policyId":7}"#).unwrap().0.policies, [Arc::from("")]);
    }

    #[test]
    fn a_dry_run_is_whatever_is_not_clearly_none() {
        let is_dry = |text| extract(text).unwrap().0.dry_run;
        assert!(is_dry(r#"{"toolgate/dry_run":true}"#) && is_dry(r#"{"toolgate/dry_run":"no"}"#));
        assert!(!is_dry(r#"{"toolgate/dry_run":false}"#));
        let (control, rest) = extract(r#"{"toolgate/confirm":"t","x":1}"#).unwrap();
        assert_eq!(control.confirm.unwrap().as_str(), r#""t""#);
        assert_eq!(rest.unwrap().as_str(), r#"{"x":1}"#);
    }

    #[test]
    fn a_nested_call_is_narrowed_by_both() {
        let (mut child, _) = extract(r#"{"allowedTools":["*"]}"#).unwrap();
        let (parent, _) = extract(r#"{"allowedTools":["x"],"policyId":"p"}"#).unwrap();
        child.inherit(&parent);
        let tool = ToolId::new("s", "y");
        assert!(!covers(&child, &tool));
        assert_eq!(child.policies.len(), 1);
    }

    #[test]
    fn data_beyond_a_bound_narrows_to_nothing_and_names_the_bound() {
        let long = "x".repeat(257);
        let many: Vec<String> = (0..1001).map(|n| format!("t{n}")).collect();
        for (meta, bound) in [
            (serde_json::json!({"allowedTools": many}), "1000 entries"),
            (serde_json::json!({"allowedTools": [long, "x"]}), "256 bytes"),
            (serde_json::json!({"allowedTools": ["x".repeat(300_000)]}), "264000 bytes"),
            (serde_json::json!({"allowedTools": ["x"], "policyId": long}), "`policyId` is longer"),
            (serde_json::json!({"allowedTools": ["x"], "parent_call_uuid": long}), "256 bytes"),
            (serde_json::json!({"toolgate/confirm": "x".repeat(5000)}), "4096 bytes"),
        ] {
            let (control, _) = Control::extract(&Json::value(&meta)).unwrap();
            let fault = control.fault.clone().unwrap_or_default();
            assert!(fault.contains(bound), "{bound}: {fault}");
            assert!(!covers(&control, &ToolId::new("s", "x")), "{bound}");
            assert!(control.bytes() < 2000, "{bound}: nothing of it is kept");
        }
        let most: Vec<String> = (0..1000).map(|n| format!("{n:0256}")).collect();
        let (control, _) =
            Control::extract(&Json::value(&serde_json::json!({"allowedTools": most}))).unwrap();
        assert!(control.fault.is_none() && covers(&control, &ToolId::new("s", &*most[7])));
    }

    #[test]
    fn what_is_inherited_is_bounded_and_the_same_counts_once() {
        let (parent, _) = extract(r#"{"allowedTools":["x"],"policyId":"p"}"#).unwrap();
        let mut child = parent.clone();
        (0..100).for_each(|_| child.inherit(&parent));
        assert_eq!((child.policies.len(), child.allowed.len()), (1, 1));
        for _ in 0..100 {
            let (other, _) = extract(r#"{"allowedTools":["x"]}"#).unwrap();
            child.inherit(&other);
        }
        assert!(child.fault.unwrap().contains("more than 16 lists"));
        assert!(child.allowed.len() <= 16);
    }

    #[test]
    fn patterns_take_a_bounded_number_of_steps() {
        let globs: Vec<String> = (0..1000).map(|n| format!("*a*b*{n}")).collect();
        let (control, _) =
            Control::extract(&Json::value(&serde_json::json!({"allowedTools": globs}))).unwrap();
        let mut steps = Steps::default();
        let tools = (0..100_000).map(|n| ToolId::new("s", format!("{}{n}", "ab".repeat(20))));
        let undecided = tools.map(|tool| control.allowed[0].covers(&tool, &mut steps));
        assert!(undecided.take_while(Option::is_some).count() < 100_000);
    }
}
