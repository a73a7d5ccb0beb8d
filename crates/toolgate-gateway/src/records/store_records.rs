//! The records that stay in the store after the program ends: the call log, the audit and the approved tools of each
//! namespace. Also opens the trail.

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
use toolgate_store::{FirstList, LogWriter, Retention, Store};

use super::{RecordsError, audit_store::AuditStore, trail::TrailExporter};
use crate::{
    config::{TrailConfig, toolgate_variables},
    private_file,
};

/// How long the store and the trail may each take to write what is left when the program ends.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The store with the thread that writes to it, and the thread that sends the audit trail.
#[derive(Debug, Default)]
pub(crate) struct StoreRecords {
    store: Option<(Arc<dyn Store>, LogWriter)>,
    audit: Option<Arc<AuditStore>>,
    trail: Option<TrailExporter>,
}

/// The approved tools of each namespace, in the store.
#[derive(Clone, Debug)]
pub(crate) struct SeenTools(Arc<dyn Store>);

impl StoreRecords {
    /// Opens the store and the trail, if they are configured. Also returns the parts that the chain needs.
    pub(crate) async fn open(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        settings: &Settings,
    ) -> Result<(Self, Parts), RecordsError> {
        let mut records = Self::default();
        let mut parts = Parts::default();
        let redactor = || Redactor::new(&settings.redact).map_err(|error| failed(&error));
        match store {
            Some(url) => {
                create_state_folder(url).map_err(|error| failed(&error))?;
                let store = toolgate_store::open(url).await.map_err(|error| failed(&error))?;
                let config = settings.log.clone().unwrap_or_default();
                let (sink, queue) = LogSink::channel(&config, redactor()?);
                let audit =
                    AuditStore::start(Arc::clone(&store)).map_err(|error| failed(&error))?;
                parts.audit_outputs.push(Arc::clone(&audit) as _);
                records.audit = Some(audit);
                let writer = LogWriter::start(queue, Arc::clone(&store), Retention::from(&config));
                records.store = Some((store, writer.map_err(|error| failed(&error))?));
                parts.log = Some(sink);
            }
            None => refuse_without_store(settings)?,
        }
        if let Some(config) = trail {
            let (sink, trail) = TrailExporter::start(config, redactor()?).map_err(RecordsError)?;
            records.trail = Some(trail);
            parts.trail = Some(sink);
        }
        Ok((records, parts))
    }

    /// The approved tools in the store, if there is a store.
    pub(crate) fn seen_tools(&self) -> Option<SeenTools> {
        self.store.as_ref().map(|(store, _)| SeenTools(Arc::clone(store)))
    }

    /// Writes and sends what is left. Blocks the thread: call it only at the end of the program.
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

/// Creates the folder of the store if it is toolgate's own. `toolgate log` looks there by itself.
fn create_state_folder(url: &str) -> std::io::Result<()> {
    let Some(own) = toolgate_variables::state_folder() else { return Ok(()) };
    let path = toolgate_store::sqlite_path(url).ok();
    match path.and_then(std::path::Path::parent).filter(|folder| *folder == own) {
        Some(folder) => private_file::create_folder(folder),
        None => Ok(()),
    }
}

/// Refuses settings that need a store.
pub(crate) fn refuse_without_store(settings: &Settings) -> Result<(), RecordsError> {
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

/// Refuses an invalid URL of a store, without opening the store.
pub(crate) fn check_store(url: &str) -> Result<(), RecordsError> {
    toolgate_store::sqlite_path(url).map(drop).map_err(|error| failed(&error))
}

/// A call log that discards its records: for a chain that is only inspected.
pub(crate) fn discarding_log(settings: &Settings) -> Result<LogSink, RecordsError> {
    let redactor = Redactor::new(&settings.redact);
    let redactor = redactor.map_err(|error| RecordsError(error.to_string()))?;
    Ok(LogSink::channel(&settings.log.clone().unwrap_or_default(), redactor).0)
}

/// The approved tools of a namespace, for a command that only inspects the config: creates no store, and approves
/// nothing.
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
    /// Approves the first list of a server, if none was approved before, and sets the approved tools in `known`, which
    /// the filter reads. Returns `false` if the store fails: nothing is approved then, and the caller has to try again.
    pub(crate) async fn approve_first_list(&self, list: FirstList<'_>, known: &KnownTools) -> bool {
        match self.0.approve_first_list(list).await {
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
