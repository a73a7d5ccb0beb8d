//! Policy: tools that some policy of the caller does not allow are hidden from listings and refused.
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

pub use config::{BadPrincipal, Bindings, PolicyConfig, PrincipalPattern};
use policies::Named;
pub use policies::{Policies, PolicyError};
use verdict::{PolicyArguments, PolicyRequest, PolicyVerdict};

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Explained, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
};

/// The layer's name.
pub const NAME: &str = "policy";

/// The longest id of an unknown policy that is repeated to whoever sent it, in characters.
const MAX_ID: usize = 100;

/// Lets pass what every policy allows that is bound to the call, or that the call names itself.
#[derive(Debug)]
pub struct Policy {
    known: Policies,
    namespace: Option<Arc<Named>>,
    principals: Vec<(PrincipalPattern, Arc<Named>)>,
}

impl Policy {
    /// Binds policies. A binding to one that does not exist is refused.
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

    /// The policies that must allow this call, each with its name: those of the operator first, then those
    /// that the request (and what it is part of) names itself. The latter come on top: they only narrow.
    fn bound<'a>(
        &'a self,
        cx: &'a Context,
    ) -> impl Iterator<Item = (&'a Arc<str>, Option<&'a Named>)> {
        let covering = self.principals.iter().filter(|(pattern, _)| pattern.covers(cx.principal()));
        let operator = self.namespace.iter().chain(covering.map(|(_, policy)| policy));
        let operator = operator.map(|policy| (&policy.name, Some(&**policy)));
        let named = cx.control().policies.iter();
        operator.chain(named.map(|id| (id, self.known.get(id).map(|policy| &**policy))))
    }

    /// The one decision, for listings and calls alike: every policy must allow.
    fn decide(&self, asked: PolicyRequest<'_>) -> Result<(), Failure> {
        for (id, policy) in self.bound(asked.cx) {
            let verdict = judge(policy, asked);
            if !verdict.allowed {
                return Err(denial(asked, id, policy.is_some(), &verdict));
            }
        }
        Ok(())
    }
}

/// What one policy says. One that nobody knows allows nothing.
fn judge(policy: Option<&Named>, asked: PolicyRequest<'_>) -> PolicyVerdict {
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

impl Middleware for Policy {
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

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
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

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        let asked = PolicyRequest {
            cx,
            tool: call.tool(),
            arguments: PolicyArguments::Known(call.arguments()),
        };
        let verdicts: Vec<_> =
            self.bound(cx).map(|(id, policy)| (id, judge(policy, asked))).collect();
        let deciding = verdicts.iter().find(|(_, verdict)| !verdict.allowed);
        let Some((id, verdict)) = deciding.or(verdicts.first()) else {
            let why = "no policy is bound to the namespace or the principal, or named by the call";
            return Some(Explained {
                allowed: true,
                asks: false,
                rule: "no policy".to_owned(),
                why: why.to_owned(),
            });
        };
        let reasons: Vec<_> = verdicts.iter().map(|(id, verdict)| reason(id, verdict)).collect();
        Some(Explained {
            allowed: verdict.allowed,
            asks: false,
            rule: format!("{id}: {}", verdict.rule),
            why: reasons.join("; "),
        })
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let arguments = PolicyArguments::Known(call.arguments());
        match self.decide(PolicyRequest { cx, tool: call.tool(), arguments }) {
            Ok(()) => next.call(cx, call).await,
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
        let arguments = PolicyArguments::Unknown;
        list.retain(|tool| self.decide(PolicyRequest { cx, tool, arguments }).is_ok());
        Ok(list)
    }
}

/// A verdict in words, for people who ask why.
fn reason(id: &str, verdict: &PolicyVerdict) -> String {
    let says = if verdict.allowed { "allows" } else { "denies" };
    match &verdict.fault {
        Some(fault) => format!("`{id}` {says} by {} ({fault})", verdict.rule),
        None => format!("`{id}` {says} by {}", verdict.rule),
    }
}
