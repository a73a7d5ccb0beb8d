//! The gate: the preconditions of each tool and their combined decision.

use std::{fmt, sync::Arc};

use super::{
    Approvals, ConfirmConfig, ConfirmKey, Mode, Precondition, PreconditionRule, PreconditionRules,
    Preview, Seals, Verdict,
    builtin::{ConfirmRequired, DryRun},
};
use crate::{
    call::Call,
    context::Context,
    layer_spec::LayerInputs,
    middleware::{
        audit::Redactor,
        scopes::{Scopes, ScopesConfig},
    },
    preset::Preset,
    selection::Selection,
    tool::Tool,
};

/// Why the settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPreconditions {
    /// A rule requires a precondition that does not exist.
    #[error("`preconditions` requires an unknown id `{id}`: there are {known}")]
    Unknown {
        /// The id.
        id: String,
        /// The ids that exist.
        known: String,
    },
    /// Two preconditions have one id.
    #[error("two preconditions have the id `{0}`: each needs one of its own")]
    DuplicateId(String),
    /// A rule selects no tools or requires nothing.
    #[error(
        "`{0}` is empty: a rule that never holds is worse than none; fill it, or remove the table"
    )]
    Empty(&'static str),
    /// The time for a confirmation is too short.
    #[error("`confirm.ttl` is shorter than a second: set it to at least `\"1s\"`")]
    Ttl,
    /// The settings contain both spellings of the mode.
    #[error(
        "`confirm.mode` and `confirm.dry_run` say the same thing: keep `mode = \"{mode}\"`, and remove `dry_run`",
        mode = .0.name()
    )]
    TwoModes(Mode),
    /// The limit of pending calls is zero.
    #[error(
        "`confirm.max_pending` is 0: write how many calls may wait, or `fallback = \"refuse\"`"
    )]
    NonePending,
    /// `[redact]` cannot be used.
    #[error("`[redact]` cannot be used: {0}")]
    Redact(String),
    /// The system has no randomness for seals.
    #[error("{0}")]
    Random(String),
}

/// The preconditions of tools.
pub struct Gate {
    rules: Vec<Rule>,
    pub(super) config: ConfirmConfig,
    pub(super) seals: Arc<Seals>,
    pub(super) approvals: Option<Arc<dyn Approvals>>,
    pub(super) redactor: Redactor,
    /// Where the operator's setting is, in words.
    pub(super) operator: &'static str,
}

/// Preconditions for a selection of tools.
struct Rule {
    when: Vec<Selection>,
    require: Vec<Arc<dyn Precondition>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// The combined decision of preconditions and the deciding rule.
pub(super) struct GateDecision {
    pub(super) verdict: Verdict,
    pub(super) rule: String,
}

impl GateDecision {
    /// The caller's own wish for a dry run.
    fn of_caller(cx: &Context) -> Self {
        if cx.control().dry_run {
            let why = "The caller asked for a dry run.".to_owned();
            let verdict = Verdict::Preview(Preview { why, missing: vec![ConfirmKey::Caller] });
            Self { verdict, rule: "_meta.toolgate/dry_run".to_owned() }
        } else {
            Self { verdict: Verdict::Allow, rule: String::new() }
        }
    }

    /// Combines with another verdict: the stricter one decides.
    fn and(mut self, verdict: Verdict, id: &str, selection: &Selection) -> Self {
        let before = std::mem::discriminant(&self.verdict);
        self.verdict = self.verdict.and(verdict);
        if before != std::mem::discriminant(&self.verdict) {
            self.rule = format!("{id} of {selection}");
        }
        self
    }
}

impl Gate {
    /// The gate that the settings describe.
    pub(super) fn from_inputs(inputs: &LayerInputs) -> Result<Arc<Self>, BadPreconditions> {
        let seals = match inputs.get::<Arc<Seals>>() {
            Some(seals) => Arc::clone(seals),
            None => Arc::new(Seals::new().map_err(BadPreconditions::Random)?),
        };
        let redactor = Redactor::new(&inputs.get_or_default());
        let redactor = redactor.map_err(|error| BadPreconditions::Redact(error.to_string()))?;
        let mut own = inputs.get_or_default::<Vec<Arc<dyn Precondition>>>();
        if let Some(scopes) = inputs.get::<ScopesConfig>() {
            own.push(Arc::new(Scopes::new(scopes.clone())));
        }
        let rules = inputs.get_or_default::<PreconditionRules>();
        let gate = Self::new(inputs.get(), &rules, &own, seals, redactor)?;
        let gate = gate.with_approvals(inputs.get::<Arc<dyn Approvals>>().cloned());
        Ok(Arc::new(match inputs.get::<Preset>() {
            Some(Preset::McpCore) => gate.opened_by("`MCP_DRY_RUN` is not `false`"),
            _ => gate,
        }))
    }

    /// A gate with these settings and the program's own preconditions.
    pub fn new(
        confirm: Option<&ConfirmConfig>,
        rules: &[PreconditionRule],
        own: &[Arc<dyn Precondition>],
        seals: Arc<Seals>,
        redactor: Redactor,
    ) -> Result<Self, BadPreconditions> {
        let config = confirm.cloned().unwrap_or_default();
        if config.ttl.as_secs() == 0 {
            return Err(BadPreconditions::Ttl);
        }
        if let (Some(mode), Some(_)) = (config.mode, config.dry_run) {
            return Err(BadPreconditions::TwoModes(mode));
        }
        if config.max_pending == 0 {
            return Err(BadPreconditions::NonePending);
        }
        let confirmed: Arc<dyn Precondition> = Arc::new(ConfirmRequired::new(config.mode()));
        let mut known: Vec<Arc<dyn Precondition>> = vec![Arc::clone(&confirmed), Arc::new(DryRun)];
        for precondition in own {
            let id = canonical(precondition.id());
            if known.iter().any(|other| other.id() == id) {
                return Err(BadPreconditions::DuplicateId(id.to_owned()));
            }
            known.push(Arc::clone(precondition));
        }
        let mut compiled = Vec::with_capacity(rules.len() + 1);
        if let Some(config) = confirm {
            if config.when.is_empty() {
                return Err(BadPreconditions::Empty("confirm.when"));
            }
            compiled.push(Rule { when: config.when.clone(), require: vec![confirmed] });
        }
        for rule in rules {
            compiled.push(compile(rule, &known)?);
        }
        let operator = "`confirm.mode` is `preview`";
        Ok(Self { rules: compiled, config, seals, approvals: None, redactor, operator })
    }

    /// Sets the store of approvals.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Option<Arc<dyn Approvals>>) -> Self {
        self.approvals = approvals;
        self
    }

    /// Uses an environment variable's name in messages, for presets in which it is the operator's setting.
    #[must_use]
    pub fn opened_by(mut self, words: &'static str) -> Self {
        self.operator = words;
        self
    }

    fn covering<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = (&'a Rule, &'a Selection)> {
        let hit = move |rule: &'a Rule| Some((rule, rule.when.iter().find(|s| s.covers(tool))?));
        self.rules.iter().filter_map(hit)
    }

    /// Whether any precondition of this tool may ask for a confirmation.
    pub(super) fn may_ask(&self, tool: &Tool) -> bool {
        self.covering(tool).any(|(rule, _)| rule.require.iter().any(|p| p.asks()))
    }

    /// Whether there is any rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn needs_tools(&self) -> bool {
        self.rules.iter().any(|rule| {
            rule.when.iter().any(Selection::needs_tools)
                || rule.require.iter().any(|precondition| precondition.needs_tools())
        })
    }

    /// The combined decision of the tool's preconditions. The caller's wish for a dry run applies to every tool.
    pub(super) async fn decide(&self, cx: &Context, call: &Call) -> GateDecision {
        let mut decision = GateDecision::of_caller(cx);
        for (rule, selection) in self.covering(call.tool()) {
            for precondition in &rule.require {
                decision =
                    decision.and(precondition.check(cx, call).await, precondition.id(), selection);
            }
        }
        decision
    }

    /// Like [`decide`](Self::decide) without side effects, and the ids of the preconditions that cannot decide before
    /// the call.
    pub(super) fn explain<'a>(
        &'a self,
        cx: &Context,
        call: &'a Call,
    ) -> (GateDecision, Vec<&'a str>) {
        let (mut decision, mut open) = (GateDecision::of_caller(cx), Vec::new());
        for (rule, selection) in self.covering(call.tool()) {
            for precondition in &rule.require {
                match precondition.foresee(cx, call) {
                    Some(verdict) => decision = decision.and(verdict, precondition.id(), selection),
                    None => open.push(precondition.id()),
                }
            }
        }
        (decision, open)
    }

    pub(super) fn describe(&self) -> String {
        let rules = self.rules.iter().map(|rule| {
            let when: Vec<String> = rule.when.iter().map(ToString::to_string).collect();
            let require: Vec<&str> = rule.require.iter().map(|p| p.id()).collect();
            format!("{} for {}", require.join(" and "), when.join(", "))
        });
        let rules: Vec<String> = rules.collect();
        // Other preconditions do not depend on the operator's setting.
        let needs_key = |rule: &Rule| rule.require.iter().any(|p| p.id() == "confirm");
        let is_shown = self.config.mode() == Mode::Preview && self.rules.iter().any(needs_key);
        let dry = if is_shown { "; preview only" } else { "" };
        if rules.is_empty() {
            "none; _meta.toolgate/dry_run shows a call instead".to_owned()
        } else {
            format!("{}{dry}", rules.join("; "))
        }
    }
}

/// Maps mcp-core's ids to toolgate's.
pub(super) fn canonical(id: &str) -> &str {
    match id {
        "ConfirmRequired" | "confirm_required" => "confirm",
        "CategoryEnabled" | "category_enabled" => "scopes",
        other => other,
    }
}

fn compile(
    rule: &PreconditionRule,
    known: &[Arc<dyn Precondition>],
) -> Result<Rule, BadPreconditions> {
    if rule.when.is_empty() {
        return Err(BadPreconditions::Empty("preconditions.when"));
    }
    if rule.require.is_empty() {
        return Err(BadPreconditions::Empty("preconditions.require"));
    }
    let find = |id: &String| {
        let found = known.iter().find(|precondition| precondition.id() == canonical(id));
        found.cloned().ok_or_else(|| {
            let known: Vec<String> = known.iter().map(|p| format!("`{}`", p.id())).collect();
            BadPreconditions::Unknown { id: id.clone(), known: known.join(", ") }
        })
    };
    let require = rule.require.iter().map(find).collect::<Result<_, _>>()?;
    Ok(Rule { when: rule.when.clone(), require })
}
