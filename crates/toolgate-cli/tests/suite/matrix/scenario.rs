//! Runs scenarios through the transports, and compares what each of them showed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    harness::matrix::{ALL, Client, EVERYWHERE, Setup, Via},
    matrix::differences::{DIFFERENCES, Seen},
    matrix::known::KNOWN,
};

/// How long a client waits in a scenario that is known to fail.
const SHORT: Duration = Duration::from_secs(2);

/// What is done with a client, and what it then observes.
type Run = fn(&mut Client) -> Value;

struct Scenario {
    name: &'static str,
    ways: &'static [Via],
    expected: Value,
    run: Run,
}

/// Scenarios that share a setup, and one process per transport as long as they succeed.
pub struct Group {
    setup: Setup,
    scenarios: Vec<Scenario>,
}

impl Group {
    pub fn new(setup: Setup) -> Self {
        Self { setup, scenarios: Vec::new() }
    }

    /// A scenario that needs the spy behind the gateway: `toolgate tmux` has no server behind it.
    pub fn spied(self, name: &'static str, expected: Value, run: Run) -> Self {
        self.with(name, &ALL, expected, run)
    }

    /// A scenario for every transport.
    pub fn everywhere(self, name: &'static str, expected: Value, run: Run) -> Self {
        self.with(name, &EVERYWHERE, expected, run)
    }

    fn with(mut self, name: &'static str, ways: &'static [Via], expected: Value, run: Run) -> Self {
        self.scenarios.push(Scenario { name, ways, expected, run });
        self
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.scenarios.iter().map(|scenario| scenario.name).collect()
    }

    /// Runs every scenario through each of its transports; fails with all that is wrong.
    pub fn run(&self) {
        let faults: Vec<String> = EVERYWHERE.into_iter().flat_map(|via| self.via(via)).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    fn via(&self, via: Via) -> Vec<String> {
        let mut client: Option<Client> = None;
        let mut broken: Option<Value> = None;
        let mut faults = Vec::new();
        for scenario in self.scenarios.iter().filter(|scenario| scenario.ways.contains(&via)) {
            let difference = DIFFERENCES
                .iter()
                .find(|listed| listed.scenario == scenario.name && listed.ways.contains(&via));
            let expected = match difference.map(|listed| &listed.seen) {
                Some(Seen::Absent) => continue,
                Some(Seen::Json(text)) => serde_json::from_str(text).unwrap(),
                None => scenario.expected.clone(),
            };
            if difference.is_some() && expected == scenario.expected {
                faults.push(format!("{via:?} {}: the difference is none", scenario.name));
            }
            let known =
                KNOWN.iter().find(|(ways, name, _)| *name == scenario.name && ways.contains(&via));
            if client.is_none() && broken.is_none() {
                match caught(|| self.setup.client(via)) {
                    Ok(connected) => client = Some(connected),
                    Err(panic) => broken = Some(panic),
                }
            }
            let observed = match (&mut client, &broken) {
                (Some(client), _) => observe(client, scenario.run, known.is_some()),
                (None, broken) => Err(broken.clone().unwrap_or_default()),
            };
            let is_spent =
                observed.is_err() || client.as_mut().is_some_and(|client| !client.runs());
            if is_spent && let Some(spent) = client.take() {
                // The next scenario needs a client in order.
                let _ = caught(|| drop(spent));
            }
            let observed = observed.unwrap_or_else(|panic| panic);
            match (observed == expected, known) {
                (true, Some(_)) => {
                    faults.push(format!("{via:?} {}: passes; remove it from KNOWN", scenario.name));
                }
                (false, None) => faults.push(format!(
                    "{via:?} {}:\n    observed {observed}\n    expected {expected}",
                    scenario.name
                )),
                _ => {}
            }
        }
        faults
    }
}

/// What the scenario observes, or how it panicked.
fn observe(client: &mut Client, run: Run, is_known: bool) -> Result<Value, Value> {
    let usual = client.patience;
    client.patience = if is_known { SHORT } else { usual };
    let observed = caught(|| {
        client.forget_seen();
        run(client)
    });
    client.patience = usual;
    observed
}

fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Value> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| json!({"panic": reason(&*panic)}))
}

fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// A response in short: the text of a result, the code of a refusal, the code and data of an error.
pub fn brief(answer: &Value) -> Value {
    if let Some(error) = answer.get("error") {
        return json!({"error": error["code"], "data": error["data"]["code"]});
    }
    let result = &answer["result"];
    match (&result["_meta"]["code"], &result["content"][0]["text"]) {
        (Value::String(code), _) => json!({"refused": code}),
        (_, Value::String(text)) if result["isError"] == true => json!({"failed": text}),
        (_, Value::String(text)) => json!(text),
        _ if answer.get("status").is_some() => answer.clone(),
        _ => json!({"result": result}),
    }
}
