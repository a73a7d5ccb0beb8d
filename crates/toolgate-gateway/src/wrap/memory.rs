//! What outlives a run: the call log, and the tools that a namespace was seen with.

use std::{sync::Arc, time::Duration};

use toolgate::{
    ToolId,
    middleware::{
        audit::Redactor,
        filter::NewTools,
        log::LogSink,
    },
    settings::Settings,
    stack::Parts,
};
use toolgate_store::{Drain, Retention, Store};

use super::WrapError;

/// How long the store may take to write what is left at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The store, and the thread that writes the log to it.
#[derive(Debug)]
pub(crate) struct Memory {
    store: Arc<dyn Store>,
    drain: Drain,
}

/// The part of the memory that calls may ask.
#[derive(Clone, Debug)]
pub(crate) struct Acquaintances(Arc<dyn Store>);

impl Memory {
    /// Opens the store and starts the log, if there is a store; gives what the chain needs of it.
    pub(crate) async fn open(
        url: Option<&str>,
        settings: &Settings,
    ) -> Result<(Option<Self>, Parts), WrapError> {
        let refused = |why: String| Err(WrapError::Settings(why));
        let Some(url) = url else {
            if settings.log.is_some() {
                return refused("`[log]` needs somewhere to write to: set `store`, as `store = \"sqlite:toolgate.db\"`".to_owned());
            }
            if settings.new_tools == NewTools::Quarantine {
                return refused("`new_tools = \"quarantine\"` needs to remember tools: set `store`, as `store = \"sqlite:toolgate.db\"`".to_owned());
            }
            return Ok((None, Parts::default()));
        };
        let failed =
            |error: String| WrapError::Settings(format!("the store cannot be used: {error}"));
        let store = toolgate_store::open(url).await.map_err(|error| failed(error.to_string()))?;
        let config = settings.log.clone().unwrap_or_default();
        let redactor =
            Redactor::new(&settings.redact).map_err(|error| failed(error.to_string()))?;
        let (sink, queue) = LogSink::channel(&config, redactor);
        let drain = Drain::start(queue, Arc::clone(&store), Retention::from(&config));
        let drain = drain.map_err(|error| failed(error.to_string()))?;
        let parts = Parts { log: Some(sink), ..Parts::default() };
        Ok((Some(Self { store, drain }), parts))
    }

    /// What remembers tools.
    pub(crate) fn acquaintances(&self) -> Acquaintances {
        Acquaintances(Arc::clone(&self.store))
    }

    /// Writes what is left. Blocks: for the end of a program.
    pub(crate) fn close(self, log: Option<&LogSink>) {
        let Some(log) = log else { return };
        log.close();
        let _ = self.drain.finish(PATIENCE);
        let lost = log.counts().lost();
        if lost > 0 {
            tracing::error!(lost, "records of the call log were lost");
        }
    }
}

/// A log whose records nobody keeps.
pub(crate) fn log_to_nowhere(settings: &Settings) -> Result<LogSink, WrapError> {
    let redactor = Redactor::new(&settings.redact);
    let redactor = redactor.map_err(|error| WrapError::Settings(error.to_string()))?;
    Ok(LogSink::channel(&settings.log.clone().unwrap_or_default(), redactor).0)
}

impl Acquaintances {
    /// Learns which tools the server lists. A namespace that is seen for the first time trusts them all;
    /// later ones are new until somebody has looked at them.
    pub(crate) async fn meet(&self, namespace: &str, parts: &Parts, listed: Vec<ToolId>) {
        let known = match self.0.known_tools(namespace).await {
            Ok(known) if known.is_empty() => {
                self.0.remember_tools(namespace, &listed).await.map(|()| listed)
            }
            other => other,
        };
        match known {
            Ok(known) => parts.known.set(known),
            // Nothing is known then, and everything that is new stays where it is: outside.
            Err(error) => tracing::error!(%error, "cannot read which tools are known"),
        }
    }
}
