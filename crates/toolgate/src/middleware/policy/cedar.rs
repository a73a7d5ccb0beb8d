//! Policies of Cedar rules. `forbid` takes precedence over `permit`; a call that no rule permits, or that a rule fails
//! on, is denied.
//!
//! Most rules do not depend on arguments, and their other inputs do not change between calls. So the first request for
//! a tool is evaluated with unknown arguments (Cedar's partial evaluation), and the result is cached. A call evaluates
//! only the rules that are left. A listing uses the same result and shows a tool unless all calls of it are denied.

mod arguments;
mod inspect;
mod partial_decision;
mod rules;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::Path,
    sync::Arc,
};

use cedar_policy::{
    Authorizer, Context as Facts, Decision, Effect, Entities, Entity, EntityId, EntityTypeName,
    EntityUid, PolicyId, PolicySet, Request, Response, RestrictedExpression,
};
use partial_decision::{OpenDecision, PartialDecision, PartialDecisions};
use rules::CedarRule;
use toolgate_wire::Json;

use super::{
    policies::PolicyError,
    verdict::{PolicyArguments, PolicyRequest, PolicyVerdict},
};
use crate::tool::Tool;

/// The context attribute that contains the arguments.
const ARGUMENTS: &str = "arguments";

/// The compiled rules of a file.
pub(super) struct Cedar {
    /// In the order of the file.
    rules: Vec<CedarRule>,
    places: HashMap<PolicyId, usize>,
    all: PolicySet,
    authorizer: Authorizer,
    names: Names,
    /// Whether any rule reads the client's name. If none does, the name is not part of the cache key.
    reads_client: bool,
    partial_decisions: PartialDecisions,
}

/// The entity names that all requests share.
struct Names {
    principal: EntityTypeName,
    tool: EntityTypeName,
    call: EntityUid,
}

impl Cedar {
    pub(super) fn parse(name: &str, path: &Path, text: &str) -> Result<Self, PolicyError> {
        let file = rules::File { name, path };
        let rules = file.rules(text)?;
        let type_name = |text: &str| text.parse().map_err(|_| file.fault(text, "is no type name"));
        let action = EntityId::new("call");
        let names = Names {
            principal: type_name("Principal")?,
            tool: type_name("Tool")?,
            call: EntityUid::from_type_name_and_id(type_name("Action")?, action),
        };
        let all = PolicySet::from_policies(rules.iter().map(|rule| rule.policy.clone()));
        let all = all.map_err(|fault| file.fault("all", &fault.to_string()))?;
        let places = rules.iter().enumerate();
        Ok(Self {
            places: places.map(|(at, rule)| (rule.policy.id().clone(), at)).collect(),
            reads_client: rules.iter().any(|rule| rule.reads.client),
            rules,
            all,
            authorizer: Authorizer::new(),
            names,
            partial_decisions: PartialDecisions::default(),
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("{} rules of Cedar", self.rules.len())
    }

    pub(super) fn judge(&self, asked: PolicyRequest<'_>) -> PolicyVerdict {
        let client = asked.cx.client().filter(|_| self.reads_client);
        let client = client.map(|client| client.name.as_str());
        let decision = self.partial_decisions.find(asked, client, || self.settle(asked, client));
        match (&*decision, asked.arguments) {
            (PartialDecision::Settled(verdict), _) => verdict.clone(),
            (PartialDecision::Open(_), PolicyArguments::Unknown) => {
                PolicyVerdict::allow("depends on the arguments")
            }
            (PartialDecision::Open(open), PolicyArguments::Known(arguments)) => {
                self.run(open, arguments)
            }
        }
    }

    /// Evaluates the rules without the arguments.
    fn settle(&self, asked: PolicyRequest<'_>, client: Option<&str>) -> PartialDecision {
        let settled = self.question(asked, client).and_then(|open| self.narrow(open));
        settled.unwrap_or_else(|fault| {
            PartialDecision::Settled(PolicyVerdict::failed("unreadable facts", fault))
        })
    }

    /// The inputs that are known before the arguments.
    fn question(
        &self,
        asked: PolicyRequest<'_>,
        client: Option<&str>,
    ) -> Result<OpenDecision, String> {
        let uid = |of: &EntityTypeName, id: String| {
            EntityUid::from_type_name_and_id(of.clone(), EntityId::new(id))
        };
        let principal = uid(&self.names.principal, asked.cx.principal().to_string());
        let tool = uid(&self.names.tool, asked.tool.id().to_string());
        let entities = entities(&tool, asked.tool)?;
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let mut facts = vec![("namespace".to_owned(), text(&asked.cx.session().namespace))];
        facts.extend(client.map(|client| ("client".to_owned(), text(client))));
        Ok(OpenDecision::new(principal, tool, entities, facts))
    }

    /// Evaluates the rules partially and keeps those that depend on the arguments.
    fn narrow(&self, mut open: OpenDecision) -> Result<PartialDecision, String> {
        let request = self.request(&open, RestrictedExpression::new_unknown(ARGUMENTS))?;
        let partial = self.authorizer.is_authorized_partial(&request, &self.all, &open.entities);
        let among = |rules: &mut dyn Iterator<Item = cedar_policy::Policy>| {
            let ids: HashSet<_> = rules.map(|rule| rule.id().clone()).collect();
            let found = self.rules.iter().filter(move |rule| ids.contains(rule.policy.id()));
            found.partition::<Vec<_>, _>(|rule| rule.policy.effect() == Effect::Permit)
        };
        let (permits, forbids) = among(&mut partial.definitely_satisfied());
        let (open_permits, open_forbids) = among(&mut partial.nontrivial_residuals());
        if let Some(forbid) = forbids.first() {
            return Ok(PartialDecision::Settled(PolicyVerdict::deny(Arc::clone(&forbid.id))));
        }
        if let Some(rule) = self.first(partial.definitely_errored()) {
            // A partial evaluation has no error message; evaluating the rule alone has.
            let response = self.authorizer.is_authorized(&request, &rule.alone()?, &open.entities);
            return Ok(PartialDecision::Settled(self.failure(&response)));
        }
        open.permit = permits.first().map(|permit| Arc::clone(&permit.id));
        match &open.permit {
            None if open_permits.is_empty() => {
                return Ok(PartialDecision::Settled(PolicyVerdict::deny("no permit")));
            }
            Some(permit) if open_permits.is_empty() && open_forbids.is_empty() => {
                return Ok(PartialDecision::Settled(PolicyVerdict::allow(Arc::clone(permit))));
            }
            _ => {}
        }
        for rule in open_permits.into_iter().chain(open_forbids) {
            open.rules.add(rule.policy.clone()).map_err(|fault| fault.to_string())?;
            open.reads.add(&rule.reads);
        }
        Ok(PartialDecision::Open(Box::new(open)))
    }

    /// Evaluates the remaining rules with the arguments.
    fn run(&self, open: &OpenDecision, arguments: Option<&Json>) -> PolicyVerdict {
        let known = arguments::record(arguments, &open.reads.arguments);
        let request = known.and_then(|known| self.request(open, known));
        let request = match request {
            Ok(request) => request,
            Err(fault) => return PolicyVerdict::failed("unreadable arguments", fault),
        };
        let response = self.authorizer.is_authorized(&request, &open.rules, &open.entities);
        let deciding = || self.first(response.diagnostics().reason());
        match (response.decision(), deciding()) {
            (Decision::Deny, Some(forbid)) => PolicyVerdict::deny(Arc::clone(&forbid.id)),
            // Cedar skips a rule that fails. A skipped `forbid` would allow the call, so any failure denies it.
            _ if response.diagnostics().errors().next().is_some() => self.failure(&response),
            (Decision::Allow, Some(permit)) => PolicyVerdict::allow(Arc::clone(&permit.id)),
            _ => match &open.permit {
                Some(permit) => PolicyVerdict::allow(Arc::clone(permit)),
                None => PolicyVerdict::deny("no permit"),
            },
        }
    }

    fn request(
        &self,
        open: &OpenDecision,
        arguments: RestrictedExpression,
    ) -> Result<Request, String> {
        let arguments = [(ARGUMENTS.to_owned(), arguments)];
        let facts = Facts::from_pairs(open.facts.iter().cloned().chain(arguments));
        let facts = facts.map_err(|fault| fault.to_string())?;
        let (principal, tool) = (open.principal.clone(), open.tool.clone());
        Request::new(principal, self.names.call.clone(), tool, facts, None)
            .map_err(|fault| fault.to_string())
    }

    /// The denial for the first rule of the file that failed.
    fn failure(&self, response: &Response) -> PolicyVerdict {
        let failed = response.diagnostics().errors().filter_map(|fault| {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(fault) = fault;
            Some((*self.places.get(fault.policy_id())?, fault))
        });
        let first = failed.min_by_key(|(at, _)| *at);
        let rule = first.and_then(|(at, fault)| Some((self.rules.get(at)?, fault)));
        match rule {
            Some((rule, fault)) => {
                PolicyVerdict::failed(format!("{} failed", rule.id), fault.inner().to_string())
            }
            None => PolicyVerdict::failed("a rule failed", "the rule is unknown"),
        }
    }

    /// The first of these rules in the file.
    fn first<'a>(&self, ids: impl Iterator<Item = &'a PolicyId>) -> Option<&CedarRule> {
        let first = ids.filter_map(|id| self.places.get(id)).min()?;
        self.rules.get(*first)
    }
}

/// The tool with its known attributes.
fn entities(uid: &EntityUid, tool: &Tool) -> Result<Entities, String> {
    let text = |text: &str| Some(RestrictedExpression::new_string(text.to_owned()));
    let flag = |flag: Option<bool>| flag.map(RestrictedExpression::new_bool);
    let hints = tool.hints();
    let attributes = [
        ("server", text(tool.id().server())),
        ("name", text(tool.id().name())),
        ("tier", tool.tier().and_then(|tier| text(tier.name()))),
        ("readOnlyHint", flag(hints.read_only)),
        ("destructiveHint", flag(hints.destructive)),
        ("idempotentHint", flag(hints.idempotent)),
        ("openWorldHint", flag(hints.open_world)),
    ];
    let known = attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let entity = Entity::new(uid.clone(), known.collect(), HashSet::new());
    let entity = entity.map_err(|fault| fault.to_string())?;
    Entities::from_entities([entity], None).map_err(|fault| fault.to_string())
}

impl fmt::Debug for Cedar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cedar({} rules)", self.rules.len())
    }
}
