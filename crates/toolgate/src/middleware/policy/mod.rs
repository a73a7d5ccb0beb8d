//! Policy: hides and refuses tools that a policy of the caller does not allow.
#![doc = include_str!("README.md")]

#[cfg(feature = "cedar")]
mod cedar;
mod config;
mod globs;
mod policies;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

pub use config::{BadPrincipal, Bindings, PolicyConfig, PolicyTables, PrincipalPattern};
use policies::NamedPolicy;
pub use policies::{Policies, PolicyError};
use verdict::{PolicyRequest, PolicyVerdict};

use crate::{
    authorize::{Authorize, Denial, ToolAccess},
    context::Context,
    failure::Failure,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec, SettingsFolder},
    middleware::Order,
    registry::Code,
};

/// The layer's name.
pub const NAME: &str = "policy";

/// The declaration of the layer.
#[derive(Debug)]
pub struct PolicySpec;

impl LayerSpec for PolicySpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "checks what the caller may use; the layers inside of it do no work for a denied call"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<Bindings>()?.binds().then_some("a policy")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        // Always on: a request may name a policy to restrict its own calls.
        let folder = inputs.get_or_default::<SettingsFolder>();
        let policies = inputs.get_or_default::<PolicyTables>();
        let policies =
            Policies::load(&policies.0, &folder.0).map_err(PolicyError::into_bad_settings)?;
        let policy = Policy::new(&policies, &inputs.get_or_default());
        Ok(BuiltLayer::on(policy.map_err(PolicyError::into_bad_settings)?))
    }
}

/// Longer ids of policies are cut to this number of characters in messages.
const MAX_ID: usize = 100;

/// Allows a tool if every policy allows it: those that the operator binds to the caller, and those that the request
/// names.
#[derive(Debug)]
pub struct Policy {
    known: Policies,
    namespace: Option<Arc<NamedPolicy>>,
    principals: Vec<(PrincipalPattern, Arc<NamedPolicy>)>,
}

impl Policy {
    /// Binds policies to the namespace and to principals. Refuses a binding to a policy that does not exist.
    pub fn new(known: &Policies, bindings: &Bindings) -> Result<Self, PolicyError> {
        let namespace = bindings.namespace.as_deref();
        let namespace = namespace.map(|name| known.bound(name, "the namespace")).transpose()?;
        let principals = bindings.principals.iter().map(|(pattern, name)| {
            let policy = known.bound(name, &format!("the principal `{pattern}`"))?;
            Ok((pattern.clone(), policy))
        });
        let principals = principals.collect::<Result<_, PolicyError>>()?;
        Ok(Self { known: known.clone(), namespace, principals })
    }

    /// The policies that must allow this call, each with its name: first those of the operator, then those that the
    /// request, or a call that the request is part of, names. The latter can only restrict further.
    fn bound<'a>(
        &'a self,
        cx: &'a Context,
    ) -> impl Iterator<Item = (&'a Arc<str>, Option<&'a NamedPolicy>)> {
        let covering = self.principals.iter().filter(|(pattern, _)| pattern.covers(cx.principal()));
        let operator = self.namespace.iter().chain(covering.map(|(_, policy)| policy));
        let operator = operator.map(|policy| (&policy.name, Some(&**policy)));
        let named = cx.control().policies.iter();
        operator.chain(named.map(|id| (id, self.known.get(id).map(|policy| &**policy))))
    }

    /// Decides whether the tool may be called: every policy must allow it.
    fn check(&self, asked: PolicyRequest<'_>) -> Result<(), Failure> {
        for (id, policy) in self.bound(asked.cx) {
            let verdict = judge(policy, asked);
            if !verdict.allowed {
                return Err(denial(asked, id, policy.is_some(), &verdict));
            }
        }
        Ok(())
    }
}

/// The verdict of one policy. An unknown policy (`None`) allows nothing.
fn judge(policy: Option<&NamedPolicy>, asked: PolicyRequest<'_>) -> PolicyVerdict {
    policy.map_or_else(|| PolicyVerdict::deny("unknown policy"), |policy| policy.judge(asked))
}

fn denial(asked: PolicyRequest<'_>, id: &str, is_known: bool, verdict: &PolicyVerdict) -> Failure {
    let id = match id.char_indices().nth(MAX_ID) {
        Some((end, _)) => format!("{}…", id.get(..end).unwrap_or_default()),
        None => id.to_owned(),
    };
    let suggestion = match (is_known, &verdict.fault) {
        (false, _) => "Name a policy that there is in `_meta.policyId`, or none.".to_owned(),
        (true, Some(_)) => format!(
            "The rule could not be judged for this call. Ask the operator to look at [policies.{id}]; \
             `toolgate why` tells what went wrong."
        ),
        (true, None) => format!("Ask the operator to allow it in [policies.{id}]."),
    };
    let message = format!("Access denied to tool {} by policy {id}", asked.tool.id().name());
    Failure::new(Code::PolicyDenied, message)
        .suggest(suggestion)
        .by(NAME, format!("{id}: {}", verdict.rule))
}

impl Authorize for Policy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let namespace = self.namespace.iter().map(|policy| policy.describe());
        let principals = self.principals.iter();
        let principals = principals.map(|(pattern, to)| format!("{pattern}: {}", to.describe()));
        let bound: Vec<_> = namespace.chain(principals).collect();
        if bound.is_empty() { "none bound".to_owned() } else { bound.join(", ") }
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "denials are rendered too"),
            Order::Inside(super::log::NAME, "denials are recorded too"),
            Order::Outside(super::retry::NAME, "a denied call must never be tried again"),
        ]
    }

    fn needs_tools(&self) -> bool {
        self.known.need_facts()
    }

    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        Ok(self.check(PolicyRequest::of(cx, access))?)
    }

    fn allowed_by(&self, cx: &Context, access: &ToolAccess<'_>) -> String {
        self.reason(cx, access, Ok(())).0
    }

    fn reason(
        &self,
        cx: &Context,
        access: &ToolAccess<'_>,
        _: Result<(), &Failure>,
    ) -> (String, String) {
        let asked = PolicyRequest::of(cx, access);
        let verdicts: Vec<_> =
            self.bound(cx).map(|(id, policy)| (id, judge(policy, asked))).collect();
        let deciding = verdicts.iter().find(|(_, verdict)| !verdict.allowed);
        let Some((id, verdict)) = deciding.or(verdicts.first()) else {
            let why = "no policy is bound to the namespace or the principal, or named by the call";
            return ("no policy".to_owned(), why.to_owned());
        };
        let reasons: Vec<_> = verdicts.iter().map(|(id, verdict)| reason(id, verdict)).collect();
        (format!("{id}: {}", verdict.rule), reasons.join("; "))
    }
}

/// A verdict in words, for `toolgate why`.
fn reason(id: &str, verdict: &PolicyVerdict) -> String {
    let says = if verdict.allowed { "allows" } else { "denies" };
    match &verdict.fault {
        Some(fault) => format!("`{id}` {says} by {} ({fault})", verdict.rule),
        None => format!("`{id}` {says} by {}", verdict.rule),
    }
}
