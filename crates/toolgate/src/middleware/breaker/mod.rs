//! Breaker: refuses calls to a server or tool that keeps failing, until a trial call succeeds.
#![doc = include_str!("README.md")]

mod circuit;
mod config;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use circuit::{CallEnd, Circuit, CircuitDecision};
pub use config::{BadBreaker, BreakerConfig, BreakerScope};
use tokio::time::Instant;

use crate::{
    call::Call,
    context::Context,
    duration,
    failure::Failure,
    identity::{Principal, ToolId},
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
    registry::{Class, Code},
};

/// The layer's name.
pub const NAME: &str = "breaker";

/// The declaration of the layer.
#[derive(Debug)]
pub struct BreakerSpec;

impl LayerSpec for BreakerSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "refuses calls to a failing server before an intent is recorded or a call is retried"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<BreakerConfig>().map(|_| "`[breaker]`")
    }

    fn add_state(&self, inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        inputs.add_default::<Circuits>();
        Ok(())
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let circuits = inputs.get_or_default::<Circuits>();
        let config = inputs.get::<BreakerConfig>().cloned();
        let layer = config.map(|config| Breaker::new(config, circuits)).transpose()?;
        Ok(BuiltLayer::if_some(layer, "there is no `[breaker]`"))
    }
}

/// The limit of servers or tools that have circuits, so that a client cannot grow the table by calling invented names.
const MAX_CIRCUITS: usize = 10_000;
/// The limit of principals that have circuits of their own for one server or tool.
const MAX_PRINCIPALS: usize = 1000;
/// The number of principals whose circuits must be open before the calls of all other principals are refused, too.
const MIN_OPEN_CIRCUITS: usize = 2;

type Key = (Box<str>, Option<Box<str>>);

/// The circuits of the principals whose calls failed. Each principal has its own, because its calls may fail by its own
/// doing.
type Group = HashMap<Principal, Circuit>;

/// The circuits of all servers. They outlive a chain: the chain for changed settings uses the same circuits.
#[derive(Clone, Debug, Default)]
pub struct Circuits(Arc<Mutex<HashMap<Key, Group>>>);

impl Circuits {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Group>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses calls to servers or tools that keep failing.
#[derive(Debug)]
pub struct Breaker {
    config: BreakerConfig,
    circuits: Circuits,
}

impl Breaker {
    /// Creates the layer, with the circuits of an earlier chain or new ones. Refuses settings that make no sense.
    pub fn new(config: BreakerConfig, circuits: Circuits) -> Result<Self, BadBreaker> {
        config.checked()?;
        Ok(Self { config, circuits })
    }

    fn key(&self, id: &ToolId) -> Key {
        let tool = (self.config.per == BreakerScope::Tool).then(|| id.name().into());
        (id.server().into(), tool)
    }

    fn enter(&self, id: &ToolId, principal: &Principal) -> Result<PassedCall<'_>, Failure> {
        let key = self.key(id);
        let mut circuits = self.circuits.lock();
        let mut is_trial = false;
        if let Some(group) = circuits.get_mut(&key) {
            let now = Instant::now();
            match group
                .get_mut(principal)
                .map_or(CircuitDecision::Free, |circuit| circuit.pass(now))
            {
                CircuitDecision::Free => {
                    // This principal's own circuit is closed. Its calls are refused only if those of several others
                    // fail.
                    let waits: Vec<Duration> =
                        group.values().filter_map(|c| c.open_for(now)).collect();
                    if let Some(wait) =
                        waits.iter().min().filter(|_| waits.len() >= MIN_OPEN_CIRCUITS)
                    {
                        let why = format!("calls of {} principals keep failing", waits.len());
                        return Err(refusal(&key, *wait, &why));
                    }
                }
                CircuitDecision::Trial => is_trial = true,
                CircuitDecision::Refused(wait) => {
                    let why = group.get(principal).map(|circuit| circuit.why(&self.config));
                    return Err(refusal(&key, wait, &why.unwrap_or_default()));
                }
            }
        }
        drop(circuits);
        let principal = principal.clone();
        Ok(PassedCall { breaker: self, key, principal, is_trial, ending: CallEnd::Unclear })
    }
}

fn refusal((server, tool): &Key, wait: Duration, why: &str) -> Failure {
    let what = match tool {
        Some(tool) => format!("The tool `{tool}` of the server `{server}`"),
        None => format!("The server `{server}`"),
    };
    let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
    let message = format!("{what} is not called: {why}; it is tried again in {seconds}s");
    let rule = format!("breaker: {why}");
    Failure::new(Code::CircuitOpen, message)
        .suggest(format!("Call again in {seconds} seconds; what others offer still works."))
        .retry_after(Duration::from_secs(seconds))
        .by(NAME, rule)
}

/// A call that passed. Its drop records the end of the call in the circuit, also for a cancelled call.
struct PassedCall<'a> {
    breaker: &'a Breaker,
    key: Key,
    principal: Principal,
    is_trial: bool,
    ending: CallEnd,
}

impl Drop for PassedCall<'_> {
    fn drop(&mut self) {
        let mut circuits = self.breaker.circuits.lock();
        // A call that succeeds adds no circuit.
        let failed = self.ending == CallEnd::Failed;
        if !circuits.contains_key(&self.key) && (!failed || circuits.len() >= MAX_CIRCUITS) {
            return;
        }
        let key = (self.key.0.clone(), self.key.1.clone());
        let group = circuits.entry(key).or_default();
        let is_known = group.contains_key(&self.principal);
        if !is_known && (!failed || group.len() >= MAX_PRINCIPALS) {
            return;
        }
        let config = &self.breaker.config;
        let circuit = group.entry(self.principal.clone()).or_default();
        if circuit.ended(self.ending, self.is_trial, config, Instant::now()) {
            let ((server, tool), principal) = (&self.key, &self.principal);
            let why = circuit.why(config);
            tracing::warn!(%server, ?tool, %principal, "not called for a while: {why}");
        }
        if circuit.is_initial() {
            group.remove(&self.principal);
        }
        if group.is_empty() {
            circuits.remove(&self.key);
        }
    }
}

/// Whether the outcome counts as a success or a failure of the server, or as neither.
fn ending(outcome: &Outcome) -> CallEnd {
    match outcome.failure().map(Failure::code) {
        Some(
            Code::ServerCrashed
            | Code::ServerUnavailable
            | Code::ServerStartTimeout
            | Code::ServerProtocol
            | Code::TimedOut,
        ) => CallEnd::Failed,
        Some(Code::Overloaded) => CallEnd::Unclear,
        _ => match outcome.class() {
            Class::Ok | Class::ToolError | Class::InputRequired | Class::UpstreamFailed => {
                CallEnd::Answered
            }
            _ => CallEnd::Unclear,
        },
    }
}

impl Middleware for Breaker {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let BreakerConfig { failures, share, of, wait, per, .. } = &self.config;
        let per = match per {
            BreakerScope::Server => "server",
            BreakerScope::Tool => "tool",
        };
        format!(
            "a {per} is not called for {} after {failures} failures in a row, or {:.0} % of {of} calls, of one principal",
            duration::format(*wait),
            share * 100.0,
        )
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Outside(super::retry::NAME, "a call that the breaker refuses is not retried"),
            Order::Outside(super::timeout::NAME, "a call that times out counts as a failure"),
        ]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let mut passed = match self.enter(call.id(), cx.principal()) {
            Ok(passed) => passed,
            Err(refusal) => return refusal.into(),
        };
        let outcome = next.call(cx, call).await;
        passed.ending = ending(&outcome);
        outcome
    }
}
