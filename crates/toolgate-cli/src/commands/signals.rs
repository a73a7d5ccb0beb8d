//! The signals that a running gateway handles.

use tokio::signal::unix::{Signal, SignalKind, signal};
use toolgate_gateway::{config::Trigger, gateway::RunningGateway};

/// Handles signals from its construction on.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Sent by `toolgate reload`.
    reload: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reload: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for SIGTERM or SIGINT and returns its number. Cancel safe.
    pub(crate) async fn end(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }

    /// Waits for SIGTERM or SIGINT in a process without a config, and returns its number. Logs `message` for each signal
    /// that asks for a reload. Cancel safe.
    pub(crate) async fn end_without_config(&mut self, message: &str) -> u8 {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return 15,
                _ = self.interrupt.recv() => return 2,
                _ = self.hangup.recv() => tracing::info!("{message}"),
                _ = self.reload.recv() => tracing::info!("{message}"),
            }
        }
    }

    /// Waits for SIGTERM or SIGINT and returns its number. Meanwhile it reloads the gateway's config when the file changes
    /// or a signal asks for it.
    pub(crate) async fn govern(&mut self, serve: &RunningGateway) -> u8 {
        let watch = serve.config_watch();
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return 15,
                _ = self.interrupt.recv() => return 2,
                _ = self.hangup.recv() => {
                    serve.reopen();
                    serve.reload(Trigger::Asked);
                }
                _ = self.reload.recv() => serve.reload(Trigger::Asked),
                () = watch.changed() => serve.reload(Trigger::Changed),
            }
        }
    }
}
