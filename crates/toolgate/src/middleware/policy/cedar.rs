//! The other form: a file of Cedar rules. Forbid beats permit, what nothing permits is denied, and so is
//! whatever a rule fails on.
//!
//! Most rules do not look at arguments, and what else they look at stays the same from call to call. So
//! the first question about a tool is answered with the arguments left open (Cedar's partial
//! evaluation). What that settles is kept, and a call only pays for the rules that it left open. A listing
//! asks the same, and shows a tool unless it is settled that no call of it is allowed.

mod arguments;
mod inspect;
mod rules;
mod standing;

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
use rules::Rule;
use standing::{Open, Standing, Standings};
use toolgate_wire::Json;

use super::{
    policies::PolicyError,
    verdict::{Arguments, Asked, Verdict},
};
use crate::tool::Tool;

/// The attribute of the context that arguments stand in.
const ARGUMENTS: &str = "arguments";

/// A file of rules, ready to decide.
pub(super) struct Cedar {
    /// In the order of the file.
    rules: Vec<Rule>,
    places: HashMap<PolicyId, usize>,
    all: PolicySet,
    authorizer: Authorizer,
    names: Names,
    /// Whether some rule looks at the client's name. If none does, it is left out, and not remembered.
    reads_client: bool,
    standings: Standings,
}

/// What is the same in every request.
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
            standings: Standings::default(),
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("{} rules of Cedar", self.rules.len())
    }

    pub(super) fn judge(&self, asked: Asked<'_>) -> Verdict {
        let client = asked.cx.client().filter(|_| self.reads_client);
        let client = client.map(|client| client.name.as_str());
        let standing = self.standings.find(asked, client, || self.settle(asked, client));
        match (&*standing, asked.arguments) {
            (Standing::Settled(verdict), _) => verdict.clone(),
            (Standing::Open(_), Arguments::Open) => Verdict::allow("depends on the arguments"),
            (Standing::Open(open), Arguments::Are(arguments)) => self.run(open, arguments),
        }
    }

    /// Decides what can be decided without the arguments.
    fn settle(&self, asked: Asked<'_>, client: Option<&str>) -> Standing {
        let settled = self.question(asked, client).and_then(|open| self.narrow(open));
        settled
            .unwrap_or_else(|fault| Standing::Settled(Verdict::failed("unreadable facts", fault)))
    }

    /// All that is known before the arguments are.
    fn question(&self, asked: Asked<'_>, client: Option<&str>) -> Result<Open, String> {
        let uid = |of: &EntityTypeName, id: String| {
            EntityUid::from_type_name_and_id(of.clone(), EntityId::new(id))
        };
        let principal = uid(&self.names.principal, asked.cx.principal().to_string());
        let tool = uid(&self.names.tool, asked.tool.id().to_string());
        let entities = entities(&tool, asked.tool)?;
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let mut facts = vec![("namespace".to_owned(), text(&asked.cx.session().namespace))];
        facts.extend(client.map(|client| ("client".to_owned(), text(client))));
        Ok(Open::new(principal, tool, entities, facts))
    }

    /// Leaves open only what depends on the arguments.
    fn narrow(&self, mut open: Open) -> Result<Standing, String> {
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
            return Ok(Standing::Settled(Verdict::deny(Arc::clone(&forbid.id))));
        }
        if let Some(rule) = self.first(partial.definitely_errored()) {
            // A partial answer does not tell what went wrong; running the rule alone does.
            let response = self.authorizer.is_authorized(&request, &rule.alone()?, &open.entities);
            return Ok(Standing::Settled(self.failure(&response)));
        }
        open.permit = permits.first().map(|permit| Arc::clone(&permit.id));
        match &open.permit {
            None if open_permits.is_empty() => {
                return Ok(Standing::Settled(Verdict::deny("no permit")));
            }
            Some(permit) if open_permits.is_empty() && open_forbids.is_empty() => {
                return Ok(Standing::Settled(Verdict::allow(Arc::clone(permit))));
            }
            _ => {}
        }
        for rule in open_permits.into_iter().chain(open_forbids) {
            open.rules.add(rule.policy.clone()).map_err(|fault| fault.to_string())?;
            open.reads.add(&rule.reads);
        }
        Ok(Standing::Open(Box::new(open)))
    }

    /// Decides the rest, now that the arguments are known.
    fn run(&self, open: &Open, arguments: Option<&Json>) -> Verdict {
        let known = arguments::record(arguments, &open.reads.arguments);
        let request = known.and_then(|known| self.request(open, known));
        let request = match request {
            Ok(request) => request,
            Err(fault) => return Verdict::failed("unreadable arguments", fault),
        };
        let response = self.authorizer.is_authorized(&request, &open.rules, &open.entities);
        let deciding = || self.first(response.diagnostics().reason());
        match (response.decision(), deciding()) {
            (Decision::Deny, Some(forbid)) => Verdict::deny(Arc::clone(&forbid.id)),
            // Cedar skips a rule that fails. A forbid that is skipped is an open door, so nothing is.
            _ if response.diagnostics().errors().next().is_some() => self.failure(&response),
            (Decision::Allow, Some(permit)) => Verdict::allow(Arc::clone(&permit.id)),
            _ => match &open.permit {
                Some(permit) => Verdict::allow(Arc::clone(permit)),
                None => Verdict::deny("no permit"),
            },
        }
    }

    fn request(&self, open: &Open, arguments: RestrictedExpression) -> Result<Request, String> {
        let arguments = [(ARGUMENTS.to_owned(), arguments)];
        let facts = Facts::from_pairs(open.facts.iter().cloned().chain(arguments));
        let facts = facts.map_err(|fault| fault.to_string())?;
        let (principal, tool) = (open.principal.clone(), open.tool.clone());
        Request::new(principal, self.names.call.clone(), tool, facts, None)
            .map_err(|fault| fault.to_string())
    }

    /// The denial by a rule that failed: the first in the file.
    fn failure(&self, response: &Response) -> Verdict {
        let failed = response.diagnostics().errors().filter_map(|fault| {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(fault) = fault;
            Some((*self.places.get(fault.policy_id())?, fault))
        });
        let first = failed.min_by_key(|(at, _)| *at);
        let rule = first.and_then(|(at, fault)| Some((self.rules.get(at)?, fault)));
        match rule {
            Some((rule, fault)) => {
                Verdict::failed(format!("{} failed", rule.id), fault.inner().to_string())
            }
            None => Verdict::failed("a rule failed", "nobody can say which"),
        }
    }

    /// Of these rules, the one that comes first in the file.
    fn first<'a>(&self, ids: impl Iterator<Item = &'a PolicyId>) -> Option<&Rule> {
        let first = ids.filter_map(|id| self.places.get(id)).min()?;
        self.rules.get(*first)
    }
}

/// The tool with its facts. What is not known is not there.
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
