//! What outlives a run: the call log, and the tools that a namespace was seen with.

use std::{sync::Arc, time::Duration};

use toolgate::{
    ToolId,
    middleware::{
        audit::Redactor,
        filter::{KnownTools, NewTools},
        log::LogSink,
    },
    settings::Settings,
    stack::Parts,
};
use toolgate_store::{LogWriter, Retention, Store};

use super::{RecordsError, audit_store::AuditStore, trail::TrailExporter};
use crate::config::TrailConfig;

/// How long the store may take to write what is left at the end.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store with the thread that writes to it, and the thread that sends the audit trail.
#[derive(Debug, Default)]
pub(crate) struct StoreRecords {
    store: Option<(Arc<dyn Store>, LogWriter)>,
    audit: Option<Arc<AuditStore>>,
    trail: Option<TrailExporter>,
}

/// The part of the memory that calls may ask.
#[derive(Clone, Debug)]
pub(crate) struct SeenTools(Arc<dyn Store>);

impl StoreRecords {
    /// Opens the store and the way to the endpoint, as far as there are such; gives what the chain needs
    /// of them.
    pub(crate) async fn open(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        settings: &Settings,
    ) -> Result<(Self, Parts), RecordsError> {
        let mut memory = Self::default();
        let mut parts = Parts::default();
        let redactor = || Redactor::new(&settings.redact).map_err(|error| failed(&error));
        match store {
            Some(url) => {
                let store = toolgate_store::open(url).await.map_err(|error| failed(&error))?;
                let config = settings.log.clone().unwrap_or_default();
                let (sink, queue) = LogSink::channel(&config, redactor()?);
                let audit =
                    AuditStore::start(Arc::clone(&store)).map_err(|error| failed(&error))?;
                parts.audit_outputs.push(Arc::clone(&audit) as _);
                memory.audit = Some(audit);
                let writer = LogWriter::start(queue, Arc::clone(&store), Retention::from(&config));
                memory.store = Some((store, writer.map_err(|error| failed(&error))?));
                parts.log = Some(sink);
            }
            None => needs_no_store(settings)?,
        }
        if let Some(config) = trail {
            let (sink, trail) = TrailExporter::start(config, redactor()?).map_err(RecordsError)?;
            memory.trail = Some(trail);
            parts.trail = Some(sink);
        }
        Ok((memory, parts))
    }

    /// What remembers tools, if there is a store.
    pub(crate) fn acquaintances(&self) -> Option<SeenTools> {
        self.store.as_ref().map(|(store, _)| SeenTools(Arc::clone(store)))
    }

    /// Writes and sends what is left. Blocks: for the end of a program.
    pub(crate) async fn close(self, parts: &Parts) {
        let sinks = [("call log", &parts.log), ("audit trail", &parts.trail)];
        for (_, sink) in sinks {
            sink.iter().for_each(LogSink::close);
        }
        if let Some(audit) = self.audit {
            audit.finish(STORE_TIMEOUT);
        }
        if let Some((store, writer)) = self.store {
            let _ = writer.finish(STORE_TIMEOUT);
            let _ = tokio::time::timeout(STORE_TIMEOUT, store.close()).await;
        }
        if let Some(trail) = self.trail {
            trail.finish(STORE_TIMEOUT);
        }
        for (what, sink) in sinks {
            let lost = sink.as_ref().map_or(0, |sink| sink.counts().lost());
            if lost > 0 {
                tracing::error!(lost, "records of the {what} were lost");
            }
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> RecordsError {
    RecordsError(format!("the store cannot be used: {error}"))
}

/// Refuses settings that mean nothing without a store.
pub(crate) fn needs_no_store(settings: &Settings) -> Result<(), RecordsError> {
    const SET: &str = "set `store`, as `store = \"sqlite:toolgate.db\"`";
    let why = if settings.log.is_some() {
        "`[log]` needs somewhere to write to"
    } else if settings.audit.store {
        "`audit.store` needs somewhere to write to"
    } else if settings.new_tools == NewTools::Quarantine {
        "`new_tools = \"quarantine\"` needs to remember tools"
    } else {
        return Ok(());
    };
    Err(RecordsError(format!("{why}: {SET}")))
}

/// Refuses a store that cannot be one, without opening it.
pub(crate) fn check_store(url: &str) -> Result<(), RecordsError> {
    toolgate_store::sqlite_path(url).map(drop).map_err(|error| failed(&error))
}

/// A log whose records nobody keeps.
pub(crate) fn log_to_nowhere(settings: &Settings) -> Result<LogSink, RecordsError> {
    let redactor = Redactor::new(&settings.redact);
    let redactor = redactor.map_err(|error| RecordsError(error.to_string()))?;
    Ok(LogSink::channel(&settings.log.clone().unwrap_or_default(), redactor).0)
}

/// The tools that a namespace was seen with, for those who only look: nothing is made or remembered.
pub(crate) async fn known_tools(url: &str, namespace: &str) -> Result<Vec<ToolId>, RecordsError> {
    let path = toolgate_store::sqlite_path(url).map_err(|error| failed(&error))?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let store = toolgate_store::open(url).await.map_err(|error| failed(&error))?;
    let known = store.known_tools(namespace).await;
    store.close().await;
    known.map_err(|error| failed(&error))
}

impl SeenTools {
    /// Approves the first list of a server, if none was approved before; from then on the filter knows what is
    /// approved. `false`: that could not be recorded, nothing is approved, and it has to be tried again.
    ///
    /// `servers` are those that the namespace has now.
    pub(crate) async fn meet(
        &self,
        namespace: &str,
        servers: &[Arc<str>],
        server: &str,
        listed: &[ToolId],
        known: &KnownTools,
    ) -> bool {
        match self.0.approve_first_list(namespace, servers, server, listed).await {
            Ok(all) => {
                known.set(all);
                true
            }
            Err(error) => {
                tracing::error!(%error, "cannot record which tools are approved: new ones stay quarantined");
                false
            }
        }
    }
}
