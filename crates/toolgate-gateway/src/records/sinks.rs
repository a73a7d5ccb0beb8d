//! Where everything goes that a chain tells: the call log, the trail, spans and metrics.

use std::{sync::Arc, time::Duration};

use toolgate::{
    LayerInputs, ToolId,
    settings::Settings,
    stack::{Parts, Stack},
};

use crate::{
    config::{TelemetryConfig, TrailConfig},
    records::{
        RecordsError,
        store_records::{self, SeenTools, StoreRecords},
        telemetry::{self, Exporters},
    },
};

/// How long each of them may take at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What was opened for a chain, to be closed after it.
#[derive(Debug, Default)]
pub struct RecordSinks {
    pub(crate) memory: StoreRecords,
    pub(crate) exporters: Option<Exporters>,
}

impl RecordSinks {
    /// Opens the store, the way to the trail and the exporters, as far as there are such; gives what the chain needs
    /// of them.
    pub async fn open(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        telemetry: Option<&TelemetryConfig>,
        settings: &Settings,
    ) -> Result<(Self, Parts), RecordsError> {
        let (memory, mut parts) = StoreRecords::open(store, trail, settings).await?;
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
        Ok((Self { memory, exporters }, parts))
    }

    /// What a chain gets that is only looked at: the settings are checked, and nothing is opened or sent.
    pub(crate) fn silent(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        telemetry: Option<&TelemetryConfig>,
        settings: &Settings,
    ) -> Result<Parts, RecordsError> {
        match store {
            None => store_records::needs_no_store(settings)?,
            Some(url) => store_records::check_store(url)?,
        }
        if telemetry.is_none() && settings.audit.otlp {
            return Err(RecordsError(telemetry::NO_COLLECTOR.to_owned()));
        }
        let mut inputs = LayerInputs::default();
        let instruments = telemetry.map(telemetry::silent).transpose().map_err(RecordsError)?;
        inputs.set_if_some(instruments);
        Ok(Parts {
            log: store.map(|_| store_records::log_to_nowhere(settings)).transpose()?,
            trail: trail.map(|_| store_records::log_to_nowhere(settings)).transpose()?,
            inputs,
            only_explains: true,
            ..Parts::default()
        })
    }

    /// What remembers tools, if there is a store.
    pub(crate) fn acquaintances(&self) -> Option<SeenTools> {
        self.memory.acquaintances()
    }

    /// Learns which tools there are, for a namespace that keeps new ones away.
    pub async fn meet(&self, namespace: &str, stack: &Stack, listed: Vec<ToolId>) {
        if let Some(acquaintances) = self.memory.acquaintances() {
            let Some(server) = listed.first().map(|tool| Arc::from(tool.server())) else { return };
            let (servers, known) = (std::slice::from_ref(&server), &stack.parts().known);
            // What could not be recorded stays quarantined.
            let _ = acquaintances.meet(namespace, servers, &server, &listed, known).await;
        }
    }

    /// Writes and sends what is left. Blocks: for the end of a program.
    pub async fn close(self, stack: &Stack) {
        // Before the memory, which some of its records go to.
        if let Some(audit) = &stack.audit {
            // Blocks, but nothing else runs any more.
            audit.close(CLOSE_TIMEOUT);
            let lost = audit.counts().lost();
            if lost > 0 {
                tracing::error!(lost, "audit records were lost");
            }
        }
        self.memory.close(stack.parts()).await;
        if let Some(exporters) = self.exporters {
            exporters.finish(CLOSE_TIMEOUT);
        }
    }
}
