//! The outputs of a chain's records: the store, the trail, spans and metrics.

use std::{sync::Arc, time::Duration};

use toolgate::{
    LayerInputs, ToolId,
    settings::Settings,
    stack::{Parts, Stack},
};
use toolgate_store::FirstList;

use crate::{
    config::{TelemetryConfig, TrailConfig},
    records::{
        RecordsError,
        store_records::{self, SeenTools, StoreRecords},
        telemetry::{self, Exporters},
    },
};

/// How long each output may take to write what is left when the program ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The outputs that were opened for a chain. Close them after the chain has ended.
#[derive(Debug, Default)]
pub struct RecordSinks {
    pub(crate) store: StoreRecords,
    pub(crate) exporters: Option<Exporters>,
}

impl RecordSinks {
    /// Opens the store, the trail and the exporters that are configured. Also returns the parts that the chain needs.
    pub async fn open(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        telemetry: Option<&TelemetryConfig>,
        settings: &Settings,
    ) -> Result<(Self, Parts), RecordsError> {
        let (store, mut parts) = StoreRecords::open(store, trail, settings).await?;
        let mut exporters = None;
        if let Some(config) = telemetry {
            let started = telemetry::start(config, &settings.audit).map_err(RecordsError)?;
            let (instruments, output) = started.0;
            parts.inputs.set(instruments);
            parts.audit_outputs.extend(output);
            exporters = started.1;
        } else if settings.audit.otlp {
            return Err(RecordsError(telemetry::NO_COLLECTOR.to_owned()));
        }
        Ok((Self { store, exporters }, parts))
    }

    /// The parts of a chain that is only inspected: checks the settings, and opens and sends nothing.
    pub(crate) fn silent(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        telemetry: Option<&TelemetryConfig>,
        settings: &Settings,
    ) -> Result<Parts, RecordsError> {
        match store {
            None => store_records::refuse_without_store(settings)?,
            Some(url) => store_records::check_store(url)?,
        }
        if telemetry.is_none() && settings.audit.otlp {
            return Err(RecordsError(telemetry::NO_COLLECTOR.to_owned()));
        }
        let mut inputs = LayerInputs::default();
        let instruments = telemetry.map(telemetry::silent).transpose().map_err(RecordsError)?;
        inputs.set_if_some(instruments);
        let mut parts = Parts::with(|parts| parts.only_explains = true);
        parts.log = store.map(|_| store_records::discarding_log(settings)).transpose()?;
        parts.trail = trail.map(|_| store_records::discarding_log(settings)).transpose()?;
        parts.inputs = inputs;
        Ok(parts)
    }

    /// The approved tools in the store, if there is a store.
    pub(crate) fn seen_tools(&self) -> Option<SeenTools> {
        self.store.seen_tools()
    }

    /// Approves the tools of a namespace with one server, if no tools were approved before: for `new_tools =
    /// "quarantine"`.
    pub async fn approve_first_list(&self, namespace: &str, stack: &Stack, listed: Vec<ToolId>) {
        if let Some(seen) = self.store.seen_tools() {
            let Some(server) = listed.first().map(|tool| Arc::from(tool.server())) else { return };
            let servers = std::slice::from_ref(&server);
            let list = FirstList { namespace, servers, server: &server, tools: &listed };
            // If the store fails, the tools stay quarantined.
            let _ = seen.approve_first_list(list, &stack.parts().known).await;
        }
    }

    /// Writes and sends what is left. Blocks the thread: call it only at the end of the program.
    pub async fn close(self, stack: &Stack) {
        // The audit closes before the store, because it writes to the store.
        if let Some(audit) = &stack.audit {
            // This call blocks the runtime, on which nothing else runs any more.
            audit.close(CLOSE_TIMEOUT);
            let lost = audit.counts().lost();
            if lost > 0 {
                tracing::error!(lost, "audit records were lost");
            }
        }
        self.store.close(stack.parts()).await;
        if let Some(exporters) = self.exporters {
            exporters.finish(CLOSE_TIMEOUT);
        }
    }
}
