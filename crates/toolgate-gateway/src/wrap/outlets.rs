//! Where everything goes that a chain tells: the call log, the trail, spans and metrics.

use std::{sync::Arc, time::Duration};

use toolgate::{
    ToolId,
    settings::Settings,
    stack::{Parts, Stack},
};

use super::{WrapError, memory::Memory};
use crate::{
    outbound::trail::TrailConfig,
    telemetry::{self, Exporters, TelemetryConfig},
};

/// How long each of them may take at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was opened for a chain, to be closed after it.
#[derive(Debug)]
pub struct Outlets {
    pub(super) memory: Memory,
    pub(super) exporters: Option<Exporters>,
}

impl Outlets {
    /// Opens the store, the way to the trail and the exporters, as far as there are such; gives what the chain needs
    /// of them.
    pub async fn open(
        store: Option<&str>,
        trail: Option<&TrailConfig>,
        telemetry: Option<&TelemetryConfig>,
        settings: &Settings,
    ) -> Result<(Self, Parts), WrapError> {
        let (memory, mut parts) = Memory::open(store, trail, settings).await?;
        let mut exporters = None;
        if let Some(config) = telemetry {
            let started = telemetry::start(config, &settings.audit).map_err(WrapError::Settings)?;
            let (instruments, output) = started.0;
            parts.telemetry = Some(instruments);
            parts.audit_outputs.extend(output);
            exporters = started.1;
        } else if settings.audit.otlp {
            return Err(WrapError::Settings(telemetry::NO_COLLECTOR.to_owned()));
        }
        Ok((Self { memory, exporters }, parts))
    }

    /// What remembers tools, if there is a store.
    pub(crate) fn acquaintances(&self) -> Option<super::memory::Acquaintances> {
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
            audit.close(PATIENCE);
            let lost = audit.counts().lost();
            if lost > 0 {
                tracing::error!(lost, "audit records were lost");
            }
        }
        self.memory.close(stack.parts()).await;
        if let Some(exporters) = self.exporters {
            exporters.finish(PATIENCE);
        }
    }
}
